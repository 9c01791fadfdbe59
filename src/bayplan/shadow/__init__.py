"""The shadow: judges each decision of another scheduler, and decides nothing itself."""

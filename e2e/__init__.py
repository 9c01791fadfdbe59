"""Everything that runs against a real control plane: its provider, the scenarios, the demo, the oracle."""

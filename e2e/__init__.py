"""All that runs against a real control plane: its provider, scenarios, the demo, the oracle."""

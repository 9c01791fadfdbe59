"""Telemetry: what the parts report about themselves, and the metrics made of it."""

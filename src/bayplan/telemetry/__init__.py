"""Telemetry: what is measured."""

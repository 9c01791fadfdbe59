"""The HTTP server: probes and metrics."""

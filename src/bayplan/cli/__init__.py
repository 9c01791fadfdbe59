"""The command line: one module a command; what is imported is only what the command needs."""

from __future__ import annotations

import gc

GC_THRESHOLD = 50_000
"""Allocations between two collections of the youngest generation. Nearly nothing here forms
cycles, and a full collection over a large cluster's objects would stop scheduling."""


def main() -> None:
    """Entry point of ``bayplan`` and ``python -m bayplan``."""
    gc.set_threshold(GC_THRESHOLD, 20, 100)
    from bayplan.cli.app import app  # noqa: PLC0415 (so that importing bayplan.cli costs nothing)

    app()

"""The command line: one module per command; each imports only what it needs."""

from __future__ import annotations

import gc
import sys

GC_THRESHOLDS = 50_000, 20, 100
"""For `gc.set_threshold`: rare, since hardly anything forms cycles, and a full collection over a
large cluster's objects would stop scheduling."""


def main() -> None:
    """Entry point of ``bayplan`` and ``python -m bayplan``."""
    # The imports stand here so that importing bayplan.cli costs nothing.
    if "run" in sys.argv[1:2]:
        from bayplan.cli import early_signals  # noqa: PLC0415

        early_signals.install()
        gc.disable()  # what is loaded now stays; see `bayplan.app.process`
    gc.set_threshold(*GC_THRESHOLDS)
    from bayplan.cli.app import app  # noqa: PLC0415

    app()

"""The command line: one module a command; what is imported is only what the command needs."""

from __future__ import annotations


def main() -> None:
    """Entry point of ``bayplan`` and ``python -m bayplan``."""
    from bayplan.cli.app import app  # noqa: PLC0415 (so that importing bayplan.cli costs nothing)

    app()

"""Waiting for other threads and processes, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

SOON = 120.0
"""Seconds in which that has happened which must happen. Nothing else is ever measured by it."""


def eventually(holds: Callable[[], object]) -> None:
    """Wait until another thread has made it so."""
    deadline = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.005)

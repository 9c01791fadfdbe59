"""Signals during the start, before the scheduler handles them.

The first process of a container gets only the signals that it has a handler for: without one, a
SIGTERM is lost, and the kubelet kills the Pod after its grace period. Loading the scheduler takes a
second and more, so `bayplan run` sets handlers before it imports anything large. Until
`bayplan.app.process` replaces them nothing has begun that needs an orderly end.
"""

from __future__ import annotations

import os
import signal

ENDING = signal.SIGTERM, signal.SIGINT
FOR_LATER = signal.SIGHUP, signal.SIGUSR2
"""Reload and dump: there is nothing to reload or to dump yet. By default they end a process."""


def install() -> None:
    """End the process at once, with exit code 0, on SIGTERM and SIGINT."""
    for number in ENDING:
        signal.signal(number, _end)
    for number in FOR_LATER:
        signal.signal(number, _ignore)


def _end(*_: object) -> None:
    os._exit(0)


def _ignore(*_: object) -> None:
    """Not SIG_IGN: child processes would inherit SIG_IGN."""

"""The backoff of a reflector, with client-go's values."""

from __future__ import annotations

from collections.abc import Callable

FIRST = 0.8
LONGEST = 30.0
RESET_AFTER = 120.0
"""Seconds without a failure after which the next one counts as the first."""


class Backoff:
    """0.8 s doubling to 30 s, each times 1 to 2 so that many clients do not come back together."""

    def __init__(self, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        self._clock = clock
        self._jitter = jitter
        self._next = FIRST
        self._failed_at = -RESET_AFTER

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        now = self._clock()
        if now - self._failed_at > RESET_AFTER:
            self._next = FIRST
        self._failed_at = now
        delay = self._next
        self._next = min(2 * delay, LONGEST)
        return delay * (1 + self._jitter())

"""Pulse: what the scheduling thread is doing. That thread writes, others read."""

from __future__ import annotations

import time
from collections.abc import Callable

from bayplan.api.pod import Pod

RESTING = float("inf")


class Pulse:
    """The step that the scheduling thread is at: an attempt, or what was in the inbox.

    Attributes:
        since: when the step began, by ``clock``; infinite while the thread waits for work.
        pod: the Pod of the running attempt; None in every other step.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.since = RESTING
        self.pod: Pod | None = None

    def step(self, pod: Pod | None = None) -> None:
        """A step begins; the previous one is over."""
        self.pod = pod
        self.since = self._clock()

    def rest(self) -> None:
        """The thread waits for work."""
        self.since = RESTING

    @property
    def attempting(self) -> bool:
        """Whether an attempt is running."""
        return self.pod is not None and self.since != RESTING

    def age(self) -> float:
        """Seconds since the step began; 0 while the thread waits."""
        return max(0.0, self._clock() - self.since)

"""Barrier: Pods of one group that are ready to be bound wait here for the others.

Between PreBind and Bind: when the last one is ready, all are bound; when one fails before that,
none is. What happens behind the barrier (a binding that the API server refuses) is each Pod's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from bayplan.framework.status import Status

Go = Callable[[], None]
GiveUp = Callable[[Status], None]


class Barrier:
    """For ``size`` Pods. Any thread.

    Args:
        size: how many have to be ready.
        deadline: when those that are not ready hold up the others for too long, on the clock of
            who watches over it.
    """

    def __init__(self, size: int, deadline: float) -> None:
        self.deadline = deadline
        self._lock = threading.Lock()
        self._missing = size
        self._ready: list[tuple[Go, GiveUp]] = []
        self._failure: Status | None = None

    @property
    def is_open(self) -> bool:
        """Whether all are ready: nothing can fail for the whole group any more."""
        return self._missing == 0

    @property
    def failure(self) -> Status | None:
        """Why no Pod gets through; None while nothing has failed."""
        return self._failure

    def arrive(self, go: Go, give_up: GiveUp) -> None:
        """One Pod is ready: ``go`` is called when all are, ``give_up`` when one has failed."""
        with self._lock:
            failure = self._failure
            if failure is None:
                self._ready.append((go, give_up))
                self._missing -= 1
            ready = self._take() if self.is_open else []
        if failure is not None:
            give_up(failure)
        for proceed, _ in ready:
            proceed()

    def fail(self, status: Status) -> bool:
        """Let no Pod through; returns whether this is the first failure."""
        with self._lock:
            if self._failure is not None or self.is_open:
                return False
            self._failure = status
            ready = self._take()
        for _, give_up in ready:
            give_up(status)
        return True

    def _take(self) -> list[tuple[Go, GiveUp]]:
        ready, self._ready = self._ready, []
        return ready

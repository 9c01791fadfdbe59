"""BackoffQueue: Pods that wait for the end of a backoff; the backoff grows with failures.

Rejected Pods and Pods whose attempt ended in an error are in separate heaps. Only rejected Pods may
be popped early, when no Pod is active: the backoff of errors protects the API server. A Pod whose
wait in Permit timed out is treated like an error. Otherwise two of them would wake each other
forever, because each releases a node, and that wakes the other.

Time is divided into windows of one second. The backoffs of all Pods of a window end together, and
these Pods are in QueueSort order, so that priority still counts (KEP-5142).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from bayplan.queue.by_shape import PodsByShape
from bayplan.queue.heap import Key, PodHeap
from bayplan.queue.queued_pod import QueuedPod

WINDOW = 1.0
"""Seconds."""
_NO_BACKOFF = -math.inf
_MAX_DOUBLINGS = 63


class BackoffQueue:
    """Pods that back off: ``initial`` seconds, doubled with every failure up to ``maximum``.

    A ``maximum`` of 0 switches backoff off.
    """

    def __init__(
        self, clock: Callable[[], float], initial: float, maximum: float, sort_key: Key
    ) -> None:
        self._clock = clock
        self._initial = initial
        self._maximum = maximum
        self._sort_key = sort_key
        self._rejected = PodHeap(self._window_then_order)
        self._errors = PodHeap(self.expiration)
        self.rejected: PodsByShape | None = None
        """The Pods that may be popped early, while somebody asks for them; see `compare`."""

    def compare(self, *, wanted: bool) -> None:
        """Keep `rejected` from now on, or do not."""
        self.rejected = None
        if wanted:
            self.rejected = PodsByShape()
            for queued in self._rejected:
                self.rejected.add(queued)

    def reorder(self, initial: float, maximum: float, sort_key: Key) -> None:
        """Use these from now on; who backs off already does so for as long as it was to."""
        self._initial, self._maximum, self._sort_key = initial, maximum, sort_key
        self._rejected.reorder(self._window_then_order)
        self._errors.reorder(self.expiration)

    def _window_then_order(self, queued: QueuedPod) -> tuple[float, Any]:
        return self.expiration(queued), self._sort_key(queued)

    def duration(self, failures: int) -> float:
        """Seconds of backoff after so many failures."""
        if failures == 0:
            return 0.0
        return min(self._maximum, self._initial * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))

    def expiration(self, queued: QueuedPod) -> float:
        """Start of the window in which the Pod's backoff ends; cached until the next failure."""
        failures = queued.consecutive_errors_count or queued.unschedulable_count
        if self._maximum == 0 or failures == 0:
            return _NO_BACKOFF
        if queued.backoff_expiration is None:
            seconds = max(self.duration(failures), queued.least_backoff)
            queued.backoff_expiration = _window(queued.timestamp + seconds)
        return queued.backoff_expiration

    def is_backing_off(self, queued: QueuedPod) -> bool:
        """Whether the window in which the Pod's backoff ends has not passed yet."""
        return self.expiration(queued) >= _window(self._clock())

    def add(self, queued: QueuedPod) -> None:
        """Put a Pod in."""
        early = bool(queued.rejectors) and not queued.full_backoff
        heap = self._rejected if early else self._errors
        heap.add(queued)
        if early and self.rejected is not None:
            self.rejected.add(queued)

    def update(self, queued: QueuedPod) -> None:
        """The Pod has changed: reorder it."""
        heap = self._rejected if queued in self._rejected else self._errors
        heap.update(queued)
        if heap is self._rejected and self.rejected is not None:
            self.rejected.add(queued)

    def discard(self, queued: QueuedPod) -> bool:
        """Take the Pod out; whether it was in."""
        if self.rejected is not None:
            self.rejected.discard(queued)
        return self._rejected.discard(queued) or self._errors.discard(queued)

    def pop(self) -> QueuedPod | None:
        """Take out the rejected Pod whose backoff ends first, before it ends."""
        queued = self._rejected.pop()
        if queued is not None and self.rejected is not None:
            self.rejected.discard(queued)
        return queued

    def pop_completed(self) -> Iterator[QueuedPod]:
        """Take out all Pods whose backoff has ended."""
        for heap in (self._rejected, self._errors):
            while (first := heap.peek()) is not None and not self.is_backing_off(first):
                self.discard(first)
                yield first

    def next_completion(self) -> float | None:
        """When the first backoff ends; None while nothing backs off."""
        firsts = [q for q in (self._rejected.peek(), self._errors.peek()) if q is not None]
        return min(map(self.expiration, firsts)) + WINDOW if firsts else None

    def __len__(self) -> int:
        return len(self._rejected) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        return chain(self._rejected, self._errors)


def _window(time: float) -> float:
    return math.floor(time / WINDOW) * WINDOW

"""PodHeap: a heap of Pods from which any Pod can be taken, not only the first.

A Pod that leaves out of turn, or gets another key, leaves a stale entry behind. Stale entries are
dropped when they come up, and all at once when they outnumber the Pods.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from itertools import count
from typing import Any

from bayplan.framework.points import QueueKey, QueueSort
from bayplan.queue.queued_pod import QueuedPod

Key = Callable[[QueuedPod], Any]
"""The value to order Pods by, smallest first."""


def sort_key(queue_sort: QueueSort) -> Key:
    """The key of a QueueSort plugin: ``sort_key(a)``, or ``less(a, b)`` as a key."""
    if isinstance(queue_sort, QueueKey):
        return queue_sort.sort_key
    less = queue_sort.less
    return cmp_to_key(lambda a, b: -1 if less(a, b) else int(less(b, a)))


_Entry = tuple[Any, int, QueuedPod]
_SPARE = 64


class PodHeap:
    """Pods by ``key``; Pods with equal keys are popped in order of arrival."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._count = count()

    def reorder(self, key: Key) -> None:
        """Order the Pods by this key from now on."""
        self._key = key
        pods = list(self)
        self._heap, self._entries = [], {}
        for queued in pods:
            self.add(queued)

    def add(self, queued: QueuedPod) -> None:
        """Add a Pod, or move the Pod according to its present key."""
        entry = (self._key(queued), next(self._count), queued)
        self._entries[queued.uid] = entry
        heapq.heappush(self._heap, entry)
        self._shrink()

    def update(self, queued: QueuedPod) -> None:
        """The Pod has changed: reorder if the key differs."""
        if self._entries[queued.uid][0] != self._key(queued):
            self.add(queued)

    def discard(self, queued: QueuedPod) -> bool:
        """Take the Pod out; whether it was in."""
        existed = self._entries.pop(queued.uid, None) is not None
        self._shrink()
        return existed

    def peek(self) -> QueuedPod | None:
        """The first Pod."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[2].uid) is entry:
                return entry[2]
            heapq.heappop(heap)
        return None

    def pop(self) -> QueuedPod | None:
        """Take out the first Pod."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heapq.heappop(heap)
            queued = entry[2]
            if entries.get(queued.uid) is entry:
                del entries[queued.uid]
                return queued
        return None

    def _shrink(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _SPARE:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, queued: QueuedPod) -> bool:
        return queued.uid in self._entries

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[2] for entry in self._entries.values())

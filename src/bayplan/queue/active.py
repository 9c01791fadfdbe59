"""ActiveQueue: Pods to try next, in the order of the QueueSort plugin."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from bayplan.framework.points import QueueKey, QueueSort
from bayplan.queue.heap import Key, PodHeap
from bayplan.queue.queued_pod import QueuedPod


class ActiveQueue(PodHeap):
    """Pods to try next."""


def sort_key(queue_sort: QueueSort) -> Key:
    """The sort key from a QueueSort plugin: ``sort_key(a)``, or ``less(a, b)`` as a key."""
    if isinstance(queue_sort, QueueKey):
        return queue_sort.sort_key
    return cmp_to_key(_compare(queue_sort.less))


def _compare(less: Callable[[QueuedPod, QueuedPod], bool]) -> Callable[[QueuedPod, QueuedPod], int]:
    def compare(a: QueuedPod, b: QueuedPod) -> int:
        if less(a, b):
            return -1
        return 1 if less(b, a) else 0

    return compare

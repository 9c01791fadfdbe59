"""ActiveQueue: Pods to try next, in the order of the QueueSort plugin."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

from bayplan.queue.heap import Key, PodHeap
from bayplan.queue.queued_pod import QueuedPod


class ActiveQueue(PodHeap):
    """Pods to try next."""


def sort_key(queue_sort: Any) -> Key:
    """The order that a QueueSort plugin gives, by its ``sort_key(a)`` or its ``less(a, b)``."""
    key: Key | None = getattr(queue_sort, "sort_key", None)
    return key if key is not None else cmp_to_key(_compare(queue_sort.less))


def _compare(less: Any) -> Any:
    def compare(a: QueuedPod, b: QueuedPod) -> int:
        if less(a, b):
            return -1
        return 1 if less(b, a) else 0

    return compare

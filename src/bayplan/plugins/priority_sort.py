"""PrioritySort: the queue's order, higher priority first, then first come, first served."""

from __future__ import annotations

from typing import Protocol

from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import QueueKey, QueueLess


class PrioritySort(Plugin):
    """Orders Pods by spec.priority, equal ones by when they entered the queue."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Lower keys come first."""
        return (-queued.pod.priority, queued.timestamp)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        return self.sort_key(a) < self.sort_key(b)


class _Implements(QueueKey, QueueLess, Protocol):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = PrioritySort

"""PrioritySort: the queue's order, higher priority first, then first come, first served."""

from __future__ import annotations

from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import QueueKey


class PrioritySort(Plugin, QueueKey):
    """Orders Pods by spec.priority, equal ones by when they entered the queue."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Lower keys come first."""
        return (-queued.pod.priority, queued.timestamp)

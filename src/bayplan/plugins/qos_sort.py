"""QOSSort: orders the queue by priority, then by QoS class, then first come, first served.

Of equal priority, Guaranteed Pods come before Burstable and these before BestEffort. Name and order
are those of scheduler-plugins.
"""

from __future__ import annotations

from bayplan.api.pod import SpecPart
from bayplan.api.qos import QosClass, qos_class
from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import QueueKey

_ORDER = tuple(QosClass)


class QOSSort(Plugin, QueueKey):
    """See the module's docstring."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, float]:
        """Lower keys come first."""
        qos = queued.pod.shape.requests.memo(_place)
        return -queued.pod.priority, qos, queued.timestamp


def _place(part: SpecPart) -> int:
    return _ORDER.index(qos_class(part))

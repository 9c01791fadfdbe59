"""QOSSort: orders the queue by priority, then by QoS class, then first come, first served.

Of equal priority, Guaranteed Pods come before Burstable and these before BestEffort. Name and order
are those of scheduler-plugins.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from bayplan.api import quantity
from bayplan.api.pod import SpecPart
from bayplan.api.pod_spec import ResourceRequirements, Resources
from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import QueueKey, QueueLess

GUARANTEED, BURSTABLE, BEST_EFFORT = range(3)

_COUNTED = ("cpu", "memory")


class QOSSort(Plugin):
    """See the module's docstring."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, float]:
        """Lower keys come first."""
        qos = queued.pod.shape.requests.memo(qos_class)
        return -queued.pod.priority, qos, queued.timestamp

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        return self.sort_key(a) < self.sort_key(b)


def qos_class(part: SpecPart) -> int:
    """The QoS class that the API server gives a Pod; for ``requests.memo`` of its shape.

    Resources of the Pod level, where it has any, count in place of those of its containers.
    """
    spec = part.spec
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        asking = [spec.resources]
    else:
        asking = [c.resources for c in (*spec.containers, *spec.init_containers)]
    if not any(_amounts(r.requests) or _amounts(r.limits) for r in asking):
        return BEST_EFFORT
    return GUARANTEED if all(map(_is_limited_to_requests, asking)) else BURSTABLE


def _is_limited_to_requests(resources: ResourceRequirements) -> bool:
    """Whether both resources have limits, and as much is requested; the default is the limit."""
    limits = _amounts(resources.limits)
    requests = {**limits, **_amounts(resources.requests, zeros=True)}
    return len(limits) == len(_COUNTED) and requests == limits


def _amounts(resources: Resources, *, zeros: bool = False) -> dict[str, Fraction]:
    amounts = {name: quantity.parse(resources[name]) for name in _COUNTED if name in resources}
    return {name: amount for name, amount in amounts.items() if amount or zeros}


class _Implements(QueueKey, QueueLess, Protocol):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = QOSSort

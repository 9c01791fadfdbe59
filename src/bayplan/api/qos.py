"""The QoS class of a Pod, derived from the CPU and memory of the Pod's containers."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from bayplan.api import quantity
from bayplan.api.pod import SpecPart
from bayplan.api.pod_spec import ResourceRequirements, Resources

_COUNTED = ("cpu", "memory")


class QosClass(StrEnum):
    """status.qosClass, the best protected first."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(part: SpecPart) -> QosClass:
    """The QoS class that the API server gives a Pod; for ``requests.memo`` of the Pod's shape.

    Resources of the Pod level, where it has any, count in place of those of its containers.
    """
    spec = part.spec
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        asking = [spec.resources]
    else:
        asking = [c.resources for c in (*spec.containers, *spec.init_containers)]
    if not any(_amounts(r.requests) or _amounts(r.limits) for r in asking):
        return QosClass.BEST_EFFORT
    guaranteed = all(map(_is_limited_to_requests, asking))
    return QosClass.GUARANTEED if guaranteed else QosClass.BURSTABLE


def _is_limited_to_requests(resources: ResourceRequirements) -> bool:
    """Whether both resources have limits, and as much is requested; the default is the limit."""
    limits = _amounts(resources.limits)
    requests = {**limits, **_amounts(resources.requests, zeros=True)}
    return len(limits) == len(_COUNTED) and requests == limits


def _amounts(resources: Resources, *, zeros: bool = False) -> dict[str, Fraction]:
    amounts = {name: quantity.parse(resources[name]) for name in _COUNTED if name in resources}
    return {name: amount for name, amount in amounts.items() if amount or zeros}

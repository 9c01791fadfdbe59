"""What a Pod takes in the plain way in which plugins of scheduler-plugins count.

The sum of its containers, or what an init container takes where that is more, and overhead. So
sidecars are init containers, and resources of the Pod level do not count. Each amount is rounded up
before it is added. What NodeResourcesFit counts is `bayplan.cache.requests`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from bayplan.api import quantity
from bayplan.api.pod_spec import Container, PodSpec, Resources
from bayplan.plugins.shared.resource_names import CORE, is_scalar


def effective(spec: PodSpec, amounts_of: Callable[[Container], Resources]) -> dict[str, int]:
    """By resource, where each container takes ``amounts_of`` it; milli-CPU, bytes or counts."""
    total = Counter[str]()
    for container in spec.containers:
        total.update(counted(amounts_of(container)))
    for container in spec.init_containers:
        for name, amount in counted(amounts_of(container)).items():
            total[name] = max(total[name], amount)
    total.update(counted(spec.overhead))
    return total


def counted(resources: Resources) -> dict[str, int]:
    """What the scheduler counts of ``resources``.

    Raises:
        bayplan.api.quantity.QuantityError: one of them is not a quantity.
    """
    names = (name for name in resources if name in CORE or is_scalar(name))
    return {name: quantity.of(name, resources[name]) for name in names}

"""Asking: what a Pod asks of zones, computed once for each kind of request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bayplan.api import quantity
from bayplan.api.pod import SpecPart
from bayplan.api.pod_spec import Container, Resources
from bayplan.api.qos import QosClass, qos_class

Amounts = Mapping[str, int]
"""By resource: milli-CPU, bytes or counts."""


ON_EVERY_NODE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def is_native(resource: str) -> bool:
    """Whether the resource is Kubernetes' own: none of a device plugin."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_affine(resource: str) -> bool:
    """Whether each amount is in some zone, for Guaranteed Pods."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def is_host_level(resource: str) -> bool:
    """Whether a node may have it outside of all zones."""
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


@dataclass(frozen=True)
class Asking:
    """What a Pod asks for.

    Attributes:
        guaranteed: whether CPUs and memory of a zone are for the Pod alone.
        matters: whether zones matter for the Pod at all.
        is_plain: whether each node has all resources that are asked for.
        init: what each init container asks for, and whether it is a sidecar.
        containers: what each of the others asks for.
        pod: what the whole Pod does: the containers, or an init container that asks for more.
    """

    guaranteed: bool
    matters: bool
    is_plain: bool
    init: tuple[tuple[bool, Amounts], ...]
    containers: tuple[Amounts, ...]
    pod: Amounts

    @property
    def every(self) -> tuple[Amounts, ...]:
        """What each container asks for, init containers first."""
        return (*(amounts for _, amounts in self.init), *self.containers)

    def own(self, index: int, shared: Iterable[str]) -> Amounts:
        """What container ``index`` of `every` has for itself alone.

        ``shared``: the resources that zones list; devices in no zone are nobody's own.
        """
        return {
            name: amount
            for name, amount in self.every[index].items()
            if amount and self._is_own(name, amount, shared)
        }

    def _is_own(self, name: str, amount: int, listed: Iterable[str]) -> bool:
        if not is_native(name):
            return name in listed
        if not self.guaranteed:
            return False
        return is_affine(name) and (name != "cpu" or amount % 1000 == 0)

    def has_own(self, listed: Iterable[str]) -> bool:
        """Whether a container that stays has resources for itself alone."""
        return any(self.own(index, listed) for index in self.staying)

    @property
    def staying(self) -> list[int]:
        """Which containers of `every` run as long as the Pod does."""
        sidecars = [i for i, (is_sidecar, _) in enumerate(self.init) if is_sidecar]
        return [*sidecars, *range(len(self.init), len(self.init) + len(self.containers))]


def asking(requests: SpecPart) -> Asking:
    """For ``requests.memo``: what Pods with these requests ask for."""
    spec = requests.spec
    init = tuple((c.restart_policy == "Always", _requested(c)) for c in spec.init_containers)
    containers = tuple(map(_requested, spec.containers))
    pod = Counter[str]()
    for amounts in containers:
        _add(pod, amounts)
    for _, amounts in init:
        for name, amount in amounts.items():
            pod[name] = max(pod[name], amount)
    _add(pod, _amounts(spec.overhead))
    qos = qos_class(requests)
    devices = any(not is_native(n) for a in (*(a for _, a in init), *containers) for n in a)
    matters = qos is not QosClass.BEST_EFFORT or devices
    plain = all(n in ON_EVERY_NODE for a in (*(a for _, a in init), *containers, pod) for n in a)
    return Asking(qos is QosClass.GUARANTEED, matters, plain, init, containers, dict(pod))


def _requested(container: Container) -> Amounts:
    return _amounts(container.resources.requests)


def _amounts(resources: Resources) -> Amounts:
    return {name: quantity.of(name, amount) for name, amount in resources.items()}


def _add(total: Counter[str], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] += amount

"""How much of each resource a Pod takes, from its containers, overhead, Pod level and resize state.

The rules are those of ``k8s.io/component-helpers/resource`` (part of the Kubernetes API): sidecars
count beside the containers, an init container counts together with the sidecars before it, and the
larger of the two phases is what the Pod needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from bayplan.api import quantity
from bayplan.api.pod import ContainerStatus, Pod, PodShape, PodStatus, SpecPart
from bayplan.api.pod_spec import Container, PodSpec, Resources

Exact = dict[str, Fraction]

DEFAULT_NON_ZERO: Resources = {"cpu": "100m", "memory": "200Mi"}
"""What scoring counts for a container that asks for no CPU or no memory."""

_POD_LEVEL = ("cpu", "memory")
_MAX = 2**63 - 1
_NO_STATUS = PodStatus()
_NO_STATE = ContainerStatus()


@dataclass(frozen=True, slots=True)
class Requests:
    """What a Pod takes.

    Attributes:
        amounts: by resource name; milli-CPU, bytes or counts; zero amounts included.
        nonzero_cpu: milli-CPU with `DEFAULT_NON_ZERO` in place of missing requests.
        nonzero_memory: bytes, likewise.
    """

    amounts: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int


def pod_requests(pod: Pod) -> Requests:
    """The amounts of ``pod`` on its node, also during a resize."""
    if _is_as_asked(pod.shape, pod.status):
        return pod.shape.requests.memo(_part_requests)
    return _requests(pod.spec, exact_requests(pod.spec, pod.status, {}), pod.status)


def _is_as_asked(shape: PodShape, status: PodStatus) -> bool:
    """Whether every container has the resources of the spec, as without a resize."""
    if status.resources is not None or (status.conditions and _resize_infeasible(status)):
        return False
    if not (status.container_statuses or status.init_container_statuses):
        return True
    states = (*status.container_statuses, *status.init_container_statuses)
    requested = shape.memo(_asked)
    return all(
        amounts == requested.get(state.name)
        for state in states
        for amounts in (state.allocated_resources, state.resources and state.resources.requests)
        if amounts
    )


def _asked(shape: PodShape) -> dict[str, Resources]:
    containers = (*shape.spec.init_containers, *shape.spec.containers)
    return {container.name: container.resources.requests for container in containers}


def _part_requests(requests: SpecPart) -> Requests:
    exact = requests.memo(spec_requests)
    if _pod_level_requests(requests.spec):
        return _requests(requests.spec, exact, _NO_STATUS)
    return _in_units(exact, requests.memo(nonzero_requests))


def spec_requests(requests: SpecPart) -> Exact:
    """For ``requests.memo``: the exact request per resource of a Pod that is not placed."""
    return exact_requests(requests.spec, _NO_STATUS, {})


def nonzero_requests(requests: SpecPart) -> Exact:
    """For ``requests.memo``: `spec_requests` with `DEFAULT_NON_ZERO` in place of missing requests.

    What the Pod asks for as a whole does not count.
    """
    spec = requests.spec
    containers = (*spec.init_containers, *spec.containers)
    if spec.resources is None and all(
        name in container.resources.requests
        for container in containers
        for name in DEFAULT_NON_ZERO
    ):
        return requests.memo(spec_requests)
    return exact_requests(spec, _NO_STATUS, DEFAULT_NON_ZERO, pod_level=False)


def _requests(spec: PodSpec, exact: Exact, status: PodStatus) -> Requests:
    missing = dict(DEFAULT_NON_ZERO)
    if _pod_level_requests(spec):
        missing = {k: v for k, v in missing.items() if k not in exact}
    return _in_units(exact, exact_requests(spec, status, missing) if missing else exact)


def _in_units(exact: Exact, nonzero: Exact) -> Requests:
    return Requests(
        amounts={name: units(name, amount) for name, amount in exact.items()},
        nonzero_cpu=units("cpu", nonzero.get("cpu", Fraction(0))),
        nonzero_memory=units("memory", nonzero.get("memory", Fraction(0))),
    )


def units(resource: str, amount: Fraction) -> int:
    """``amount`` in the unit that ``resource`` is counted in: milli for cpu.

    Rounded up, and held within 64 bits.
    """
    # Not as a product of Fractions, which is reduced at ten times the cost.
    numerator = amount.numerator * 1000 if resource == "cpu" else amount.numerator
    return min(-(-numerator // amount.denominator), _MAX)


@lru_cache(maxsize=4096)
def _parse(text: quantity.Amount) -> Fraction:
    return quantity.parse(text)


def exact_requests(
    spec: PodSpec, status: PodStatus, non_missing: Resources, *, pod_level: bool = True
) -> Exact:
    """The exact request per resource.

    Args:
        spec: what was asked for.
        status: what the kubelet has granted; an empty status for a Pod that is not placed.
        non_missing: amounts that stand in for a container's missing requests.
        pod_level: whether spec.resources replaces the sum of the containers.
    """
    infeasible = _resize_infeasible(status)
    total = _containers(spec, status, non_missing, infeasible)
    if pod_level and _pod_level_requests(spec):
        total.update(_pod_level(spec, status, infeasible))
    _add(total, _exact(spec.overhead))
    return total


def _containers(
    spec: PodSpec, status: PodStatus, non_missing: Resources, infeasible: bool
) -> Exact:
    """The largest of three sums: as asked for, as allocated by the kubelet, and as it runs.

    A resize that the kubelet calls infeasible leaves out what is asked for. Where the kubelet
    reports the last two for the whole Pod, they are not added up from the containers.
    """
    states = {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}

    def allocated(container: Container) -> Resources:
        state = states.get(container.name, _NO_STATE)
        return state.allocated_resources or asked(container)

    def actual(container: Container) -> Resources:
        running = states.get(container.name, _NO_STATE).resources
        return (running and running.requests) or allocated(container)

    def asked(container: Container) -> Resources:
        return {} if infeasible else container.resources.requests

    total = {} if infeasible else _sum(spec, asked, non_missing)
    whole = status.resources.requests if status.resources is not None else {}
    if whole and status.allocated_resources:
        _raise(total, _exact(status.allocated_resources))
        _raise(total, _exact(whole))
    elif states or infeasible:
        _raise(total, _sum(spec, allocated, non_missing))
        _raise(total, _sum(spec, actual, non_missing))
    return total


def _sum(spec: PodSpec, amounts_of: Callable[[Container], Resources], missing: Resources) -> Exact:
    """What the containers take together, where each takes ``amounts_of`` it."""

    def of(container: Container) -> Exact:
        return _exact({**missing, **amounts_of(container)})

    total: Exact = {}
    for container in spec.containers:
        _add(total, of(container))
    sidecars: Exact = {}
    peak: Exact = {}
    for container in spec.init_containers:
        amounts = of(container)
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise(peak, sidecars)
        else:
            _add(amounts, sidecars)
            _raise(peak, amounts)
    _raise(total, peak)
    return total


def _pod_level(spec: PodSpec, status: PodStatus, infeasible: bool) -> Exact:
    amounts = _exact(spec.resources.requests) if spec.resources else {}
    if status.resources is not None:
        amounts = {} if infeasible else amounts
        _raise(amounts, _exact(status.resources.requests))
        _raise(amounts, _exact(status.allocated_resources))
    return {name: amount for name, amount in amounts.items() if _is_pod_level(name)}


def _resize_infeasible(status: PodStatus) -> bool:
    for condition in status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith("hugepages-")


def _pod_level_requests(spec: PodSpec) -> bool:
    return spec.resources is not None and any(map(_is_pod_level, spec.resources.requests))


def _exact(resources: Resources) -> Exact:
    return {name: _parse(amount) for name, amount in resources.items()}


def _add(total: Exact, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Exact, floor: Mapping[str, Fraction]) -> None:
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount

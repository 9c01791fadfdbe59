"""The cluster at the end: how evenly nodes are used, and whether all is as it must be.

Read from the API server, so neither scheduler is asked about itself.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bayplan.api import quantity
from bayplan.api.kinds import KUBERNETES_POD_GROUP, NODE, POD, RESOURCE_CLAIM
from bayplan.client.http import Http
from bench.objects import MEASURED, PLACED
from bench.workloads import Workload

T = TypeVar("T")

TIMEOUT = 120.0
CREATED, CONFLICT = "201", "409"
MOST_NAMES = 3
"""Names in the text of one fault."""


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None


class _Meta(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct):
    resources: _Resources = _Resources()


class _GroupRef(msgspec.Struct, rename="camel", frozen=True):
    pod_group_name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    node_name: str = ""
    scheduling_group: _GroupRef = _GroupRef()


class PlacedPod(msgspec.Struct):
    """A Pod, as far as it is looked at here."""

    metadata: _Meta
    spec: _Spec


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str] = {}


class NodeState(msgspec.Struct):
    """A node, as far as it is looked at here."""

    metadata: _Meta
    status: _NodeStatus


@dataclass(frozen=True)
class Placement:
    """The result of `survey`.

    Attributes:
        cpu_spread_m: standard deviation of the CPU requested on a node, milli-CPU.
        nodes_used: nodes with a measured Pod.
        faults: Pods bound twice, overcommitted nodes, devices given away twice, gangs in part or
            not in one rack; each as a text.
    """

    cpu_spread_m: float
    nodes_used: int
    faults: list[str]


def survey(http: Http, nodes: Sequence[str], workload: Workload) -> Placement:
    """Look over the cluster of ``workload``, in which ``nodes`` are those that Pods may use."""
    pods = _listed(http, POD.path(), PlacedPod)
    states = _listed(http, NODE.path(), NodeState)
    bound = [pod for pod in pods if pod.spec.node_name]
    measured = [pod for pod in bound if pod.metadata.name.startswith(MEASURED)]
    cpu = requested(bound)["cpu"]
    faults = [
        *bound_twice(
            bindings(http.get("/metrics", TIMEOUT).decode()),
            sum(not pod.metadata.name.startswith(PLACED) for pod in bound),
            evicts=bool(workload.churn),
        ),
        *overcommitted(states, bound),
    ]
    if workload.gates:
        faults += gang_faults(states, measured, _listed(http, KUBERNETES_POD_GROUP.path(), dict))
    if workload.controllers:
        faults += given_twice(_listed(http, RESOURCE_CLAIM.path(), dict))
    used = {pod.spec.node_name for pod in measured}
    return Placement(statistics.pstdev(cpu[name] for name in nodes), len(used), faults)


def requested(pods: Sequence[PlacedPod]) -> dict[str, Counter[str]]:
    """By resource and node, what ``pods`` request, in the units of `quantity.of`; "pods", too."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        node = pod.spec.node_name
        sums["pods"][node] += 1
        for container in pod.spec.containers:
            for resource, amount in container.resources.requests.items():
                sums[resource][node] += quantity.of(resource, amount)
    return sums


def overcommitted(nodes: Sequence[NodeState], pods: Sequence[PlacedPod]) -> Iterator[str]:
    """Nodes whose Pods request more than there is, of what the node itself has."""
    sums = requested(pods)
    for node in nodes:
        name = node.metadata.name
        for resource, amount in node.status.allocatable.items():
            asked, there = sums[resource][name], quantity.of(resource, amount)
            if asked > there:
                yield f"node {name} has {there} of {resource}, and its Pods request {asked}"


def gang_faults(
    nodes: Sequence[NodeState], pods: Sequence[PlacedPod], groups: Sequence[dict[str, Any]]
) -> Iterator[str]:
    """Gangs of ``pods`` of which fewer than their minimum have nodes, or not in one domain."""
    labels = {node.metadata.name: node.metadata.labels for node in nodes}
    members: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        members[pod.spec.scheduling_group.pod_group_name].append(pod.spec.node_name)
    for group in groups:
        name, spec = group["metadata"]["name"], group["spec"]
        minimum = spec["schedulingPolicy"].get("gang", {}).get("minCount", 1)
        if 0 < len(members[name]) < minimum:
            yield f"{len(members[name])} Pods of gang {name} have nodes, of at least {minimum}"
        for constraint in spec.get("schedulingConstraints", {}).get("topology", ()):
            key = constraint["key"]
            domains = {labels[node].get(key, "") for node in members[name]}
            if len(domains) > 1 or "" in domains:
                yield f"gang {name} is in {len(domains)} domains of {key}"


def given_twice(claims: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Devices that several ResourceClaims have, but for those that may be shared."""
    holders: Counter[tuple[str, ...]] = Counter()
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation", {})
        for result in allocation.get("devices", {}).get("results", ()):
            if "shareID" not in result:
                holders[result["driver"], result["pool"], result["device"]] += 1
    twice = [" ".join(device) for device, count in holders.items() if count > 1]
    if twice:
        yield f"{len(twice)} devices are in several claims: {_some(twice)}"


def bindings(metrics: str) -> dict[str, int]:
    """How many requests to bind a Pod the API server has answered, by HTTP status."""
    codes: Counter[str] = Counter()
    for family in text_string_to_metric_families(metrics):
        for name, labels, value, *_ in family.samples:
            if name == "apiserver_request_total" and labels.get("subresource") == "binding":
                codes[labels["code"]] += int(value)
    return dict(codes)


def bound_twice(codes: Mapping[str, int], bound: int, *, evicts: bool) -> Iterator[str]:
    """Bindings that the API server refused or took too often, by HTTP status, for ``bound`` Pods.

    Where others may have evicted (``evicts``) some of the Pods, more were bound than are there.
    """
    if refused := codes.get(CONFLICT, 0):
        yield f"{refused} bindings of Pods that had a node already"
    accepted = codes.get(CREATED, 0)
    if accepted < bound or (accepted > bound and not evicts):
        yield f"{accepted} bindings were accepted, and {bound} Pods have nodes"


def _listed(http: Http, path: str, of: type[T]) -> list[T]:
    items = msgspec.json.decode(http.get(path, TIMEOUT), type=_List).items or ()
    return [msgspec.json.decode(item, type=of) for item in items]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")

"""Measures: how well a cluster is used at one moment. Columns in, numbers out.

============== =================================================================================
used           of each resource, the share of what the nodes offer that is requested
dominant       of each node the largest of these shares; mean, standard deviation, p10 and p90
stranded       of each resource, the share of all that is free on nodes where another one is used
               up (less than 5 % of it is free): nobody can use it
free devices   how many devices are free on nodes with exactly 1, 2, 3, ... of them free
fragmentation  of the free devices, the share that is of no use to a Pod drawn from those that ask
               for such devices: too few on one node, or too little CPU or memory beside them
survivors      of the Pods, the share that is left when the domain with most of them is lost
owners         of each owner with several Pods, the same, when it loses the domain with most of its
               Pods: the mean, and the share of such owners with all Pods in one domain
price          of the nodes with a Pod, and of all, an hour
============== =================================================================================

Devices are extended resources. Pods count as a resource of their own, ``pods``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray, NodePrices, PriceRule
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.cache.requests import pod_requests

PODS = "pods"
USED_UP = 0.05
"""A resource of which less than this share is free is used up."""
PRICE = PriceRule(annotation="bayplan.dev/hourly-price")
ZONE = "topology.kubernetes.io/zone"
Request = tuple[tuple[str, int], ...]
"""What a Pod requests: resources by name, with the amounts."""


class Owned(NamedTuple):
    """Pods of owners: for each the number of the owner, and its place among the nodes; ``(p,)``."""

    owners: IntArray
    places: IntArray


class Spread(msgspec.Struct, frozen=True):
    """How values lie; all 0 where there are none."""

    mean: float = 0.0
    deviation: float = 0.0
    p10: float = 0.0
    p90: float = 0.0


class Devices(msgspec.Struct, frozen=True):
    """The free devices of a resource.

    Attributes:
        free: how many there are.
        by_room: of them, by how many their node has free.
        fragmentation: the share that is of no use to a Pod that asks for some; None where no Pod
            does, or no device is free.
    """

    free: int
    by_room: dict[int, int]
    fragmentation: float | None


class Owners(msgspec.Struct, frozen=True):
    """What becomes of owners that have several Pods on nodes.

    Attributes:
        count: how many there are.
        survivors: of their Pods, the share that is left; the mean of all owners.
        lost: of the owners, the share that has all Pods in one domain.
    """

    count: int
    survivors: float
    lost: float


class Measures(msgspec.Struct, frozen=True):
    """See the module's docstring; shares are from 0 to 1.

    Attributes:
        survivors: by level, a node label; only levels that two nodes at least differ in.
        owners: by level, likewise; only where an owner has several Pods.
        price: of the nodes with a Pod; None where no node has a price.
        price_of_all: of all nodes.
    """

    nodes: int
    pods: int
    used: dict[str, float]
    dominant: Spread
    stranded: dict[str, float]
    devices: dict[str, Devices]
    survivors: dict[str, float]
    owners: dict[str, Owners]
    price: float | None
    price_of_all: float | None


def measures(
    offered: Mapping[str, IntArray],
    requested: Mapping[str, IntArray],
    domains: Mapping[str, IntArray],
    prices: FloatArray,
    demands: Mapping[Request, int],
    owned: Owned,
) -> Measures:
    """The measures of nodes whose columns these are, each ``(n,)``.

    Args:
        offered: milli-CPU, bytes or counts by resource; `PODS` is one of the resources.
        requested: what the Pods on the nodes request, of the same resources.
        domains: by level, the number of the node's domain; negative for none.
        prices: an hour; NaN where the price is not known.
        demands: what Pods request, and how many do.
        owned: the Pods of owners.
    """
    differ = [level for level, codes in domains.items() if len(np.unique(codes[codes >= 0])) > 1]
    free = {name: np.maximum(offered[name] - requested[name], 0) for name in offered}
    known = ~np.isnan(prices)
    occupied = requested[PODS] > 0
    return Measures(
        nodes=len(prices),
        pods=int(requested[PODS].sum()),
        used={name: _ratio(requested[name].sum(), offered[name].sum()) for name in offered},
        dominant=_spread(_dominant(offered, requested)),
        stranded={
            name: _ratio(amounts.sum(), offered[name].sum())
            for name, amounts in stranded(offered, free).items()
        },
        devices={name: _devices(name, free, demands) for name in offered if is_device(name)},
        survivors={level: 1 - _most(domains[level], requested[PODS]) for level in differ},
        owners={level: _owners(domains[level], owned) for level in differ if len(owned.owners)},
        price=float(prices[known & occupied].sum()) if known.any() else None,
        price_of_all=float(prices[known].sum()) if known.any() else None,
    )


def measures_of(
    nodes: LiveNodeTable,
    pods: Iterable[Pod],
    levels: Sequence[str] = (ZONE,),
    rule: PriceRule = PRICE,
) -> Measures:
    """The measures of these nodes.

    Args:
        nodes: the table.
        pods: all there are; their requests say what free devices are good for.
        levels: node labels that divide the cluster.
        rule: where prices stand.
    """
    pods = list(pods)
    rows = nodes.exists.nonzero()[0]
    offered = {name: nodes.allocatable(name)[rows] for name in sorted(nodes.resources)}
    requested = {name: nodes.requested(name)[rows] for name in offered}
    offered[PODS], requested[PODS] = nodes.allowed_pods[rows], nodes.pod_count[rows]
    return measures(
        offered,
        requested,
        {level: nodes.domains(level)[rows] for level in levels},
        nodes.ensure_column(NodePrices).follow(rule, nodes).values[rows],
        demands_of(pods) if any(map(is_device, offered)) else {},
        owned_of(nodes, rows, pods),
    )


def named(measures: Measures) -> dict[str, float]:
    """The measures as one number each, by the names that readers see."""
    numbers = {f"used {name}": share for name, share in measures.used.items() if name != PODS}
    numbers |= {
        "dominant share, mean": measures.dominant.mean,
        "dominant share, deviation": measures.dominant.deviation,
    }
    numbers |= {f"stranded {name}": share for name, share in measures.stranded.items()}
    for name, devices in measures.devices.items():
        if devices.fragmentation is not None:
            numbers[f"fragmentation {name}"] = devices.fragmentation
    numbers |= {f"survivors {level}": share for level, share in measures.survivors.items()}
    for level, owners in measures.owners.items():
        numbers[f"survivors of an owner, {level}"] = owners.survivors
        numbers[f"owners in one {level}"] = owners.lost
    if measures.price is not None:
        numbers["price of nodes with Pods"] = measures.price
    return numbers


def shown(name: str, value: float) -> str:
    """A number of `named` as text: a price, else a share."""
    return f"{value:,.2f}" if name.startswith("price") else f"{value:.1%}"


def demands_of(pods: Iterable[Pod]) -> dict[Request, int]:
    """What Pods request, and how many do."""
    examples: dict[int, Pod] = {}
    counts: Counter[int] = Counter()
    for pod in pods:
        counts[pod.shape.requests.id] += 1
        examples.setdefault(pod.shape.requests.id, pod)
    demands: Counter[Request] = Counter()
    for requests, pod in examples.items():
        amounts = pod_requests(pod).amounts
        demands[tuple(sorted((n, v) for n, v in amounts.items() if v))] += counts[requests]
    return demands


def owned_of(nodes: LiveNodeTable, rows: IntArray, pods: Iterable[Pod]) -> Owned:
    """Pods of owners with several Pods on nodes; places are those in ``rows``."""
    by_owner: defaultdict[tuple[str, tuple[str, str]], list[int]] = defaultdict(list)
    for pod in pods:
        shape = pod.shape
        if shape.owner[1] and (row := nodes.row(pod.node_name)) is not None:
            by_owner[shape.namespace, shape.owner].append(row)
    several = [found for found in by_owner.values() if len(found) > 1]
    owners = np.repeat(np.arange(len(several)), [len(found) for found in several])
    where = np.array([row for found in several for row in found], np.int64)
    return Owned(owners, np.searchsorted(rows, where))


def is_device(resource: str) -> bool:
    """Whether ``resource`` is an extended one."""
    group, slash, _ = resource.partition("/")
    return bool(slash) and not group.endswith("kubernetes.io")


def stranded(offered: Mapping[str, IntArray], free: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """What is free on nodes where another resource is used up; by resource, ``(n,)``, without Pods.

    Devices strand nothing: Pods that want none go on to fit.
    """
    gone = {
        name: (offered[name] > 0) & (_shares(free[name], offered[name]) < USED_UP)
        for name in offered
        if not is_device(name)
    }
    return {
        name: np.where(
            np.logical_or.reduce([gone[other] for other in gone if other != name]), free[name], 0
        )
        for name in offered
        if name != PODS
    }


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0


def _shares(part: IntArray, whole: IntArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _dominant(offered: Mapping[str, IntArray], requested: Mapping[str, IntArray]) -> FloatArray:
    shares = [_shares(requested[name], offered[name]) for name in offered if name != PODS]
    none = np.zeros(len(offered[PODS]))
    return np.maximum.reduce(shares) if shares else none


def _spread(values: FloatArray) -> Spread:
    if not len(values):
        return Spread()
    low, high = np.percentile(values, (10, 90))
    return Spread(float(values.mean()), float(values.std()), float(low), float(high))


def _most(codes: IntArray, pods: IntArray) -> float:
    """The share of the Pods that is in one domain, at most."""
    somewhere = codes >= 0
    return _ratio(np.bincount(codes[somewhere], pods[somewhere]).max(), pods.sum())


def _owners(codes: IntArray, owned: Owned) -> Owners:
    """A Pod on a node without a domain is never lost."""
    pods = np.bincount(owned.owners)
    domains = codes[owned.places]
    somewhere = domains >= 0
    pairs = owned.owners[somewhere] * (codes.max() + 1) + domains[somewhere]
    together, counts = np.unique(pairs, return_counts=True)
    most = np.zeros(len(pods), np.int64)
    np.maximum.at(most, together // (codes.max() + 1), counts)
    return Owners(len(pods), float((1 - most / pods).mean()), float((most == pods).mean()))


def _devices(name: str, free: Mapping[str, IntArray], demands: Mapping[Request, int]) -> Devices:
    room = free[name]
    sizes, counts = np.unique(room[room > 0], return_counts=True)
    by_room = dict(zip(sizes.tolist(), (sizes * counts).tolist(), strict=True))
    asking = [(request, pods) for request, pods in demands.items() if name in dict(request)]
    if not by_room or not asking:
        return Devices(int(room.sum()), by_room, None)
    useless = 0.0
    for request, pods in asking:
        short = [free[other] < amount for other, amount in request if other in free]
        useless += pods * float(room[np.logical_or.reduce(short)].sum())
    share = useless / (sum(pods for _, pods in asking) * float(room.sum()))
    return Devices(int(room.sum()), by_room, share)

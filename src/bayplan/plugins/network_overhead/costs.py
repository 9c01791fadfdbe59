"""Costs: what a NetworkTopology says, and what that is between the sites of nodes.

A site is the region and the zone of nodes. Between two nodes of different sites the cost is

    both in one zone of one region                  1
    in zones of one region                          what is said from zone to zone
    in different regions                            what is said from region to region
    where nothing is said                           100
    to a node without region and zone               100, and no dependency is satisfied

Costs have a direction: from the node of the Pod to that of the Pod that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayplan.api.network import AppGroup, NetworkTopology, OriginInfo
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.plugins.shared.sites import Site

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
SAME_ZONE, UNKNOWN = 1, 100
MOST = 1 << 31
"""A higher cost counts as this."""
_NEVER = MOST + 1
Pairs = Mapping[tuple[str, str], int]
"""Costs from a domain to another one."""


class Costs(NamedTuple):
    """The costs of one way of finding them, and what is wrong with the object."""

    regions: Pairs
    zones: Pairs
    faults: Sequence[str] = ()


NOTHING_SAID = Costs({}, {})


def costs_of(topology: NetworkTopology, weights_name: str) -> Costs:
    """What ``topology`` says under ``weights_name``; of what is said twice the first counts."""
    pairs: dict[str, dict[tuple[str, str], int]] = {REGION: {}, ZONE: {}}
    faults: list[str] = []
    named = [(i, w) for i, w in enumerate(topology.spec.weights) if w.name == weights_name]
    if not named:
        faults.append(f'spec.weights: none has the name "{weights_name}"')
    for i, weights in named:
        for j, info in enumerate(weights.topology_list):
            path = f"spec.weights[{i}].topologyList[{j}]"
            if info.topology_key in pairs:
                faults += _read(info.origin_list, path, pairs[info.topology_key])
            else:
                faults.append(f"{path}.topologyKey: must be {REGION} or {ZONE}")
    return Costs(pairs[REGION], pairs[ZONE], faults)


def _read(
    origins: Sequence[OriginInfo], path: str, pairs: dict[tuple[str, str], int]
) -> Iterator[str]:
    for i, origin in enumerate(origins):
        for j, said in enumerate(origin.cost_list):
            where = f"{path}.originList[{i}].costList[{j}]"
            pair = origin.origin, said.destination
            if not all(pair):
                yield f"{where}: origin and destination must be named"
            elif pair in pairs:
                yield f"{where}: the cost from {pair[0]} to {pair[1]} is there already"
            elif said.network_cost < 0:
                yield f"{where}.networkCost: must not be negative; the cost is not known"
            else:
                pairs[pair] = min(said.network_cost, MOST)


def faults_of(group: AppGroup) -> Iterator[str]:
    """What is wrong with an AppGroup."""
    workloads = group.spec.workloads
    selectors = {each.workload.selector for each in workloads}
    for i, each in enumerate(workloads):
        for j, dependency in enumerate(each.dependencies):
            path = f"spec.workloads[{i}].dependencies[{j}]"
            selector = dependency.workload.selector
            if selector not in selectors:
                yield f'{path}.workload.selector: no workload of the AppGroup has "{selector}"'
            if dependency.max_network_cost < 0:
                yield f"{path}.maxNetworkCost: must not be negative"


@dataclass(frozen=True)
class Distances:
    """What is between nodes of two sites, from the first one to the second one.

    Attributes:
        costs: ``(k, k)``.
        least: ``(k, k)`` the least maxNetworkCost that is kept; 0 where any is.
        judged: ``(k, k)`` whether a dependency is satisfied or violated, and not neither.
    """

    costs: IntArray
    least: IntArray
    judged: BoolArray

    @classmethod
    def between(cls, sites: Sequence[Site], costs: Costs) -> Distances:
        """Those between ``sites``, pairs of region and zone."""
        of_pairs = [[_between(one, other, costs) for other in sites] for one in sites]
        said = np.array(of_pairs, np.int64).reshape(len(sites), len(sites), 3)
        return cls(said[..., 0].copy(), said[..., 1].copy(), said[..., 2] > 0)

    def satisfied(self, most: int) -> BoolArray:
        """``(k, k)`` where a dependency is satisfied that may cost ``most``."""
        return self.judged & (self.least <= max(most, 0))

    def violated(self, most: int) -> BoolArray:
        """``(k, k)`` where a dependency is violated that may cost ``most``."""
        return self.judged & (self.least > max(most, 0))


def _between(one: Site, other: Site, costs: Costs) -> tuple[int, int, bool]:
    """The cost, the least maximum that is kept, and whether anything is known."""
    region, zone = (name or "" for name in one)
    its_region, its_zone = (name or "" for name in other)
    if not (its_region or its_zone):
        return UNKNOWN, _NEVER, True
    if region == its_region and zone == its_zone:
        return SAME_ZONE, 0, True
    if region == its_region:
        cost = costs.zones.get((zone, its_zone))
    else:
        cost = costs.regions.get((region, its_region))
    return (UNKNOWN, 0, False) if cost is None else (cost, cost, True)

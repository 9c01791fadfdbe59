"""Levels: the topology domains in which a group may be placed, the best one first.

A level is a node label, such as that of the zone or the rack. Its domains are the nodes that have
the same value; `LiveNodeTable.label` has them as a column of codes. A group may require one domain
of a level for all of its Pods, or prefer one (`bayplan.cache.pod_groups.GroupTopology`).

The Planner tries one level after the other: the preferred one, then those above it, up to the
required one; without that, all nodes at last. Within a level it tries the domains that hold the
whole group, the tightest first, so that large domains stay free for large groups; then those that
hold its minimum, the roomiest first. Which hold it is a bound (`GroupCapacity`): a domain may turn
out to be too small, so no more than `MOST_TRIES` of one level are tried.

An example: a group of 6, minimum 4, that prefers racks of 8, 6, 5 and 3 free places. The rack with
6 is tried, then that with 8, then that with 5. If none of them does, the zone of all of them is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.group_capacity import GroupCapacity
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.pod_groups import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, GroupTopology
from bayplan.framework.runtime import Framework

MOST_TRIES = 8
"""Domains of one level that are tried for one group."""


class Domain(NamedTuple):
    """One domain of a level.

    Attributes:
        level: the node label.
        value: its value.
        rows: ``(n,)`` bool, the nodes.
        holds: how many Pods of the group fit there, at most.
    """

    level: str
    value: str
    rows: BoolArray
    holds: int

    def __str__(self) -> str:
        return f"{self.level} {self.value}"


def fault(nodes: NodeTable, topology: GroupTopology) -> str:
    """Why the group cannot be placed as it asks, whatever is free; empty when it can."""
    required, preferred, levels = topology.required, topology.preferred, topology.levels
    if required and preferred and preferred not in levels[levels.index(required) :]:
        return (
            f"{PREFERRED_TOPOLOGY} {preferred} is not a level below {REQUIRED_TOPOLOGY} {required}"
        )
    if not required:
        return ""
    if not (nodes.label(required).codes >= 0).any():
        return f"no node has the label {required}, which {REQUIRED_TOPOLOGY} names"
    above = levels[: levels.index(required) + 1]
    return next((text for pair in pairwise(above) if (text := _not_nested(nodes, *pair))), "")


def _not_nested(nodes: NodeTable, upper: str, lower: str) -> str:
    """A domain of the lower level that lies in two of the upper one; empty where none does."""
    parents, children = nodes.label(upper), nodes.label(lower)
    both = (parents.codes >= 0) & (children.codes >= 0)
    parent, child = parents.codes[both], children.codes[both]
    last = np.zeros(len(children.values), np.int32)
    last[child] = parent
    wrong = np.flatnonzero(last[child] != parent)
    if not len(wrong):
        return ""
    code = child[wrong[0]]
    names = sorted({parents.values[parent[wrong[0]]], parents.values[last[code]]})
    return f"{lower} {children.values[code]} is in {upper} {' and '.join(names)}"


def domains(nodes: NodeTable, level: str, capacity: GroupCapacity) -> list[Domain]:
    """The domains of ``level``, those first that hold most Pods, and of these the tightest."""
    column = nodes.label(level)
    holds, room = capacity.by_domain(column.codes, len(column.values))
    present = np.unique(column.codes[column.codes >= 0]).tolist()
    order = sorted(present, key=lambda c: (-holds[c], room[c], column.values[c]))
    return [Domain(level, column.values[c], column.codes == c, int(holds[c])) for c in order]


def of_members(framework: Framework, nodes: NodeTable, pod: Pod) -> Iterator[BoolArray | None]:
    """For a Pod whose group has begun: the rows to look at, one after the other; None for all.

    The domains that most of the group's Pods are in, by its levels.
    """
    key = framework.groups.key_of(pod) if framework.plugins.grouping else ""
    topology = _topology(framework, key) if key else None
    if topology is None:
        yield None
        return
    members = framework.groups.nodes_of(key)
    found = False
    for level in topology.steps:
        mask = _of_most(nodes, level, members) if level else None
        if mask is not None or not level:
            found = True
            yield mask
    if not found:
        yield None


def _topology(framework: Framework, key: str) -> GroupTopology | None:
    groups = (plugin.find(key) for plugin in framework.plugins.grouping if not plugin.workload_api)
    return next((group.topology for group in groups if group is not None), None)


def _of_most(nodes: NodeTable, level: str, members: Mapping[str, int]) -> BoolArray | None:
    """The domain that has most of ``members``, Pods by node; None where none has a domain."""
    codes = nodes.label(level).codes
    counts: Counter[int] = Counter()
    for name, number in members.items():
        row = nodes.row(name)
        if row is not None and codes[row] >= 0:
            counts[codes.item(row)] += number
    if not counts:
        return None
    most: BoolArray = codes == min(counts, key=lambda code: (-counts[code], code))
    return most

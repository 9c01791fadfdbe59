"""Domains: sets of nodes, one of which has to hold a group or a sub-group, the best first.

A level is a node label, such as that of the zone or the rack. Its domains are the nodes that have
the same value, an empty one too; `LiveNodeTable.label` has them as a column of codes. A group, and
each sub-group of it, may require one domain of a level for all of its Pods, or prefer one
(`bayplan.cache.sub_groups.GroupTopology`).

`LevelSearch` tries one level after the other: the preferred one, then those above it, up to the
required one; without that, all nodes at last. Within a level it tries the domains that hold the
whole group, the tightest first, so that large domains stay free for large groups; then those that
hold its minimum, the roomiest first. Which hold it is a bound (`GroupCapacity`): a domain may turn
out to be too small, so no more than `MOST_TRIES` of one level are tried.

An example: a group of 6, minimum 4, that prefers racks of 8, 6, 5 and 3 free places. The rack with
6 is tried, then that with 8, then that with 5. If none of them does, the zone of all of them is.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bayplan.cache.group_topology import GroupTopology
from bayplan.cache.node_table import BoolArray, CodeArray, IntArray, NodeTable
from bayplan.cache.sub_groups import SubGroup
from bayplan.groups.capacity import GroupCapacity

MOST_TRIES = 8
"""Domains of one level that are tried for one group or sub-group."""


class Domain(NamedTuple):
    """One domain of a level, or the part of a domain within another domain.

    Attributes:
        level: the node label; "" for the whole of what it lies within.
        value: its value.
        codes: ``(n,)`` the domain of each row; None where all rows are in this one.
        code: that of this domain.
        holds: how many Pods of the group or sub-group fit there, at most.
    """

    level: str
    value: str
    codes: CodeArray | None
    code: int
    holds: int

    @property
    def rows(self) -> BoolArray | None:
        """``(n,)`` the nodes; None for all."""
        return None if self.codes is None else self.codes == self.code

    def __str__(self) -> str:
        return f"{self.level} {shown(self.value)}"


Share = tuple[Domain, int]
"""A domain, and how many of some Pods or slices it has."""


def shown(value: str) -> str:
    """The value of a label, for people."""
    return value or '""'


def fault(nodes: NodeTable, group: SubGroup) -> str:
    """Why the group's topology can never be satisfied; empty if there is no such reason."""
    topologies = (part.topology for part in group.walk())
    faults = (_fault_of(nodes, topology) for topology in topologies if topology is not None)
    return next(filter(None, faults), "")


def _fault_of(nodes: NodeTable, topology: GroupTopology) -> str:
    levels, (required, preferred, slices) = topology.levels, topology.names
    needed = [(required, topology.required)] if topology.required else []
    wished = [(preferred, topology.preferred)] if topology.preferred else []
    layers = [(slices, layer.topology) for layer in topology.slices]
    if topology.fault:
        return topology.fault
    for (upper, above), (lower, label) in pairwise([*needed, *wished, *layers]):
        if label not in levels[levels.index(above) :]:
            return f"{lower} {label} is not a level below {upper} {above}"
    needed += layers
    for name, label in needed:
        if not (nodes.label(label).codes >= 0).any():
            return f"no node has the label {label}, which {name} names"
    nested = levels[: levels.index(needed[-1][1]) + 1] if needed else ()
    return next((text for pair in pairwise(nested) if (text := _not_nested(nodes, *pair))), "")


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
    values = sorted({parents.values[parent[wrong[0]]], parents.values[last[code]]})
    return (
        f"{lower} {shown(children.values[code])} is in {upper} {' and '.join(map(shown, values))}"
    )


def domains(
    nodes: NodeTable, level: str, capacity: GroupCapacity, within: BoolArray | None
) -> list[Domain]:
    """The domains of ``level`` in ``within``: most Pods first, then the tightest first.

    Args:
        nodes: the table.
        level: a node label; "" for ``within`` as a whole.
        capacity: of the Pods.
        within: ``(n,)`` bool; None for all nodes.
    """
    values = nodes.label(level).values if level else [""]
    codes = _codes(nodes, level, within)
    fit, free = _room(nodes, level, capacity, codes)
    present = np.unique(codes[codes >= 0]).tolist() if codes is not None else [0]
    order = sorted(present, key=lambda c: (-fit[c], free[c], values[c]))
    return [Domain(level, values[c], codes, c, int(fit[c])) for c in order]


def most_by_domain(
    nodes: NodeTable, level: str, capacity: GroupCapacity, within: BoolArray | None
) -> IntArray:
    """``(domains,)`` how many Pods fit in each domain of ``level`` in ``within``, at most."""
    return _room(nodes, level, capacity, _codes(nodes, level, within))[0]


def _room(
    nodes: NodeTable, level: str, capacity: GroupCapacity, codes: CodeArray | None
) -> tuple[IntArray, IntArray]:
    """See `GroupCapacity.by_domain`; ``codes`` as `_codes` has them."""
    if codes is None:
        codes = np.zeros(len(nodes), np.int32)
    return capacity.by_domain(codes, len(nodes.label(level).values) if level else 1)


def _codes(nodes: NodeTable, level: str, within: BoolArray | None) -> CodeArray | None:
    """(n,) the domain of each row, negative for none; None where all are one domain."""
    codes = nodes.label(level).codes if level else None
    if within is None:
        return codes
    return np.where(within, 0 if codes is None else codes, -1).astype(np.int32)

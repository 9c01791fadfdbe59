"""Slice homes: in which domains a Pod of a group with slices may be, given where the others are.

A Pod that comes later, such as one that replaces another of a failed node, goes where the rest of
its slice is. Where Pods have an index, that is known. Else it goes to a domain whose number of Pods
is no multiple of the size, as a Pod is missing there. A Pod whose slice has no other Pods with
nodes begins it anew, in a domain with room for all of the slice.

Example: slices of 4 in racks; r1 has 4 Pods of the group, r2 has 3. A fifth Pod goes to r2. If that
is full, it waits, though r3 is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.group_topology import Slice
from bayplan.cache.node_table import BoolArray, CodeArray, IntArray, NodeTable
from bayplan.cache.slice_ranks import slice_id
from bayplan.framework.cycle_state import OUTSIDE
from bayplan.framework.status import Status


class Home(NamedTuple):
    """Where a Pod may go.

    Attributes:
        rows: ``(n,)`` bool; None for all.
        outside: what is said of the other rows; None for nothing.
    """

    rows: BoolArray | None
    outside: Status | None = OUTSIDE


def in_slices(
    nodes: NodeTable,
    slices: Sequence[Slice],
    pod: Pod,
    members: Collection[Pod],
    copies: IntArray,
    within: Home,
) -> Home:
    """Where a Pod may go in slices that have begun.

    Args:
        nodes: the table.
        slices: the layers of its group, the widest first.
        pod: the Pod.
        members: the Pods of the group with nodes.
        copies: ``(n,)`` how many Pods like it each node takes, at most.
        within: where it may go otherwise.
    """
    rows = nodes.exists if within.rows is None else within.rows
    on = [(member, row) for member in members if (row := nodes.row(member.node_name)) is not None]
    for layer in slices:
        column = nodes.label(layer.topology)
        codes = column.codes
        homes = _homes(codes, layer.size, pod, [(m, row) for m, row in on if rows[row]])
        if homes:
            values = [column.values[code] for code in sorted(homes)]
            where = f"{layer.topology} {' or '.join(value or repr('') for value in values)}"
            text = f"node(s) were outside of the domain of the Pod's slice, {where}"
            rows = rows & np.isin(codes, list(homes))
        else:
            inside = rows & (codes >= 0)
            room = np.bincount(
                codes[inside], copies[inside], len(nodes.label(layer.topology).values)
            )
            text = f"node(s) were in no {layer.topology} with room for {layer.size} Pods of a slice"
            rows = inside & (room[codes] >= layer.size)
        within = Home(rows, Status.unresolvable(text))
    return within


def _homes(codes: CodeArray, size: int, pod: Pod, on: Sequence[tuple[Pod, int]]) -> Collection[int]:
    """The domains in which the slice of a Pod has begun.

    Args:
        codes: ``(n,)`` the domain of each row.
        size: of slices.
        pod: the Pod.
        on: the other Pods and their rows.
    """
    mine = slice_id(pod.shape, size)
    if mine is None:
        counts = Counter(int(codes[row]) for _, row in on if codes[row] >= 0)
        return {code for code, number in counts.items() if number % size}
    counts = Counter(
        int(codes[row])
        for other, row in on
        if codes[row] >= 0 and slice_id(other.shape, size) == mine
    )
    return {min(counts, key=lambda code: (-counts[code], code))} if counts else ()

"""Room: what the nodes have for queues, of each resource and on each kind of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.cache.amounts import UNLIMITED
from bayplan.cache.node_table import BoolArray, CodedColumn, IntArray, LiveNodeTable
from bayplan.cache.queue_tree.kinds import NodeKinds
from bayplan.cache.queue_tree.structure import Structure

_DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Room(NamedTuple):
    """What nodes have that take new Pods.

    Attributes:
        together: (r,) of all of them.
        largest: (r,) the most that one of them has.
        closed: the rows of the nodes that take none.
    """

    together: IntArray
    largest: IntArray
    closed: IntArray


NO_ROOM = Room(*[np.zeros(0, np.int64)] * 3)


def room_of(nodes: LiveNodeTable, structure: Structure, kinds: NodeKinds) -> Room:
    """The room as of now."""
    closed = nodes.unschedulable | _are_down(nodes.taints)
    is_open = np.flatnonzero(nodes.exists & ~closed)
    amounts = [
        (nodes.allowed_pods if name == "pods" else nodes.allocatable(name))[is_open]
        for name in structure.bases
    ]
    together = _sums_of(amounts, is_open, structure, kinds)
    largest = np.full(len(together), UNLIMITED)
    largest[: len(amounts)] = [int(amount.max(initial=0)) for amount in amounts]
    return Room(together, largest, np.flatnonzero(closed))


def in_use_of(
    nodes: LiveNodeTable, closed: IntArray, structure: Structure, kinds: NodeKinds
) -> IntArray:
    """(r,) the room in use of nodes that take no new Pods, at the rows ``closed``."""
    in_use = [
        np.minimum(nodes.allowed_pods[closed], nodes.pod_count[closed])
        if name == "pods"
        else np.minimum(nodes.allocatable(name)[closed], nodes.requested(name)[closed])
        for name in structure.bases
    ]
    return _sums_of(in_use, closed, structure, kinds)


def _sums_of(
    amounts: Sequence[IntArray], rows: IntArray, structure: Structure, kinds: NodeKinds
) -> IntArray:
    """(r,) the sums over some nodes, all and of each kind; ``amounts`` are of ``rows``."""
    sums = [int(amount.sum()) for amount in amounts]
    for kind, _, base in structure.kind_columns:
        sums.append(int(amounts[base][kinds.codes[rows] == kind].sum()))
    return np.array(sums, np.int64)


def _are_down(taints: CodedColumn) -> BoolArray:
    """(n,) which nodes are not ready or unreachable, as the node lifecycle controller says."""
    down = [
        any(taint.key in _DOWN and taint.effect != "PreferNoSchedule" for taint in value)
        for value in taints.values
    ]
    return np.array([*down, False])[taints.codes]  # the code of a row without node is -1

"""Entitlements: shares of queues, with what is guaranteed to them on kinds of nodes."""

from __future__ import annotations

import numpy as np

from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree.shares import Shares, fair_shares, needed_guarantees, needs
from bayplan.cache.queue_tree.structure import Structure


def entitlements(
    structure: Structure, capacity: IntArray, demand: IntArray, limit: IntArray, weight: IntArray
) -> Shares:
    """What each queue is entitled to.

    Args:
        structure: the queues.
        capacity: (r,) the room of the cluster.
        demand: (q, r) what leaves use and wait for.
        limit: (q, r) what queues can use at most.
        weight: (q, r), or (q, 1) where it is the same for all resources.
    """
    need = needs(structure.parent, structure.levels, demand, limit)
    guarantees = structure.parent, structure.levels, structure.guaranteed
    guaranteed = needed_guarantees(*guarantees, need)
    shares = fair_shares(
        capacity,
        structure.parent,
        structure.levels,
        need,
        _with_kinds(structure, guaranteed, need),
        weight,
        structure.priority,
        structure.divisible,
    )
    if structure.kind_columns:
        # What a kind brings to a share is no guarantee elsewhere, and no one's saturation
        # unless it is divided by itself.
        others = [c for kind, c, _ in structure.kind_columns if kind not in structure.divided]
        shares.contended[:, others] = False
        there = _there(structure, capacity, np.minimum(shares.guaranteed, guaranteed))
        shares = shares._replace(guaranteed=there)
    return shares


def _there(structure: Structure, capacity: IntArray, needed: IntArray) -> IntArray:
    """(q, r) what of guarantees is there.

    On nodes of a kind it is what is declared, needed or not, if all of that fits: a Pod that
    waits asks for one kind, and may claim another one.
    """
    declared = np.minimum(structure.guaranteed, structure.limit)
    fits = declared[structure.parent < 0].sum(axis=0) <= capacity
    children = np.flatnonzero(structure.parent >= 0)
    below = np.zeros_like(declared)
    np.add.at(below, structure.parent[children], declared[children])
    fits &= (below <= declared).all(axis=0)
    fits[: len(structure.bases)] = False
    return np.where(fits, declared, needed)


def _with_kinds(structure: Structure, guaranteed: IntArray, need: IntArray) -> IntArray:
    """(q, r) guarantees, where those of all nodes are at least what is needed of kinds."""
    on_kinds = np.zeros_like(guaranteed)
    for _, column, base in structure.kind_columns:
        on_kinds[:, base] += guaranteed[:, column]
    return np.maximum(guaranteed, np.minimum(on_kinds, need))

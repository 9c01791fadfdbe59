"""How well the zones of a node suit a Pod, as 0 to 100: the four strategies, for many nodes.

Three of them score each zone: the least or the most that would be free, or how even the use of the
resources would be. The worst zone that has room counts, since nobody knows which one the kubelet
takes. LeastNUMANodes counts how many zones the Pod would have to be spread over, and adds points
where none are closer together.

As in scheduler-plugins, amounts are whole: CPUs are rounded up to cores. Different from there, a
node does not win by what its object lacks: nothing is added where no distance is known, and CPUs
that no zone lists are not there. And one resource alone is used evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.args import ZoneScoring
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.plugins.node_resource_topology_match.aligning import Free
from bayplan.plugins.node_resource_topology_match.asking import Amounts, Asking, is_affine
from bayplan.plugins.node_resource_topology_match.tables import NO_ZONE, ZoneTable
from bayplan.plugins.node_resource_topology_match.zones import FARTHEST

LEAST_ZONES = "LeastNUMANodes"
MOST_COMBINATIONS = 13_000
"""Of so many sets of zones of one size the best is looked for: all of 16 zones. Else 0 points."""
_AT_ONCE = 1 << 20
_NONE = MAX_NODE_SCORE + 1

Sets = npt.NDArray[np.int64]
ZoneScorer = Callable[[Amounts, Free], IntArray]
"""``(m, width)`` scores of the zones, 0 where there is no room."""


def scores_of(
    strategy: ZoneScoring, asks: Asking, table: ZoneTable, rows: IntArray, nodes: NodeTable
) -> IntArray:
    """``(m,)`` the scores of ``rows``."""
    scores = np.zeros(len(rows), np.int64)
    of_pod = table.pod_scope[rows]
    for mine, units in ((of_pod, (asks.pod,)), (~of_pod, asks.every)):
        if mine.any():
            free = Free(table, rows[mine], nodes)
            if strategy.type == LEAST_ZONES:
                scores[mine] = _fewest_zones(units, free, table)
            else:
                scores[mine] = _mean_of_worst(_zone_scorer(strategy), units, free)
    return scores


def _mean_of_worst(scorer: ZoneScorer, units: tuple[Amounts, ...], free: Free) -> IntArray:
    """Containers that ask for nothing do not count."""
    asking = [amounts for amounts in units if amounts]
    if not asking:
        return np.full(len(free.rows), MAX_NODE_SCORE, np.int64)
    total = np.zeros(len(free.rows), np.int64)
    for amounts in asking:
        by_zone = scorer(amounts, free)
        worst = np.where(by_zone > 0, by_zone, _NONE).min(axis=1)
        total += np.where(worst == _NONE, 0, worst)
    return total // len(asking)


def _zone_scorer(strategy: ZoneScoring) -> ZoneScorer:
    weights = {resource.name: resource.weight for resource in strategy.resources}
    if strategy.type == "BalancedAllocation":
        return _balanced
    least = strategy.type == "LeastAllocated"

    def allocated(amounts: Amounts, free: Free) -> IntArray:
        total, weight = np.zeros(free.zones.shape, np.int64), 0
        for name, room, need, has_room in _shares(amounts, free):
            part = room - need if least else need
            share = np.where(has_room, part * MAX_NODE_SCORE // np.maximum(room, 1), 0)
            of = max(weights.get(name, 1), 1)
            total += share * of
            weight += of
        return total // weight

    return allocated


def _shares(amounts: Amounts, free: Free) -> Iterator[tuple[str, IntArray, int, BoolArray]]:
    """Resource, what zones have and what is asked for in whole units, and where that fits."""
    for name, amount in amounts.items():
        available = np.maximum(free[name], 0)
        unit = 1000 if name == "cpu" else 1
        has_room = (available > 0) & (available >= amount)
        yield name, -(-available // unit), -(-amount // unit), has_room


def _balanced(amounts: Amounts, free: Free) -> IntArray:
    used = np.array(
        [
            np.where(room == 0, 1.0, need / np.maximum(room, 1))
            for _, room, need, _ in _shares(amounts, free)
        ]
    )
    n = len(used)
    if n > 1:
        off = used - used.sum(axis=0) / n
        variance = ((off * off).sum(axis=0) - off.sum(axis=0) ** 2 / n) / (n - 1)
    else:
        variance = np.zeros(used.shape[1:])
    scores = ((1 - variance) * MAX_NODE_SCORE).astype(np.int64)
    fits = (used <= 1).all(axis=0) & (free.zones >= 0)
    result: IntArray = np.where(fits, scores, 0)
    return result


def _fewest_zones(units: tuple[Amounts, ...], free: Free, table: ZoneTable) -> IntArray:
    m = len(free.rows)
    most, ideal, fits = np.zeros(m, np.int64), np.ones(m, np.bool_), np.ones(m, np.bool_)
    for amounts in units:
        # CPUs and memory that no zone lists are missing in the object, not on the node.
        needs = np.full(m, any(amount and is_affine(name) for name, amount in amounts.items()))
        for name in amounts:
            needs |= (free[name] >= 0).any(axis=1)
        sets, is_ideal = zone_sets(amounts, free, table)
        sizes = (sets >= 0).sum(axis=1)
        fits &= ~needs | (sizes > 0)
        ideal &= ~needs | is_ideal
        np.maximum(most, np.where(needs, sizes, 0), out=most)
        _take(amounts, np.where((needs & fits)[:, np.newaxis], sets, NO_ZONE), free)
    step = MAX_NODE_SCORE // table.most_zones[free.rows]
    scores = np.maximum(MAX_NODE_SCORE - most * step + np.where(ideal, step // 2, 0), 0)
    scores[most == 0] = MAX_NODE_SCORE
    scores[~fits] = 0
    result: IntArray = scores
    return result


def zone_sets(amounts: Amounts, free: Free, table: ZoneTable) -> tuple[Sets, BoolArray]:
    """The smallest set of zones that together have room, and whether none is closer together.

    ``(m, width)`` indexes, -1 after the last one; empty where there is no room.
    """
    m, width = len(free.rows), table.width
    result, ideal = np.full((m, width), NO_ZONE, np.int64), np.zeros(m, np.bool_)
    listed = free.zones >= 0
    for name in amounts:
        listed &= free[name] >= 0
    rest = np.arange(m)
    for size in range(1, width + 1):
        rest = rest[listed[rest].sum(axis=1) >= size]
        if comb(width, size) > MOST_COMBINATIONS:
            break
        sets = _sets(width, size)
        chunk = max(_AT_ONCE // max(len(sets) * size * size, 1), 1)
        for at in range(0, len(rest), chunk):
            rows = rest[at : at + chunk]
            fits = listed[rows][:, sets].all(axis=2)
            for name, amount in amounts.items():
                if amount:
                    fits &= free[name][rows][:, sets].sum(axis=2) >= amount
            distances = _distances(table.distances[free.rows[rows]], sets)
            distances[~(free.zones[rows] >= 0)[:, sets].all(axis=2)] = np.inf
            fitting = np.where(fits, distances, np.inf)
            best = fitting.argmin(axis=1)
            found = fits[np.arange(len(rows)), best]
            result[rows[found], :size] = sets[best[found]]
            nearest = fitting.min(axis=1)
            is_ideal = (nearest == distances.min(axis=1)) & (nearest < FARTHEST)
            ideal[rows[found]] = is_ideal[found]
        rest = rest[result[rest, 0] == NO_ZONE]
    return result, ideal


def _distances(distances: IntArray, sets: Sets) -> npt.NDArray[np.float32]:
    """``(m, sets)`` the mean distance within each set, a zone's own included."""
    pairs = distances[:, sets[:, :, np.newaxis], sets[:, np.newaxis, :]]
    total = pairs.sum(axis=(2, 3), dtype=np.int64).astype(np.float32)
    mean: npt.NDArray[np.float32] = total / np.float32(sets.shape[1] ** 2)
    return mean


@cache
def _sets(width: int, size: int) -> Sets:
    return np.array(list(combinations(range(width), size)), np.int64)


def _take(amounts: Mapping[str, int], sets: Sets, free: Free) -> None:
    """``amounts`` are taken from the first zone of each set, then from the next."""
    for name, amount in amounts.items():
        need = np.full(len(sets), amount, np.int64)
        available = free[name]
        for zones in sets.T:
            at = np.flatnonzero((zones != NO_ZONE) & (need > 0))
            taken = np.minimum(np.maximum(available[at, zones[at]], 0), need[at])
            available[at, zones[at]] -= taken
            need[at] -= taken

"""The scoring strategies of NodeResourcesFit: how full a node is with the Pod, as 0 to 100.

Each gives every resource a score of its own and averages them by weight, over those that the node
offers. All arithmetic is in truncated integers, as kube-scheduler's. Quotients are computed as
floats where that gives the same: see `Loads._percent`.

For a Pod of a new size this runs over all nodes, so what does not depend on the Pod is kept
(`Loads`), and arrays are as narrow as they can be and reused in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import gcd
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.args import ScoringStrategy, UtilizationShapePoint
from bayplan.framework.interface import MAX_NODE_SCORE, Integers
from bayplan.plugins.shared.device_offers import Columns
from bayplan.plugins.shared.kept_columns import KeptColumns, Rows
from bayplan.plugins.shared.resource_scoring import ColumnsOf, ScoredResource

Numbers = npt.NDArray[Any]
"""Integers, or floats that are whole numbers."""

Scorer = Callable[[Sequence[ScoredResource], NodeTable], Integers]
"""``strategy(resources, nodes)``: the score of every node, ``(n,)``."""

_MAX_SHAPE_SCORE = 10
_FULL = 100
_EXACT_FLOATS = 2**53
_EVERY_ROW = slice(None)


def strategy(spec: ScoringStrategy) -> Scorer:
    """The strategy that the args name."""
    score = _score(spec)
    kept = ColumnsOf(Loads)

    def scores(resources: Sequence[ScoredResource], nodes: NodeTable) -> Integers:
        amounts = [resource.amount for resource in resources]
        return score(kept.of(resources, nodes), amounts)

    return scores


def _score(spec: ScoringStrategy) -> Callable[[Loads, list[int]], Integers]:
    match spec.type:
        case "LeastAllocated":
            return lambda loads, amounts: _average(loads, loads.share_free(amounts))
        case "MostAllocated":
            return lambda loads, amounts: _average(loads, loads.share_used(amounts))
        case "RequestedToCapacityRatio":
            assert spec.requested_to_capacity_ratio is not None
            bent = curve(spec.requested_to_capacity_ratio.shape)
            return lambda loads, amounts: _rounded_average(
                loads, bent.take(loads.share_used(amounts), mode="clip")
            )
    raise ValueError(f"scoring strategy {spec.type} is not supported")


class Loads(KeptColumns):
    """What nodes offer of some resources, and what their Pods take; ``(r, n)`` each.

    A missing CPU or memory request counts, too.

    Attributes:
        capacity: what is offered, at least 1.
        free: what Pods leave of it; negative where they take more.
        weights: of the resources, 0 where a node does not offer one; ``(r, 1)`` if all nodes do.
        are_equal: whether all weights are 1.
        zero: ``(n,)`` for `np.maximum`, which with a number in its place takes twice as long.
        weight: ``(n,)`` their sum on a node, at least 1; ``(1,)`` if all nodes offer all.
    """

    def __init__(self, resources: Sequence[ScoredResource]) -> None:
        super().__init__()
        self._resources = resources
        # Only the proportion of weights matters. Most are equal: then they are 1.
        common = gcd(*(resource.weight for resource in resources)) or 1
        weights = [resource.weight // common for resource in resources]
        self._weights = np.array(weights, np.int32)[:, np.newaxis]

    def start(self, nodes: NodeTable) -> None:
        """See `KeptColumns.start`."""
        offered = np.array([_columns(r, nodes)[0] for r in self._resources], np.int64)
        offered = offered.reshape(len(self._resources), len(nodes))
        exact = int(offered.max(initial=0)) * MAX_NODE_SCORE < _EXACT_FLOATS
        self.capacity: Numbers = np.maximum(offered, 1).astype(np.float64 if exact else np.int64)
        everywhere = bool((offered > 0)[:, nodes.exists].all())
        self.weights = self._weights if everywhere else self._weights * (offered > 0)
        self.are_equal = bool((self.weights == 1).all())
        self.weight = np.maximum(self.weights.sum(axis=0, dtype=np.int32), 1)
        self.free: Numbers = np.empty_like(self.capacity)
        self.zero = np.zeros(len(nodes), self.capacity.dtype)
        self.update(nodes, _EVERY_ROW)

    def update(self, nodes: NodeTable, rows: Rows) -> None:
        """See `KeptColumns.update`."""
        for free, resource in zip(self.free, self._resources, strict=True):
            offered, used = _columns(resource, nodes)
            free[rows] = offered[rows] - used[rows]

    def take(self, rows: IntArray) -> Self:
        """See `KeptColumns.take`."""
        taken = self.copy()
        taken.capacity = self.capacity[:, rows]
        taken.free = np.empty_like(taken.capacity)
        taken.zero = self.zero[rows]
        if self.weights is not self._weights:
            taken.weights, taken.weight = self.weights[:, rows], self.weight[rows]
        return taken

    def share_free(self, amounts: list[int]) -> Integers:
        """``(r, n)`` percent of the capacity that is free beside ``amounts``."""
        return self._percent(self._left(amounts))

    def share_used(self, amounts: list[int]) -> Integers:
        """``(r, n)`` percent of the capacity that is used with ``amounts``."""
        used: Numbers = self.capacity - self._left(amounts)
        return self._percent(used)

    def _left(self, amounts: list[int]) -> Numbers:
        left: Numbers = self.free - np.array(amounts, self.free.dtype)[:, np.newaxis]
        np.maximum(left, self.zero, out=left)
        return left

    def _percent(self, part: Numbers) -> Integers:
        """100 times ``part`` divided by the capacity, truncated; changes ``part``.

        A float is exact up to 2**53. Below that, a quotient that is not a whole number is at least
        ``1 / divisor`` away from the next one, more than rounding can bridge; so truncating is
        right. And it is twice as fast.
        """
        part *= MAX_NODE_SCORE
        if part.dtype == np.int64:
            # The product may wrap around, as in Go, where a quotient is then rounded towards zero.
            quotient: Integers = part // self.capacity
            quotient += (part < 0) & (part % self.capacity != 0)
            return quotient
        part /= self.capacity
        return part.astype(np.int32)


def _columns(resource: ScoredResource, nodes: NodeTable) -> Columns:
    """What nodes offer of the resource, and what their Pods take of it for this score."""
    match resource.name:
        case "cpu":
            return nodes.allocatable("cpu"), nodes.nonzero_cpu
        case "memory":
            return nodes.allocatable("memory"), nodes.nonzero_memory
    return resource.columns(nodes)


def share_used_together(
    resources: Sequence[ScoredResource], nodes: NodeTable, rows: BoolArray
) -> int:
    """MostAllocated as if ``rows`` were one node, ``(n,)`` bool: 0 to 100."""
    total = weights = 0
    for resource in resources:
        offered, used = _columns(resource, nodes)
        offering = rows & (offered > 0)
        capacity = int(offered[offering].sum())
        if capacity:
            taken = min(int(used[offering].sum()) + resource.amount, capacity)
            total += resource.weight * (taken * MAX_NODE_SCORE // capacity)
            weights += resource.weight
    return total // max(weights, 1)


def _average(loads: Loads, scores: Integers) -> Integers:
    """``(n,)`` of the ``scores`` of all resources, ``(r, n)``, by weight."""
    weighted = scores if loads.are_equal else loads.weights * scores
    total: Integers = weighted.sum(axis=0, dtype=weighted.dtype)
    total //= loads.weight
    return total


def _rounded_average(loads: Loads, scores: IntArray) -> Integers:
    """Resources whose score is 0 are left out of the average, which is rounded half up."""
    weights = loads.weights * (scores > 0)
    total = (weights * scores).sum(axis=0)
    weight = np.maximum(weights.sum(axis=0), 1)
    rounded: Integers = (2 * total + weight) // (2 * weight)
    return rounded


def curve(shape: Sequence[UtilizationShapePoint]) -> IntArray:
    """The score at every utilization from 0 to 100 percent, linear between the points."""
    points = [(p.utilization, p.score * MAX_NODE_SCORE // _MAX_SHAPE_SCORE) for p in shape]
    return np.array([_on_curve(points, u) for u in range(_FULL + 1)], np.int64)


def _on_curve(points: Sequence[tuple[int, int]], utilization: int) -> int:
    if utilization <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if utilization <= x1:
            return y0 + int((y1 - y0) * (utilization - x0) / (x1 - x0))
    return points[-1][1]

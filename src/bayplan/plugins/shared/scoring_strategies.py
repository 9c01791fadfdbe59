"""The scoring strategies of NodeResourcesFit: how full a node is with the Pod, as 0 to 100.

Each gives every resource a score of its own and averages them by weight, over those that the node
offers. All arithmetic is in truncated integers, as kube-scheduler's. Quotients are computed as
floats where that gives the same: see `quotient`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.config.args import ScoringStrategy, UtilizationShapePoint
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.plugins.shared.resource_scoring import ScoredResource

Strategy = Callable[[Sequence[ScoredResource], NodeTable], IntArray]
"""``strategy(resources, nodes)``: the score of every node, ``(n,)``."""

ResourceScore = Callable[[IntArray, IntArray], IntArray]
"""``score(requested, capacity)`` of one resource, ``(n,)`` each; capacity is at least 1."""

_MAX_SHAPE_SCORE = 10
_FULL = 100
_EXACT_FLOATS = 2**53


def strategy(spec: ScoringStrategy) -> Strategy:
    """The strategy that the args name."""
    match spec.type:
        case "LeastAllocated":
            return lambda resources, nodes: _average(resources, nodes, _share_free)
        case "MostAllocated":
            return lambda resources, nodes: _average(resources, nodes, _share_used)
        case "RequestedToCapacityRatio":
            assert spec.requested_to_capacity_ratio is not None
            bent = curve(spec.requested_to_capacity_ratio.shape)
            return lambda resources, nodes: _rounded_average(resources, nodes, bent)
    raise ValueError(f"scoring strategy {spec.type} is not supported")


def _share_free(requested: IntArray, capacity: IntArray) -> IntArray:
    return quotient(np.maximum(capacity - requested, 0) * MAX_NODE_SCORE, capacity)


def _share_used(requested: IntArray, capacity: IntArray) -> IntArray:
    return quotient(np.minimum(requested, capacity) * MAX_NODE_SCORE, capacity)


def quotient(dividend: IntArray, divisor: IntArray) -> IntArray:
    """``dividend // divisor`` of numbers that are not negative; twice as fast.

    A float is exact up to 2**53. Below that, a quotient that is not a whole number is at least
    ``1 / divisor`` away from the next one, more than rounding can bridge; so truncating is right.
    """
    if dividend.max(initial=0) >= _EXACT_FLOATS:
        return dividend // divisor
    return (dividend / divisor).astype(np.int64)


def _average(
    resources: Sequence[ScoredResource], nodes: NodeTable, score: ResourceScore
) -> IntArray:
    total = np.zeros(len(nodes), np.int64)
    weights = np.zeros(len(nodes), np.int64)
    for resource in resources:
        allocatable, occupied = _with_pod(nodes, resource)
        weight = resource.weight * (allocatable > 0)
        total += weight * score(occupied, np.maximum(allocatable, 1))
        weights += weight
    return quotient(total, np.maximum(weights, 1))


def _rounded_average(
    resources: Sequence[ScoredResource], nodes: NodeTable, curve: IntArray
) -> IntArray:
    """Resources whose score is 0 are left out of the average, which is rounded half up."""
    total = np.zeros(len(nodes), np.int64)
    weights = np.zeros(len(nodes), np.int64)
    for resource in resources:
        allocatable, occupied = _with_pod(nodes, resource)
        scores = curve[np.minimum(occupied * _FULL // np.maximum(allocatable, 1), _FULL)]
        weight = resource.weight * ((allocatable > 0) & (scores > 0))
        total += weight * scores
        weights += weight
    weights = np.maximum(weights, 1)
    return (2 * total + weights) // (2 * weights)


def _with_pod(nodes: NodeTable, resource: ScoredResource) -> tuple[IntArray, IntArray]:
    """What a node offers, and what Pods there and this one take.

    A missing CPU or memory request counts, too.
    """
    match resource.name:
        case "cpu":
            return nodes.allocatable("cpu"), nodes.nonzero_cpu + resource.amount
        case "memory":
            return nodes.allocatable("memory"), nodes.nonzero_memory + resource.amount
    allocatable, requested = resource.columns(nodes)
    return allocatable, requested + resource.amount


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

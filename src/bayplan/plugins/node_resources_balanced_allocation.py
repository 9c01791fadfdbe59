"""NodeResourcesBalancedAllocation: prefer nodes where the Pod evens out how resources are used.

Balance is 1 minus the standard deviation of the used fractions. The score compares it after and
before the Pod: 75 for no change, up to 100 for a better and down to 50 for a worse balance. The
order of float operations is kube-scheduler's, because the results are truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bayplan.api.pod import Pod, PodStatus, SpecPart
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import spec_requests
from bayplan.cache.shape_cache import SHAPES_KEPT
from bayplan.config.args import NodeResourcesBalancedAllocationArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Plugin, PodPart
from bayplan.framework.points import PreScore, ScoreNodes
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.resource_scoring import (
    ScoredResource,
    device_epoch,
    device_offers,
    scored_resources,
)

FloatArray = npt.NDArray[np.float64]

_HALF = MAX_NODE_SCORE // 2
_NO_STATUS = PodStatus()


class NodeResourcesBalancedAllocation(Plugin):
    """Scores by how evenly the resources in the args are used."""

    Args = NodeResourcesBalancedAllocationArgs
    score_depends = Depends.RESOURCES
    reads = PodPart.REQUESTS

    def __init__(self, args: Any, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._specs = args.resources
        self._devices = device_offers(self._specs, handle)
        if self._devices is not None:
            # Nodes that are as full may differ in the devices that are in use.
            self.score_depends = Depends.RESOURCES | Depends.NODE
            self.epoch = self._epoch
        self._scored_of = lru_cache(SHAPES_KEPT)(self._scored)

    def pre_score(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        feasible: BoolArray,
    ) -> Status | None:
        """Skip for a Pod that requests none of the resources: it changes no balance."""
        return None if any(r.amount for r in self._scored_of(pod.shape.requests)) else SKIP

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """50 to 100, see the module's docstring; 0 for a Pod that PreScore would have skipped."""
        resources = self._scored_of(pod.shape.requests)
        if not any(resource.amount for resource in resources):
            return np.zeros(len(nodes), np.int64)
        before, after = _balance(resources, nodes)
        scores: IntArray = _HALF + (_HALF + after - before) // 2
        return scores

    def _scored(self, requests: SpecPart) -> tuple[ScoredResource, ...]:
        return scored_resources(self._specs, requests.memo(spec_requests), self._devices)

    def _epoch(self, pod: Pod) -> int:
        """Changes when devices do that count for the score; a method of its own where they may."""
        return device_epoch(self._scored_of(pod.shape.requests))


def _balance(resources: Sequence[ScoredResource], nodes: NodeTable) -> IntArray:
    """100 minus the standard deviation of the used percentages, truncated.

    Shape ``(2, n)``: without and with the Pod.
    """
    fractions, offered = [], []
    for resource in resources:
        # As floats from the start, or NumPy converts them in every operation.
        allocatable, requested = resource.columns(nodes)
        capacity = allocatable.astype(np.float64)
        used = requested + np.array([[0.0], [resource.amount]])
        fractions.append(np.minimum(used, capacity) / np.maximum(capacity, 1.0))
        offered.append(capacity > 0)
    deviation = _deviation(fractions, offered)
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _deviation(fractions: Sequence[FloatArray], offered: Sequence[BoolArray]) -> FloatArray:
    if len(fractions) == 1:
        return np.zeros_like(fractions[0])
    if len(fractions) == 2:
        difference: FloatArray = np.abs((fractions[0] - fractions[1]) / 2)
        return difference * (offered[0] & offered[1])
    return _deviation_of_many(np.array(fractions), np.array(offered))


def _deviation_of_many(fractions: FloatArray, offered: BoolArray) -> FloatArray:
    """The standard deviation over the resources that a node offers.

    Args:
        fractions: ``(r, 2, n)``; 0 where a resource is not offered.
        offered: ``(r, n)``.
    """
    offered = offered[:, np.newaxis]
    count = offered.sum(axis=0)
    divisor = np.maximum(count, 1)
    mean = _in_order(fractions) / divisor
    squares = np.where(offered, (fractions - mean) * (fractions - mean), 0.0)
    deviation: FloatArray = np.sqrt(_in_order(squares) / divisor)
    # Of two fractions it is half their difference, which rounds in another way.
    largest = np.where(offered, fractions, -1.0).max(axis=0)
    smallest = np.where(offered, fractions, 2.0).min(axis=0)
    deviation = np.where(count == 2, (largest - smallest) / 2, deviation)
    return np.where(count > 1, deviation, 0.0)


def _in_order(terms: FloatArray) -> FloatArray:
    """The sum over axis 0, added one after the other."""
    total = np.zeros(terms.shape[1:])
    for term in terms:
        total += term
    return total


class _Implements(PreScore, ScoreNodes, Protocol):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = NodeResourcesBalancedAllocation

"""NodeResourcesBalancedAllocation: prefer nodes where the Pod evens out how resources are used.

Balance is 1 minus the standard deviation of the used fractions. The score compares it after and
before the Pod: 75 for no change, up to 100 for a better and down to 50 for a worse balance. The
order of float operations is kube-scheduler's, because the results are truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bayplan.api.pod import Pod, PodStatus, SpecPart
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import spec_requests
from bayplan.cache.shape_cache import SHAPES_KEPT
from bayplan.config.args import NodeResourcesBalancedAllocationArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Integers, Plugin, PodPart
from bayplan.framework.points import PreScore, ScoreNodes
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.kept_columns import KeptColumns, Rows
from bayplan.plugins.shared.resource_scoring import (
    ColumnsOf,
    ScoredResource,
    device_epoch,
    device_offers,
    scored_resources,
)

FloatArray = npt.NDArray[np.float64]

_HALF = MAX_NODE_SCORE // 2
_NO_STATUS = PodStatus()


class NodeResourcesBalancedAllocation(Plugin, PreScore, ScoreNodes):
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
        self._fractions = ColumnsOf(Fractions)

    def pre_score(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        feasible: BoolArray,
    ) -> Status | None:
        """Skip for a Pod without requests for the resources, as such a Pod changes no balance."""
        return None if any(r.amount for r in self._scored_of(pod.shape.requests)) else SKIP

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """50 to 100, see the module's docstring; 0 for a Pod that PreScore would have skipped."""
        resources = self._scored_of(pod.shape.requests)
        if not any(resource.amount for resource in resources):
            return np.zeros(len(nodes), np.int16)
        amounts = np.array([[float(resource.amount)] for resource in resources])
        fractions = self._fractions.of(resources, nodes)
        scores = fractions.balance(amounts, slice(None))
        scores += fractions.base
        scores >>= 1
        return scores

    def _scored(self, requests: SpecPart) -> tuple[ScoredResource, ...]:
        return scored_resources(self._specs, requests.memo(spec_requests), self._devices)

    def _epoch(self, pod: Pod) -> int:
        """Changes with devices of scored resources; is used only where a device may count."""
        return device_epoch(self._scored_of(pod.shape.requests))


class Fractions(KeptColumns):
    """How balanced nodes are as they are; shapes are ``(r, n)`` where nothing else is said.

    Attributes:
        capacity: what nodes offer, at least 1.
        used: what Pods take.
        offered: where a node offers a resource; None if all nodes offer all.
        base: ``(n,)`` 150 minus the `balance` without the Pod. With `balance` added and halved that
            is the score: ``50 + (50 + after - before) // 2``.
    """

    def __init__(self, resources: Sequence[ScoredResource]) -> None:
        super().__init__()
        self._resources = resources

    def start(self, nodes: NodeTable) -> None:
        """See `KeptColumns.start`."""
        self.capacity: FloatArray = np.array(
            [resource.columns(nodes)[0] for resource in self._resources], np.float64
        )
        offered = self.capacity > 0
        np.maximum(self.capacity, 1.0, out=self.capacity)
        self.offered: BoolArray | None = None if offered[:, nodes.exists].all() else offered
        self.used: FloatArray = np.empty_like(self.capacity)
        self.base: Integers = np.zeros(len(nodes), np.int16)
        self.update(nodes, slice(None))

    def update(self, nodes: NodeTable, rows: Rows) -> None:
        """See `KeptColumns.update`."""
        for used, resource in zip(self.used, self._resources, strict=True):
            used[rows] = resource.columns(nodes)[1][rows]
        self.base[rows] = 3 * _HALF - self.balance(0.0, rows)

    def take(self, rows: IntArray) -> Self:
        """See `KeptColumns.take`."""
        taken = self.copy()
        taken.capacity = self.capacity[:, rows]
        taken.offered = None if self.offered is None else self.offered[:, rows]
        taken.used = np.empty_like(taken.capacity)
        taken.base = np.empty(len(rows), np.int16)
        return taken

    def balance(self, amounts: FloatArray | float, rows: Rows) -> Integers:
        """100 minus the standard deviation of the used percentages, truncated, of ``rows``.

        Args:
            amounts: what the Pod takes, ``(r, 1)``; 0 for the nodes as they are.
            rows: some or all.
        """
        fractions = self.used[:, rows] + amounts
        capacity = self.capacity[:, rows]
        np.minimum(fractions, capacity, out=fractions)
        fractions /= capacity
        offered = None if self.offered is None else self.offered[:, rows]
        balance = (1.0 - _deviation(fractions, offered)) * MAX_NODE_SCORE
        return balance.astype(np.int16)


def _deviation(fractions: FloatArray, offered: BoolArray | None) -> FloatArray:
    """The standard deviation over the resources that a node offers, ``(n,)``.

    Args:
        fractions: ``(r, n)``; any where a resource is not offered. Of one node, ``(r,)``.
        offered: of the same shape, None for everywhere.
    """
    if len(fractions) == 1:
        return np.zeros(fractions.shape[1:])
    if len(fractions) == 2:
        deviation: FloatArray = abs(fractions[0] - fractions[1]) * 0.5
        if offered is not None:
            deviation *= offered[0] & offered[1]
        return deviation
    everywhere = np.ones(fractions.shape, np.bool_)
    return _deviation_of_many(fractions, everywhere if offered is None else offered)


def _deviation_of_many(fractions: FloatArray, offered: BoolArray) -> FloatArray:
    count = offered.sum(axis=0)
    divisor = np.maximum(count, 1)
    mean = _in_order(fractions * offered) / divisor
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

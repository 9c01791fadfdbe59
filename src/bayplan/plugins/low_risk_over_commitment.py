"""LowRiskOverCommitment: prefer nodes whose Pods can use less beyond what the node has.

Requests say what Pods are promised, limits what they may use. Where the limits of all Pods of a
node, the one to be placed included, exceed what the node has, the risk of a resource is::

    (limits - allocatable) / (limits - requests)

from 0 (the limits fit) to 1. The measured load is a risk where it may exceed what the Pods on the
node request: it is taken for a Beta distribution with the measured mean and deviation, cut off
where the limits end. Both risks are added by weight. The score is 100 times 1 less the greater risk
of cpu and memory. A Pod without requests and limits scores 0 everywhere.

Name, arguments and formula are those of scheduler-plugins. Where no node has a sample the risk in
the limits alone counts; scheduler-plugins scores all nodes 0 then, as ``compat: exact`` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.node_load import RESOURCES, FloatArray
from bayplan.cache.node_table import IntArray, LiveNodeTable, NodeTable
from bayplan.cache.node_table.column import NumbersByKey
from bayplan.config.args import RISK_LIMIT_WEIGHT, LowRiskOverCommitmentArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Depends
from bayplan.plugins.shared.beta import incomplete_beta
from bayplan.plugins.shared.effective_resources import effective
from bayplan.plugins.shared.load_scores import Changes, LoadPlugin


class Promise(NamedTuple):
    """What a Pod requests and may use of a resource: milli-CPU or bytes."""

    request: int
    limit: int


class Promises(NumbersByKey):
    """The requests and the limits of the Pods of each row, in sum: keys like ``cpu limit``."""

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for name, promise in pod.shape.requests.memo(promises).items():
            self[f"{name} request"][row] += sign * promise.request
            self[f"{name} limit"][row] += sign * promise.limit

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        return {key: int((self[key] != other[key]).sum()) for key in self.keys()}


def promises(part: SpecPart) -> dict[str, Promise]:
    """By resource; for ``requests.memo`` of a shape. A limit is never below the request."""
    requests = effective(part.spec, lambda container: container.resources.requests)
    limits = effective(part.spec, lambda container: container.resources.limits)
    return {
        name: Promise(requests.get(name, 0), max(limits.get(name, 0), requests.get(name, 0)))
        for name in RESOURCES
    }


class LowRiskOverCommitment(LoadPlugin):
    """See the module's docstring."""

    Args = LowRiskOverCommitmentArgs
    score_depends = Depends.NODE | Depends.PODS

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._weights = {
            name: args.risk_limit_weights.get(name, RISK_LIMIT_WEIGHT) for name in RESOURCES
        }
        self._window = args.smoothing_window_size
        handle.nodes.ensure_column(Promises)
        self._changes = Changes(nodes=True)
        self._in_load: dict[str, FloatArray] = {}

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """100 where neither limits nor load are a risk."""
        asked = pod.shape.requests.memo(promises)
        if not any(promise.limit for promise in asked.values()):
            return np.zeros(len(nodes), np.int64)
        self._refresh(self.handle.nodes)
        column, load = nodes.column(Promises), self.load(self.handle.nodes)
        whole, of_limits = np.zeros(len(nodes)), np.zeros(len(nodes))
        known = np.zeros(len(nodes), np.bool_)
        for name, promise in asked.items():
            allocatable = nodes.allocatable(name)
            request = np.minimum(column[f"{name} request"] + promise.request, allocatable)
            limit = column[f"{name} limit"] + promise.limit
            weight = self._weights[name]
            excess = np.maximum(limit - allocatable, 0)
            in_limits = weight * (excess / np.maximum(limit - request, 1))
            in_load = self._in_load[name]
            in_load = in_load if nodes.origin is None else in_load[nodes.origin]
            whole = np.maximum(whole, np.clip(in_limits + (1 - weight) * in_load, 0, 1))
            of_limits = np.maximum(of_limits, in_limits)
            mean = load.mean[name]
            known |= ~np.isnan(mean if nodes.origin is None else mean[nodes.origin])
        scores, without = ((1 - risk) * MAX_NODE_SCORE for risk in (whole, of_limits))
        return self.or_unknown(known, scores, without)

    def _refresh(self, nodes: LiveNodeTable) -> None:
        """The risk in the load, which does not depend on the Pod."""
        changed = self._changes.rows(nodes, self.load(nodes).version)
        if changed is None:
            every = np.arange(len(nodes))
            self._in_load = {name: self._risk_in_load(name, nodes, every) for name in RESOURCES}
        elif len(changed):
            for name, risk in self._in_load.items():
                risk[changed] = self._risk_in_load(name, nodes, changed)

    def _risk_in_load(self, name: str, nodes: NodeTable, asked: IntArray) -> FloatArray:
        """From 0 to 1, for each row: how likely the load exceeds requests; 0 if it is not known."""
        risk = np.zeros(len(asked))
        load, promised = self.load(nodes), nodes.column(Promises)
        is_known = ~np.isnan(load.mean[name][asked]) & (nodes.allocatable(name)[asked] > 0)
        rows = asked[is_known]
        if not len(rows):
            return risk
        whole = nodes.allocatable(name)[rows]
        request = np.minimum(promised[f"{name} request"][rows], whole)
        limit = promised[f"{name} limit"][rows]
        mean = np.minimum(load.mean[name][rows], 1)
        deviation = np.minimum(load.deviation[name][rows], 1) * math.sqrt(self._window)
        deviation = np.minimum(deviation, np.sqrt(0.99 * mean * (1 - mean)))
        below = np.clip(request / whole, 0, 1)
        # Without a deviation the load is its mean.
        chance = ((mean == 0) | (mean <= below)).astype(np.float64)
        spread = deviation > 0
        a, b = np.ones(len(rows)), np.ones(len(rows))
        k = mean[spread] * (1 - mean[spread]) / deviation[spread] ** 2 - 1
        a[spread], b[spread] = mean[spread] * k, (1 - mean[spread]) * k
        chance[spread] = incomplete_beta(below[spread], a[spread], b[spread])
        # Pods do not use more than their limits: how likely is it, given that.
        bounded = (limit < whole) & (request <= limit)
        chance[bounded & (limit == 0)] = 1
        given = np.flatnonzero(bounded & spread & (limit > 0))
        under_limit = incomplete_beta(limit[given] / whole[given], a[given], b[given])
        possible = under_limit > 0
        given = given[possible]
        chance[given] = np.clip(chance[given] / under_limit[possible], 0, 1)
        risk[is_known] = 1 - chance
        return risk

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
from bayplan.cache.node_load import RESOURCES, FloatArray, NodeLoad
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, NodeInfo, NodeTable
from bayplan.cache.node_table.column import NumbersByKey
from bayplan.config.args import RISK_LIMIT_WEIGHT, LowRiskOverCommitmentArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.plugins.shared.beta import incomplete_beta, is_possible, one_incomplete_beta
from bayplan.plugins.shared.effective_resources import effective
from bayplan.plugins.shared.load_scores import Changes, LoadOfPodsPlugin

_KEYS = {name: (f"{name} request", f"{name} limit") for name in RESOURCES}
_FEW = 16
"""Up to so many rows are computed one by one, which is faster than as arrays."""


class Promise(NamedTuple):
    """What a Pod requests and may use of a resource: milli-CPU or bytes."""

    request: int
    limit: int


class Promises(NumbersByKey):
    """The requests and the limits of the Pods of each row, in sum: keys like ``cpu limit``."""

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for name, promise in pod.shape.requests.memo(promises).items():
            request, limit = _KEYS[name]
            self[request][row] += sign * promise.request
            self[limit][row] += sign * promise.limit

    def of(self, name: str, row: int) -> tuple[int, int]:
        """The requests and the limits of a resource on one row."""
        request, limit = _KEYS[name]
        return self[request].item(row), self[limit].item(row)

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        return {key: int((self[key] != other[key]).sum()) for key in self.keys()}


class _Beta(NamedTuple):
    """The load of each row: a share with a Beta distribution, or its mean without a spread."""

    mean: FloatArray
    spread: BoolArray
    a: FloatArray
    b: FloatArray


def promises(part: SpecPart) -> dict[str, Promise]:
    """By resource; for ``requests.memo`` of a shape. A limit is never below the request."""
    requests = effective(part.spec, lambda container: container.resources.requests)
    limits = effective(part.spec, lambda container: container.resources.limits)
    return {
        name: Promise(requests.get(name, 0), max(limits.get(name, 0), requests.get(name, 0)))
        for name in RESOURCES
    }


class LowRiskOverCommitment(LoadOfPodsPlugin):
    """See the module's docstring."""

    Args = LowRiskOverCommitmentArgs

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._weights = {
            name: args.risk_limit_weights.get(name, RISK_LIMIT_WEIGHT) for name in RESOURCES
        }
        self._window = args.smoothing_window_size
        handle.nodes.ensure_column(Promises)
        self._changes = Changes(nodes=True)
        self._in_load: dict[str, FloatArray] = {}
        self._betas: dict[str, _Beta] = {}

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """100 where neither limits nor load are a risk."""
        asked = pod.shape.requests.memo(promises)
        if not any(promise.limit for promise in asked.values()):
            return np.zeros(len(nodes), np.int64)
        column, load = nodes.column(Promises), self._refresh(self.handle.nodes)
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

    def score(self, _state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Likewise."""
        asked = pod.shape.requests.memo(promises)
        if not any(promise.limit for promise in asked.values()):
            return 0
        load = self._refresh(self.handle.nodes)
        table, row, origin = node.table, node.row, node.origin
        promised = table.column(Promises)
        whole = of_limits = 0.0
        known = False
        for name, promise in asked.items():
            allocatable = table.allocatable(name).item(row)
            request, limit = promised.of(name, row)
            limit, weight = limit + promise.limit, self._weights[name]
            risk = (1 - weight) * self._in_load[name].item(origin)
            if limit > allocatable:
                request = min(request + promise.request, allocatable)
                in_limits = weight * ((limit - allocatable) / max(limit - request, 1))
                of_limits = max(of_limits, in_limits)
                risk = min(max(in_limits + risk, 0.0), 1.0)
            whole = max(whole, risk)
            known = known or not math.isnan(load.mean[name].item(origin))
        score, without = (1 - whole) * MAX_NODE_SCORE, (1 - of_limits) * MAX_NODE_SCORE
        return self.one_or_unknown(known=known, score=score, without=without)

    def _refresh(self, nodes: LiveNodeTable) -> NodeLoad:
        """Compute the risk in the load, which does not depend on the Pod; returns the load."""
        load = self.load(nodes)
        rows = self._changes.rows(nodes, load.version)
        if rows is None:
            self._in_load = {name: np.zeros(len(nodes)) for name in RESOURCES}
            self._betas = {name: self._beta(load, name) for name in RESOURCES}
        for name, risk in self._in_load.items():
            if rows is None or len(rows) > _FEW:
                changed = np.arange(len(nodes)) if rows is None else np.array(rows)
                risk[changed] = self._risk_in_load(name, nodes, changed)
                continue
            for row in rows:
                risk[row] = self._risk_of_one(name, nodes, row)
        return load

    def _beta(self, load: NodeLoad, name: str) -> _Beta:
        mean = np.minimum(load.mean[name], 1)
        deviation = np.minimum(load.deviation[name], 1) * math.sqrt(self._window)
        deviation = np.minimum(deviation, np.sqrt(0.99 * mean * (1 - mean)))
        spread = deviation > 0
        k = mean * (1 - mean) / np.where(spread, deviation, 1) ** 2 - 1
        a, b = (np.where(spread, parameter, 1) for parameter in (mean * k, (1 - mean) * k))
        return _Beta(mean, spread, a, b)

    def _risk_in_load(self, name: str, nodes: NodeTable, asked: IntArray) -> FloatArray:
        """From 0 to 1, for each row: how likely the load exceeds requests; 0 if it is not known."""
        allocatable = nodes.allocatable(name)[asked]
        of = self._betas[name]
        mean, spread, a, b = of.mean[asked], of.spread[asked], of.a[asked], of.b[asked]
        promised = nodes.column(Promises)
        whole = np.maximum(allocatable, 1)
        request, limit = (promised[f"{name} {what}"][asked] for what in ("request", "limit"))
        request = np.minimum(request, allocatable)
        below, bound = request / whole, limit / whole
        # Without a deviation the load is its mean.
        chance = np.where(spread, incomplete_beta(below, a, b), (mean == 0) | (mean <= below))
        # Pods do not use more than their limits: how likely is it, given that.
        bounded = (limit < allocatable) & (request <= limit)
        under_limit = incomplete_beta(np.minimum(bound, 1), a, b)
        given = bounded & spread & (under_limit > 0)
        chance = np.where(given, np.minimum(chance / np.where(given, under_limit, 1), 1), chance)
        is_certain = (bounded & (limit == 0)) | np.isnan(mean) | (allocatable == 0)
        return np.where(is_certain, 0, 1 - chance)

    def _risk_of_one(self, name: str, nodes: NodeTable, row: int) -> float:
        """`_risk_in_load` of one row, in plain numbers."""
        allocatable, of = nodes.allocatable(name).item(row), self._betas[name]
        mean = of.mean.item(row)
        request, limit = nodes.column(Promises).of(name, row)
        request = min(request, allocatable)
        bounded = request <= limit < allocatable
        if math.isnan(mean) or allocatable == 0 or (bounded and limit == 0):
            return 0.0
        below = request / allocatable
        if not of.spread.item(row):
            return 0.0 if mean == 0 or mean <= below else 1.0
        a, b = of.a.item(row), of.b.item(row)
        if bounded and request == limit and is_possible(below, a, b):
            return 0.0
        chance = one_incomplete_beta(below, a, b)
        under_limit = one_incomplete_beta(limit / allocatable, a, b) if bounded else 0.0
        return 1 - (min(chance / under_limit, 1) if under_limit > 0 else chance)

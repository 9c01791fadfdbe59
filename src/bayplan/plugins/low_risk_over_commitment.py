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
from bayplan.cache.node_table.column import Numbers
from bayplan.config.args import RISK_LIMIT_WEIGHT, LowRiskOverCommitmentArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.plugins.shared.beta import incomplete_beta, is_possible, one_incomplete_beta
from bayplan.plugins.shared.effective_resources import effective
from bayplan.plugins.shared.load_scores import Changes, LoadOfPodsPlugin

_FEW = 16
"""Up to so many rows are computed one by one, which is faster than as arrays."""
_REQUEST, _LIMIT = 0, 1
"""Where they are in the numbers of a resource."""


class Promises(Numbers[np.int64]):
    """``(n, resources, 2)``: of each of `RESOURCES` the requests and the limits, in sum."""

    def __init__(self) -> None:
        super().__init__(np.int64, len(RESOURCES), 2)

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        self.values[row] += sign * pod.shape.requests.memo(promises)

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        wrong = (self.values != other.values).sum(axis=0)
        return {
            f"{name} {what}": int(wrong[i, k])
            for i, name in enumerate(RESOURCES)
            for k, what in enumerate(("request", "limit"))
        }


def promises(part: SpecPart) -> IntArray:
    """``(resources, 2)``: request and limit of each, milli-CPU or bytes; for `SpecPart.memo`.

    A limit is never below the request.
    """
    requests = effective(part.spec, lambda container: container.resources.requests)
    limits = effective(part.spec, lambda container: container.resources.limits)
    asked = [requests.get(name, 0) for name in RESOURCES]
    may_use = [
        max(limits.get(name, 0), least) for name, least in zip(RESOURCES, asked, strict=True)
    ]
    return np.array([asked, may_use], np.int64).T


def _asked(part: SpecPart) -> list[tuple[int, int]]:
    """`promises` as numbers; empty for a Pod without requests and limits."""
    each = [(request, limit) for request, limit in part.memo(promises).tolist()]
    return each if any(limit for _, limit in each) else []


class _Load(NamedTuple):
    """The load of each row: a share with a Beta distribution, or its mean without a spread.

    Attributes:
        mean: NaN where the load is not known.
    """

    mean: FloatArray
    spread: BoolArray
    a: FloatArray
    b: FloatArray

    def risk(self, row: int, allocatable: int, request: int, limit: int) -> float:
        """`LowRiskOverCommitment._risks_in_load` of one row, in plain numbers."""
        mean = self.mean.item(row)
        bounded = request <= limit < allocatable
        if math.isnan(mean) or allocatable == 0 or (bounded and limit == 0):
            return 0.0
        below = min(request, allocatable) / allocatable
        if not self.spread.item(row):
            return 0.0 if mean == 0 or mean <= below else 1.0
        a, b = self.a.item(row), self.b.item(row)
        if bounded and request == limit:  # the two chances below are one
            return 0.0 if is_possible(below, a, b) else 1.0
        chance = one_incomplete_beta(below, a, b)
        under_limit = one_incomplete_beta(limit / allocatable, a, b) if bounded else 0.0
        return 1 - (min(chance / under_limit, 1) if under_limit > 0 else chance)


class LowRiskOverCommitment(LoadOfPodsPlugin):
    """See the module's docstring."""

    Args = LowRiskOverCommitmentArgs

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._weights = [args.risk_limit_weights.get(name, RISK_LIMIT_WEIGHT) for name in RESOURCES]
        self._window = args.smoothing_window_size
        handle.nodes.ensure_column(Promises)
        self._changes = Changes(nodes=True)
        self._in_load: list[FloatArray] = []
        self._distributions: list[_Load] = []
        self._distributions_of: tuple[int, int] | None = None

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """100 where neither limits nor load are a risk."""
        asked = pod.shape.requests.memo(_asked)
        if not asked:
            return np.zeros(len(nodes), np.int64)
        promised, in_load = nodes.column(Promises).values, self._risks(self.handle.nodes)
        whole, of_limits = np.zeros(len(nodes)), np.zeros(len(nodes))
        known = np.zeros(len(nodes), np.bool_)
        for i, (name, (more, may_use)) in enumerate(zip(RESOURCES, asked, strict=True)):
            allocatable = nodes.allocatable(name)
            request = np.minimum(promised[:, i, _REQUEST] + more, allocatable)
            limit = promised[:, i, _LIMIT] + may_use
            weight = self._weights[i]
            excess = np.maximum(limit - allocatable, 0)
            in_limits = weight * (excess / np.maximum(limit - request, 1))
            risk, mean = in_load[i], self._distributions[i].mean
            if nodes.origin is not None:
                risk, mean = risk[nodes.origin], mean[nodes.origin]
            whole = np.maximum(whole, np.clip(in_limits + (1 - weight) * risk, 0, 1))
            of_limits = np.maximum(of_limits, in_limits)
            known |= ~np.isnan(mean)
        scores, without = ((1 - risk) * MAX_NODE_SCORE for risk in (whole, of_limits))
        return self.or_unknown(known, scores, without)

    def score(self, _state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Likewise; the risk in the load is not kept, but computed for this row alone."""
        asked = pod.shape.requests.memo(_asked)
        if not asked:
            return 0
        live, table, row, origin = self.handle.nodes, node.table, node.row, node.origin
        loads = self._refresh(live)
        now = promised = live.column(Promises).values[origin].tolist()
        if table is not live:
            promised = table.column(Promises).values[row].tolist()
        whole = of_limits = 0.0
        known = False
        for i, (more, may_use) in enumerate(asked):
            allocatable = table.allocatable(RESOURCES[i]).item(row)
            request, limit = promised[i]
            limit, weight = limit + may_use, self._weights[i]
            risk = (1 - weight) * loads[i].risk(origin, allocatable, *now[i])
            if limit > allocatable:
                request = min(request + more, allocatable)
                in_limits = weight * ((limit - allocatable) / max(limit - request, 1))
                of_limits = max(of_limits, in_limits)
                risk = min(max(in_limits + risk, 0.0), 1.0)
            whole = max(whole, risk)
            known = known or not math.isnan(loads[i].mean.item(origin))
        score, without = (1 - whole) * MAX_NODE_SCORE, (1 - of_limits) * MAX_NODE_SCORE
        return self.one_or_unknown(known=known, score=score, without=without)

    def _refresh(self, nodes: LiveNodeTable) -> list[_Load]:
        """Bring the distributions up to date with the samples; by resource."""
        load = self.load(nodes)
        if self._distributions_of != (load.version, len(nodes)):
            self._distributions_of = load.version, len(nodes)
            self._distributions = [self._of(load, name) for name in RESOURCES]
        return self._distributions

    def _risks(self, nodes: LiveNodeTable) -> list[FloatArray]:
        """The risk in the load by resource, ``(n,)``, which does not depend on the Pod; kept."""
        loads = self._refresh(nodes)
        rows = self._changes.rows(nodes, self.load(nodes).version)
        if rows is None:
            self._in_load = [np.zeros(len(nodes)) for _ in RESOURCES]
        promised = nodes.column(Promises).values
        for i, (name, risks) in enumerate(zip(RESOURCES, self._in_load, strict=True)):
            if rows is None or len(rows) > _FEW:
                changed = np.arange(len(nodes)) if rows is None else np.array(rows)
                risks[changed] = self._risks_in_load(i, nodes, changed)
                continue
            allocatable = nodes.allocatable(name)
            for row in rows:
                risks[row] = loads[i].risk(row, allocatable.item(row), *promised[row, i].tolist())
        return self._in_load

    def _of(self, load: NodeLoad, name: str) -> _Load:
        mean = np.minimum(load.mean[name], 1)
        deviation = np.minimum(load.deviation[name], 1) * math.sqrt(self._window)
        deviation = np.minimum(deviation, np.sqrt(0.99 * mean * (1 - mean)))
        spread = deviation > 0
        k = mean * (1 - mean) / np.where(spread, deviation, 1) ** 2 - 1
        a, b = (np.where(spread, parameter, 1) for parameter in (mean * k, (1 - mean) * k))
        return _Load(mean, spread, a, b)

    def _risks_in_load(self, resource: int, nodes: NodeTable, asked: IntArray) -> FloatArray:
        """From 0 to 1, for each row: how likely the load exceeds requests; 0 if it is not known."""
        allocatable = nodes.allocatable(RESOURCES[resource])[asked]
        of = self._distributions[resource]
        mean, spread, a, b = of.mean[asked], of.spread[asked], of.a[asked], of.b[asked]
        promised = nodes.column(Promises).values[asked, resource]
        whole = np.maximum(allocatable, 1)
        request, limit = promised[:, _REQUEST], promised[:, _LIMIT]
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

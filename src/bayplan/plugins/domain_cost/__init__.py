"""DomainCost: prefer the nodes where a Pod costs least.

A Pod costs its share of the node's price, where the share is the greatest of what it requests of a
resource by what the node has allocatable, and its traffic with other Pods (`transfer`). With the
least and the most that it costs on a feasible node, the score is::

    100 (1 - (cost - least) / max(most - least, significant)), rounded down

so the cheapest node has 100 always, and differences that are not significant do not count much. A
node whose price is not known counts as the most expensive one that is: it does not win by that.

With budgets (`budgets`) the plugin filters, too: a Pod goes where no budget is exceeded with it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.kinds import NODE, Kind
from bayplan.api.meta import ObjectFault
from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray, NodePrices, PriceRule
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.cache.shape_cache import ShapeCache
from bayplan.config.args import DomainCostArgs
from bayplan.config.points import Point
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    Depends,
    Integers,
    Normalizer,
    Plugin,
    PodPart,
)
from bayplan.framework.points import (
    EnqueueExtensions,
    ExplainsFilter,
    ExplainsScore,
    FilterNodes,
    PreFilter,
    ScoreNodes,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.domain_cost.budgets import (
    KINDS,
    Budgets,
    Left,
    in_units,
    shown,
)
from bayplan.plugins.domain_cost.transfer import Transfer
from bayplan.plugins.shared.moved_pods import CountsMoves

HOURLY_PRICE = "bayplan.dev/hourly-price"
"""Annotation of nodes, where the arguments name no other place."""
_SIGNIFICANT = 10**7
"""A raw score of this is the cost that is significant; by default the unit is 1e-9 an hour."""
_MOST = 10**16
"""A greater raw score, 100 times of which would not be a 64-bit integer, counts as this."""
_NAMED = 5
_SHAPES_KEPT = 64


@dataclass(frozen=True)
class Cheapest(Normalizer):
    """The least raw score becomes 100; see the module's docstring."""

    def measure(self, scores: Integers, feasible: BoolArray) -> tuple[int, int]:
        """The least, and by how much the greatest exceeds it; at least `_SIGNIFICANT`."""
        # Arithmetic, as picking the feasible ones takes several times as long, once for every Pod.
        # Scores may be unsigned: what wraps around is that of other nodes, and becomes 0.
        greatest = int((scores * feasible).max(initial=0))
        range_ = int(((greatest - scores) * feasible).max(initial=0))
        return greatest - range_, max(range_, _SIGNIFICANT)

    def __call__(self, scores: Integers, measure: Any) -> IntArray:
        """See `Normalizer`."""
        least, range_ = measure
        cheaper = least + range_ - scores.astype(np.int64, copy=False)
        scaled: IntArray = cheaper * MAX_NODE_SCORE // range_
        return scaled


class DomainCost(
    Plugin,
    PreFilter,
    FilterNodes,
    CountsMoves,
    ScoreNodes,
    ExplainsFilter,
    ExplainsScore,
    EnqueueExtensions,
):
    """See the module's docstring."""

    Args = DomainCostArgs
    filter_depends = Depends.NODE
    score_depends = Depends.NODE
    reads = PodPart.REQUESTS
    normalizer = Cheapest()

    def __init__(self, args: DomainCostArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        given = args.price
        source = None if given.promql is None else given.promql.source()
        elsewhere = given.label or given.per_domain or source
        annotation = given.annotation or ("" if elsewhere else HOURLY_PRICE)
        domains = tuple(given.per_domain.items())
        keys = () if source else tuple(args.topology_keys)
        self._rule = PriceRule(annotation, given.label, domains, keys, source)
        if source is not None:
            handle.services.price_sources.append(source)
        self._default, self._significant = given.default, args.significant
        self._prices = handle.nodes.ensure_column(NodePrices).follow(self._rule, handle.nodes)
        self._metrics = PluginMetrics(handle.instrument, self.name)
        self._version, self._epoch = -1, 0
        self._instead = 0.0
        self._woken_at: FloatArray = np.full(0, np.nan)
        self._faulty: list[str] = []
        self.transfer: Transfer | None = None
        if args.transfer is not None:
            self.transfer = Transfer(handle, args.topology_keys, args.transfer, self._metrics)
            self.score_depends = Depends.CLUSTER
            self._kept = ShapeCache[tuple[object, IntArray]](_SHAPES_KEPT, lambda _: None)
            handle.services.objective = self
        self.budgets: Budgets | None = None
        if args.budget is None:
            self.idle = frozenset({Point.PRE_FILTER, Point.FILTER})
        else:
            self.filter_depends = Depends.CLUSTER
            self.budgets = Budgets(handle, args.budget.annotation, self._price_at, self._priced_by)
            handle.services.object_faults.append(self._faults)
            handle.services.chores.append(self._measure)
        if self.transfer is not None or self.budgets is not None:
            handle.services.recounts[self.name] = self._recount

    @classmethod
    def kinds_for(cls, args: DomainCostArgs) -> tuple[Kind[Any], ...]:
        """Those of the objects with budgets, where budgets are read."""
        return KINDS if args.budget is not None else ()

    def _recount(self) -> Mapping[str, int]:
        wrong = {"Transfer": self.transfer, "Budgets": self.budgets}
        counts = {name: sums.recount() for name, sums in wrong.items() if sums is not None}
        return {name: count for name, count in counts.items() if count}

    # Budgets

    def _faults(self) -> Sequence[ObjectFault]:
        assert self.budgets is not None
        return self.budgets.faults

    def _measure(self) -> Sequence[Effect]:
        assert self.budgets is not None
        for name, value in self.budgets.figures().items():
            self._metrics.set(name, value)
        if self._rule.source is not None:
            self._wake(self.budgets)
        if woken := self.budgets.woken(self._handle.queued.waiting_pods):
            self._handle.activate(woken)
        return ()

    def _wake(self, budgets: Budgets) -> None:
        """Try Pods with a budget again where a source has said a first price, or a lower one."""
        before, now = self._woken_at, self._prices.values.copy()
        self._woken_at = now
        before = np.concatenate([before, np.full(len(now) - len(before), np.nan)])
        if (now < before).any() or (np.isnan(before) & ~np.isnan(now)).any():
            waiting = self._handle.queued.waiting_pods()
            self._handle.activate([pod for pod in waiting if budgets.scopes(pod)])

    def _priced_by(self) -> object:
        self._refresh()
        return self._prices.version, self._instead

    def _price_at(self, pod: Pod, row: int) -> float:
        """What ``pod`` costs on one row of the live table, without traffic."""
        price = self._prices.values.item(row)
        share = max(
            (
                amount / max(self.handle.nodes.allocatable(name).item(row), 1)
                for name, amount in pod_requests(pod).amounts.items()
                if amount > 0
            ),
            default=0.0,
        )
        return (self._instead if math.isnan(price) else price) * min(share, 1.0)

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status | None:
        """Skip a Pod without a budget; refuse one whose budget, or price, is not known."""
        budgets = self.budgets
        assert budgets is not None
        scopes = budgets.scopes(pod)
        if not scopes:
            return SKIP
        self._refresh()
        limits = {}
        for scope in scopes:
            limit = budgets.limit(scope)
            if limit is None:
                return Status.unresolvable(f"hourly budget of {scope} is not a number")
            limits[scope] = limit, budgets.spent(scope)
        if self._default is None and np.isnan(self._prices.values).all():
            return Status.unresolvable(f"hourly budget of {scopes[0]}: no price is known")
        nodes = self.handle.nodes
        costs = in_units(self._price(nodes) * self._share(pod, nodes))
        state.write(self.name, Left(budgets, limits, costs))
        return None

    def filter_nodes(self, state: CycleState, _pod: Pod, _nodes: NodeTable) -> IntArray:
        """0, or the number of the budget that would be exceeded."""
        return state.read(self.name, Left).codes()

    def reasons(self, state: CycleState, _pod: Pod, code: int) -> Status:
        """Which budget; a cheaper node may help."""
        return Status.unschedulable(state.read(self.name, Left).reason(code))

    def explain_filter(self, state: CycleState, _pod: Pod, rows: IntArray) -> list[str]:
        """What is spent of each budget, and what the Pod costs on each node."""
        left, names = state.read(self.name, Left), self.handle.nodes.names
        said = [
            f"hourly budget of {scope}: {shown(spent)} of {shown(limit)} is spent"
            for scope, (limit, spent) in left.limits.items()
        ]
        return said + [
            f"{shown(left.costs.item(row))} an hour on {names[row]}" for row in rows.tolist()
        ]

    def events_to_register(self) -> list[EventRegistration]:
        """Pods gone or of another tenant, other nodes and prices, other budgets."""
        if self.budgets is None:
            return []
        less = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_LABEL
        nodes = Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ANNOTATION
        nodes |= Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, less)),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            EventRegistration(ClusterEvent(NODE, nodes)),
            *(EventRegistration(ClusterEvent(kind, Action.ALL)) for kind in KINDS),
        ]

    # Prices

    def epoch(self, _pod: Pod) -> int:
        """Another number when nodes without a price cost something else."""
        self._refresh()
        return self._epoch

    def _refresh(self) -> None:
        if self._version != self._prices.version:
            self._version = self._prices.version
            self._look()

    def _look(self) -> None:
        """Find what nodes without a price cost; report wrong prices."""
        prices, nodes = self._prices, self.handle.nodes
        unknown = np.isnan(prices.values)
        highest = float(prices.values[~unknown].max(initial=0.0))
        instead = highest if self._default is None else self._default
        if instead != self._instead or self._rule.source is not None:
            # What a source says of a row is in no journal.
            self._instead = instead
            self._epoch += 1
        self._metrics.set("nodes_without_price", int((unknown & nodes.exists).sum()))
        self._metrics.set("nodes_with_invalid_price", len(prices.invalid))
        faulty = sorted(name for row in prices.invalid if (name := nodes.names[row]))
        if faulty and faulty != self._faulty:
            text = "Prices of nodes are not numbers of at least 0"
            where = self._rule.annotation or self._rule.label or str(self._rule.source)
            self.handle.logger.warning(text, read=where, count=len(faulty), nodes=faulty[:_NAMED])
        self._faulty = faulty

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """The cost, in units of a ten-millionth of what is significant."""
        if self.transfer is None:
            return self._scores(self._price(nodes) * self._share(pod, nodes))
        seen = self.epoch(pod), self._prices.version, self.handle.nodes.node_journal.position
        if nodes.origin is not None or self.transfer.concerns(pod):
            return self._scores(self.cost(pod, nodes))
        # No answer is kept for a plugin that looks at other Pods; most Pods talk to nobody.
        kept = self._kept.get(pod.shape)
        if kept is None or kept[0] != seen:
            kept = seen, self._scores(self._price(nodes) * self._share(pod, nodes))
            kept[1].setflags(write=False)  # so normalized scores are kept, too
            self._kept.put(pod.shape, kept)
        return kept[1]

    def _scores(self, cost: FloatArray) -> IntArray:
        units = np.minimum(cost / self._significant * _SIGNIFICANT, _MOST)
        return np.rint(units).astype(np.int64)

    def cost(self, pod: Pod, nodes: NodeTable) -> FloatArray:
        """(n,) what ``pod`` costs an hour on each row; traffic as if all rows were there."""
        cost: FloatArray = self._price(nodes) * self._share(pod, nodes)
        if self.transfer is None or not self.transfer.concerns(pod):
            return cost
        traffic = self.transfer.cost(pod)
        return cost + (traffic if nodes.origin is None else traffic[nodes.origin])

    def kind(self, pod: Pod) -> Hashable:
        """The same for Pods that cost as much."""
        talks = self.transfer is not None and self.transfer.concerns(pod)
        return (pod.shape.id, True) if talks else (pod.shape.requests.id, False)

    def costs(self, pod: Pod) -> FloatArray:
        """See `bayplan.framework.services.GroupObjective`."""
        self.epoch(pod)
        return self.cost(pod, self.handle.nodes)

    def _price(self, nodes: NodeTable) -> FloatArray:
        prices = nodes.column(NodePrices)[self._rule].values
        return np.where(np.isnan(prices), self._instead, prices)

    def _share(self, pod: Pod, nodes: NodeTable) -> FloatArray:
        share = np.zeros(len(nodes))
        for name, amount in pod_requests(pod).amounts.items():
            if amount > 0:
                np.maximum(share, amount / np.maximum(nodes.allocatable(name), 1), out=share)
        return np.minimum(share, 1.0)

    def explain_score(self, _state: CycleState, pod: Pod, rows: IntArray) -> list[str]:
        """What the Pod costs on each node, and how that comes."""
        nodes = self.handle.nodes
        price, share = self._price(nodes), self._share(pod, nodes)
        unknown = np.isnan(self._prices.values)
        total = self.cost(pod, nodes)
        traffic = total - price * share
        return [
            f"cost on {nodes.names[row]}: {total[row]:.4f} an hour, "
            f"{share[row]:.1%} of {price[row]:g}{self._remark(unknown.item(row))}"
            + (f", {traffic[row]:.4f} for traffic" if traffic.any() else "")
            for row in rows.tolist()
        ]

    def _remark(self, unknown: bool) -> str:
        if not unknown:
            return ""
        known = "the highest price" if self._default is None else "the default"
        return f" (its price is not known, {known} counts)"

"""DomainCost: prefer the nodes where a Pod costs least.

A Pod costs its share of the node's price, where the share is the greatest of what it requests of a
resource by what the node has allocatable, and its traffic with other Pods (`transfer`). With the
least and the most that it costs on a feasible node, the score is::

    100 (1 - (cost - least) / max(most - least, significant)), rounded down

so the cheapest node has 100 always, and differences that are not significant do not count much. A
node whose price is not known counts as the most expensive one that is: it does not win by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray, NodePrices, PriceRule
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.cache.shape_cache import ShapeCache
from bayplan.config.args import DomainCostArgs
from bayplan.framework.cycle_state import CycleState
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
from bayplan.framework.points import ExplainsScore, ScoreNodes
from bayplan.plugins.domain_cost.transfer import Transfer

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


class DomainCost(Plugin, ScoreNodes, ExplainsScore):
    """See the module's docstring."""

    Args = DomainCostArgs
    score_depends = Depends.NODE
    reads = PodPart.REQUESTS
    normalizer = Cheapest()

    def __init__(self, args: DomainCostArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        given = args.price
        elsewhere = given.label or given.per_domain
        annotation = given.annotation or ("" if elsewhere else HOURLY_PRICE)
        domains = tuple(given.per_domain.items())
        self._rule = PriceRule(annotation, given.label, domains, tuple(args.topology_keys))
        self._default, self._significant = given.default, args.significant
        self._prices = handle.nodes.ensure_column(NodePrices).follow(self._rule, handle.nodes)
        self._metrics = PluginMetrics(handle.instrument, self.name)
        self._version, self._epoch = -1, 0
        self._instead = 0.0
        self._faulty: list[str] = []
        self.transfer: Transfer | None = None
        if args.transfer is not None:
            self.transfer = Transfer(handle, args.topology_keys, args.transfer, self._metrics)
            self.score_depends = Depends.CLUSTER
            self._kept = ShapeCache[tuple[object, IntArray]](_SHAPES_KEPT, lambda _: None)
            handle.services.objective = self
            handle.services.recounts[self.name] = self._recount

    def _recount(self) -> Mapping[str, int]:
        wrong = 0 if self.transfer is None else self.transfer.recount()
        return {"Transfer": wrong} if wrong else {}

    def epoch(self, _pod: Pod) -> int:
        """Another number when nodes without a price cost something else."""
        if self._version != self._prices.version:
            self._version = self._prices.version
            self._look()
        return self._epoch

    def _look(self) -> None:
        """Find what nodes without a price cost; report wrong prices."""
        prices, nodes = self._prices, self.handle.nodes
        unknown = np.isnan(prices.values)
        highest = float(prices.values[~unknown].max(initial=0.0))
        instead = highest if self._default is None else self._default
        if instead != self._instead:
            self._instead = instead
            self._epoch += 1
        self._metrics.set("nodes_without_price", int((unknown & nodes.exists).sum()))
        self._metrics.set("nodes_with_invalid_price", len(prices.invalid))
        faulty = sorted(name for row in prices.invalid if (name := nodes.names[row]))
        if faulty and faulty != self._faulty:
            text = "Prices of nodes are not numbers of at least 0"
            where = self._rule.annotation or self._rule.label
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

"""NetworkOverhead: a Pod goes near the Pods of its dependencies.

AppGroups say which workload depends on which, and what the network between two Pods of these may
cost at most; a NetworkTopology says what it costs between zones and regions (`costs`). Each Pod on
a node that the Pod depends on is one dependency, satisfied or violated by a node, or neither:

- Filter rejects nodes that violate more dependencies than they satisfy.
- Score prefers nodes with the least sum of costs.

Names, arguments and scores are those of scheduler-plugins. Pods of all namespaces count, with the
label of the AppGroup. They are counted by row and summed by site, so their number does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayplan.api.kinds import APP_GROUP, NETWORK_TOPOLOGY, NODE, Kind
from bayplan.api.meta import Object, ObjectFault
from bayplan.api.network import AppGroup, NetworkTopology
from bayplan.api.pod import Pod, PodShape
from bayplan.cache.counters import DomainSpec, PodSelection, SelectionCounter
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.shape_cache import SHAPES_KEPT, ShapeCache
from bayplan.config.args import NetworkOverheadArgs
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Integers, Normalizer, Plugin
from bayplan.framework.points import (
    EnqueueExtensions,
    ExplainsFilter,
    ExplainsScore,
    FilterNodes,
    PreFilter,
    ScoreNodes,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.network_overhead.costs import (
    NOTHING_SAID,
    REGION,
    ZONE,
    Costs,
    Distances,
    costs_of,
    faults_of,
)
from bayplan.plugins.shared.app_groups import GROUP, WORKLOAD, first_of
from bayplan.plugins.shared.moved_pods import CountsMoves, MovableCounts
from bayplan.plugins.shared.sites import Sites

_VIOLATED = 1
_NAMED = 100
"""So many objects that are missing are named in the log."""
_REASON = Status.unschedulable(
    "Node does not meet several network requirements from Workload dependencies"
)


@dataclass(frozen=True)
class Nearest(Normalizer):
    """The lowest cost becomes 100, the highest 0; no cost anywhere stays 0. Integer arithmetic."""

    def measure(self, scores: Integers, feasible: BoolArray) -> tuple[int, int]:
        """The lowest and the highest."""
        there = scores[feasible]
        return (int(there.min()), int(there.max())) if len(there) else (0, 0)

    def __call__(self, scores: Integers, measure: Any) -> IntArray:
        """See `Normalizer`."""
        low, high = measure
        if not high:
            return np.zeros(scores.shape, np.int64)
        above = np.clip(scores, low, high).astype(np.int64) - low
        scaled: IntArray = MAX_NODE_SCORE - above * MAX_NODE_SCORE // max(high - low, 1)
        return scaled


@dataclass(frozen=True)
class _Needs:
    """What the Pods of a shape depend on, while their AppGroup is this one.

    Attributes:
        by_selector: the highest cost of each dependency, and the Pods on nodes, by selector.
    """

    group: AppGroup
    by_selector: Sequence[tuple[str, int, SelectionCounter]]


@dataclass(frozen=True)
class _State(MovableCounts):
    """Of one Pod in one cycle; ``rows`` are those of a what-if table, None for the live table.

    Attributes:
        satisfied: how many dependencies each row satisfies.
        violated: how many it violates.
        costs: the sum of costs, ``(n,)`` of the live table.
    """

    needs: _Needs
    distances: Distances
    codes: IntArray
    satisfied: IntArray
    violated: IntArray
    costs: IntArray
    rows: IntArray | None = None

    def what_if(self, rows: IntArray) -> _State:
        """The same for a table of only ``rows``."""
        all_rows = rows if self.rows is None else self.rows[rows]
        satisfied, violated = self.satisfied[rows], self.violated[rows]
        return replace(self, satisfied=satisfied, violated=violated, rows=all_rows)

    def count(self, other: Pod, row: int, pods: int, elsewhere: int | None = None) -> None:
        """See `MovableCounts`."""
        if other.shape.labels.get(GROUP) != self.needs.group.name:
            return
        assert self.rows is not None
        own, workload = self.rows.item(row), other.shape.labels.get(WORKLOAD, "")
        for selector, most, _ in self.needs.by_selector:
            if selector != workload:
                continue
            if elsewhere is None or elsewhere == own:
                self.satisfied[row] += pods
                continue
            pair = self.codes[own], self.codes[elsewhere]
            self.satisfied[row] += pods * self.distances.satisfied(most)[pair]
            self.violated[row] += pods * self.distances.violated(most)[pair]


class NetworkOverhead(
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

    Args = NetworkOverheadArgs
    args: NetworkOverheadArgs
    kinds = (APP_GROUP, NETWORK_TOPOLOGY)
    normalizer = Nearest()

    def __init__(self, args: NetworkOverheadArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._sites = Sites(handle.nodes, (REGION, ZONE))
        self._topology: NetworkTopology | None = None
        self._costs: Costs = NOTHING_SAID
        self._distances: Distances | None = None
        self._needs = ShapeCache[_Needs](SHAPES_KEPT, self._forget)
        self._metrics = PluginMetrics(handle.instrument, self.name)
        self._missing: set[tuple[str, str]] = set()
        self._faults: dict[tuple[str, str], list[ObjectFault]] = {}
        self._all_faults: Sequence[ObjectFault] = ()
        handle.objects.on_change(NETWORK_TOPOLOGY, self._topology_changed)
        handle.objects.on_change(APP_GROUP, self._group_changed)
        handle.services.object_faults.append(lambda: self._all_faults)

    # Objects

    def _topology_changed(self, old: NetworkTopology | None, new: NetworkTopology | None) -> None:
        name, changed = self.args.network_topology_name, new or old
        if changed is None or changed.name != name:
            return
        used = first_of(self.handle.objects, NETWORK_TOPOLOGY, self.args.namespaces, name)
        costs = NOTHING_SAID if used is None else costs_of(used, self.args.weights_name)
        if costs[:2] != self._costs[:2]:
            self._distances = None
        self._topology, self._costs = used, costs
        self._set_faults(NETWORK_TOPOLOGY, name, used or changed, costs.faults)

    def _group_changed(self, old: AppGroup | None, new: AppGroup | None) -> None:
        changed = new or old
        if changed is not None and changed.metadata.namespace in self.args.namespaces:
            texts = list(faults_of(new)) if new is not None else ()
            self._set_faults(APP_GROUP, changed.key, changed, texts)

    def _set_faults(self, kind: Kind[Any], key: str, obj: Object, texts: Sequence[str]) -> None:
        if not texts and (kind.name, key) not in self._faults:
            return
        where = kind.reference(obj)
        faults = [ObjectFault(where, f"Invalid{kind.name}", text) for text in texts]
        self._faults[kind.name, key] = faults
        self._all_faults = [fault for each in self._faults.values() for fault in each]
        self._metrics.set("faults", len(self._all_faults))

    def _group_of(self, shape: PodShape) -> AppGroup | None:
        name = shape.labels.get(GROUP)
        if not name:
            return None
        group = first_of(self.handle.objects, APP_GROUP, self.args.namespaces, name)
        if group is None:
            self._miss(APP_GROUP, name)
        elif self._topology is None:
            self._miss(NETWORK_TOPOLOGY, self.args.network_topology_name)
        return group

    def _miss(self, kind: Kind[Any], name: str) -> None:
        """What the object would say does not count."""
        self._metrics.count("missing_objects")
        if (kind.name, name) not in self._missing and len(self._missing) < _NAMED:
            self._missing.add((kind.name, name))
            where = list(self.args.namespaces)
            text = "Pods need an object that is not there"
            self.handle.logger.warning(text, kind=kind.name, object=name, namespaces=where)

    # Dependencies

    def _forget(self, needs: _Needs) -> None:
        for _, _, counter in needs.by_selector:
            self.handle.counters.release(counter)

    def _needs_of(self, shape: PodShape) -> _Needs | None:
        group = self._group_of(shape)
        if group is None:
            return None
        needs = self._needs.get(shape)
        if needs is None or needs.group is not group:
            workload = shape.labels.get(WORKLOAD, "")
            needs = _Needs(
                group,
                [
                    (selector, dependency.max_network_cost, self._counter(group.name, selector))
                    for each in group.spec.workloads
                    if each.workload.selector == workload
                    for dependency in each.dependencies
                    for selector in (dependency.workload.selector,)
                ],
            )
            self._needs.put(shape, needs)
        return needs

    def _counter(self, group: str, workload: str) -> SelectionCounter:
        selection = PodSelection(
            id=("app-group", group, workload),
            namespaces=None,
            selects=lambda shape, _: (
                shape.labels.get(GROUP) == group and shape.labels.get(WORKLOAD, "") == workload
            ),
        )
        return self.handle.counters.acquire(selection, DomainSpec(None))

    def _between(self) -> Distances:
        if self._sites.refresh() or self._distances is None:
            self._distances = Distances.between(self._sites.names, self._costs)
        return self._distances

    def _state(self, pod: Pod) -> _State | None:
        """What nodes have for ``pod``; None where all have the same."""
        needs = self._needs_of(pod.shape)
        if needs is None or not any(counter.total for _, _, counter in needs.by_selector):
            return None
        distances = self._between()
        codes, sites = self._sites.codes, len(self._sites.names)
        by_most = defaultdict[int, IntArray](lambda: np.zeros(len(codes), np.int64))
        for _, most, counter in needs.by_selector:
            by_most[most] += counter.by_domain()[: len(codes)]

        def from_others(between: IntArray | BoolArray, on_row: IntArray) -> IntArray:
            """By row, the sum of ``between`` over the Pods of all other rows."""
            on_site = np.bincount(codes, on_row, sites).astype(np.int64)
            sums: IntArray = (between @ on_site)[codes] - between.diagonal()[codes] * on_row
            return sums

        satisfied, violated, total = np.zeros((3, len(codes)), np.int64)
        for most, on_row in by_most.items():
            total += on_row
            satisfied += from_others(distances.satisfied(most), on_row)
            violated += from_others(distances.violated(most), on_row)
        # Those of the row itself are satisfied, and cost nothing.
        satisfied += total
        costs = from_others(distances.costs, total)
        return _State(needs, distances, codes, satisfied, violated, costs)

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status | None:
        """Skip a Pod that depends on no Pod on a node."""
        made = self._state(pod)
        if made is None:
            return SKIP
        state.write(self.name, made)
        return None

    def filter_nodes(self, state: CycleState, _pod: Pod, _nodes: NodeTable) -> Integers:
        """1 where more dependencies are violated than satisfied."""
        made = state.read(self.name, _State)
        return (made.violated > made.satisfied) * np.int8(_VIOLATED)

    def reasons(self, _state: CycleState, _pod: Pod, _code: int) -> Status:
        """In the words of scheduler-plugins, without the node and its figures."""
        return _REASON

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray | None:
        """The sum of costs; None where the Pod depends on no Pod on a node."""
        made = state.get(self.name, _State) or self._state(pod)
        if made is None:
            return None
        return made.costs if nodes.origin is None else made.costs[nodes.origin]

    def explain_filter(self, state: CycleState, _pod: Pod, rows: IntArray) -> list[str]:
        """The figures of each node."""
        return list(self._figures(state.read(self.name, _State), rows))

    def explain_score(self, state: CycleState, pod: Pod, rows: IntArray) -> list[str]:
        """The figures of each node."""
        made = state.get(self.name, _State) or self._state(pod)
        return [] if made is None else list(self._figures(made, rows))

    def _figures(self, made: _State, rows: IntArray) -> Iterator[str]:
        for row in rows.tolist():
            yield (
                f"network cost on {self.handle.nodes.names[row]}: {made.costs[row]}, dependencies "
                f"satisfied: {made.satisfied[row]}, violated: {made.violated[row]}"
            )

    # Events

    def events_to_register(self) -> list[EventRegistration]:
        """Pods of the AppGroup come, gone or relabelled, other nodes, the objects."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, pods), self._peer_changed),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            EventRegistration(ClusterEvent(NODE, nodes)),
            EventRegistration(ClusterEvent(APP_GROUP, Action.ALL), self._named),
            EventRegistration(ClusterEvent(NETWORK_TOPOLOGY, Action.ALL)),
        ]

    def _peer_changed(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        group = pod.shape.labels.get(GROUP)
        peers = [other for other in (old, new) if other is not None]
        is_peer = any(other.shape.labels.get(GROUP) == group for other in peers)
        return Hint.QUEUE if is_peer else Hint.SKIP

    def _named(self, pod: Pod, old: AppGroup | None, new: AppGroup | None) -> Hint:
        changed = new or old
        is_its = changed is not None and changed.name == pod.shape.labels.get(GROUP)
        return Hint.QUEUE if is_its else Hint.SKIP

"""NodeResourceTopologyMatch: a Pod goes to a node with a NUMA zone for the Pod.

A kubelet with the topology manager's policy ``single-numa-node`` refuses a Pod for which no zone
has all that one of the Pod's containers asks for; the Pod then has failed. Exporters write
what zones have left as NodeResourceTopology objects. Names, arguments, messages and scores are
those of scheduler-plugins.

- Filter rejects nodes with that policy that would refuse the Pod (`aligning`).
- Score prefers nodes by what is left in zones, or by how many zones it takes (`scores`).
- Which object is believed, and what is reserved in zones meanwhile, is the matter of `topologies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from bayplan.api.node import Node
from bayplan.api.numa import NodeResourceTopology
from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, NodeInfo, NodeTable
from bayplan.config.args import NodeResourceTopologyMatchArgs
from bayplan.config.points import Point
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    UNBOUNDED,
    Depends,
    Integers,
    Plugin,
    PodPart,
)
from bayplan.framework.points import (
    BoundsCopies,
    EnqueueExtensions,
    ExplainsFilter,
    ExplainsScore,
    FilterNodes,
    FilterOne,
    PostBind,
    Reserve,
    ScoreNodes,
    ScoreOne,
    Unreserve,
)
from bayplan.framework.status import Status
from bayplan.plugins.node_resource_topology_match.aligning import (
    FITS,
    MESSAGES,
    STALE,
    Aligned,
    Free,
    align,
)
from bayplan.plugins.node_resource_topology_match.asking import Amounts, Asking, asking
from bayplan.plugins.node_resource_topology_match.scores import LEAST_ZONES, scores_of, zone_sets
from bayplan.plugins.node_resource_topology_match.tables import NO_ZONE, State, ZoneTable
from bayplan.plugins.node_resource_topology_match.topologies import Profiles, Settings

MOST_KEPT = 4096
"""States of a row, for Pods with equal requests, whose answers are kept."""
_Ask = Callable[[Asking, NodeTable], Integers]
_Kept = tuple[int, State]


class NodeResourceTopologyMatch(
    Plugin,
    FilterNodes,
    FilterOne,
    BoundsCopies,
    ExplainsFilter,
    ScoreNodes,
    ScoreOne,
    ExplainsScore,
    Reserve,
    Unreserve,
    PostBind,
    EnqueueExtensions,
):
    """See the module's docstring."""

    Args = NodeResourceTopologyMatchArgs
    args: NodeResourceTopologyMatchArgs
    kinds = (NODE_RESOURCE_TOPOLOGY,)
    reads = PodPart.REQUESTS
    filter_depends: Depends = Depends.NODE | Depends.PODS
    score_depends: Depends = Depends.NODE | Depends.PODS

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        self._profiles = handle.objects.shared(Profiles)
        self._profiles.names[handle.profile] += 1
        settings = Settings.of(args)
        if not settings.over_reserves:  # so Pods that come and go change nothing
            self.filter_depends = self.score_depends = Depends.NODE
        self._topologies = self._profiles.topologies(settings, handle.nodes, handle.objects)
        self._topologies.forget_rows()
        self._strategy = args.scoring_strategy
        self._metrics = PluginMetrics(handle.instrument, self.name)
        self._next_look = handle.monotonic()
        if not args.discard_reserved_nodes:
            self.idle = frozenset({Point.RESERVE, Point.POST_BIND})
        self._binding: dict[str, set[str]] = {}
        """Pods between Reserve and PostBind by node, where their nodes are left out."""
        self._epoch = 0
        self._codes: dict[_Kept, int] = {}
        self._scores: dict[_Kept, int] = {}
        handle.services.object_faults.append(lambda: self._topologies.faults)
        handle.services.chores.append(self._look)

    def close(self) -> None:
        """Pods of the profile are those of another scheduler from now on."""
        self._profiles.names.subtract((self.handle.profile,))
        self._profiles.names += type(self._profiles.names)()
        self._topologies.forget_rows()

    # Filter

    def filter_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """What cannot be aligned on each node; see `aligning.MESSAGES`."""
        return self._filter(pod.shape.requests.memo(asking), nodes)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Likewise."""
        code = self._of_one(self._filter, self._codes, pod, node)
        return self.reasons(state, pod, code) if code else None

    def _of_one(self, ask: _Ask, kept: dict[_Kept, int], pod: Pod, node: NodeInfo) -> int:
        """The answer for one node; the kept one of an equal node: nodes fill up alike."""
        asks = pod.shape.requests.memo(asking)
        state = None
        if asks.is_plain and not self.args.discard_reserved_nodes:
            state = self._topologies.state(node)
        key = (pod.shape.requests.id, state[0]) if state is not None else None
        answer = kept.get(key) if key is not None else None
        if answer is None:
            answer = int(ask(asks, node.table.take(np.array([node.row])))[0])
        if key is not None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[key] = answer
        return answer

    def _filter(self, asks: Asking, nodes: NodeTable) -> Integers:
        codes = np.zeros(len(nodes), np.int8)
        if asks.matters:
            table = self._table(nodes)
            codes[table.stale] = STALE
            rows = np.flatnonzero(table.single & ~table.stale)
            if len(rows):
                codes[rows] = align(asks, table, rows, nodes).codes
        return codes

    def reasons(self, _state: CycleState, _pod: Pod, code: int) -> Status:
        """In the words of scheduler-plugins; preemption may help."""
        return Status.unschedulable(MESSAGES[code])

    def copies(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> dict[str, IntArray] | None:
        """How often the best zone has what a Pod of one container asks for.

        Each Pod is reserved for in all zones, so one zone bounds them; not without the cache.
        """
        asks = pod.shape.requests.memo(asking)
        if not (self.args.over_reserves and asks.guaranteed and asks.every == (asks.pod,)):
            return None
        table = self._table(nodes)
        rows = np.flatnonzero(table.single & ~table.stale)
        bounds = np.full(len(nodes), UNBOUNDED, np.int64)
        bounds[table.stale] = 0
        free = Free(table, rows, nodes)
        for name, amount in asks.pod.items():
            if amount and name in table.resources:
                most = free[name].max(axis=1) // amount
                bounds[rows] = np.where(most >= 0, np.minimum(bounds[rows], most), bounds[rows])
        return {"NUMA zones": bounds}

    def epoch(self, _pod: Pod) -> int:
        """Another number after each binding, where nodes with reserved Pods are left out."""
        return self._epoch

    def _table(self, nodes: NodeTable) -> ZoneTable:
        table = self._topologies.table(nodes)
        if self.args.discard_reserved_nodes:
            table = table.take(np.arange(len(nodes)))
            names = enumerate(nodes.names)
            table.stale |= np.array([bool(self._binding.get(n or "")) for _, n in names], np.bool_)
        return table

    # Score

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """0 to 100 by the strategy; 100 for Pods that are not Guaranteed."""
        return self._score(pod.shape.requests.memo(asking), nodes)

    def score(self, _state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Likewise."""
        if not pod.shape.requests.memo(asking).guaranteed:
            return MAX_NODE_SCORE
        return self._of_one(self._score, self._scores, pod, node)

    def _score(self, asks: Asking, nodes: NodeTable) -> Integers:
        if not asks.guaranteed:
            return np.full(len(nodes), MAX_NODE_SCORE, np.int8)
        scores = np.zeros(len(nodes), np.int64)
        table = self._table(nodes)
        rows = np.flatnonzero(self._scored(table))
        if len(rows):
            scores[rows] = scores_of(self._strategy, asks, table, rows, nodes)
        return scores

    def _scored(self, table: ZoneTable) -> BoolArray:
        by_number = self._strategy.type == LEAST_ZONES
        return (table.known if by_number else table.single) & ~table.stale

    # Explanations

    def explain_filter(self, _state: CycleState, pod: Pod, rows: IntArray) -> Sequence[str]:
        """What the zones of each node lack."""
        asks = pod.shape.requests.memo(asking)
        nodes = self.handle.nodes
        table = self._table(nodes)
        return [
            f"{nodes.names[row]}: {sentence}"
            for row in rows.tolist()
            for sentence in self._against(asks, pod, table, row)
        ]

    def _against(self, asks: Asking, pod: Pod, table: ZoneTable, row: int) -> Iterator[str]:
        nodes = self.handle.nodes
        if table.stale[row]:
            yield "its NodeResourceTopology does not show all Pods there"
            return
        at = np.array([row])
        aligned = align(asks, table, at, nodes)
        if aligned.codes[0] == FITS:
            return
        failed = int(aligned.failed[0])
        if failed < 0:
            what, amounts = "the Pod", asks.pod
        else:
            name = (*pod.spec.init_containers, *pod.spec.containers)[failed].name
            what, amounts = f"container {name}", asks.every[failed]
        free = self._free_before(asks, aligned, table, at)
        yield f"no zone has {_shown(amounts)} for {what}: {self._zones(table, row, free, amounts)}"
        reserved = self._topologies.row(nodes.names[row], nodes.pods[row]).taken
        if any(reserved.get(name) for name in amounts):
            own = {name: reserved[name] for name in amounts if reserved.get(name)}
            why = "for Pods that the object does not show"
            yield f"{_shown(own)} more is reserved in each zone, {why}"

    def _free_before(self, asks: Asking, aligned: Aligned, table: ZoneTable, at: IntArray) -> Free:
        """What the container that fails finds there."""
        free = Free(table, at, self.handle.nodes)
        everywhere = np.ones(1, np.bool_)
        for index in range(len(asks.init), int(aligned.failed[0])):
            zones = aligned.chosen[index]
            free.take(asks.every[index], zones, everywhere, guaranteed=asks.guaranteed)
        return free

    @staticmethod
    def _zones(table: ZoneTable, row: int, free: Free, amounts: Amounts) -> str:
        zones = []
        for index, id_ in enumerate(table.ids[row].tolist()):
            has = {n: int(free[n][0, index]) for n in amounts if free[n][0, index] >= 0}
            if id_ != NO_ZONE:
                zones.append(f"node-{id_} has {_shown(has) or 'none of it'}")
        return "; ".join(zones) or "there is no zone"

    def explain_score(self, _state: CycleState, pod: Pod, rows: IntArray) -> Sequence[str]:
        """The zones of the Pod on each node, as far as anybody can say."""
        asks = pod.shape.requests.memo(asking)
        nodes = self.handle.nodes
        table = self._table(nodes)
        scored = self._scored(table)
        sentences = []
        for row in rows.tolist():
            if not table.known[row]:
                text = "there is no NodeResourceTopology"
            elif not asks.guaranteed:
                text = "the Pod is not Guaranteed, so zones do not count"
            elif not scored[row]:
                text = f"zones do not count there, the policy is not {'single-numa-node'}"
            elif self._strategy.type == LEAST_ZONES and not table.single[row]:
                text = self._needed(asks, table, row)
            else:
                text = self._taken(asks, pod, table, row)
            sentences.append(f"{nodes.names[row]}: {text}")
        return sentences

    def _taken(self, asks: Asking, pod: Pod, table: ZoneTable, row: int) -> str:
        at, nodes = np.array([row]), self.handle.nodes
        aligned = align(asks, table, at, nodes)
        if table.pod_scope[row]:
            names = ["the Pod"]
        else:
            names = [c.name for c in (*pod.spec.init_containers, *pod.spec.containers)]
        zones = [int(table.ids[row, chosen[0]]) for chosen in aligned.chosen]
        places = [f"{n} in node-{z}" for n, z in zip(names, zones, strict=True) if z != NO_ZONE]
        free = self._zones(table, row, Free(table, at, nodes), asks.pod)
        return f"{', '.join(places)}, if the kubelet takes the lowest zone; {free}"

    def _needed(self, asks: Asking, table: ZoneTable, row: int) -> str:
        free = Free(table, np.array([row]), self.handle.nodes)
        sets = [zone_sets(a, free, table)[0][0] for a in (asks.pod,)]
        ids = [int(table.ids[row, i]) for i in sets[0].tolist() if i != NO_ZONE]
        if not ids:
            return f"all zones together lack {_shown(asks.pod)}"
        return f"the Pod needs {len(ids)} zones: {', '.join(f'node-{i}' for i in ids)}"

    # Pods between Reserve and PostBind, where nodes with such Pods are left out: else the table
    # of nodes has them already, and the plugin is idle here.

    def reserve(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        """Leave the node out."""
        self._binding.setdefault(node_name, set()).add(pod.uid)
        self._epoch += 1

    def unreserve(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        """The Pod does not come."""
        self.post_bind(_state, pod, node_name)

    def post_bind(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        """The Pod is bound; on a binding worker."""
        self._binding.get(node_name, set()).discard(pod.uid)
        self._epoch += 1

    # Events

    def events_to_register(self) -> list[EventRegistration]:
        """Events: Pods gone, nodes with more, and objects, if the Pod has a zone there then."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        changed = Action.ADD | Action.UPDATE
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._gone),
            EventRegistration(node, self._node_changed),
            EventRegistration(
                ClusterEvent(NODE_RESOURCE_TOPOLOGY, changed | Action.DELETE), self._object_changed
            ),
        ]

    def _gone(self, pod: Pod, old: Pod, _new: Pod | None) -> Hint:
        return self._hint(pod, old.node_name)

    def _node_changed(self, pod: Pod, _old: Node | None, new: Node) -> Hint:
        return self._hint(pod, new.name)

    def _object_changed(
        self, pod: Pod, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> Hint:
        obj = new or old
        return self._hint(pod, obj.name if obj is not None else "")

    def _hint(self, pod: Pod, node: str) -> Hint:
        row = self.handle.nodes.row(node)
        return Hint.QUEUE if row is not None and self._fits(pod, row) else Hint.SKIP

    def _fits(self, pod: Pod, row: int) -> bool:
        return self.filter(CycleState(), pod, self.handle.nodes.info(row)) is None

    def _look(self) -> Sequence[Effect]:
        """Believe objects whose Pods run by now, and wake Pods that fit on their nodes."""
        if self.handle.monotonic() < self._next_look:
            return ()
        self._next_look = self.handle.monotonic() + self.args.cache_resync_period_seconds
        rows = self._topologies.look() if self.args.over_reserves else []
        if rows:
            waiting = list(self._handle.queued.waiting_pods())
            self.handle.activate([p for p in waiting if any(self._fits(p, row) for row in rows)])
        self._metrics.set("stale_nodes", self._topologies.stale_nodes())
        self._metrics.set("faults", len(self._topologies.faults))
        return ()


def _shown(amounts: Amounts) -> str:
    parts = (f"{name} {quantity.shown(name, amount)}" for name, amount in amounts.items() if amount)
    return ", ".join(parts)

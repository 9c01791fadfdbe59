"""BlastRadius: enough Pods of a workload survive the loss of failure domains.

Pods, their group or their owner say the rule in an annotation (`rules`). With R Pods intended, of
which ``need`` must survive the loss of any ``lose`` domains, these domains together may hold
``most = R - need`` Pods::

    R = 6, keep 60 % = 4, lose 1: at most 2 Pods a zone
    zones a: 2, b: 1, c: 0    the next Pod goes to b or c

A Pod fits in a domain if that holds for the domain with it and the ``lose - 1`` fullest others.
Evicting Pods cannot break this, as they only become fewer; but fewer survive. So who is needed is
never evicted for others (`survivors`). Room for the loss of a domain: `failover`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.pod import Pod, PodShape
from bayplan.cache.counters import DomainSpec, PodSelection, SelectionCounter
from bayplan.cache.node_table import ABSENT, BoolArray, IntArray, NodeTable
from bayplan.cache.shape_cache import SHAPES_KEPT, ShapeCache
from bayplan.config.args import BlastRadiusArgs
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Integers, Plugin
from bayplan.framework.points import (
    CarriesOut,
    EnqueueExtensions,
    ExplainsFilter,
    FilterNodes,
    PreFilter,
    PreScore,
    ScoreNodes,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.blast_radius.conditions import Say
from bayplan.plugins.blast_radius.failover import Failover
from bayplan.plugins.blast_radius.rules import OWNERS, SURVIVE, Rule, Rules, Workload
from bayplan.plugins.blast_radius.survivors import Survivors
from bayplan.plugins.shared.moved_pods import CountsMoves, MovableCounts

_FULL, _NO_LABEL = 1, 2
_REASONS = {
    _FULL: Status.unschedulable("node(s) in a failure domain with as many Pods as may be lost"),
    _NO_LABEL: Status.unresolvable("node(s) without the label of the failure domain"),
}


@dataclass(frozen=True)
class _Counted:
    """The Pods of a workload by the domains of its rule."""

    rule: Rule
    counter: SelectionCounter

    def with_one_more(self) -> IntArray:
        """(d + 1,) by domain, how many Pods are lost at worst if one more Pod is there."""
        counts = self.counter.by_domain().astype(np.int64)
        others = self.rule.lose - 1
        if not others:
            return counts + 1
        ordered = np.sort(counts[:-1])[::-1]
        ordered = np.concatenate([ordered, np.zeros(others + 1, np.int64)])
        fullest = int(ordered[:others].sum())
        # Where a domain is one of the fullest, the next one takes its place among the others.
        is_one = counts >= ordered[others - 1]
        lost: IntArray = np.where(is_one, fullest + ordered[others], fullest + counts) + 1
        return lost

    def impossible(self) -> str:
        """Why not all Pods can ever be placed; "" if they can, or if some are placed already."""
        rule, domains = self.rule, self.counter.domains.count
        there = rule.most + max(0, domains - rule.lose) * (rule.most // rule.lose)
        if self.counter.total or there >= rule.size:
            return ""
        return (
            f"{rule.size} Pods in {domains} domains of {rule.domain}, {rule.need} must survive "
            f"the loss of {rule.lose}: {rule.size - there} can never be placed"
        )


@dataclass(frozen=True)
class _State(MovableCounts):
    """Of one Pod in one cycle; ``delta`` corrects counts by row of a what-if table."""

    counted: _Counted
    workload: Workload
    shape: PodShape
    workload_of: Callable[[PodShape], Workload]
    rows: IntArray | None = None
    delta: IntArray | None = None

    def what_if(self, rows: IntArray) -> _State:
        """The same for a table of only ``rows``."""
        if self.rows is None or self.delta is None:
            return replace(self, rows=rows, delta=np.zeros(len(rows), np.int64))
        return replace(self, rows=self.rows[rows], delta=self.delta[rows])

    def count(self, other: Pod, row: int, pods: int, elsewhere: int | None = None) -> None:
        """See `MovableCounts`; what changes in another domain than the row's does not count."""
        same = other.namespace == self.shape.namespace
        if not same or other.deleted or self.workload_of(other.shape) != self.workload:
            return
        assert self.rows is not None
        assert self.delta is not None
        codes = self.counted.counter.domains.codes
        if elsewhere is None or codes[elsewhere] == codes[self.rows[row]]:
            self.delta[row] += pods

    def lost(self, nodes: NodeTable) -> tuple[IntArray, BoolArray]:
        """(n,) how many are lost at worst with the Pod on each node; which nodes have no domain."""
        codes = nodes.label(self.counted.rule.domain).codes
        lost = self.counted.with_one_more().take(codes)
        return lost if self.delta is None else lost + self.delta, codes == ABSENT


class BlastRadius(
    Plugin,
    PreFilter,
    FilterNodes,
    PreScore,
    ScoreNodes,
    CountsMoves,
    ExplainsFilter,
    EnqueueExtensions,
    CarriesOut,
):
    """See the module's docstring."""

    Args = BlastRadiusArgs
    kinds = OWNERS

    def __init__(self, args: BlastRadiusArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._counters = handle.counters
        self._rules = Rules(handle.objects, handle.groups, handle.kubernetes_groups)
        self._counted = ShapeCache[_Counted](SHAPES_KEPT, self._forget)
        self.survivors = Survivors(handle, self._rules, self.name)
        self._failover = Failover(handle, args.failover) if args.failover.domain else None
        handle.services.never_evicted.append(self.survivors)
        handle.services.chores.append(self.survivors.look)
        handle.services.node_shares["missing survivors"] = self.survivors.shares
        handle.services.survivors.append(lambda: self.survivors.survivals)
        handle.services.object_faults.append(lambda: self.survivors.faults)
        handle.services.recounts[self.name] = self._recount

    def _recount(self) -> Mapping[str, int]:
        sums = 0 if self._failover is None else self._failover.recount()
        wrong = {"Survivors": self.survivors.recount(), "Failover": sums}
        return {name: count for name, count in wrong.items() if count}

    def _forget(self, counted: _Counted) -> None:
        self._counters.release(counted.counter)

    def _state(self, pod: Pod, *, hard: bool) -> _State | Status:
        rule, shape = self._rules.of(pod), pod.shape
        if rule is None:
            return SKIP
        if isinstance(rule, str):
            return Status.unresolvable(rule)
        workload = self._rules.workload(shape)
        if not workload:
            return Status.unresolvable(f"annotation {SURVIVE}: the Pod has no labels to go by")
        if rule.hard is not hard:
            return SKIP
        counted = self._counted.get(shape)
        if counted is None or counted.rule != rule:
            selection = PodSelection(
                id=("survive", pod.namespace, workload),
                namespaces=frozenset({pod.namespace}),
                selects=lambda other, _: self._rules.workload(other) == workload,
                terminating=False,
            )
            counter = self._counters.acquire(selection, DomainSpec(rule.domain))
            counted = _Counted(rule, counter)
            self._counted.put(shape, counted)
        return _State(counted, workload, shape, self._rules.workload)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip a Pod without a hard rule; refuse one whose rule, or room, cannot be kept."""
        if self._failover is not None and (why := self._failover.refusal(pod)):
            # Those that could be evicted for the Pod are not what takes the room.
            return Status.unresolvable(f"BlastRadius: {why}")
        made = self._state(pod, hard=True)
        if isinstance(made, Status):
            return made
        if why := made.counted.impossible():
            return Status.unresolvable(f"BlastRadius: {why}")
        state.write(self.name, made)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """0, or why not."""
        made = state.read(self.name, _State)
        lost, outside = made.lost(nodes)
        codes = (lost > made.counted.rule.most) * np.int8(_FULL)
        codes[outside] = _NO_LABEL
        return codes

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """The status of a reason code."""
        return _REASONS[code]

    def explain_filter(self, state: CycleState, pod: Pod, rows: IntArray) -> list[str]:
        """The figures of each domain that is full."""
        counted = state.read(self.name, _State).counted
        column = self.handle.nodes.label(counted.rule.domain)
        counts, lost = counted.counter.by_domain(), counted.with_one_more()
        codes = sorted({int(code) for code in column.codes[rows] if code != ABSENT})
        return [
            f"{counted.rule.domain}={column.values[code]} has {counts[code]} Pods; one more, and "
            f"{lost[code]} of {counted.rule.size} could be lost, at most {counted.rule.most} may"
            for code in codes
        ]

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Status | None:
        """Skip a Pod without a soft rule."""
        made = self._state(pod, hard=False)
        if isinstance(made, Status):
            return made
        state.write(self.name, made)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """100, less by how many Pods too many could be lost; 0 without the label."""
        made = state.read(self.name, _State)
        lost, outside = made.lost(nodes)
        size = made.counted.rule.size
        over = np.clip(lost - made.counted.rule.most, 0, size)
        scores: IntArray = np.where(outside, 0, MAX_NODE_SCORE * (size - over) // size)
        return scores

    def carry_out(self, effect: Effect) -> None:
        """Write a condition; the next look repeats a write that fails."""
        if isinstance(effect, Say) and self.handle.writer is not None:
            self.handle.writer.patch_pod_status(
                effect.pod, effect.condition, None, lambda _error: None
            )

    def events_to_register(self) -> list[EventRegistration]:
        """Pods gone or with other labels, other nodes, owners that say something else."""
        pods = Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCALE_DOWN
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        said = Action.ADD | Action.UPDATE
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, pods)),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            EventRegistration(ClusterEvent(NODE, nodes)),
            *(EventRegistration(ClusterEvent(kind, said), self._is_said) for kind in OWNERS),
        ]

    def _is_said(self, pod: Pod, _old: Any, new: Any) -> Hint:
        return Hint.QUEUE if self._rules.is_about(pod, new) else Hint.SKIP

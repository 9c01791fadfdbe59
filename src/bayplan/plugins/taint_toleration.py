"""TaintToleration: nodes repel Pods that do not tolerate their taints.

NoSchedule and NoExecute taints filter; among the nodes left, those with the fewest PreferNoSchedule
taints that the Pod does not tolerate score best.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.node import Node, Taint
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.tolerations import repels, tolerated
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Normalizer, Plugin, PodPart
from bayplan.framework.points import EnqueueExtensions, FilterNodes, PreScore, ScoreNodes
from bayplan.framework.status import Status
from bayplan.plugins.shared.coded_answers import CodedAnswers
from bayplan.plugins.shared.tolerations import repelling_taints

_REASON = Status.unresolvable("node(s) had untolerated taint(s)")
_DISCOURAGING = "PreferNoSchedule"


class TaintToleration(Plugin, FilterNodes, PreScore, ScoreNodes, EnqueueExtensions):
    """Filters and scores by taints, once per distinct set of taints."""

    filter_depends = Depends.NODE
    score_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS
    normalizer = Normalizer(reverse=True)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where a NoSchedule or NoExecute taint is not tolerated."""
        return pod.shape.constraints.memo(repelling_taints).of(nodes.taints).astype(np.int64)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return _REASON

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Status | None:
        """Nothing to do; but a profile has to have it, see `bayplan.engine.in_tree`."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """How many PreferNoSchedule taints the Pod does not tolerate."""
        return pod.shape.constraints.memo(_discouragements).of(nodes.taints)

    def events_to_register(self) -> list[EventRegistration]:
        """A node whose taints have changed, or a new toleration of the Pod."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        own = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        return [EventRegistration(node, _taints_gone), EventRegistration(own)]


def _discouragements(constraints: SpecPart) -> CodedAnswers:
    tolerations = [t for t in constraints.spec.tolerations if t.effect in ("", _DISCOURAGING)]

    def count(taints: Iterable[Taint]) -> int:
        discouraging = (t for t in taints if t.effect == _DISCOURAGING)
        return sum(not tolerated(t, tolerations) for t in discouraging)

    return CodedAnswers(count, absent=0, dtype=np.int64)


def _taints_gone(pod: Pod, old: Node | None, new: Node) -> Hint:
    tolerations = pod.spec.tolerations
    repelled = old is None or repels(old.spec.taints, tolerations)
    return Hint.QUEUE if repelled and not repels(new.spec.taints, tolerations) else Hint.SKIP

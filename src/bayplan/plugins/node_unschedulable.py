"""NodeUnschedulable: no Pod goes to a cordoned node unless it tolerates the cordon's taint."""

from __future__ import annotations

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.tolerations import UNSCHEDULABLE_TAINT, tolerated
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Plugin, PodPart
from bayplan.framework.points import EnqueueExtensions, FilterNodes
from bayplan.framework.status import Status

_REASON = Status.unresolvable("node(s) were unschedulable")


class NodeUnschedulable(Plugin, FilterNodes, EnqueueExtensions):
    """Filters nodes with spec.unschedulable."""

    filter_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where the node is cordoned and the Pod does not tolerate that."""
        if pod.shape.constraints.memo(_tolerates_cordon):
            return np.zeros(len(nodes), np.int64)
        return nodes.unschedulable.astype(np.int64)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return _REASON

    def events_to_register(self) -> list[EventRegistration]:
        """A node that became schedulable, or a new toleration of the Pod."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        own = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        return [EventRegistration(node, _uncordoned), EventRegistration(own, _own_toleration)]


def _tolerates_cordon(constraints: SpecPart) -> bool:
    return tolerated(UNSCHEDULABLE_TAINT, constraints.spec.tolerations)


def _uncordoned(_pod: Pod, old: Node | None, new: Node) -> Hint:
    was_usable = old is not None and not old.spec.unschedulable
    return Hint.SKIP if was_usable or new.spec.unschedulable else Hint.QUEUE


def _own_toleration(_pod: Pod, _old: Pod, new: Pod) -> Hint:
    return Hint.QUEUE if new.shape.constraints.memo(_tolerates_cordon) else Hint.SKIP

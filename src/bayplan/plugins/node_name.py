"""NodeName: a Pod with a nodeName fits on this node only.

The queue holds no Pod that has a node already, so for all queued Pods of a shape the answer is the
same, and it may be kept by shape although spec.nodeName is not part of it. PreFilter leaves only
the named node to look at; Filter says the same where a profile has PreFilter off.
"""

from __future__ import annotations

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Plugin, PodPart, PreFilterResult
from bayplan.framework.points import EnqueueExtensions, FilterNodes, PreFilter
from bayplan.framework.status import Status

_REASON = Status.unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin, PreFilter, FilterNodes, EnqueueExtensions):
    """Filters nodes other than spec.nodeName, if that is set."""

    filter_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterResult | None:
        """Only the named node, if one is named."""
        return PreFilterResult(frozenset({pod.node_name})) if pod.node_name else None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where the node is not the one that the Pod names."""
        if not pod.node_name:
            return np.zeros(len(nodes), np.int64)
        codes = np.ones(len(nodes), np.int64)
        row = nodes.row(pod.node_name)
        if row is not None:
            codes[row] = 0
        return codes

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return _REASON

    def events_to_register(self) -> list[EventRegistration]:
        """A new node may be the one."""
        return [EventRegistration(ClusterEvent(NODE, Action.ADD))]

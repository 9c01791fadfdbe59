"""NodeDeclaredFeatures: a Pod that needs kubelet features fits on nodes with these features.

Which Pods need which feature is what ``k8s.io/component-helpers/nodedeclaredfeatures`` v0.36 says;
its other features matter to updates of Pods, not to their placement.
"""

from __future__ import annotations

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod, SpecPart
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
from bayplan.framework.points import EnqueueExtensions, FilterNodes, PreFilter
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.coded_answers import CodedAnswers

_REASON = Status.unresolvable("node(s) didn't match Pod's required features")


class NodeDeclaredFeatures(Plugin, PreFilter, FilterNodes, EnqueueExtensions):
    """Filters nodes whose status.declaredFeatures lack what the Pod needs."""

    filter_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip for a Pod that needs no feature."""
        return None if pod.shape.constraints.memo(_needed) else SKIP

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where a needed feature is not declared."""
        return pod.shape.constraints.memo(_lacking).of(nodes.features).astype(np.int64)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return _REASON

    def events_to_register(self) -> list[EventRegistration]:
        """A node that declares other features, or the Pod needing others."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        own = ClusterEvent(Resource.TARGET_POD, Action.UPDATE)
        return [EventRegistration(node, _declares_others), EventRegistration(own, _needs_others)]


def _needed(constraints: SpecPart) -> frozenset[str]:
    spec = constraints.spec
    needed = set()
    rules = (r for c in (*spec.containers, *spec.init_containers) for r in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        needed.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return frozenset(needed)


def _lacking(constraints: SpecPart) -> CodedAnswers:
    needed = constraints.memo(_needed)
    return CodedAnswers(lambda declared: not needed <= declared, absent=False)


def _declares_others(_pod: Pod, old: Node | None, new: Node) -> Hint:
    same = old is not None and old.status.declared_features == new.status.declared_features
    return Hint.SKIP if same else Hint.QUEUE


def _needs_others(_pod: Pod, old: Pod, new: Pod) -> Hint:
    before, after = (p.shape.constraints.memo(_needed) for p in (old, new))
    return Hint.SKIP if before == after else Hint.QUEUE

"""GangScheduling: Pods of one PodGroup of Kubernetes are placed together, as kube-scheduler does.

So are those of a tree of CompositePodGroups (`bayplan.cache.kubernetes_groups`). The plugin
switches such groups on, and says when a group can be tried. A group is one entry of the queue
(`bayplan.queue.groups`) with one cycle for all members (`bayplan.group_cycle`), which get nodes
before any of them is bound; so the plugin needs no Permit, where kube-scheduler makes members wait
for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from bayplan.api.kinds import COMPOSITE_POD_GROUP, KUBERNETES_POD_GROUP, NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.cache import kueue_topology
from bayplan.cache.group_policy import KUBERNETES, GroupPolicy
from bayplan.cache.kubernetes_groups import with_asks_of
from bayplan.cache.pod_groups import Group
from bayplan.config import feature_gates
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintIndex,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.groups import GroupSource
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.placements import PlacementProgress, PodGroupInfo
from bayplan.framework.points import EnqueueExtensions, PlacementFeasible, PreEnqueue
from bayplan.framework.status import Code, Status
from bayplan.plugins.shared.node_domains import comes_into_a_domain

PATIENCE = 300.0
"""Seconds that the members of a gang may take to get ready; kube-scheduler's wait in Permit."""
# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_WAIT = Code.WAIT


class GangScheduling(Plugin, GroupSource, PreEnqueue, PlacementFeasible, EnqueueExtensions):
    """Places the Pods of a PodGroup together."""

    kinds = (KUBERNETES_POD_GROUP, COMPOSITE_POD_GROUP)
    policy: ClassVar[GroupPolicy] = KUBERNETES
    inferred: Collection[str] = ()
    timeout = PATIENCE
    backoff = 0.0

    def __init__(self, args: Any, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._groups = handle.kubernetes_groups
        self._groups.composites = handle.gates.on(feature_gates.COMPOSITE_POD_GROUP)
        handle.services.add_group_source(self)

    def key_of(self, pod: Pod) -> str:
        """See `bayplan.framework.groups.GroupSource`."""
        return self._groups.key_of(pod)

    def find(self, key: str) -> Group | None:
        """See `bayplan.framework.groups.GroupSource`."""
        return self._groups.find(key)

    def with_asks_of(self, group: Group, pods: Iterable[Pod]) -> Group:
        """See `bayplan.framework.groups.GroupSource`: with Kueue's annotations of the Pods."""
        return with_asks_of(group, pods)

    def missing(
        self, key: str, _waiting: Mapping[str, int], _scheduled: Mapping[str, int]
    ) -> Status | None:
        """The missing PodGroup, or the missing Pods; Pods with nodes count as present."""
        group, name = self._groups.find(key), key.rpartition("/")[2]
        if group is None:
            text = f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            if self._groups.composites:
                text = f"failed to build hierarchy snapshot: {self._groups.gap(key)}"
            return Status.unresolvable(text)
        if self._is_ready(group):
            return None
        text = "waiting for minCount pods from a gang to appear in scheduling queue"
        if group.is_composite:
            text = f'waiting for composite pod group "{name}" tree to meet quorum'
        return Status.unresolvable(text)

    def _is_ready(self, group: Group) -> bool:
        """Whether the group has enough Pods, or enough groups that are ready."""
        assert group.pod_group is not None
        if group.is_composite:
            return sum(map(self._is_ready, group.children)) >= group.pod_group.minimum
        return self._groups.count(group.key) >= group.minimum

    def placement_feasible(
        self, state: CycleState, group: PodGroupInfo, progress: PlacementProgress
    ) -> Status | None:
        """Whether the minimum is reached, may be, or cannot be."""
        minimum, scheduled = group.pod_group.minimum, progress.scheduled
        if scheduled >= minimum:
            return None
        counts = f"{scheduled} scheduled, {progress.remaining} remaining"
        if progress.remaining + scheduled < minimum:
            return Status.unschedulable(f"minCount ({minimum}) cannot be satisfied: {counts}")
        return Status(_WAIT, (f"minCount ({minimum}) is not yet satisfied: {counts}",))

    def order(self, queued: QueuedPod) -> tuple[int, int, float, str]:
        """Priority, then Pods with more attempts, then older Pods."""
        pod = queued.pod
        return -pod.priority, -queued.attempts, queued.timestamp, pod.name

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Whether the Pod's group can be tried; the queue asks `missing`, for the whole group."""
        key = self._groups.key_of(pod)
        return self.missing(key, {}, {}) if key else None

    def events_to_register(self) -> list[EventRegistration]:
        """What an incomplete group waits for: more Pods, a group of its tree, a lower minCount.

        And what one with slices may wait for: nodes that come into their domains.
        """
        siblings = HintIndex(self._of_pod, lambda _old, new: self._of_pod(new))
        groups = HintIndex(self._of_pod, lambda _old, new: (self._groups.root_above(new),))
        changed = ClusterEvent(KUBERNETES_POD_GROUP, Action.UPDATE_OTHER)
        return [
            *(
                EventRegistration(ClusterEvent(pods, Action.ADD), self._is_sibling, siblings)
                for pods in (Resource.UNSCHEDULED_POD, Resource.ASSIGNED_POD)
            ),
            *(
                EventRegistration(ClusterEvent(kind, Action.ADD), self._has_come, groups)
                for kind in (KUBERNETES_POD_GROUP, COMPOSITE_POD_GROUP)
            ),
            EventRegistration(changed, self._asks_less, groups),
            EventRegistration(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._domain_changed
            ),
        ]

    def _of_pod(self, pod: Pod) -> tuple[str]:
        """The group of the Pod; "" for none."""
        return (self._groups.key_of(pod),)

    def _is_sibling(self, pod: Pod, _old: Pod | None, new: Pod | None) -> Hint:
        mine = new is not None and self._groups.key_of(new) == self._groups.key_of(pod)
        return Hint.QUEUE if mine else Hint.SKIP

    def _has_come(
        self, pod: Pod, _old: KubernetesPodGroup | None, new: KubernetesPodGroup | None
    ) -> Hint:
        mine = new is not None and self._groups.root_above(new) == self._groups.key_of(pod)
        return Hint.QUEUE if mine else Hint.SKIP

    def _asks_less(
        self, pod: Pod, old: KubernetesPodGroup | None, new: KubernetesPodGroup | None
    ) -> Hint:
        if old is None or new is None or self._groups.root_above(new) != self._groups.key_of(pod):
            return Hint.SKIP
        less = old.is_gang and new.is_gang and new.minimum < old.minimum
        return Hint.QUEUE if less else Hint.SKIP

    def _domain_changed(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        group = self._groups.find(self._groups.key_of(pod))
        if group is None:
            return Hint.SKIP
        asked = {layer.topology for part in group.tree() for layer in part.slices}
        labels = asked | kueue_topology.labels_in(pod)
        return Hint.QUEUE if comes_into_a_domain(labels, old, new) else Hint.SKIP

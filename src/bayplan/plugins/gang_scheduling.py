"""GangScheduling: Pods of one PodGroup of Kubernetes are placed together, as kube-scheduler does.

The plugin switches such groups on, and says when a group can be tried. A group is one entry of the
queue (`bayplan.queue.groups`) with one cycle for all members (`bayplan.group_cycle`), which get
nodes before any of them is bound; so the plugin needs no Permit, where kube-scheduler makes members
wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from bayplan.api.kinds import KUBERNETES_POD_GROUP
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.cache.group_policy import KUBERNETES, GroupPolicy
from bayplan.cache.pod_groups import (
    Group,
    find_kubernetes_group,
    kubernetes_group_key,
    of_kubernetes_group,
)
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

PATIENCE = 300.0
"""Seconds that the members of a gang may take to get ready; kube-scheduler's wait in Permit."""


class GangScheduling(Plugin, GroupSource, PreEnqueue, PlacementFeasible, EnqueueExtensions):
    """Places the Pods of a PodGroup together."""

    kinds = (KUBERNETES_POD_GROUP,)
    policy: ClassVar[GroupPolicy] = KUBERNETES
    inferred: Collection[str] = ()
    timeout = PATIENCE
    backoff = 0.0

    def __init__(self, args: Any, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._objects = handle.objects
        self._members = handle.members
        handle.services.add_group_source(self)

    def key_of(self, pod: Pod) -> str:
        """See `bayplan.framework.groups.GroupSource`."""
        return kubernetes_group_key(pod)

    def find(self, key: str) -> Group | None:
        """See `bayplan.framework.groups.GroupSource`."""
        pod_group = find_kubernetes_group(self._objects, key)
        return None if pod_group is None else of_kubernetes_group(pod_group)

    def missing(
        self, key: str, _waiting: Mapping[str, int], _scheduled: Mapping[str, int]
    ) -> Status | None:
        """The missing PodGroup, or the missing Pods; Pods with nodes count as present."""
        pod_group = find_kubernetes_group(self._objects, key)
        if pod_group is None:
            name = key.partition("/")[2]
            text = f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            return Status.unresolvable(text)
        if pod_group.is_gang and self._members.count(key) < pod_group.minimum:
            text = "waiting for minCount pods from a gang to appear in scheduling queue"
            return Status.unresolvable(text)
        return None

    def placement_feasible(
        self, state: CycleState, group: PodGroupInfo, progress: PlacementProgress
    ) -> Status | None:
        """Whether the minimum is reached, may be, or cannot be."""
        minimum, scheduled = group.pod_group.minimum, progress.scheduled
        counts = f"{scheduled} scheduled, {progress.remaining} remaining"
        if progress.remaining + scheduled < minimum:
            return Status.unschedulable(f"minCount ({minimum}) cannot be satisfied: {counts}")
        if scheduled < minimum:
            return Status(Code.WAIT, (f"minCount ({minimum}) is not yet satisfied: {counts}",))
        return None

    def order(self, queued: QueuedPod) -> tuple[int, int, float, str]:
        """Priority, then Pods with more attempts, then older Pods."""
        pod = queued.pod
        return -pod.priority, -queued.attempts, queued.timestamp, pod.name

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Whether the Pod's group can be tried; the queue asks `missing`, for the whole group."""
        key = kubernetes_group_key(pod)
        return self.missing(key, {}, {}) if key else None

    def events_to_register(self) -> list[EventRegistration]:
        """What an incomplete group waits for: more Pods, its PodGroup, a lower minCount."""
        siblings = HintIndex(_index_keys, lambda _old, new: _index_keys(new))
        groups = HintIndex(_index_keys, lambda _old, new: (new.key,))
        come = ClusterEvent(KUBERNETES_POD_GROUP, Action.ADD)
        changed = ClusterEvent(KUBERNETES_POD_GROUP, Action.UPDATE_OTHER)
        return [
            *(
                EventRegistration(ClusterEvent(pods, Action.ADD), _is_sibling, siblings)
                for pods in (Resource.UNSCHEDULED_POD, Resource.ASSIGNED_POD)
            ),
            EventRegistration(come, _has_come, groups),
            EventRegistration(changed, _asks_less, groups),
        ]


def _index_keys(pod: Pod) -> tuple[str]:
    """The PodGroup of the Pod, which never changes; "" for none."""
    return (kubernetes_group_key(pod),)


def _is_sibling(pod: Pod, _old: Pod | None, new: Pod | None) -> Hint:
    mine = new is not None and kubernetes_group_key(new) == kubernetes_group_key(pod)
    return Hint.QUEUE if mine else Hint.SKIP


def _has_come(pod: Pod, _old: KubernetesPodGroup | None, new: KubernetesPodGroup | None) -> Hint:
    mine = new is not None and new.key == kubernetes_group_key(pod)
    return Hint.QUEUE if mine else Hint.SKIP


def _asks_less(pod: Pod, old: KubernetesPodGroup | None, new: KubernetesPodGroup | None) -> Hint:
    if old is None or new is None or new.key != kubernetes_group_key(pod):
        return Hint.SKIP
    less = old.is_gang and new.is_gang and new.minimum < old.minimum
    return Hint.QUEUE if less else Hint.SKIP

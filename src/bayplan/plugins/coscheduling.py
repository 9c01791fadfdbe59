"""Coscheduling: Pods of one PodGroup are placed at once, or not at all.

The plugin switches groups on, and orders the queue. What it does not do is make members wait in
Permit: a group is one entry of the queue (`bayplan.queue.groups`) and gets one plan for all of its
members (`bayplan.attempt.group`), so that nothing is held before the whole of it fits.

Name, arguments and order of the queue are those of scheduler-plugins; a Pod without a group keeps
the place that PrioritySort gives it.
"""

from __future__ import annotations

from typing import Protocol

from bayplan.api.kinds import NODE, POD_GROUP
from bayplan.api.pod import Pod
from bayplan.api.scheduling import PodGroup
from bayplan.cache.pod_groups import Group, find_group, group_key
from bayplan.config.args import CoschedulingArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.groups import GroupsPods
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import EnqueueExtensions, QueueKey, QueueLess

DEFAULT_SECONDS = 60.0
"""Until a group gives up, where neither it nor the configuration says."""


class Coscheduling(Plugin):
    """Places the Pods of a PodGroup together."""

    kinds = (POD_GROUP,)

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.timeout = float(args.permit_waiting_time_seconds) or DEFAULT_SECONDS
        self.backoff = float(args.pod_group_backoff_seconds)
        self._objects = handle.objects
        self._wall_clock_is_ahead = handle.now() - handle.monotonic()

    def find(self, key: str) -> Group | None:
        """See `bayplan.framework.groups.GroupsPods`."""
        return find_group(self._objects, key)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float, str]:
        """Priority, then the group's creation or, once it was tried, its last failure; its name."""
        pod = queued.pod
        key = group_key(pod)
        since = queued.timestamp
        if key and queued.attempts == 0:
            group = self.find(key)
            if group is not None and group.created is not None:
                since = group.created - self._wall_clock_is_ahead
        return -pod.priority, since, key

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        return self.sort_key(a) < self.sort_key(b)

    def events_to_register(self) -> list[EventRegistration]:
        """What a group waits for that is gathering, or whose minResources are not there."""
        changed = ClusterEvent(POD_GROUP, Action.ADD | Action.UPDATE_OTHER | Action.DELETE)
        room = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_TAINT
        return [
            EventRegistration(changed, self._concerns),
            EventRegistration(ClusterEvent(NODE, room), self._asks_for_room),
            EventRegistration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
                self._asks_for_room,
            ),
        ]

    def _asks_for_room(self, pod: Pod, _old: object, _new: object) -> Hint:
        group = self.find(group_key(pod))
        return Hint.QUEUE if group is not None and group.room else Hint.SKIP

    def _concerns(self, pod: Pod, old: PodGroup | None, new: PodGroup | None) -> Hint:
        pod_group = new or old
        mine = pod_group is not None and pod_group.key == group_key(pod)
        return Hint.QUEUE if mine else Hint.SKIP


class _Implements(GroupsPods, QueueKey, QueueLess, EnqueueExtensions, Protocol):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = Coscheduling

"""Coscheduling: Pods of one PodGroup are placed at once, or not at all.

The plugin switches groups on, and orders the queue. What it does not do is make members wait in
Permit: a group is one entry of the queue (`bayplan.queue.groups`) and gets one plan for all of its
members (`bayplan.decide.group`), so that nothing is held before the whole of it fits.

Name, arguments and order of the queue are those of scheduler-plugins; a Pod without a group keeps
the place that PrioritySort gives it. There is one addition: Pods that a group lacks which has begun
come before others of their priority, so a group that a leader left half bound is completed by the
next one before its room is given away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from msgspec.structs import replace

from bayplan.api.kinds import NODE, POD_DISRUPTION_BUDGET, POD_GROUP, TOPOLOGY, Kind
from bayplan.api.meta import Object
from bayplan.api.pod import Pod
from bayplan.api.scheduling import PodGroup
from bayplan.cache.group_policy import LABEL, GroupPolicy
from bayplan.cache.inferred_groups import OWNERS, owner_of, says_something_about
from bayplan.cache.kueue_topology import asked_by, asks
from bayplan.cache.pod_groups import Group, only_itself
from bayplan.cache.sub_groups import SUB_GROUP_LABEL
from bayplan.config.args import CoschedulingArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintIndex,
    Resource,
)
from bayplan.framework.groups import GroupSource
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import EnqueueExtensions, PreEnqueue, QueueKey
from bayplan.framework.status import Status
from bayplan.plugins.coscheduling.incomplete import IncompleteGroups

DEFAULT_SECONDS = 60.0
"""Until a group gives up, where neither it nor the configuration says."""
_ROOM, _LEVEL = "minResources", "topology"
"""Keys of the index of groups that ask for these; the key of a group itself has a slash."""


class Coscheduling(Plugin, GroupSource, PreEnqueue, QueueKey, EnqueueExtensions):
    """Places the Pods of a PodGroup together."""

    kinds = (POD_GROUP, TOPOLOGY)
    policy: ClassVar[GroupPolicy] = LABEL

    def __init__(self, args: CoschedulingArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self.timeout = float(args.permit_waiting_time_seconds) or DEFAULT_SECONDS
        self.backoff = float(args.pod_group_backoff_seconds)
        self._objects = handle.objects
        self._wall_clock_is_ahead = handle.now() - handle.monotonic()
        self._levels = tuple(args.topology_levels)
        self.inferred: Collection[str] = args.infer_groups
        self._incomplete: IncompleteGroups | None = None
        if args.evict_incomplete_after:
            self._incomplete = IncompleteGroups(handle, self.find, args.evict_incomplete_after)
            handle.services.chores.append(self._incomplete.look)
        self._groups = handle.groups
        handle.groups.follow(handle.pods)
        handle.services.add_group_source(self)

    @classmethod
    def kinds_for(cls, args: CoschedulingArgs) -> tuple[Kind[object], ...]:
        """`kinds`, what groups are inferred from, and what protects Pods of incomplete ones."""
        budgets = (POD_DISRUPTION_BUDGET,) if args.evict_incomplete_after else ()
        return (*cls.kinds, *_read_for(args.infer_groups), *budgets)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a Pod back while its group gives up nodes."""
        return None if self._incomplete is None else self._incomplete.hold(pod)

    def key_of(self, pod: Pod) -> str:
        """See `bayplan.framework.groups.GroupSource`."""
        return self._groups.key_of(pod)

    def find(self, key: str) -> Group | None:
        """See `bayplan.framework.groups.GroupSource`."""
        return self._groups.find(key, self._levels_of)

    def _levels_of(self, label: str) -> tuple[str, ...]:
        """The configured levels, else the levels of the first Topology, by name, with the label."""
        if label in self._levels:
            return self._levels
        for topology in sorted(self._objects.all(TOPOLOGY), key=lambda t: t.key):
            levels = tuple(level.node_label for level in topology.spec.levels)
            if label in levels:
                return levels
        return only_itself(label)

    def with_asks_of(self, group: Group, pods: Iterable[Pod]) -> Group:
        """See `bayplan.framework.groups.GroupSource`: with Kueue's annotations of the Pods."""
        if group.topology is not None or group.parts:
            return group
        topology = asked_by(pods, self._levels_of)
        return group if topology is None else replace(group, topology=topology)

    def missing(
        self, key: str, waiting: Mapping[str, int], scheduled: Mapping[str, int]
    ) -> Status | None:
        """The PodGroup itself, a sub-group that Pods name, or Pods."""
        group = self.find(key)
        if group is None:
            kind, name = owner_of(key) or (POD_GROUP.name, key)
            return Status.unresolvable(f"WaitingFor{kind}: there is no {kind} {name}")
        if group.fault:
            return Status.unresolvable(f"BadPodGroup: {group.fault}")
        if unknown := waiting.keys() - {part.name for part in group.walk()}:
            text = f"Pods have the label {SUB_GROUP_LABEL}={min(unknown)}"
            return Status.unresolvable(f"BadPodGroup: {text}, of which the group says nothing")
        rest = group.rest(scheduled)
        if short := rest.short(waiting):
            parts = [f"{p.name} {p.count(waiting)}/{p.minimum}" for p in short if p.name]
            there = f"{rest.count(waiting)}/{rest.minimum}"
            return Status.unresolvable(f"WaitingForMembers {', '.join([there, *parts])}")
        return None

    def order(self, queued: QueuedPod) -> tuple[int, str]:
        """Priority, then the name."""
        return -queued.pod.priority, queued.pod.key

    def sort_key(self, queued: QueuedPod) -> tuple[int, bool, float, str]:
        """Priority, then the group's creation or (after an attempt) last failure; then the name.

        Pods without which those of their group that run are of no use come first.
        """
        pod = queued.pod
        key = self.key_of(pod)
        since = queued.timestamp
        if key and queued.attempts == 0:
            group = self.find(key)
            if group is not None and group.created is not None:
                since = group.created - self._wall_clock_is_ahead
        return -pod.priority, not queued.completes_group, since, key

    def events_to_register(self) -> list[EventRegistration]:
        """Events for groups that gather, and for groups rejected by minResources or a topology."""
        any_change = Action.ADD | Action.UPDATE_OTHER | Action.DELETE
        mine = HintIndex(self._index_keys, _object_keys)
        asks_for_level = HintIndex(self._index_keys, lambda _old, _new: (_LEVEL,))
        asks_for_room = HintIndex(self._index_keys, lambda _old, _new: (_ROOM,))
        changed = ClusterEvent(POD_GROUP, any_change)
        levels = ClusterEvent(TOPOLOGY, any_change)
        labels = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        goes = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        siblings = HintIndex(self._index_keys, lambda old, _new: (self.key_of(old),))
        room = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_TAINT
        return [
            *(
                EventRegistration(ClusterEvent(kind, any_change), self._is_the_owner)
                for kind in _read_for(self.inferred)
            ),
            EventRegistration(changed, self._concerns, mine),
            *([EventRegistration(goes, self._sibling_goes, siblings)] if self._incomplete else ()),
            EventRegistration(levels, self._asks_for_a_level, asks_for_level),
            EventRegistration(labels, self._asks_for_a_level, asks_for_level),
            EventRegistration(ClusterEvent(NODE, room), self._asks_for_room, asks_for_room),
            EventRegistration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
                self._asks_for_room,
                asks_for_room,
            ),
        ]

    def _index_keys(self, pod: Pod) -> list[str]:
        """The group of the Pod, and what it asks for.

        What it asks for changes with its object only. That wakes the group, which gets new keys
        when it waits again.
        """
        key = self.key_of(pod)
        group = self.find(key)
        if group is None:
            return [key]
        asked = [(_ROOM, bool(group.min_resources)), (_LEVEL, _asks_for_level(group, pod))]
        return [key, *(name for name, does in asked if does)]

    def _asks_for_room(self, pod: Pod, _old: object, _new: object) -> Hint:
        group = self.find(self.key_of(pod))
        return Hint.QUEUE if group is not None and group.min_resources else Hint.SKIP

    def _asks_for_a_level(self, pod: Pod, _old: object, _new: object) -> Hint:
        group = self.find(self.key_of(pod))
        return Hint.QUEUE if group is not None and _asks_for_level(group, pod) else Hint.SKIP

    def _concerns(self, pod: Pod, old: PodGroup | None, new: PodGroup | None) -> Hint:
        pod_group = new or old
        mine = pod_group is not None and pod_group.key == self.key_of(pod)
        return Hint.QUEUE if mine else Hint.SKIP

    def _sibling_goes(self, pod: Pod, old: Pod, _new: object) -> Hint:
        return Hint.QUEUE if self.key_of(pod) == self.key_of(old) else Hint.SKIP

    def _is_the_owner(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        owner = new or old
        mine = owner is not None and says_something_about(self.key_of(pod), owner)
        return Hint.QUEUE if mine else Hint.SKIP


def _object_keys(old: PodGroup | None, new: PodGroup | None) -> list[str]:
    return [pod_group.key for pod_group in (new or old,) if pod_group is not None]


def _asks_for_level(group: Group, pod: Pod) -> bool:
    return asks(pod) or any(part.topology is not None for part in group.walk())


def _read_for(owners: Iterable[str]) -> dict[Kind[object], None]:
    return dict.fromkeys(kind for owner in owners for kind in OWNERS[owner])

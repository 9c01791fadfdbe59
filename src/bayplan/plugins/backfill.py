"""Backfill: reserves room for a group that has waited long; short Pods may use this room.

A large group needs many nodes at once. While small Pods keep coming, some of them run on every node
at any time: each node that gets free is taken again, and the group waits for ever, whatever its
place in the queue. So a group that has waited for ``reserveAfter`` gets a reservation: the nodes
that its plan needs soonest, and the time when they will be free.

When will they be? A Pod says how long it runs by ``spec.activeDeadlineSeconds`` or the annotation
``bayplan.dev/expected-duration``; the shorter one counts, from its start. The Pods on nodes that
the group can use are put in the order in which they end, Pods without a known end last, the
oldest first. The shortest beginning of that list without which the group's minimum fits, by
resources alone, says when: at the end of its last Pod. The nodes where the members would be then
are the reservation.

Until then another Pod is kept off these nodes, unless

- it ends before that time: this is what backfill means,
- its priority is higher than that of the group, or
- it belongs to a DaemonSet.

Where the time is not known, no Pod ends before it. Pods on all other nodes are not concerned.

The reservation is recomputed whenever the group is tried: when Pods end, at the latest after five
minutes. No later Pod is in the way at the promised time, so this time never moves to a
later one, as long as Pods end when they say. It is over when fewer members wait than the minimum,
since they have nodes or are gone, when the queue's limit holds the group back, and when it can
never fit. A queue (`bayplan.cache.queue_tree`) has one reservation at most, and so have all Pods
without a queue together.

An example: two nodes of 4 CPUs, a group of two Pods of 4. On n1 a Pod ends in 10 minutes, on n2 one
in 60. Both nodes are reserved for an hour. A Pod that takes 30 minutes may use n1 when the first
has ended; one that does not say how long it takes may not. Without the reservation, it might.

Nothing is stored: after a restart, groups that have waited are tried, and get their reservations.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from typing import NamedTuple

import numpy as np

from bayplan.api.kinds import KUBERNETES_POD_GROUP, POD_GROUP
from bayplan.api.meta import ObjectReference
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.queue_tree import NO_QUEUE
from bayplan.config.args import BackfillArgs
from bayplan.config.scalars import parse_duration
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
from bayplan.framework.interface import Plugin
from bayplan.framework.points import (
    CarriesOut,
    EnqueueExtensions,
    FilterNodes,
    PodGroupPostFilter,
    PreFilter,
)
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom, RoomRequest
from bayplan.framework.status import SKIP, Status
from bayplan.preemption.capacity import FreedCapacity
from bayplan.preemption.eviction_units import EvictionUnits
from bayplan.preemption.member_fit import MemberFit, needs_of
from bayplan.preemption.running_pods import RunningPods

DURATION = "bayplan.dev/expected-duration"
"""Annotation of a Pod: how long it runs, as ``1h30m``."""
KEY = "Backfill"
_DAEMON_SET = "apps/v1/DaemonSet"


class Reservation(NamedTuple):
    """Nodes that are kept for a group.

    Attributes:
        key: ``namespace/name`` of the group.
        pods: the uids of those that waited when it was made.
        minimum: as many of them have to fit at once.
        priority: the lowest of them.
        queue: the row of its queue.
        nodes: by name.
        until: when there is room, in seconds since the epoch; infinite if unknown.
        waiting: those of ``pods`` that still wait; kept up to date.
    """

    key: str
    pods: frozenset[str]
    minimum: int
    priority: int
    queue: int
    nodes: frozenset[str]
    until: float
    waiting: set[str]

    @property
    def text(self) -> str:
        """Until when, for people."""
        if self.until == inf:
            return "until Pods end that do not say when"
        return f"until {datetime.fromtimestamp(self.until, UTC):%Y-%m-%dT%H:%M:%SZ}"


class _Kept(list[Reservation]):
    """The reservations that a Pod has to respect: a code of Filter is a place in here, from 1."""


class ReserveNodes(Effect, frozen=True, eq=False):
    """Keep nodes for a group.

    Attributes:
        preemptor: the group.
        reservation: the nodes; None where it gets none, and loses those that it had.
    """

    preemptor: Preemptor
    reservation: Reservation | None


class Backfill(Plugin, PreFilter, FilterNodes, PodGroupPostFilter, EnqueueExtensions, CarriesOut):
    """See the module's docstring."""

    Args = BackfillArgs

    def __init__(self, args: BackfillArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._reserve_after = args.reserve_after
        self._in_tree = handle
        self._metrics = PluginMetrics(handle.instrument, self.name)
        self._reservations: dict[str, Reservation] = {}
        handle.pods.listen(self)
        handle.queued.listen(self)

    # Who is kept off

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status | None:
        """There is nothing to filter for Pods that no reservation concerns."""
        kept = _Kept(self._kept_from(pod))
        if not kept:
            return SKIP
        state.write(KEY, kept)
        return None

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray:
        """The reservation that the Pod has to respect on each node, from 1."""
        codes = np.zeros(len(nodes), np.int64)
        for code, reservation in enumerate(state.read(KEY, _Kept), 1):
            rows = (nodes.row(name) for name in reservation.nodes)
            codes[[row for row in rows if row is not None]] = code
        return codes

    def reasons(self, state: CycleState, _pod: Pod, code: int) -> Status:
        """For whom the node is reserved; evicting others would not change it."""
        reservation = state.read(KEY, _Kept)[code - 1]
        return Status.unresolvable(
            f"node(s) were reserved for group {reservation.key} {reservation.text}"
        )

    def _kept_from(self, pod: Pod) -> Iterable[Reservation]:
        if not self._reservations or pod.shape.owner[0] == _DAEMON_SET:
            return ()
        self._end_those_over()
        now, duration = self._in_tree.now(), duration_of(pod)
        kubernetes_groups = self._in_tree.kubernetes_groups
        groups = self._in_tree.groups.key_of(pod), kubernetes_groups.key_of(pod)
        return [
            reservation
            for reservation in self._reservations.values()
            if pod.uid not in reservation.pods
            and reservation.key not in groups
            and pod.priority <= reservation.priority
            and (reservation.until == inf or now + duration > reservation.until)
        ]

    # Reservations

    def pod_group_post_filter(self, request: RoomRequest) -> NoRoom:
        """Reserve room for a group that has waited long. Later plugins may still make room."""
        if self._waits_long(request.preemptor):
            reservation = self._plan(request)
            request.effects.append(ReserveNodes(self.name, request.preemptor, reservation))
        return NoRoom()

    def carry_out(self, effect: Effect) -> None:
        """Keep a reservation, in place of the one that the group had."""
        assert isinstance(effect, ReserveNodes)
        preemptor, reservation = effect.preemptor, effect.reservation
        previous = self._reservations.pop(preemptor.uid, None)
        if reservation is not None:
            self._reservations[preemptor.uid] = reservation
            if previous is None or previous.nodes != reservation.nodes:
                self._tell(preemptor, reservation)
        self._count()

    def _waits_long(self, preemptor: Preemptor) -> bool:
        created = [pod.created.timestamp() for pod in preemptor.pods if pod.created is not None]
        return bool(created) and self._in_tree.now() - min(created) >= self._reserve_after

    def _plan(self, request: RoomRequest) -> Reservation | None:
        """The nodes with the earliest start for the group; None if no nodes are reserved."""
        preemptor, nodes, now = request.preemptor, self._in_tree.nodes, self._in_tree.now()
        self._end_those_over()
        queue = self._queue_of(preemptor)
        others = (r for uid, r in self._reservations.items() if uid != preemptor.uid)
        if any(other.queue == queue for other in others) or self._is_held(preemptor, queue):
            return None
        needs = needs_of(request)
        useful = np.logical_or.reduce([need.rows for need in needs])
        running = RunningPods(nodes)
        ends = np.array([_end(pod, now) for pod in running.pods])
        starts = np.array([_start(pod, now) for pod in running.pods])
        order = np.lexsort((starts, ends))
        stays = [pod.shape.owner[0] == _DAEMON_SET for pod in running.pods]
        order = order[useful[running.rows[order]] & ~np.array(stays, np.bool_)[order]]
        pods = [running.pods[index] for index in order.tolist()]
        units = EvictionUnits(pods, running.rows[order], np.arange(1, len(pods) + 1), 0, {}, {})
        domains = nodes.domains(preemptor.level)
        fit = MemberFit(nodes, needs, preemptor.minimum, domains, (), preemptor.slices)
        capacity = FreedCapacity(fit, units)
        length = capacity.shortest()
        if not length:
            return None
        names = (nodes.names[row] for row, _ in capacity.fill(length))
        members = frozenset(pod.uid for pod in preemptor.pods)
        return Reservation(
            preemptor.key,
            members,
            preemptor.minimum,
            preemptor.priority,
            queue,
            frozenset(name for name in names if name is not None),
            float(ends[order[length - 1]]),
            set(filter(self._waits, members)),
        )

    def _queue_of(self, preemptor: Preemptor) -> int:
        queues = self._in_tree.queues
        return queues.leaf(preemptor.pods[0]) if queues.active else NO_QUEUE

    def _is_held(self, preemptor: Preemptor, queue: int) -> bool:
        """Whether the group waits for its queue's limit, and not for room."""
        queues = self._in_tree.queues
        if queue == NO_QUEUE:
            return False
        return queues.excess_of(preemptor.pods[: preemptor.minimum]) is not None

    def _end_those_over(self) -> None:
        """Drop reservations that have ended; not in a trial, as placed members may be undone."""
        if self._in_tree.nodes.tentative:
            return
        for uid, reservation in list(self._reservations.items()):
            if len(reservation.waiting) < reservation.minimum:
                del self._reservations[uid]
                self._count()

    def pod_counted(self, pod: Pod) -> None:
        """It has a node: see `bayplan.cache.counted_pods.PodListener`."""
        self.pod_left(pod.uid)

    def pod_uncounted(self, pod: Pod) -> None:
        """It has none any more, and may be back in the queue."""
        self.pod_waits(pod)

    def pod_waits(self, pod: Pod) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        for reservation in self._reservations.values():
            if pod.uid in reservation.pods and self._waits(pod.uid):
                reservation.waiting.add(pod.uid)

    def pod_left(self, uid: str) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        for reservation in self._reservations.values():
            reservation.waiting.discard(uid)

    def _waits(self, uid: str) -> bool:
        return uid in self._in_tree.queued and self._in_tree.pods.pod(uid) is None

    def _count(self) -> None:
        nodes = sum(len(reservation.nodes) for reservation in self._reservations.values())
        self._metrics.set("reserved_nodes", nodes)

    def _tell(self, preemptor: Preemptor, reservation: Reservation) -> None:
        note = f"Reserved: {len(reservation.nodes)} nodes {reservation.text}"
        about, profile = self._subject(preemptor), self.handle.profile
        self.handle.events.event(about, None, "Normal", "Reserved", "Scheduling", note, profile)

    def _subject(self, preemptor: Preemptor) -> ObjectReference | Pod:
        for kind in (POD_GROUP, KUBERNETES_POD_GROUP):
            group = self._in_tree.objects.get(kind, preemptor.key)
            if group is not None:
                return kind.reference(group)
        return preemptor.pods[0]

    # Who is tried again

    def events_to_register(self) -> list[EventRegistration]:
        """A Pod that was kept off waits for the group to be placed or gone, or for other nodes."""
        changes = (
            ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.DELETE),
            ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE),
        )
        return [EventRegistration(change, self._is_free) for change in changes]

    def _is_free(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        """Room that gets free may be on another node: then the reservation may have moved, too."""
        left = old is not None and new is None and bool(old.node_name)
        return Hint.QUEUE if left or not self._kept_from(pod) else Hint.SKIP


def duration_of(pod: Pod) -> float:
    """How many seconds ``pod`` runs at most; infinite where it does not say."""
    deadline = pod.spec.active_deadline_seconds
    seconds = inf if deadline is None else float(deadline)
    if text := pod.annotations.get(DURATION):
        try:
            expected = parse_duration(text)
        except ValueError:
            return seconds
        if expected > 0:
            seconds = min(seconds, expected)
    return seconds


def _start(pod: Pod, now: float) -> float:
    started = pod.status.start_time
    return now if started is None else started.timestamp()


def _end(pod: Pod, now: float) -> float:
    """When a running Pod ends; one that is late ends at once."""
    return now if pod.deleted is not None else max(_start(pod, now) + duration_of(pod), now)

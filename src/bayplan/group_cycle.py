"""The cycle of a group: one plan for all of its Pods, and what becomes of their bindings.

`Scheduler` comes here with a group in place of a Pod. The plan (`bayplan.attempt.group`) stands or
falls as a whole. Its Pods are then bound like any others, but meet at a `Barrier` between PreBind
and Bind; how their bindings end is told to `ended`. When the last one has:

- one at least is bound: the group has begun. A Pod that could not be bound goes singly from now on.
- none is: the group goes back to the queue, and backs off.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from bayplan import logs
from bayplan.api.pod import Pod
from bayplan.apply.effects import Effects
from bayplan.attempt.group import refusal_of
from bayplan.attempt.group_report import Domains, GroupReport, reason_of
from bayplan.attempt.outcome import Reason
from bayplan.attempt.placers import Placers
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.attempt.workload_group import Placed
from bayplan.binding.barrier import Barrier
from bayplan.binding.cycle import Binder, Binding
from bayplan.cache.cache import Cache
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import sub_group_of
from bayplan.framework.room import Room
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Code, Status
from bayplan.queue.places import Place
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("groups")

GATHERING_SECONDS = 5.0
"""How long a group gathers before anybody is told that Pods are missing."""


@dataclass
class _Flight:
    """A group whose Pods are being bound."""

    entry: QueuedGroup
    framework: Framework
    started: float
    minimum: int = 0
    domains: Domains = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)
    bound: int = 0
    failure: str = ""
    rejector: str = ""


class GroupCycle:
    """Schedules groups. Scheduling thread only."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        placers: Placers,
        binder: Binder,
        report: GroupReport,
        effects: Effects,
        instrument: Instrument,
        clock: Callable[[], float],
    ) -> None:
        self._cache, self._queue = cache, queue
        self._planner, self._rooms = placers.planner, placers.rooms
        self._binder = binder
        self._report = report
        self._effects = effects
        self._instrument = instrument
        self._clock = clock
        self._flights: dict[Barrier, _Flight] = {}
        self._next_look = 0.0
        self._forgotten = 0

    def schedule(
        self, entry: QueuedGroup, framework: Framework, started: float
    ) -> list[tuple[QueuedPod, Binding]]:
        """One attempt to place one group; returns what is to be bound, nothing where it failed."""
        group = entry.group
        pods = [pod for pod in entry.pods if not self._cache.is_assumed(pod.uid)]
        counts = Counter(sub_group_of(pod.shape) for pod in pods)
        if group is None or group.short(counts):
            self._queue.group_rejected(entry, (), (entry.plugin.name,))
            return []
        if logs.enabled(3):
            log.info("Attempting to schedule group", v=3, group=entry.key, pods=len(pods))
        outcome = self._plan(framework, group, pods)
        self._instrument.group_planned(time.perf_counter() - started)
        if isinstance(outcome, GroupRejection):
            self._fail(entry, framework, outcome)
            return []
        barrier = Barrier(len(outcome.members), self._clock() + self._patience(entry))
        flight = self._flights[barrier] = _Flight(
            entry, framework, started, group.minimum, outcome.domains
        )
        return self._bindings(flight, barrier, outcome)

    def _plan(
        self, framework: Framework, group: Group, pods: Sequence[Pod]
    ) -> Plan | GroupRejection:
        """The plan, or why there is none and what was done about it."""
        nominator = self._queue.nominator
        refusal = refusal_of(framework, group, pods)
        if refusal is not None:
            return self._rooms.make_room(framework, group, pods, refusal)
        nominated = nominator.nominations(pods)
        outcome = self._planner.plan(framework, group, pods)
        if isinstance(outcome, GroupRejection):
            nominator.nominate_all(nominated)
            return self._rooms.make_room(framework, group, pods, outcome)
        return outcome

    def take_off(
        self,
        entry: QueuedGroup,
        framework: Framework,
        placed: Sequence[Placed],
        started: float,
        *,
        together: bool,
    ) -> list[tuple[QueuedPod, Binding]]:
        """The bindings of these members of a PodGroup of Kubernetes, whose cycle is over by that.

        With ``together`` they meet at a barrier; one that fails comes back to the queue by itself.
        """
        flight = _Flight(entry, framework, started)
        plan = Plan(
            tuple(each.member for each in placed), tuple(each.placement for each in placed), ()
        )
        if not together or len(placed) == 1:
            return self._bindings(flight, None, plan)
        barrier = Barrier(len(placed), self._clock() + entry.plugin.timeout)
        self._flights[barrier] = flight
        return self._bindings(flight, barrier, plan)

    def _patience(self, entry: QueuedGroup) -> float:
        group = entry.group
        return (group and group.timeout) or entry.plugin.timeout

    def _bindings(
        self, flight: _Flight, barrier: Barrier | None, plan: Plan
    ) -> list[tuple[QueuedPod, Binding]]:
        uids = [member.pod.uid for member in plan.members]
        popped = self._queue.pop_members(flight.entry, uids)
        started = []
        for queued, member, placement in zip(popped, plan.members, plan.placements, strict=True):
            binding = Binding(
                member.pod, member.framework, member.state, member.waits, started=flight.started
            )
            binding.evaluated, binding.feasible = placement.evaluated, placement.feasible
            binding.barrier = barrier
            flight.bindings[member.pod.uid] = binding
            started.append((queued, binding))
        return started

    # What becomes of the bindings

    def retries(self, binding: Binding, status: Status) -> bool:
        """A Pod could not be bound although its group is: try its node once more."""
        barrier = binding.barrier
        again = (
            barrier is not None
            and barrier.is_open
            and status.code is Code.ERROR
            and not binding.retried
            and self._cache.is_assumed(binding.pod.uid)
        )
        if again:
            log.warning("Binding a Pod of a group again", pod=binding.pod.key, err=status.message)
            self._binder.retry(binding)
        return again

    def ended(self, binding: Binding, status: Status) -> None:
        """The binding of a Pod of a group is over, well or not."""
        assert binding.barrier is not None
        flight = self._flights[binding.barrier]
        del flight.bindings[binding.pod.uid]
        if status.ok:
            flight.bound += 1
            self._queue.group_member_bound(binding.pod)
        elif not flight.failure:
            flight.failure = f"{binding.pod.key}: {status.message}"
            flight.rejector = status.plugin if status.rejected and not binding.permitted else ""
            self._binder.fail_group(list(flight.bindings.values()), Status.error(flight.failure))
        if not flight.bindings:
            del self._flights[binding.barrier]
            self._close(flight)

    def _close(self, flight: _Flight) -> None:
        entry, profile = flight.entry, flight.framework.name
        if entry.plugin.workload_api:
            return
        if flight.bound:
            self._queue.group_ended(entry)
            seconds = time.perf_counter() - flight.started
            self._instrument.group_attempt(profile, "scheduled", "Scheduled", seconds)
            self._report.scheduled(
                entry, profile, flight.bound, flight.minimum, flight.domains, flight.failure
            )
            if logs.enabled(2):
                log.info("Successfully bound group", v=2, group=entry.key, pods=flight.bound)
            return
        sentence = f"Failed: {flight.failure}"
        message = f"the group {entry.key} could not be bound: {flight.failure}"
        rejection = GroupRejection(sentence, message, Reason.SCHEDULER_ERROR)
        if flight.rejector:
            pods = tuple(entry.pods[:1])
            plugins = frozenset({flight.rejector})
            rejection = GroupRejection(sentence, message, plugins=plugins, pods=pods)
        self._fail(entry, flight.framework, rejection)

    def _fail(self, entry: QueuedGroup, framework: Framework, rejection: GroupRejection) -> None:
        self._effects.carry_out(framework, rejection.effects)
        failed = rejection.reason is Reason.SCHEDULER_ERROR
        result = "error" if failed else "unschedulable"
        reason = reason_of(rejection.sentence)
        self._instrument.group_attempt(framework.name, result, reason, 0.0)
        if failed:
            log.error("Error scheduling group; retrying", group=entry.key, err=rejection.sentence)
        elif logs.enabled(2):
            text = "Unable to schedule group; no fit; waiting"
            log.info(text, v=2, group=entry.key, err=rejection.sentence)
        plugins = set() if failed else {entry.plugin.name, *rejection.plugins}
        leaving = None if rejection.room is None else rejection.room.leaving
        place = self._queue.group_rejected(entry, rejection.pods, plugins, leaving)
        if place is not Place.OUTSIDE:
            self._nominate(entry, rejection.room)
            self._report.failed(entry, framework.name, rejection)

    def _nominate(self, entry: QueuedGroup, room: Room | None) -> None:
        """The room is for these Pods, and what they were nominated to before is not."""
        nodes = room.nodes if room is not None else {}
        for uid, queued in entry.members.items():
            self._queue.nominator.nominate(queued.pod, nodes.get(uid, ""))

    # Time

    def next_timer(self) -> float | None:
        """Seconds until `expire` has something to do; None while nothing waits."""
        deadlines = [barrier.deadline for barrier in self._flights if not barrier.is_open]
        return max(min(deadlines) - self._clock(), 0.0) if deadlines else None

    def expire(self) -> None:
        """Give up the groups that will not be ready to be bound in time; tell of missing Pods."""
        if self._flights:
            any_gone = self._cache.forgotten != self._forgotten
            self._forgotten = self._cache.forgotten
            for barrier, flight in list(self._flights.items()):
                if barrier.is_open or barrier.failure is not None:
                    continue
                if text := self._why_not_ready(barrier, flight, any_gone):
                    self._binder.fail_group(list(flight.bindings.values()), Status.error(text))
        if len(self._queue.groups) and self._clock() >= self._next_look:
            self._next_look = self._clock() + 1.0
            self._report.gathering(self._long_gathering())
            self._end_nominations()

    def _why_not_ready(self, barrier: Barrier, flight: _Flight, any_gone: bool) -> str:
        """Why these Pods are not going to be bound together; "" while they may be.

        ``any_gone``: whether an assumed Pod has gone since the last question.
        """
        if self._clock() >= barrier.deadline:
            return f"the group was not ready to be bound within {self._patience(flight.entry):g}s"
        if not any_gone:
            return ""
        pods = (binding.pod for binding in flight.bindings.values())
        gone = next((pod for pod in pods if not self._cache.is_assumed(pod.uid)), None)
        return "" if gone is None else f"{gone.key} was deleted before it was bound"

    def _end_nominations(self) -> None:
        """Nodes are not kept for groups that have lost Pods that they need."""
        nominator = self._queue.nominator
        gathering = [g for g in self._queue.groups if g.is_gathering] if len(nominator) else []
        pods = [queued.pod for entry in gathering for queued in entry.members.values()]
        nominated = [pod for pod in pods if nominator.nominated_node(pod.uid)]
        for pod in nominated:
            nominator.remove(pod.uid)
        self._report.nominations_ended(nominated)

    def _long_gathering(self) -> list[tuple[QueuedGroup, str]]:
        latest = self._clock() - GATHERING_SECONDS
        groups = self._queue.groups
        gathering = (g for g in groups if g.is_gathering and g.timestamp <= latest)
        return [(entry, groups.why_gathering(entry)) for entry in gathering]

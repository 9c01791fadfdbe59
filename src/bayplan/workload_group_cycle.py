"""The cycle of a PodGroup of Kubernetes: one attempt for all of its Pods, and what becomes of each.

`Scheduler` comes here with a group whose plugin is GangScheduling. Where the attempt
(`bayplan.attempt.workload_group`) succeeds, the Pods with nodes are bound and the others are tried
again at once, still as a group. Where it fails, all Pods come back and each is told why: one that
was rejected for itself, the others what the group lacks.

Answers to ``podGroupCycle`` and ``submitPodGroupAlgorithmResult`` in kube-scheduler's
``pkg/scheduler/schedule_one_podgroup.go``. There is one difference: the Pods that bring a gang to
its minimum meet at a `Barrier` between PreBind and Bind, so that none of them is bound alone.
"""

from __future__ import annotations

import time

import structlog

from bayplan import logs
from bayplan.api.pod import Pod
from bayplan.api.scheduling import WorkloadPodGroup
from bayplan.apply.effects import Effects
from bayplan.attempt.outcome import Reason
from bayplan.attempt.placers import Placers
from bayplan.attempt.report import Report
from bayplan.attempt.workload_group import (
    UNSCHEDULABLE,
    GroupAttempt,
    Placed,
    invalid,
)
from bayplan.attempt.workload_group_report import GroupStatusWriter, publish
from bayplan.binding.cycle import Binding
from bayplan.cache.cache import Cache
from bayplan.cache.pod_groups import find_workload_group
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Status
from bayplan.group_cycle import GroupCycle
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("groups")

Bindings = list[tuple[QueuedPod, Binding]]


class WorkloadGroupCycle:
    """Schedules PodGroups of Kubernetes. Scheduling thread only.

    Args:
        flights: where Pods go whose bindings wait for each other.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        placers: Placers,
        flights: GroupCycle,
        report: Report,
        statuses: GroupStatusWriter,
        effects: Effects,
        instrument: Instrument,
    ) -> None:
        self._cache, self._queue = cache, queue
        self._attempts, self._rooms = placers.attempts, placers.workload_rooms
        self._commit = placers.commit
        self._flights = flights
        self._report = report
        self._statuses = statuses
        self._effects = effects
        self._instrument = instrument

    def schedule(self, entry: QueuedGroup, framework: Framework, started: float) -> Bindings:
        """One attempt to place one group; returns what is to be bound."""
        pod_group = find_workload_group(self._cache.objects, entry.key)
        if pod_group is None:
            self._queue.group_rejected(entry, (), (entry.plugin.name,))
            return []
        for member in entry.members.values():
            member.attempts += 1
        scheduled = self._cache.members.scheduled(entry.key)
        every = [m.pod for m in sorted(entry.members.values(), key=entry.plugin.order)]
        if fault := invalid(pod_group, every, scheduled):
            done = GroupAttempt(Status.error(fault), tuple(every))
        else:
            self._skip(entry, framework)
            if not entry.members:
                self._queue.group_placed(entry)
                return []
            if logs.enabled(3):
                log.info("Attempting to schedule pod group", v=3, podGroup=entry.key)
            done = self._attempts.run(framework, pod_group, entry.pods)
            self._instrument.workload_group_planned(time.perf_counter() - started)
        return self._submit(entry, framework, pod_group, done, bool(scheduled), started)

    def _skip(self, entry: QueuedGroup, framework: Framework) -> None:
        """Members that are being deleted need no node."""
        leaving = [m.pod for m in entry.members.values() if m.pod.deleted is not None]
        for queued in self._queue.pop_members(entry, [pod.uid for pod in leaving]):
            self._report.skipped(queued.pod, framework.name)
            self._queue.done(queued.uid)

    def _submit(
        self,
        entry: QueuedGroup,
        framework: Framework,
        pod_group: WorkloadPodGroup,
        done: GroupAttempt,
        begun: bool,
        started: float,
    ) -> Bindings:
        """Make the attempt count, or take the group back; say so."""
        together = pod_group.is_gang and not begun
        if done.status.ok:
            done = self._permitted(done, together)
        untried = done.status
        done = self._rooms.make_room(framework, pod_group, done)
        self._effects.carry_out(framework, done.effects)
        for pod, rejection in done.failures(untried):
            failed = rejection.reason is Reason.SCHEDULER_ERROR
            result = "error" if failed else "unschedulable"
            seconds = time.perf_counter() - started
            self._instrument.attempt(pod, framework.name, result, seconds)
            if rejection.nominated is not None:
                self._queue.nominator.nominate(pod, rejection.nominated)
            self._report.failed(pod, framework.name, rejection)
        publish(self._statuses, entry, pod_group, done.status)
        self._instrument.workload_group_attempt(
            framework.name, _result(done), time.perf_counter() - started
        )
        self._log(entry, done)
        if not done.status.ok:
            self._take_back(entry, done)
            return []
        bindings = self._flights.take_off(entry, framework, done.placed, started, together=together)
        self._queue.group_placed(entry)
        return bindings

    def _permitted(self, done: GroupAttempt, together: bool) -> GroupAttempt:
        """Ask Permit about the Pods with nodes; one that it refuses fails, or the gang does."""
        results = list(done.results)
        for index, result in enumerate(done.results):
            if not isinstance(result, Placed):
                continue
            refusal = self._commit.permit([result.member])
            if refusal is None:
                continue
            if together:
                self._attempts.undo(done)
                results[index] = refusal
                status = Status.unschedulable(UNSCHEDULABLE, refusal.message)
                return GroupAttempt(status, done.pods, tuple(results))
            self._commit.undo([result.member])
            results[index] = refusal
        return GroupAttempt(done.status, done.pods, tuple(results))

    def _take_back(self, entry: QueuedGroup, done: GroupAttempt) -> None:
        plugins: set[str] = set()
        rejected: dict[int, Pod] = {}
        if done.status.rejected:
            plugins |= {entry.plugin.name, done.status.plugin} - {""}
            for pod, rejection in done.rejections:
                plugins |= rejection.unschedulable_plugins
                rejected.setdefault(pod.shape.id, pod)
        leaving = None if done.room is None else done.room.leaving
        self._queue.group_rejected(entry, list(rejected.values()), plugins, leaving)

    def _log(self, entry: QueuedGroup, done: GroupAttempt) -> None:
        if done.status.ok or done.status.rejected:
            if logs.enabled(2):
                text = "Unable to schedule a pod group"
                if done.status.ok:
                    text = "Successfully scheduled a pod group"
                placed, err = len(done.placed), done.status.message
                log.info(text, v=2, podGroup=entry.key, scheduledPods=placed, err=err)
        else:
            log.error("Error scheduling pod group", podGroup=entry.key, err=done.status.message)


def _result(done: GroupAttempt) -> str:
    if done.status.ok:
        return "scheduled"
    if not done.status.rejected:
        return "error"
    return "unschedulable" if done.room is None else "waiting_on_preemption"

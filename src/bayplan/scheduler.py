"""The scheduler: read this file first. The whole cycle, in the order of execution.

One thread runs `Scheduler.run`. It alone changes the cache and the queue. It applies what others
have put into the inbox (changes of the cluster, outcomes of bindings), then takes one Pod from the
queue and runs its scheduling cycle:

    QueueSort > PreFilter > Filter > (PostFilter) > PreScore > Score      `bayplan.attempt.attempt`
    assume > Reserve > Permit                                             `bayplan.attempt.commit`

Both make a `Decision` (`bayplan.decide`), which is then applied (`bayplan.apply`): the Pod keeps
its node, and what plugins want done outside, such as evictions, is carried out. The binding cycle
(`bayplan.binding`) then goes on by itself and comes back through the inbox, as `BindingEnded`. A
group of Pods comes from the queue as one entry and is placed as a whole (`bayplan.group_cycle`). An
attempt that fails, here or there, ends in `_fail`: the Pod returns to the queue, and its event and
condition say why (`bayplan.report.pods`).

Answers to kube-scheduler's ``pkg/scheduler/schedule_one.go``.

The reasons: docs/decisions/0001-one-writer.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from bayplan.support import logs
from bayplan.api.pod import Pod
from bayplan.apply.effects import Effects
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.binding.cycle import Binder, Binding
from bayplan.config.points import Point
from bayplan.decide.deciding import Decision, deciding
from bayplan.engine.runtime import Framework
from bayplan.framework.status import Status
from bayplan.group_cycle import GroupCycle
from bayplan.groups.placers import Placers
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import (
    ActivatePods,
    BindingEnded,
    Changed,
    Command,
    EvictionFailed,
    Lead,
    Message,
    Removed,
    Replaced,
    WakeUp,
)
from bayplan.profiles import Profiles
from bayplan.queue import update_events
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState
from bayplan.report.kubernetes_groups import KubernetesGroupReport
from bayplan.report.label_groups import LabelGroupReport
from bayplan.report.objects import ObjectReport
from bayplan.report.pods import Report
from bayplan.report.waits import WaitReport
from bayplan.telemetry.instrument import Instrument
from bayplan.telemetry.pulse import Pulse
from bayplan.world import World

log = structlog.get_logger("scheduler")

IDLE_SECONDS = 1.0
"""Longest sleep of the loop: how late it notices that it should stop."""
CHORE_SECONDS = 5.0
"""Between two checks of users' objects, and two calls of what plugins do from time to time."""
TIMER_SECONDS = 0.01
"""How often timers are looked at while one Pod follows the other."""
DRAIN_SECONDS = 10.0
"""How long bindings in flight may take once it should stop."""


class Scheduler:
    """Places Pods; see the module's docstring.

    Attributes:
        profiles: what decides at present; see `adopt`.
        active: whether Pods may be scheduled now (this process leads).
        stopping: whether it takes no new Pod any more; see `stop`.
        pulse: what it does right now.
        chores: called from time to time while it is active.
        generation: another number after each attempt and each message that may change something;
            any thread may read it.
    """

    def __init__(
        self,
        world: World,
        profiles: Profiles,
        placers: Placers,
        inbox: Inbox,
        binder: Binder,
        report: Report,
        label_report: LabelGroupReport,
        kubernetes_report: KubernetesGroupReport,
        object_report: ObjectReport,
        wait_report: WaitReport,
        effects: Effects,
        instrument: Instrument,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world = world
        self._cache, self._queue = world.cache, world.queue
        self._inbox = inbox
        self._placers = placers
        self._binder = binder
        self._report = report
        self._object_report, self._wait_report = object_report, wait_report
        self._effects = effects
        self._groups = GroupCycle(
            world.cache,
            world.queue,
            world.evictions,
            placers,
            binder,
            effects,
            report,
            label_report,
            kubernetes_report,
            clock,
        )
        self._instrument = instrument
        self._clock = clock
        self._in_flight: dict[str, tuple[QueuedPod, Binding]] = {}
        self.active = False
        self.stopping = False
        self.pulse = Pulse()
        self.chores: list[Callable[[], object]] = []
        self.generation = 0
        self._end_by = float("inf")
        self._next_timers = 0.0
        self._next_chores = 0.0
        self.profiles = profiles
        self._retired: list[Profiles] = []
        world.adopt(profiles)

    def adopt(self, profiles: Profiles) -> None:
        """Decide by these profiles from now on. Between two Pods, scheduling thread only.

        Binding cycles go on with the plugins that they began with; these are closed after that.
        """
        self._retired.append(self.profiles)
        self.generation += 1
        self.profiles = profiles
        self._world.adopt(profiles)
        self._close_retired()

    def _close_retired(self) -> None:
        in_use = {id(binding.framework) for _, binding in self._in_flight.values()}
        for profiles in self._retired.copy():
            if not any(id(framework) in in_use for framework in profiles.values()):
                self._retired.remove(profiles)
                profiles.close()

    @property
    def retiring(self) -> bool:
        """Whether plugins that were replaced are still in use."""
        return bool(self._retired)

    @property
    def in_flight(self) -> int:
        """How many binding cycles have not come back."""
        return len(self._in_flight)

    # The loop

    def run(self) -> None:
        """Schedule until `stop` is called and the bindings in flight are over or take too long.

        Pods that wait in Permit by then are rejected.
        """
        while not self.stopping:
            self.pulse.step()
            queued = self._queue.pop() if self.active else None
            if queued is not None:
                self.schedule_one(queued)
            self.take_in(wait=queued is None)
        self._binder.reject_waiting("the scheduler is ending")
        self._drain_until(self._end_by)
        self.pulse.rest()

    def drain_bindings(self, seconds: float) -> None:
        """After `run`: wait for bindings in flight, and undo the failed ones.

        Failed bindings are not reported: their Pods are left for the next leader.
        """
        self._drain_until(self._clock() + seconds)

    def _drain_until(self, deadline: float) -> None:
        while self._in_flight and self._clock() < deadline:
            self.take_in(wait=True)

    def stop(self) -> None:
        """Take no new Pod, and end. Safe from any thread and from a signal handler."""
        self._end_by = self._clock() + DRAIN_SECONDS
        self.stopping = True
        self._inbox.post(WakeUp())

    def take_in(self, *, wait: bool) -> None:
        """Apply what the inbox holds, and from time to time run the timers that have expired."""
        timeout = 0.0
        if wait:
            timer = self.next_timer()
            timeout = IDLE_SECONDS if timer is None else min(IDLE_SECONDS, timer)
        waiting = timeout > 0
        if waiting:
            self.pulse.rest()
        for message in self._inbox.drain(timeout):
            if waiting:
                waiting = False
                self.pulse.step()
            self._apply(message)
        if waiting:
            self.pulse.step()
        # Each time where a group gets ready to be bound, since a Pod of it may just have gone.
        getting_ready = self._groups.next_timer() is not None
        if wait or getting_ready or self._clock() >= self._next_timers:
            self._run_timers()
            self._next_timers = self._clock() + TIMER_SECONDS

    def next_timer(self) -> float | None:
        """Seconds until a timer expires; None while nothing waits for time."""
        timers = [self._binder.next_timer(), self._groups.next_timer()]
        if self.active:
            timers.append(self._queue.next_timer())
        return min((timer for timer in timers if timer is not None), default=None)

    def _run_timers(self) -> None:
        self._binder.expire()
        self._groups.expire()
        self._queue.flush()
        self._world.overcommit.check()
        self._world.rooms.check()
        if self.active and self._clock() >= self._next_chores:
            self._next_chores = self._clock() + CHORE_SECONDS
            self._object_report.check(self.profiles.values())
            self._wait_report.check()
            for done in self.chores:
                done()
            for framework in self.profiles.values():
                for chore in framework.services.chores:
                    self._effects.carry_out(framework, chore())

    def _apply(self, message: Message) -> None:
        if not isinstance(message, (Command, WakeUp)):
            self.generation += 1
        match message:
            case BindingEnded():
                self._binding_ended(*self._in_flight.pop(message.pod.uid), message.status)
                if self._retired:
                    self._close_retired()
            case Changed() | Removed() | Replaced():
                self._world.handlers.apply(message)
            case ActivatePods():
                self._queue.activate(message.pods)
            case EvictionFailed():
                # Others than the preemptor may count on the room: their preemption found it made.
                self._world.evictions.failed(message.pod)
                self._queue.activate(self._world.nominator.nominated_pods(message.pod.node_name))
            case Lead():
                self.active = True
                self._world.lead()
                log.info("Leading")
            case Command():
                message.run()
            case WakeUp():
                pass

    # The scheduling cycle

    def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt to place one Pod, or one group of Pods."""
        started = time.perf_counter()
        self.generation += 1
        pod = queued.pod
        self.pulse.step(pod)
        framework = self.profiles.frameworks[pod.spec.scheduler_name]
        if isinstance(queued, QueuedGroup):
            for popped, binding in self._groups.schedule(queued, framework, started):
                self._start(popped, binding)
            return
        if self._skip(framework, pod):
            self._queue.done(pod.uid)
            return
        if logs.enabled(3):
            log.info("Attempting to schedule pod", v=3, pod=pod.key, attempts=queued.attempts)
        self._instrument.attempt_began(pod, framework.name, queued.attempts)
        with deciding(self._placers, framework, pod, acting=True) as decision:
            self._effects.apply(framework, decision)
        self._instrument.algorithm(decision.searched_at - started, decision.evaluated)
        if decision.rejection is not None:
            self._fail(queued, framework, decision.rejection, started)
        else:
            self._bind(queued, decision, started)

    def _skip(self, framework: Framework, pod: Pod) -> bool:
        """A Pod that is being deleted, or is assumed already, needs no node."""
        if pod.deleted is not None:
            self._report.skipped(pod, framework.name)
            return True
        return self._cache.is_assumed(pod.uid)

    # The binding cycle, as far as it concerns this thread

    def _bind(self, queued: QueuedPod, decision: Decision, started: float) -> None:
        member, placement = decision.member, decision.placement
        assert member is not None
        assert placement is not None
        binding = Binding(member.pod, member.framework, member.state, member.waits, started=started)
        binding.choice = placement.choice
        self._start(queued, binding)

    def _start(self, queued: QueuedPod, binding: Binding) -> None:
        self._in_flight[binding.pod.uid] = queued, binding
        self._instrument.binding_began(binding.pod)
        if self._binder.pre_flight(binding):
            self._report.nominated(binding.pod)
        self._binder.start(binding)

    def _binding_ended(self, queued: QueuedPod, binding: Binding, status: Status) -> None:
        if binding.barrier is None:
            self._conclude(queued, binding, status)
        elif self._clock() < self._end_by and self._groups.retries(binding, status):
            self._in_flight[binding.pod.uid] = queued, binding
        else:
            self._conclude(queued, binding, status)
            self._groups.ended(binding, status)

    def _conclude(self, queued: QueuedPod, binding: Binding, status: Status) -> None:
        if status.ok:
            self._queue.done(queued.uid)
            self._succeed(queued, binding)
            return
        self._effects.carry_out(binding.framework, self._placers.commit.undo([binding]))
        if self._clock() >= self._end_by:
            return
        if status.rejected and not binding.permitted:
            rejection = Rejection.of_chosen_node(Point.PERMIT, status, timed_out=binding.timed_out)
        else:
            # No plugin to wait for: PreBind and Bind failures are tried again after a backoff.
            reason = Reason.UNSCHEDULABLE if status.rejected else Reason.SCHEDULER_ERROR
            rejection = Rejection(reason, status.message)
        self._fail(queued, binding.framework, rejection, binding.started, binding.pod.node_name)
        # Its resources are free again: wake other Pods. Not itself, which is requeued already.
        freed = update_events.ASSIGNED_POD_DELETE
        self._queue.move_all(freed, binding.pod, None, lambda other: other is not queued)

    def _succeed(self, queued: QueuedPod, binding: Binding) -> None:
        pod, profile = binding.pod, binding.framework.name
        seconds = time.perf_counter() - binding.started
        self._instrument.attempt(pod, profile, "scheduled", seconds)
        since = queued.initial_attempt_timestamp
        waited = None if since is None else self._clock() - since
        flushed = queued.was_flushed_from_unschedulable
        self._instrument.scheduled(queued.attempts, waited, flushed)
        self._report.scheduled(pod, profile, binding.choice)
        if logs.enabled(2):
            log.info(
                "Successfully bound pod to node",
                v=2,
                pod=pod.key,
                node=pod.node_name,
                evaluatedNodes=binding.choice.evaluated,
                feasibleNodes=binding.choice.feasible,
                ms=round(seconds * 1000, 3),
            )

    # Failure, of either cycle

    def _fail(
        self,
        queued: QueuedPod,
        framework: Framework,
        rejection: Rejection,
        started: float,
        node_name: str = "",
    ) -> None:
        """The attempt failed, with this node chosen or none: back to the queue, and say why."""
        failed = rejection.reason is Reason.SCHEDULER_ERROR
        result = "error" if failed else "unschedulable"
        seconds = time.perf_counter() - started
        self._instrument.attempt(queued.pod, framework.name, result, seconds)
        where = {"node": node_name} if node_name else {}
        if failed:
            text = "Error scheduling pod; retrying"
            log.error(text, pod=queued.pod.key, err=rejection.message, **where)
        elif logs.enabled(2):
            text = "Unable to schedule pod; no fit; waiting"
            log.info(text, v=2, pod=queued.pod.key, err=rejection.message, **where)
        state = self._queue.add_unschedulable_if_not_present(
            queued,
            rejection.unschedulable_plugins,
            rejection.pending_plugins,
            full_backoff=rejection.timed_out,
        )
        if state is QueueState.OUTSIDE:
            return
        if rejection.nominated is not None:
            self._queue.nominator.nominate(queued.pod, rejection.nominated)
        self._report.failed(queued.pod, framework.name, rejection)

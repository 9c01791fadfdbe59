"""The scheduler: read this file first. It shows the whole cycle, in the order in which it happens.

One thread runs `Scheduler.run`. It alone changes the cache and the queue. It takes in what others
have put into the inbox (changes of the cluster, outcomes of bindings), then takes one Pod from the
queue and runs its scheduling cycle:

    QueueSort > PreFilter > Filter > (PostFilter) > PreScore > Score > assume > Reserve > Permit

The binding cycle (`bayplan.binding`) then goes on by itself and comes back through the inbox.
Whatever fails on the way ends in `_fail`: the Pod returns to the queue, and its event and its
condition say why. Answers to kube-scheduler's ``pkg/scheduler/schedule_one.go``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from bayplan import logs
from bayplan.api.pod import Pod, PodCondition
from bayplan.attempt.selection import NodeSelector, Selection
from bayplan.binding.cycle import Binder, Binding
from bayplan.cache.cache import Cache
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.interface import EventRecorder
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Status
from bayplan.handlers import Handlers
from bayplan.inbox.inbox import Inbox
from bayplan.queue import update_events
from bayplan.queue.places import Place
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("scheduler")

IDLE_SECONDS = 1.0
"""Longest sleep of the loop: how late it notices that it should stop."""
DRAIN_SECONDS = 10.0
"""How long bindings in flight may take to land once it should stop."""


class StatusWriter(Protocol):
    """Writes a Pod's condition and nomination to the API server, later, and reports trouble."""

    def patch(self, pod: Pod, condition: PodCondition | None, nominated: str | None) -> None:
        """None leaves the condition or the nomination as it is; "" clears the nomination."""


@dataclass(frozen=True)
class Rejection:
    """Why an attempt failed.

    Attributes:
        reason: Unschedulable or SchedulerError, the reason of the PodScheduled condition.
        nominated: the node to nominate, "" for none, None to leave the nomination alone.
    """

    reason: str
    message: str
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated: str | None = ""


class Scheduler:
    """Places Pods; see the module's docstring.

    Args:
        profiles: frameworks by schedulerName.

    Attributes:
        binder: runs binding cycles; set right after construction, since it reports back here.
        active: whether Pods may be scheduled now (this process leads).
        stopping: whether it takes no new Pod any more; see `stop`.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        inbox: Inbox,
        handlers: Handlers,
        profiles: Mapping[str, Framework],
        selector: NodeSelector,
        writer: StatusWriter,
        event_recorder: EventRecorder,
        instrument: Instrument,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._inbox = inbox
        self._handlers = handlers
        self._profiles = profiles
        self._selector = selector
        self._writer = writer
        self._events = event_recorder
        self._instrument = instrument
        self._clock = clock
        self._in_binding: dict[str, QueuedPod] = {}
        self.binder: Binder
        self.active = False
        self.stopping = False
        self._end_by = float("inf")

    def run(self) -> None:
        """Schedule until `stop` is called and the bindings in flight have landed or take too long.

        Pods that wait in Permit by then are turned down.
        """
        while not self.stopping:
            queued = self._queue.pop() if self.active else None
            if queued is not None:
                self.schedule_one(queued)
            self.take_in(wait=queued is None)
        self.binder.reject_waiting("the scheduler is ending")
        self._land_until(self._end_by)

    def land_the_rest(self, seconds: float) -> None:
        """After `run`: take note of the bindings that still come back, undo those that failed.

        Nothing is said about the failed ones: their Pods are left for whoever schedules next.
        """
        self._land_until(self._clock() + seconds)

    def _land_until(self, deadline: float) -> None:
        while self.binder.in_flight and self._clock() < deadline:
            self.take_in(wait=True)

    def stop(self) -> None:
        """Take no new Pod, and end. Safe from any thread and from a signal handler."""
        self._end_by = self._clock() + DRAIN_SECONDS
        self.stopping = True
        self._inbox.post(lambda: None)

    def take_in(self, *, wait: bool) -> None:
        """Apply what the inbox holds, and do what time has made due."""
        timeout = 0.0
        if wait:
            timers = [self._queue.next_timer() if self.active else None, self.binder.next_timer()]
            timeout = min([IDLE_SECONDS, *(timer for timer in timers if timer is not None)])
        for item in self._inbox.drain(timeout):
            if isinstance(item, list):
                for message in item:
                    self._handlers.apply(message)
            else:
                item()
        self.binder.expire()
        self._queue.flush()

    # The scheduling cycle

    def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt to place one Pod."""
        started = time.perf_counter()
        pod = queued.pod
        framework = self._profiles[pod.spec.scheduler_name]
        if self._skip(framework, pod):
            self._queue.done(pod.uid)
            return
        if logs.enabled(3):
            log.info("Attempting to schedule pod", v=3, pod=pod.key, attempts=queued.attempts)
        state = CycleState()
        try:
            selection = self._selector.select(framework, state, pod)
            evaluated = selection.fit.evaluated if selection.fit is not None else 0
            self._instrument.algorithm(time.perf_counter() - started, evaluated)
            if selection.node_name:
                self._place(queued, framework, state, selection, started)
            else:
                rejection = self._make_room(framework, state, pod, selection)
                self._fail(queued, framework, rejection, started)
        except AttemptFault as exc:
            self._fail(queued, framework, Rejection("SchedulerError", str(exc)), started)
        except Exception as exc:
            # What a plugin hands out (states, statuses) may break anywhere it is looked at.
            log.exception("attempt broke", pod=pod.key, profile=framework.name)
            text = f"{type(exc).__name__}: {exc}"
            self._fail(queued, framework, Rejection("SchedulerError", text), started)

    def _skip(self, framework: Framework, pod: Pod) -> bool:
        """A Pod that is being deleted, or is assumed already, needs no node."""
        if pod.deleted is not None:
            note = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
            self._warn(framework, pod, note)
            return True
        return self._cache.is_assumed(pod.uid)

    def _make_room(
        self, framework: Framework, state: CycleState, pod: Pod, selection: Selection
    ) -> Rejection:
        """Nothing fits: let PostFilter plugins try to change that, and say why."""
        diagnosis = selection.diagnosis
        if diagnosis is None:
            assert selection.rejection is not None
            return Rejection("Unschedulable", selection.rejection.message)
        nominated: str | None = ""
        if framework.plugins.post_filter:
            result = framework.post_filter(state, pod, diagnosis)
            diagnosis.post_filter_message = result.status.message
            nominated = result.nominated_node
            if logs.enabled(5):
                text = "Status after running PostFilter plugins for pod"
                log.info(text, v=5, pod=pod.key, code=str(result.status.code), nominated=nominated)
        return Rejection(
            "Unschedulable",
            diagnosis.message,
            frozenset(diagnosis.unschedulable_plugins),
            frozenset(diagnosis.pending_plugins),
            nominated,
        )

    def _place(
        self,
        queued: QueuedPod,
        framework: Framework,
        state: CycleState,
        selection: Selection,
        started: float,
    ) -> None:
        """Assume the Pod on its node, reserve, ask for permission, begin the binding cycle."""
        assert selection.fit is not None
        pod, node_name = queued.pod, selection.node_name
        assumed = self._cache.assume(pod, node_name)
        self._queue.nominator.remove(pod.uid)
        binding = Binding(assumed, framework, state, started=started)
        binding.evaluated, binding.feasible = selection.fit.evaluated, selection.fit.count
        try:
            status = framework.lifecycle.reserve(state, assumed, node_name)
            if status.ok:
                status, binding.waits = framework.lifecycle.permit(state, assumed, node_name)
            if status.rejected:
                self._undo(binding)
                self._fail(queued, framework, _rejected_by(status), started)
                return
        except Exception:
            self._undo(binding)
            raise
        self._in_binding[pod.uid] = queued
        self.binder.start(binding)

    def _undo(self, binding: Binding) -> None:
        binding.framework.lifecycle.unreserve(binding.state, binding.pod, binding.pod.node_name)
        self._cache.forget(binding.pod.uid)

    # The binding cycle, as far as it concerns this thread

    def nominate(self, binding: Binding) -> None:
        """Getting ready may take a while: tell others where the Pod is about to go."""
        pod = binding.pod
        self._writer.patch(pod, None, pod.node_name)

    def bound(self, binding: Binding, status: Status) -> None:
        """A binding cycle is over."""
        pod = binding.pod
        queued = self._in_binding.pop(pod.uid)
        if status.ok:
            self._queue.done(pod.uid)
            self._succeed(queued, binding)
            return
        self._undo(binding)
        if self._clock() >= self._end_by:
            return
        if status.rejected and not binding.permitted:
            rejection = _rejected_by(status)
        else:
            # No plugin to wait for: PreBind and Bind failures are tried again after a backoff.
            reason = "Unschedulable" if status.rejected else "SchedulerError"
            rejection = Rejection(reason, status.message)
        self._fail(queued, binding.framework, rejection, binding.started)
        # What it had held is free for others; it would not wake by its own leaving.
        freed = update_events.ASSIGNED_POD_DELETE
        self._queue.move_all(freed, pod, None, lambda other: other.uid != pod.uid)

    def _succeed(self, queued: QueuedPod, binding: Binding) -> None:
        pod, seconds = binding.pod, time.perf_counter() - binding.started
        self._instrument.attempt(binding.framework.name, "scheduled", seconds)
        since = queued.initial_attempt_timestamp
        waited = None if since is None else self._clock() - since
        flushed = queued.was_flushed_from_unschedulable
        self._instrument.scheduled(queued.attempts, waited, flushed)
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node_name}"
        name = binding.framework.name
        self._events.event(pod, None, "Normal", "Scheduled", "Binding", note, name)
        if not logs.enabled(2):
            return
        log.info(
            "Successfully bound pod to node",
            v=2,
            pod=pod.key,
            node=pod.node_name,
            evaluatedNodes=binding.evaluated,
            feasibleNodes=binding.feasible,
            ms=round(seconds * 1000, 3),
        )

    # Failure

    def _fail(
        self, queued: QueuedPod, framework: Framework, rejection: Rejection, started: float
    ) -> None:
        """The attempt failed: back to the queue, and say why on the Pod."""
        result = "unschedulable" if rejection.reason == "Unschedulable" else "error"
        self._instrument.attempt(framework.name, result, time.perf_counter() - started)
        pod = queued.pod.key
        if result == "error":
            log.error("Error scheduling pod; retrying", pod=pod, err=rejection.message)
        elif logs.enabled(2):
            text = "Unable to schedule pod; no fit; waiting"
            log.info(text, v=2, pod=pod, err=rejection.message)
        place = self._queue.add_unschedulable_if_not_present(
            queued, rejection.unschedulable_plugins, rejection.pending_plugins
        )
        if place is Place.OUTSIDE:
            return
        current = queued.pod
        if rejection.nominated is not None:
            self._queue.nominator.nominate(current, rejection.nominated)
        self._warn(framework, current, cut_note(rejection.message))
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason=rejection.reason,
            message=rejection.message,
            observed_generation=current.generation,
        )
        self._writer.patch(current, condition, rejection.nominated)

    def _warn(self, framework: Framework, pod: Pod, note: str) -> None:
        name = framework.name
        self._events.event(pod, None, "Warning", "FailedScheduling", "Scheduling", note, name)


NOTE_LIMIT = 1024
"""Longest note of an event, in characters of its UTF-8 encoding."""


def cut_note(message: str) -> str:
    """``message`` as the note of an event: cut at `NOTE_LIMIT`."""
    encoded = message.encode()
    if len(encoded) <= NOTE_LIMIT:
        return message
    return encoded[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."


def _rejected_by(status: Status) -> Rejection:
    """A Reserve or Permit plugin turned down the one node that was left."""
    reasons = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
    return Rejection(
        "Unschedulable",
        f"0/1 nodes are available: {reasons}." if reasons else "0/1 nodes are available:",
        frozenset({status.plugin}),
    )

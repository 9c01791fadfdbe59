"""The binding cycle of one Pod: WaitOnPermit, PreBind, Bind, PostBind.

It begins on the scheduling thread, right after Permit. If no Permit plugin makes the Pod wait and
no PreBind plugin has work to do, the Bind plugin runs at once; DefaultBinder only submits a request
to the dispatcher. Every other Pod continues on a worker thread when its wait is over. Every binding
ends in exactly one message `BindingEnded`, also after a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from bayplan.support import logs
from bayplan.api.pod import Pod
from bayplan.binding.barrier import Barrier
from bayplan.binding.preparing import PreparingPods
from bayplan.binding.waiting import WaitingPods
from bayplan.engine.faults import AttemptFault, is_interrupt
from bayplan.engine.runtime import Framework
from bayplan.engine.ties import NO_CHOICE, Choice
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import BindingEnded
from bayplan.support.text import error_text
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("binding")


class ExtenderBinder(Protocol):
    """Extenders that bind: asked before the Bind plugins."""

    def bind(self, pod: Pod, node_name: str) -> Status | None:
        """The outcome, or None when no extender binds this Pod. Blocks."""

    def binds(self, pod: Pod) -> bool:
        """Whether an extender binds this Pod."""


@dataclass
class Binding:
    """A Pod whose node is assumed and that is being bound.

    Attributes:
        pod: the assumed Pod, its node filled in.
        waits: seconds to wait in Permit, by plugin; empty if no plugin makes it wait.
        prepares: whether a PreBind plugin has something to do.
        failure: what went wrong before the cycle could begin.
        permitted: whether Permit is behind it: a failure from there on is no verdict on the node.
        timed_out: whether it waited in Permit until its time was up.
        choice: how the node was chosen.
        barrier: where it waits for the other Pods of its group; None for a Pod of its own.
        retried: whether its binding was refused once and is tried again, as that of a group is.
        started: when the attempt began, `time.perf_counter`.
    """

    pod: Pod
    framework: Framework
    state: CycleState
    waits: Mapping[str, float] = field(default_factory=dict)
    prepares: bool = False
    failure: Status | None = None
    permitted: bool = False
    timed_out: bool = False
    choice: Choice = NO_CHOICE
    barrier: Barrier | None = None
    retried: bool = False
    started: float = field(default_factory=time.perf_counter)


class Binder:
    """Runs binding cycles and posts the outcomes into the inbox."""

    def __init__(
        self,
        pool: Executor,
        inbox: Inbox,
        waiting: WaitingPods,
        preparing: PreparingPods,
        extenders: ExtenderBinder,
        instrument: Instrument,
    ) -> None:
        self._pool = pool
        self._inbox = inbox
        self._waiting = waiting
        self._preparing = preparing
        self._extenders = extenders
        self._instrument = instrument

    def pre_flight(self, binding: Binding) -> bool:
        """Ask PreBind plugins what they will do; whether the binding may take a while.

        Scheduling thread only, once before `start`. If so, the node should be published now.
        """
        pod, lifecycle = binding.pod, binding.framework.lifecycle
        try:
            status = lifecycle.pre_bind_pre_flight(binding.state, pod, pod.node_name)
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            binding.failure, binding.permitted = _failure(binding, exc), True
            return False
        binding.prepares = status.ok
        return binding.prepares or bool(binding.waits)

    def start(self, binding: Binding) -> None:
        """Begin the cycle. Scheduling thread only."""
        failure = binding.failure or (binding.barrier and binding.barrier.failure)
        if failure:
            self._finish(binding, failure)
        elif binding.waits:
            if logs.enabled(2):
                pod, waits = binding.pod, dict(binding.waits)
                log.info("Pod waits in Permit", v=2, pod=pod.key, node=pod.node_name, seconds=waits)
            decided = partial(self._decided, binding, time.perf_counter())
            self._waiting.add(binding.pod, binding.waits, decided)
        elif binding.prepares or self._blocks(binding):
            self._hand_over(binding)
        else:
            binding.permitted = True
            self._prepared(binding)

    def retry(self, binding: Binding) -> None:
        """Bind once more, to the same node. Scheduling thread only."""
        binding.retried = True
        if self._blocks(binding):
            self._pool.submit(self._bind, binding)
        else:
            self._bind(binding)

    def fail_group(self, bindings: Iterable[Binding], status: Status) -> None:
        """Let none of these Pods through that wait in Permit or for each other.

        One in PreBind comes back when that is over.
        """
        for binding in bindings:
            if binding.barrier is not None:
                binding.barrier.fail(status)
            waiting = self._waiting.get(binding.pod.uid)
            if waiting is not None:
                waiting.reject("", status.message)

    def next_timer(self) -> float | None:
        """Seconds until `expire` may have something to do; None while it has not."""
        return self._waiting.next_timer()

    def expire(self) -> None:
        """Reject the Pods that waited in Permit for too long."""
        self._waiting.expire()

    def reject_waiting(self, message: str) -> None:
        """Reject every Pod that waits in Permit."""
        for waiting in self._waiting:
            waiting.reject("", message)

    def _blocks(self, binding: Binding) -> bool:
        at_once = binding.framework.lifecycle.binds_at_once
        return not at_once or self._extenders.binds(binding.pod)

    def _decided(self, binding: Binding, began: float, verdict: Status, timed_out: bool) -> None:
        """Any thread: the wait in Permit is over."""
        binding.timed_out = timed_out
        self._waiting.remove(binding.pod.uid)
        seconds = time.perf_counter() - began
        self._instrument.permit_waited(binding.pod, str(verdict.code), seconds)
        if verdict.ok:
            self._hand_over(binding)
        else:
            self._finish(binding, verdict)

    def _hand_over(self, binding: Binding) -> None:
        """Any thread: go on on a worker."""
        if binding.prepares:
            self._preparing.begin(binding.pod.uid)
        self._pool.submit(self._prepare_and_bind, binding)

    def _prepare_and_bind(self, binding: Binding) -> None:
        """Worker: PreBind, then Bind."""
        self._instrument.worker_serves(binding.pod)
        try:
            self._go_on(binding)
        finally:
            self._instrument.worker_serves(None)

    def _go_on(self, binding: Binding) -> None:
        binding.permitted = True
        pod, lifecycle = binding.pod, binding.framework.lifecycle
        try:
            status = lifecycle.pre_bind(binding.state, pod, pod.node_name)
            prepared = status.ok
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            status, prepared = _failure(binding, exc), False
        preparing = self._preparing.end(pod.uid)
        if prepared and preparing is not None and not preparing.finish():
            status, prepared = Status.error(preparing.cancelled), False
        if prepared:
            self._prepared(binding)
        else:
            self._finish(binding, status)

    def _prepared(self, binding: Binding) -> None:
        """Any thread: bind the Pod, or all of its group with the last one."""
        if binding.barrier is None:
            self._bind(binding)
        else:
            binding.barrier.arrive(partial(self._bind, binding), partial(self._finish, binding))

    def _bind(self, binding: Binding) -> None:
        pod, lifecycle = binding.pod, binding.framework.lifecycle
        finish: Callable[[Status], None] = partial(self._finish, binding)
        try:
            status = self._extenders.bind(pod, pod.node_name)
            if status is None:
                lifecycle.bind(binding.state, pod, pod.node_name, finish)
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            status = _failure(binding, exc)
        if status is not None:
            finish(status)

    def _finish(self, binding: Binding, status: Status) -> None:
        """Any thread: PostBind where it is due, then back to the scheduling thread."""
        if status.ok and binding.framework.plugins.post_bind:
            pod = binding.pod
            self._pool.submit(
                binding.framework.lifecycle.post_bind, binding.state, pod, pod.node_name
            )
        if not status.ok and binding.barrier is not None:
            text = f"another Pod of the group failed: {binding.pod.key}: {status.message}"
            binding.barrier.fail(Status.error(text))
        self._inbox.post(BindingEnded(binding.pod, status))


def _failure(binding: Binding, error: BaseException) -> Status:
    """The status after a failure of a plugin, or after an answer that cannot be used."""
    if isinstance(error, AttemptFault):
        return error.status
    log.error("binding broke", pod=binding.pod.key, exc_info=error)
    return Status.error(error_text(error))

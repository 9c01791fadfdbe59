"""The binding cycle of one Pod: WaitOnPermit, PreBind, Bind, PostBind.

It begins on the scheduling thread, right after Permit. A Pod that nobody makes wait and that no
PreBind plugin prepares anything for goes straight to its Bind plugin, which (DefaultBinder) only
hands a request to the dispatcher. Every other Pod continues on a worker thread, once its wait is
over. Every binding that was started comes back to the scheduling thread through the inbox, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.binding.preparing import PreparingPod
from bayplan.binding.waiting import WaitingPods
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Status
from bayplan.inbox.inbox import Inbox
from bayplan.telemetry.instrument import Instrument


class ExtenderBinder(Protocol):
    """Extenders that bind: asked before the Bind plugins."""

    def bind(self, pod: Pod, node_name: str) -> Status | None:
        """The outcome, or None when no extender binds this Pod. Blocks."""

    def binds(self, pod: Pod) -> bool:
        """Whether an extender binds this Pod."""


@dataclass
class Binding:
    """A Pod on its way to its node.

    Attributes:
        pod: the assumed Pod, its node filled in.
        waits: seconds to wait in Permit, by plugin; empty when nobody makes it wait.
        prepares: whether a PreBind plugin has something to do.
        permitted: whether Permit is behind it: a failure from there on is no verdict on the node.
        evaluated: how many nodes were looked at.
        feasible: how many of them fit.
        started: when the attempt began, `time.perf_counter`.
    """

    pod: Pod
    framework: Framework
    state: CycleState
    waits: dict[str, float] = field(default_factory=dict)
    prepares: bool = False
    permitted: bool = False
    evaluated: int = 0
    feasible: int = 0
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True)
class Hooks:
    """What the scheduling thread does when a binding gets on. Called there.

    Attributes:
        nominate: tell the API server where the Pod is about to go, since that may take a while.
        bound: it is over, well or not.
    """

    nominate: Callable[[Binding], None]
    bound: Callable[[Binding, Status], None]


class Binder:
    """Runs binding cycles."""

    def __init__(
        self,
        pool: Executor,
        inbox: Inbox,
        waiting: WaitingPods,
        preparing: dict[str, PreparingPod],
        extenders: ExtenderBinder,
        hooks: Hooks,
        instrument: Instrument,
    ) -> None:
        self._pool = pool
        self._inbox = inbox
        self._waiting = waiting
        self._preparing = preparing
        self._extenders = extenders
        self._hooks = hooks
        self._instrument = instrument
        self.in_flight = 0

    def start(self, binding: Binding) -> None:
        """Begin the cycle. Scheduling thread only."""
        self.in_flight += 1
        pod, lifecycle = binding.pod, binding.framework.lifecycle
        try:
            flight = lifecycle.pre_bind_pre_flight(binding.state, pod, pod.node_name)
        except AttemptFault as exc:
            binding.permitted = True
            self._finish(binding, exc.status)
            return
        binding.prepares = flight.ok
        if binding.waits or binding.prepares:
            self._hooks.nominate(binding)
        if binding.waits:
            decided = partial(self._decided, binding, time.perf_counter())
            self._waiting.add(pod, binding.waits, decided)
        elif binding.prepares or self._blocks(binding):
            self._hand_over(binding)
        else:
            binding.permitted = True
            self._bind(binding)

    def next_timer(self) -> float | None:
        """Seconds until `expire` may have something to do; None while it has not."""
        return self._waiting.next_timer()

    def expire(self) -> None:
        """Turn down the Pods that waited in Permit for too long."""
        self._waiting.expire()

    def reject_waiting(self, message: str) -> None:
        """Turn down every Pod that waits in Permit."""
        for waiting in self._waiting:
            waiting.reject("", message)

    def _blocks(self, binding: Binding) -> bool:
        at_once = binding.framework.lifecycle.binds_at_once
        return not at_once or self._extenders.binds(binding.pod)

    def _decided(self, binding: Binding, began: float, verdict: Status) -> None:
        """Any thread: the wait in Permit is over."""
        self._waiting.remove(binding.pod.uid)
        self._instrument.permit_waited(str(verdict.code), time.perf_counter() - began)
        if verdict.ok:
            self._hand_over(binding)
        else:
            self._finish(binding, verdict)

    def _hand_over(self, binding: Binding) -> None:
        """Any thread: go on on a worker."""
        if binding.prepares:
            self._preparing[binding.pod.uid] = PreparingPod()
        self._pool.submit(self._prepare_and_bind, binding)

    def _prepare_and_bind(self, binding: Binding) -> None:
        """Worker: PreBind, then Bind."""
        binding.permitted = True
        pod, lifecycle = binding.pod, binding.framework.lifecycle
        try:
            status = lifecycle.pre_bind(binding.state, pod, pod.node_name)
        except AttemptFault as exc:
            status = exc.status
        preparing = self._preparing.pop(pod.uid, None)
        if status.ok and preparing is not None and not preparing.finish():
            status = Status.error(preparing.called_back)
        if status.ok:
            self._bind(binding)
        else:
            self._finish(binding, status)

    def _bind(self, binding: Binding) -> None:
        pod, lifecycle = binding.pod, binding.framework.lifecycle
        finish = partial(self._finish, binding)
        try:
            status = self._extenders.bind(pod, pod.node_name)
            if status is None:
                lifecycle.bind(binding.state, pod, pod.node_name, finish)
        except AttemptFault as exc:
            status = exc.status
        if status is not None:
            finish(status)

    def _finish(self, binding: Binding, status: Status) -> None:
        """Any thread: PostBind where it is due, then back to the scheduling thread."""
        if status.ok and binding.framework.plugins.post_bind:
            pod = binding.pod
            self._pool.submit(
                binding.framework.lifecycle.post_bind, binding.state, pod, pod.node_name
            )
        self._inbox.post(lambda: self._land(binding, status))

    def _land(self, binding: Binding, status: Status) -> None:
        self.in_flight -= 1
        self._hooks.bound(binding, status)

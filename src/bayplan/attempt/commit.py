"""Commit: the chosen nodes are taken. Assume > Reserve > Permit for one Pod, or for many at once.

All Pods of one call get through, or none of them counts afterwards: whatever had been done is
undone in reverse order, Unreserve of all Reserve plugins included. So a gang is never held in part.

Stage by stage, for all Pods: first all are assumed, then Reserve runs for each, then Permit. A
plugin thus sees the whole group on its nodes before it is asked about the first member.

Answers to ``prepareForBindingCycle`` in kube-scheduler's ``pkg/scheduler/schedule_one.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import structlog

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Rejection
from bayplan.cache.cache import Cache
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.runtime import Framework
from bayplan.framework.text import error_text
from bayplan.queue.nominator import Nominator

log = structlog.get_logger("commit")


class Reserved(Protocol):
    """A Pod that counts on its node, reserved by its profile's plugins."""

    @property
    def framework(self) -> Framework:
        """The profile."""

    @property
    def state(self) -> CycleState:
        """What its plugins remember."""

    @property
    def pod(self) -> Pod:
        """The assumed Pod, its node filled in."""


class Choice(msgspec.Struct, frozen=True, eq=False):
    """A Pod and the node that an attempt has chosen for it."""

    framework: Framework
    state: CycleState
    pod: Pod
    node_name: str


class Member(msgspec.Struct, eq=False):
    """A Pod that counts on its node.

    Attributes:
        pod: the assumed Pod, its node filled in.
        waits: seconds to wait in Permit, by plugin; empty when nobody makes it wait.
    """

    framework: Framework
    state: CycleState
    pod: Pod
    waits: Mapping[str, float] = msgspec.field(default_factory=dict)


class Committed(msgspec.Struct, frozen=True, eq=False):
    """All Pods count on their nodes; in the order of the choices."""

    members: tuple[Member, ...]


class Commit:
    """Makes placements count, and undoes that. Scheduling thread only."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator

    def run(self, *choices: Choice) -> Committed | Rejection:
        """Take the chosen nodes, all of them or none. Never raises."""
        members: list[Member] = []
        rejection = self._attempt(members, choices, _reserve, _permit)
        if rejection is None:
            return Committed(tuple(members))
        self.undo(members)
        return rejection

    def _attempt(
        self,
        members: list[Member],
        choices: Sequence[Choice],
        *stages: Callable[[Sequence[Member]], Rejection | None],
    ) -> Rejection | None:
        """Assume the choices, which makes them ``members``, and run the stages for all of these."""
        try:
            for choice in choices:
                members.append(self._assume(choice))  # noqa: PERF401 - undone if the next one fails
            for stage in stages:
                rejection = stage(members)
                if rejection is not None:
                    return rejection
        except AttemptFault as fault:
            return Rejection.by_error(str(fault), fault)
        except Exception as exc:
            # What a plugin hands out (states, statuses) may break wherever it is looked at.
            log.exception("commit broke", pods=[choice.pod.key for choice in choices])
            return Rejection.by_error(error_text(exc), exc)
        return None

    def take(self, choice: Choice) -> Member | Rejection:
        """Assume and Reserve for one Pod of a plan; see `permit`. Never raises."""
        nominated = self._nominator.nominated_node(choice.pod.uid)
        members: list[Member] = []
        rejection = self._attempt(members, (choice,), _reserve)
        if rejection is None:
            return members[0]
        self.undo(members)
        self._nominator.nominate(choice.pod, nominated)
        return rejection

    def permit(self, members: Sequence[Member]) -> Rejection | None:
        """Ask Permit about Pods that were taken. A rejection leaves them for `undo`."""
        return self._attempt(list(members), (), _permit)

    def rehearse(self, *choices: Choice) -> Committed | Rejection:
        """What `run` comes to; everything is as before afterwards, nominations included."""
        with self._nominator.rehearsal(choice.pod for choice in choices):
            outcome = self.run(*choices)
            if isinstance(outcome, Committed):
                self.undo(outcome.members)
        return outcome

    def undo(self, members: Sequence[Reserved]) -> None:
        """Unreserve and forget ``members``, the last one first.

        One whose binding has been seen meanwhile stays in the cache.
        """
        for member in reversed(members):
            pod = member.pod
            member.framework.lifecycle.unreserve(member.state, pod, pod.node_name)
            self._cache.forget(pod.uid)

    def _assume(self, choice: Choice) -> Member:
        assumed = self._cache.assume(choice.pod, choice.node_name)
        self._nominator.remove(assumed.uid)
        return Member(choice.framework, choice.state, assumed)


def _reserve(members: Sequence[Member]) -> Rejection | None:
    for member in members:
        pod, lifecycle = member.pod, member.framework.lifecycle
        status = lifecycle.reserve(member.state, pod, pod.node_name)
        if status.rejected:
            return Rejection.of_chosen_node(Point.RESERVE, status)
    return None


def _permit(members: Sequence[Member]) -> Rejection | None:
    for member in members:
        pod, lifecycle = member.pod, member.framework.lifecycle
        status, member.waits = lifecycle.permit(member.state, pod, pod.node_name)
        if status.rejected:
            return Rejection.of_chosen_node(Point.PERMIT, status)
    return None

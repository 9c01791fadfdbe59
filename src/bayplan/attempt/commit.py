"""Commit: the chosen node is taken. Assume > Reserve > Permit, or nothing of it.

Whatever had been done when a plugin refuses is undone in reverse order, Unreserve of all Reserve
plugins included. The Pods of a group are taken one after the other, so that each sees those before
it, and asked for Permit together at the end (`take`, `permit`): a plugin thus sees the whole group
on its nodes before it is asked about the first member, and a gang is never held in part.

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
from bayplan.engine.faults import AttemptFault, is_interrupt
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.queue.nominator import Nominator
from bayplan.support.text import error_text

log = structlog.get_logger("commit")


class Reserved(Protocol):
    """A Pod on the selected node; assumed, and Reserve has run."""

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
    """A Pod and the node selected for the Pod."""

    framework: Framework
    state: CycleState
    pod: Pod
    node_name: str


class Member(msgspec.Struct, eq=False):
    """An assumed Pod on the way to Permit or to its binding.

    Attributes:
        pod: the assumed Pod, its node filled in.
        waits: seconds to wait in Permit, by plugin; empty when nobody makes it wait.
    """

    framework: Framework
    state: CycleState
    pod: Pod
    waits: Mapping[str, float] = msgspec.field(default_factory=dict)


class Commit:
    """Makes placements count, and undoes that. Scheduling thread only."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator

    def run(self, choice: Choice) -> Member | Rejection:
        """Take the chosen node, through Permit. Never raises.

        What plugins want done to undo a part of it joins the effects of the choice's state.
        """
        return self._attempt(choice, _reserve, _permit)

    def take(self, choice: Choice) -> Member | Rejection:
        """Assume and Reserve for one Pod of a plan; see `permit`. Never raises."""
        nominated = self._nominator.nominated_node(choice.pod.uid)
        member = self._attempt(choice, _reserve)
        if isinstance(member, Rejection):
            self._nominator.nominate(choice.pod, nominated)
        return member

    def _attempt(
        self, choice: Choice, *stages: Callable[[Member], Rejection | None]
    ) -> Member | Rejection:
        """Assume the Pod and run the stages; undo everything if one stage rejects."""
        member: Member | None = None
        try:
            member = self._assume(choice)
            rejection = None
            for stage in stages:
                rejection = stage(member)
                if rejection is not None:
                    break
        except AttemptFault as fault:
            rejection = Rejection.by_error(str(fault), fault)
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            # What a plugin hands out (states, statuses) may break wherever it is looked at.
            log.exception("commit broke", pod=choice.pod.key)
            rejection = Rejection.by_error(error_text(exc), exc)
        if rejection is None:
            assert member is not None
            return member
        if member is not None:
            choice.state.effects += self.undo([member])
        return rejection

    def permit(self, members: Sequence[Member]) -> Rejection | None:
        """Run Permit for members that have been taken. After a rejection, call `undo`."""
        try:
            return next((r for member in members if (r := _permit(member)) is not None), None)
        except AttemptFault as fault:
            return Rejection.by_error(str(fault), fault)
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            log.exception("commit broke", pods=[member.pod.key for member in members])
            return Rejection.by_error(error_text(exc), exc)

    def undo(self, members: Sequence[Reserved]) -> list[Effect]:
        """Unreserve and forget ``members``, the last one first.

        One whose binding has been seen meanwhile stays in the cache.

        Returns:
            What Unreserve plugins want done, which is for the end of a real attempt. A trial has
            written nothing, so there it is dropped.
        """
        effects: list[Effect] = []
        for member in reversed(members):
            pod, state = member.pod, member.state
            before = len(state.effects)
            member.framework.lifecycle.unreserve(state, pod, pod.node_name)
            effects += state.effects[before:]
            del state.effects[before:]
            self._cache.forget(pod.uid)
        return effects

    def _assume(self, choice: Choice) -> Member:
        assumed = self._cache.assume(choice.pod, choice.node_name)
        self._nominator.remove(assumed.uid)
        return Member(choice.framework, choice.state, assumed)


def _reserve(member: Member) -> Rejection | None:
    pod, lifecycle = member.pod, member.framework.lifecycle
    status = lifecycle.reserve(member.state, pod, pod.node_name)
    return Rejection.of_chosen_node(Point.RESERVE, status) if status.rejected else None


def _permit(member: Member) -> Rejection | None:
    pod, lifecycle = member.pod, member.framework.lifecycle
    status, member.waits = lifecycle.permit(member.state, pod, pod.node_name)
    return Rejection.of_chosen_node(Point.PERMIT, status) if status.rejected else None

"""Plan: nodes for all Pods of a group, found one Pod after the other, or the reason why not.

Each Pod gets an ordinary attempt and is then assumed and reserved, so that the next one sees it on
its node, with its volumes and devices. The plan stands when as many as the group's minimum have
nodes; as many others as fit come along. A plan that does not stand is undone within the same call,
so no group ever holds a part of what it needs while others are tried.

A Pod that is rejected is tried again only after Pods of another shape were placed, which may
attract it; its siblings of the same shape not even that: a group that does not fit costs one
attempt more than fit. Groups do not preempt: PostFilter is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.api.pod import Pod, PodShape, SpecPart
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.outcome import Placement, Reason, Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.pod_groups import Group
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import PodPart
from bayplan.framework.runtime import Framework

_INSUFFICIENT = "Insufficient "


class Plan(msgspec.Struct, frozen=True, eq=False):
    """Nodes for a group: all of ``members`` count on theirs.

    Attributes:
        members: the Pods that have a node, through Permit.
        placements: the attempts behind them, in the same order.
        left: the Pods beyond the minimum that fit nowhere.
    """

    members: tuple[Member, ...]
    placements: tuple[Placement, ...]
    left: tuple[Pod, ...]


class GroupRejection(msgspec.Struct, frozen=True, eq=False):
    """Why a group was not placed; nothing of it counts anywhere.

    Attributes:
        sentence: reason and figures, for the event on the group.
        message: without figures, for the condition of each Pod: it changes only with the cause.
        reason: of that condition.
        plugins: the plugins that rejected its Pods; not the one that has them placed together.
        pods: the Pods that they rejected, one of each shape.
    """

    sentence: str
    message: str
    reason: Reason = Reason.UNSCHEDULABLE
    plugins: frozenset[str] = frozenset()
    pods: tuple[Pod, ...] = ()


class Planner:
    """Makes plans. Scheduling thread only."""

    def __init__(self, cache: Cache, commit: Commit, selector: NodeChooser) -> None:
        self._cache = cache
        self._commit = commit
        self._selector = selector

    def plan(
        self, framework: Framework, group: Group, pods: Sequence[Pod], *, dry_run: bool = False
    ) -> Plan | GroupRejection:
        """Place ``pods``, which are at least the minimum, in their order. Never raises."""
        if short := self._short_room(group):
            return _no_room(group, short, pods)
        search = _Search(framework, self._selector, self._commit, dry_run=dry_run)
        left = search.run(pods)
        if len(search.members) < group.minimum:
            rejection = search.rejection(group)
            self._commit.undo(search.members)
            return rejection
        refusal = self._commit.permit(search.members)
        if refusal is not None:
            self._commit.undo(search.members)
            return _refused(group, refusal, pods)
        return Plan(tuple(search.members), tuple(search.placements), tuple(left))

    def _short_room(self, group: Group) -> list[str]:
        """MinResources that all nodes in use together do not have free."""
        nodes = self._cache.nodes
        usable = nodes.exists & ~nodes.unschedulable if group.room else nodes.exists
        short = []
        for name, amount in sorted(group.room.items()):
            free = np.maximum(nodes.allocatable(name) - nodes.requested(name), 0)
            there = int(free[usable].sum())
            if there < amount:
                short.append(f"{name} ({_shown(name, there)} of {_shown(name, amount)} free)")
        return short


Parts = tuple[SpecPart, SpecPart]


class _Search:
    """Places Pods until no further one fits."""

    def __init__(
        self, framework: Framework, selector: NodeChooser, commit: Commit, *, dry_run: bool
    ) -> None:
        self._framework, self._selector, self._commit = framework, selector, commit
        self._dry_run = dry_run
        self.members: list[Member] = []
        self.placements: list[Placement] = []
        self.rejections: dict[Parts | PodShape, tuple[Pod, Rejection]] = {}

    def run(self, pods: Sequence[Pod]) -> list[Pod]:
        """Place as many as fit; returns the others."""
        left = list(pods)
        mixed = len({pod.shape for pod in pods}) > 1
        while left:
            before = len(self.members)
            left = self._pass(left)
            if not mixed or len(self.members) == before:
                break
        return left

    def _pass(self, pods: Sequence[Pod]) -> list[Pod]:
        left: list[Pod] = []
        self.rejections.clear()
        for pod in pods:
            if not self._is_like_a_rejected_one(pod):
                rejection = self._place(pod)
                if rejection is None:
                    continue
                self.rejections[self._alike(pod, rejection)] = pod, rejection
            left.append(pod)
        return left

    def _is_like_a_rejected_one(self, pod: Pod) -> bool:
        return pod.shape in self.rejections or _parts(pod) in self.rejections

    def _alike(self, pod: Pod, rejection: Rejection) -> Parts | PodShape:
        """What other Pods share that would be rejected for the same reason.

        Row-local plugins do not see more of a Pod than the parts of its spec, so Pods of an indexed
        Job, which differ in a label, are alike to them.
        """
        plugins, local = rejection.unschedulable_plugins, self._framework.plugins.local
        seen = all(local.get(name, PodPart.SHAPE) is not PodPart.SHAPE for name in plugins)
        return _parts(pod) if plugins and seen else pod.shape

    def _place(self, pod: Pod) -> Rejection | None:
        state = CycleState(dry_run=self._dry_run)
        outcome = attempt(self._framework, self._selector, state, pod, make_room=False)
        if isinstance(outcome, Rejection):
            return outcome
        member = self._commit.take(Choice(self._framework, state, pod, outcome.node_name))
        if isinstance(member, Rejection):
            return member
        self.members.append(member)
        self.placements.append(outcome)
        return None

    def rejection(self, group: Group) -> GroupRejection:
        """Why the minimum was not reached."""
        pods = tuple(pod for pod, _ in self.rejections.values())
        rejections = [rejection for _, rejection in self.rejections.values()]
        for pod, rejection in self.rejections.values():
            if rejection.reason is Reason.SCHEDULER_ERROR:
                return _failed(group, pod, rejection)
        short = _short(rejections)
        of = f", short by {', '.join(short)}" if short else ""
        first = f"{pods[0].key}: {rejections[0].message}"
        return GroupRejection(
            f"NoRoom: {len(self.members)} of {group.minimum} fit{of}. {first}",
            f"the group {group.key} does not fit at once{of}",
            plugins=frozenset().union(*(r.unschedulable_plugins for r in rejections)),
            pods=pods,
        )


def _parts(pod: Pod) -> Parts:
    return pod.shape.constraints, pod.shape.requests


def _short(rejections: Sequence[Rejection]) -> list[str]:
    """The resources that nodes lack, those that most nodes lack first."""
    counts: Counter[str] = Counter()
    for rejection in rejections:
        groups = rejection.diagnosis.groups() if rejection.diagnosis is not None else []
        for status, rows in groups:
            for reason in status.reasons:
                if reason.startswith(_INSUFFICIENT):
                    counts[reason.removeprefix(_INSUFFICIENT)] += len(rows)
    return [name for name, _ in counts.most_common()]


def _no_room(group: Group, short: Sequence[str], pods: Sequence[Pod]) -> GroupRejection:
    names = ", ".join(text.partition(" ")[0] for text in short)
    return GroupRejection(
        f"NoRoom: minResources are not free: {', '.join(short)}",
        f"the group {group.key} does not fit at once, short by {names}",
        pods=tuple(pods[:1]),
    )


def _failed(group: Group, pod: Pod, rejection: Rejection) -> GroupRejection:
    sentence = f"Failed: {pod.key}: {rejection.message}"
    message = f"the group {group.key} could not be placed: {rejection.message}"
    return GroupRejection(sentence, message, Reason.SCHEDULER_ERROR)


def _refused(group: Group, rejection: Rejection, pods: Sequence[Pod]) -> GroupRejection:
    """Permit has refused a plan that stood."""
    if rejection.reason is Reason.SCHEDULER_ERROR:
        return _failed(group, pods[0], rejection)
    message = f"the group {group.key} was refused in Permit: {rejection.message}"
    sentence = f"Refused: {rejection.message}"
    return GroupRejection(
        sentence, message, plugins=rejection.unschedulable_plugins, pods=tuple(pods[:1])
    )


def _shown(resource: str, amount: int) -> str:
    return f"{amount / 1000:g}" if resource == "cpu" else str(amount)

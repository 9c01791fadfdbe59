"""GroupSearch: places Pods one after the other until no further one fits.

Each Pod gets an ordinary attempt and is then assumed and reserved, so that the next one sees it on
its node, with its volumes and devices.

A Pod that is rejected is tried again only after Pods of another shape were placed, which may
attract it; its siblings of the same shape not even that: a group that does not fit costs one
attempt more than fit. Groups do not preempt here: PostFilter is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod, PodShape, SpecPart
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.outcome import Placement, Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.node_table import BoolArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import PodPart
from bayplan.framework.runtime import Framework

Parts = tuple[SpecPart, SpecPart]
Told = tuple[Pod, Rejection]
"""A Pod, and why it has no node."""


class GroupSearch:
    """Places Pods of one profile.

    Args:
        framework: the profile.
        selector: chooses their nodes.
        commit: has them count there.
        dry_run: see `CycleState`.

    Attributes:
        members: the Pods that were placed.
        placements: the attempts behind them, in the same order.
        attempts: how many there were in all.
    """

    def __init__(
        self, framework: Framework, selector: NodeChooser, commit: Commit, *, dry_run: bool = False
    ) -> None:
        self._framework, self._selector, self._commit = framework, selector, commit
        self._dry_run = dry_run
        self.members: list[Member] = []
        self.placements: list[Placement] = []
        self.attempts = 0

    def run(
        self, pods: Sequence[Pod], domain: BoolArray | None = None, most: int | None = None
    ) -> list[Told]:
        """Place as many as fit.

        Args:
            pods: in the order in which they are tried.
            domain: ``(n,)`` the rows that may be used; None for all.
            most: no more than so many; None for all.

        Returns:
            What those were told that fit nowhere, one of those that are alike.
        """
        left, told = list(pods), list[Told]()
        mixed = len({pod.shape for pod in pods}) > 1
        end = len(self.members) + (len(left) if most is None else most)
        while left and len(self.members) < end:
            before = len(self.members)
            left, told = self._pass(left, domain, end)
            if not mixed or len(self.members) == before:
                break
        return told

    def undo(self, mark: int = 0) -> None:
        """Only the first ``mark`` members count from now on."""
        self._commit.undo(self.members[mark:])
        del self.members[mark:], self.placements[mark:]

    def _pass(
        self, pods: Sequence[Pod], domain: BoolArray | None, end: int
    ) -> tuple[list[Pod], list[Told]]:
        left: list[Pod] = []
        rejections: dict[Parts | PodShape, Told] = {}
        for pod in pods:
            if len(self.members) == end:
                break
            if pod.shape not in rejections and _parts(pod) not in rejections:
                rejection = self._place(pod, domain)
                if rejection is None:
                    continue
                rejections[self._alike(pod, rejection)] = pod, rejection
            left.append(pod)
        return left, list(rejections.values())

    def _alike(self, pod: Pod, rejection: Rejection) -> Parts | PodShape:
        """What other Pods share that would be rejected for the same reason.

        Row-local plugins do not see more of a Pod than the parts of its spec, so Pods of an indexed
        Job, which differ in a label, are alike to them.
        """
        plugins, local = rejection.unschedulable_plugins, self._framework.plugins.local
        seen = all(local.get(name, PodPart.SHAPE) is not PodPart.SHAPE for name in plugins)
        return _parts(pod) if plugins and seen else pod.shape

    def _place(self, pod: Pod, domain: BoolArray | None) -> Rejection | None:
        self.attempts += 1
        state = CycleState(dry_run=self._dry_run, domain=domain)
        outcome = attempt(self._framework, self._selector, state, pod, make_room=False)
        if isinstance(outcome, Rejection):
            return outcome
        member = self._commit.take(Choice(self._framework, state, pod, outcome.node_name))
        if isinstance(member, Rejection):
            return member
        self.members.append(member)
        self.placements.append(outcome if self._dry_run else outcome.without_rows())
        return None


def _parts(pod: Pod) -> Parts:
    return pod.shape.constraints, pod.shape.requests

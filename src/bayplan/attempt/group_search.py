"""GroupSearch: places Pods one after the other until no further one fits.

Each Pod gets an ordinary attempt and is then assumed and reserved, so that the next one sees it on
its node, with its volumes and devices.

A Pod that is rejected is tried again only after Pods of another shape were placed, which may
attract it; its siblings of the same shape not even that: a group that does not fit costs one
attempt more than fit. Groups do not preempt here: PostFilter is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bayplan.api.pod import Pod, PodShape, SpecPart
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.group_reasons import failed, short_by
from bayplan.attempt.outcome import Placement, Reason, Rejection
from bayplan.attempt.plan import GroupRejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import PodPart
from bayplan.framework.runtime import Framework

_INSUFFICIENT = "Insufficient "
Parts = tuple[SpecPart, SpecPart]


class GroupSearch:
    """One search, within some of the nodes.

    Args:
        framework: the profile of the Pods.
        selector: chooses their nodes.
        commit: has them count there; what `run` took is the caller's to undo.
        domain: ``(n,)`` the rows that may be used; None for all.
        dry_run: see `CycleState`.

    Attributes:
        members: the Pods that were placed.
        placements: the attempts behind them, in the same order.
        rejections: what the others were told, one of those that are alike.
    """

    def __init__(
        self,
        framework: Framework,
        selector: NodeChooser,
        commit: Commit,
        domain: BoolArray | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        self._framework, self._selector, self._commit = framework, selector, commit
        self._domain, self._dry_run = domain, dry_run
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
        rejections = self.rejections
        return bool(rejections) and (pod.shape in rejections or _parts(pod) in rejections)

    def _alike(self, pod: Pod, rejection: Rejection) -> Parts | PodShape:
        """What other Pods share that would be rejected for the same reason.

        Row-local plugins do not see more of a Pod than the parts of its spec, so Pods of an indexed
        Job, which differ in a label, are alike to them.
        """
        plugins, local = rejection.unschedulable_plugins, self._framework.plugins.local
        seen = all(local.get(name, PodPart.SHAPE) is not PodPart.SHAPE for name in plugins)
        return _parts(pod) if plugins and seen else pod.shape

    def _place(self, pod: Pod) -> Rejection | None:
        state = CycleState(dry_run=self._dry_run, domain=self._domain)
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
        for pod, rejection in self.rejections.values():
            if rejection.reason is Reason.SCHEDULER_ERROR:
                return failed(group, pod, rejection)
        pods = tuple(pod for pod, _ in self.rejections.values())
        rejections = [rejection for _, rejection in self.rejections.values()]
        of = short_by(_short(rejections))
        first = f"{pods[0].key}: {rejections[0].message}"
        return GroupRejection(
            f"NoRoom: {len(self.members)} of {group.minimum} fit{of}. {first}",
            f"the group {group.key} does not fit at once{of}",
            plugins=frozenset().union(*(r.unschedulable_plugins for r in rejections)),
            pods=pods,
            fit=len(self.members),
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

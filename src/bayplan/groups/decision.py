"""GroupDecision: what is to become of the Pods of a group.

`bayplan.decide.group` makes decisions. The members of a group that is placed count on their
nodes, assumed and reserved, while the decision is open or when it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.commit import Member
from bayplan.attempt.outcome import Placement, Reason, Rejection
from bayplan.cache.kubernetes_groups import pods_of
from bayplan.cache.pod_groups import Group
from bayplan.framework.effects import Effect
from bayplan.framework.room import Room
from bayplan.framework.status import SUCCESS, Status
from bayplan.groups.domains import Domain, Share


class Placed(msgspec.Struct, frozen=True, eq=False):
    """A Pod with a node; in a rejected group, the node from before the undo."""

    member: Member
    placement: Placement


class GroupRejection(msgspec.Struct, frozen=True, eq=False):
    """Why a group of the policy `LABEL` was not placed.

    Attributes:
        sentence: reason and figures, for the event on the group.
        message: without figures, for the condition of each Pod: it changes only with the cause.
        reason: of that condition.
        plugins: the plugins that rejected its Pods; not the one that has them placed together.
        pods: the Pods that they rejected, one of each shape.
        fit: how many of its Pods had a node before the undo.
        fault: the exception behind a SchedulerError, where there is one.
    """

    sentence: str
    message: str
    reason: Reason = Reason.UNSCHEDULABLE
    plugins: frozenset[str] = frozenset()
    pods: tuple[Pod, ...] = ()
    fit: int = 0
    fault: BaseException | None = None


def nothing() -> None:
    """Keep a decision that has taken nothing."""


class GroupDecision(msgspec.Struct, frozen=True, eq=False):
    """What is to become of the Pods of a group.

    Attributes:
        group: what was asked for.
        pods: the Pods that need nodes, in the order in which they are tried.
        status: Success, Unschedulable or Error, of the group. With the policy `KUBERNETES` its
            plugin, if it has one, is a PlacementGenerate plugin that left no other nodes.
        placed: the Pods that have a node; those of a group that fits count on it.
        rejected: by uid, why a Pod has no node by itself.
        tried: how many of ``pods``, the first ones, were tried; those after them have no verdict.
        rejection: why a group of the policy `LABEL` does not fit; None where it does.
        untried: the status without what preemption says, for Pods that were not tried.
        begun: whether other Pods of the group had nodes already.
        domains: by sub-group, the topology domain that its Pods are in, where that was limited to
            one; "" is the group itself.
        slices: likewise, of what has slices, the domains of these, and how many Pods are in each.
        room: where there will be room for the Pods, and who is evicted for that.
        searched_at: when the search had ended, as `time.perf_counter` says it; None without one.
        children: of a CompositePodGroup, the decisions about the groups below it; complete after
            `completed`.
        effects: what is to be done when the decision is applied, in order.
        keep: has the members stay on their nodes when the ``with`` block ends.
    """

    group: Group
    pods: tuple[Pod, ...]
    status: Status
    placed: tuple[Placed, ...] = ()
    rejected: Mapping[str, Rejection] = {}
    tried: int = 0
    rejection: GroupRejection | None = None
    untried: Status | None = None
    begun: bool = False
    domains: Mapping[str, Domain] = {}
    slices: Mapping[str, Sequence[Share]] = {}
    room: Room | None = None
    searched_at: float | None = None
    children: tuple[GroupDecision, ...] = ()
    effects: Sequence[Effect] = ()
    keep: Callable[[], None] = nothing

    @property
    def fits(self) -> bool:
        """Whether the group has its nodes."""
        return self.status.ok

    @property
    def members(self) -> list[Member]:
        """The Pods that count on a node."""
        return [placed.member for placed in self.placed] if self.fits else []

    @property
    def stands_as_one(self) -> bool:
        """Whether the Pods are of use all together only."""
        pod_group = self.group.pod_group
        return pod_group is None or (pod_group.is_gang and not self.begun)

    def units(self) -> list[tuple[Placed, ...]]:
        """The members that have to be bound all at once, or not at all."""
        if self.stands_as_one:
            alone = self.group.pod_group is not None and len(self.placed) < 2
            return [] if alone else [self.placed]
        return [unit for child in self.children if child.fits for unit in child.units()]

    def leaves(self) -> list[GroupDecision]:
        """The decisions about groups that have Pods of their own."""
        if not self.group.is_composite:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose events may help; none after an error, or for want of nodes."""
        if not self.status.rejected or self.lacks_nodes:
            return frozenset()
        if self.rejection is not None:
            return self.rejection.plugins
        plugins = (rejection.unschedulable_plugins for rejection in self.rejected.values())
        statuses = (leaf.status.plugin for leaf in self.leaves())
        return frozenset({self.status.plugin}).union(statuses, *plugins) - {""}

    @property
    def lacks_nodes(self) -> bool:
        """Whether a Pod was rejected by no plugin: then the group is tried again after a backoff.

        So it is where there are no nodes at all, and where all of them have just rejected its like.
        """
        rejections = self.rejected.values()
        return any(
            not rejection.unschedulable_plugins and rejection.reason is Reason.UNSCHEDULABLE
            for rejection in rejections
        )

    @property
    def samples(self) -> list[Pod]:
        """The Pods that were rejected, one of each shape."""
        if self.rejection is not None:
            return list(self.rejection.pods)
        rejected = (pod for pod in self.pods if pod.uid in self.rejected)
        of_shape: dict[int, Pod] = {}
        for pod in rejected if self.status.rejected else ():
            of_shape.setdefault(pod.shape.id, pod)
        return list(of_shape.values())

    @property
    def left(self) -> list[Pod]:
        """The Pods that have no node."""
        placed = {member.pod.uid for member in self.members}
        return [pod for pod in self.pods if pod.uid not in placed]


def completed(decision: GroupDecision, above: Status = SUCCESS) -> GroupDecision:
    """With a decision for every group below a CompositePodGroup; others are as they are.

    A group whose parent was not placed is not placed, either: one that was, and one that was not
    tried, say of themselves what the parent says.
    """
    if decision.fits and not above.ok:
        decision = replace(decision, status=above, placed=(), rejected={}, tried=0)
    tried = {child.group.key: child for child in decision.children}
    children = tuple(
        completed(tried.get(group.key) or _untried(decision, group), decision.status)
        for group in decision.group.children
    )
    return replace(decision, children=children) if children else decision


def _untried(parent: GroupDecision, group: Group) -> GroupDecision:
    """The decision about a group below ``parent`` that was not tried."""
    pods = tuple(pods_of(group, parent.pods))
    rejected = (
        {}
        if parent.children
        else {pod.uid: parent.rejected[pod.uid] for pod in pods if pod.uid in parent.rejected}
    )
    return GroupDecision(group, pods, parent.status, rejected=rejected, tried=len(rejected))

"""What is said of a PodGroup of Kubernetes and of its Pods, in kube-scheduler's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.cache.pod_groups import Group
from bayplan.framework.status import Code, Status
from bayplan.groups.decision import GroupDecision
from bayplan.groups.placement_search import UNSCHEDULABLE

_LOWER_PRIORITY = "PreemptLowerPriority"


def failures(decision: GroupDecision) -> Iterator[tuple[Pod, Rejection]]:
    """Why each Pod that is not to be bound comes back."""
    for leaf in decision.leaves():
        if leaf.fits and len(leaf.placed) == len(leaf.pods):
            continue
        placed = {one.member.pod.uid for one in leaf.placed}
        for index, pod in enumerate(leaf.pods):
            own = leaf.rejected.get(pod.uid)
            failure = _failure(leaf, own, is_placed=pod.uid in placed, tried=index < leaf.tried)
            if failure is None:
                continue
            node_name = None if leaf.room is None else leaf.room.nodes.get(pod.uid)
            if node_name is not None and failure.reason is not Reason.SCHEDULER_ERROR:
                failure = replace(failure, nominated=node_name)
            yield pod, failure


def _failure(
    decision: GroupDecision, own: Rejection | None, *, is_placed: bool, tried: bool
) -> Rejection | None:
    status = decision.status
    if status.code is Code.ERROR:
        failed = own is not None and own.reason is Reason.SCHEDULER_ERROR
        return own if own and failed else Rejection.by_error(status.message)
    if own is not None:
        return own
    if not tried:
        untried = decision.untried or status
        return Rejection(Reason.UNSCHEDULABLE, untried.message, nominated=None)
    if status.ok and is_placed:
        return None
    message = status.message
    if decision.room is None:
        message = f"{UNSCHEDULABLE}, {message}"
    return Rejection(Reason.UNSCHEDULABLE, message)


def not_admitted(group: Group, status: Status, pods: Sequence[Pod]) -> GroupDecision:
    """A plugin that admits whole groups rejected the group, such as for a queue's limit."""
    reason = Reason(status.held_by or Reason.UNSCHEDULABLE)
    sentence, message = status.reasons[0], status.reasons[-1]
    each = Rejection(reason, f"the group {group.key} {message}", frozenset({status.plugin}))
    return GroupDecision(
        group,
        tuple(pods),
        Status.unschedulable(UNSCHEDULABLE, f"{reason}: {sentence}"),
        rejected={pod.uid: each for pod in pods},
        tried=len(pods),
    )


def reason_of(status: Status) -> str:
    """The reason of the condition."""
    if status.ok:
        return "Scheduled"
    return "Unschedulable" if status.rejected else "SchedulerError"


def condition_text(status: Status) -> str:
    """The condition as one line: status, reason and message."""
    return f"{bool(status.ok)} {reason_of(status)}: {status.message}"


def conditions(decision: GroupDecision) -> dict[str, str]:
    """By PodGroup of a tree, the condition; of a PodGroup placed before nothing is said."""
    return {
        leaf.group.key: condition_text(leaf.status)
        for leaf in decision.leaves()
        if leaf.group.pod_group and not leaf.group.pod_group.is_scheduled
    }


def invalid(group: Group, pods: Sequence[Pod], scheduled: Sequence[Pod]) -> str:
    """Why these Pods cannot be one group; "" where they can. The first of ``pods`` sets the rule.

    Args:
        group: their PodGroup.
        pods: those that need nodes.
        scheduled: those that have one.
    """
    priority = group.pod_group.priority if group.pod_group is not None else 0
    for pod in (*pods, *scheduled):
        theirs, ours = pod.spec, pods[0].spec
        if theirs.scheduler_name != ours.scheduler_name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{theirs.scheduler_name}" and "{ours.scheduler_name}"'
            )
        if theirs.priority != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's "
                f"priority, got {theirs.priority} and {priority}"
            )
        policies = [spec.preemption_policy or _LOWER_PRIORITY for spec in (theirs, ours)]
        if policies[0] != policies[1]:
            return (
                "all pods in a single pod group should have the same preemption policy, "
                f"got {policies[0]} and {policies[1]}"
            )
    return ""

"""The sentences that say why a group has no plan; their first word is the event's reason."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod
from bayplan.attempt.group_capacity import GroupCapacity
from bayplan.attempt.levels import Domain
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.attempt.plan import GroupRejection
from bayplan.cache.pod_groups import Group
from bayplan.framework.status import Status


def short_by(names: Sequence[str]) -> str:
    """The part of a sentence that names what is missing; empty where nothing is known."""
    return f", short by {', '.join(names)}" if names else ""


def not_admitted(
    group: Group, plugin: str, status: Status, minimum: Sequence[Pod]
) -> GroupRejection:
    """A plugin that looks at whole groups holds it back, such as for its queue's limit."""
    sentence, message = status.reasons
    return GroupRejection(
        f"{Reason.QUEUE_LIMIT}: {sentence}",
        f"the group {group.key} {message}",
        Reason.QUEUE_LIMIT,
        frozenset({plugin}),
        tuple(minimum[:1]),
    )


def no_min_resources(group: Group, short: Sequence[str], pods: Sequence[Pod]) -> GroupRejection:
    """The nodes together do not have free what the group says it needs."""
    names = [text.partition(" ")[0] for text in short]
    return GroupRejection(
        f"NoRoom: minResources are not free: {', '.join(short)}",
        f"the group {group.key} does not fit at once{short_by(names)}",
        pods=tuple(pods[:1]),
    )


def too_few_copies(group: Group, capacity: GroupCapacity) -> GroupRejection:
    """The bound says that it does not fit, wherever its Pods go."""
    fit, short = capacity.at_most(), short_by(capacity.short_of())
    return GroupRejection(
        f"NoRoom: at most {fit} of {group.minimum} fit{short}",
        f"the group {group.key} does not fit at once{short}",
        plugins=capacity.plugins,
        pods=capacity.pods,
        fit=fit,
    )


def bad_topology(group: Group, fault: str, pods: Sequence[Pod]) -> GroupRejection:
    """What the group asks for is not there, however much is free."""
    message = f"the group {group.key} asks for a topology that there is not: {fault}"
    return GroupRejection(f"BadTopology: {fault}", message, pods=tuple(pods[:1]))


def no_domain(
    group: Group,
    level: str,
    domains: Sequence[Domain],
    tried: Sequence[tuple[Domain, GroupRejection]],
    capacity: GroupCapacity,
) -> GroupRejection:
    """No domain of the level that the group requires holds its minimum.

    Args:
        group: the group.
        level: the node label.
        domains: all there are.
        tried: those that seemed to hold it, with what came of each, the narrower levels' too.
        capacity: of the group.
    """
    found = {domain.value: rejection.fit for domain, rejection in tried if domain.level == level}
    holds = sorted((-found.get(d.value, d.holds), d.value) for d in domains)
    best = next(domain for domain in domains if domain.value == holds[0][1])
    short = short_by(capacity.short_of(best.rows))
    text = f"best is {best.value} with {-holds[0][0]} of {group.minimum}{short}"
    if len(holds) > 1:
        text += f"; next {holds[1][1]} with {-holds[1][0]}"
    rejections = [rejection for _, rejection in tried]
    return GroupRejection(
        f"NoDomain: no {level} holds the group: {text}",
        f"the group {group.key} does not fit into one {level}",
        plugins=capacity.plugins.union(*(r.plugins for r in rejections)),
        pods=capacity.pods,
        fit=-holds[0][0],
    )


def failed(group: Group, pod: Pod, rejection: Rejection) -> GroupRejection:
    """An attempt or a plugin failed: nothing is known about the group."""
    sentence = f"Failed: {pod.key}: {rejection.message}"
    message = f"the group {group.key} could not be placed: {rejection.message}"
    return GroupRejection(sentence, message, Reason.SCHEDULER_ERROR, fault=rejection.fault)


def refused(group: Group, rejection: Rejection, pods: Sequence[Pod]) -> GroupRejection:
    """Permit has refused a plan that stood."""
    if rejection.reason is Reason.SCHEDULER_ERROR:
        return failed(group, pods[0], rejection)
    message = f"the group {group.key} was refused in Permit: {rejection.message}"
    return GroupRejection(
        f"Refused: {rejection.message}",
        message,
        plugins=rejection.unschedulable_plugins,
        pods=tuple(pods[:1]),
        fit=len(pods),
    )

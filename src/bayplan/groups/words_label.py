"""What is said of a group of the label: a sentence for the event, a message for each Pod.

The first word of a sentence is the reason of the event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import SubGroup
from bayplan.framework.room import NoRoom, Room
from bayplan.framework.status import Status
from bayplan.groups.capacity import GroupCapacity
from bayplan.groups.decision import GroupDecision, GroupRejection
from bayplan.groups.domains import Domain, shown

_INSUFFICIENT = "Insufficient "


def rejected(group: Group, pods: Sequence[Pod], rejection: GroupRejection) -> GroupDecision:
    """The decision about a group that was rejected; nothing of the group counts anywhere."""
    failed = rejection.reason is Reason.SCHEDULER_ERROR
    status = (Status.error if failed else Status.unschedulable)(rejection.sentence)
    return GroupDecision(group, tuple(pods), status, rejection=rejection)


def with_room(rejection: GroupRejection, answer: Room | NoRoom) -> GroupRejection:
    """The rejection with what a plugin says that was asked for room."""
    if isinstance(answer, Room):
        message = f"{rejection.message}; others are leaving to make room"
        return replace(rejection, sentence=answer.sentence, message=message)
    if not answer.sentence:
        return rejection
    sentence = f"{rejection.sentence.removesuffix('.')}. Preemption: {answer.sentence}"
    return replace(rejection, sentence=sentence)


def short_by(names: Sequence[str]) -> str:
    """The part of a sentence that names what is missing; empty where nothing is known."""
    return f", short by {', '.join(names)}" if names else ""


def _closed(capacity: GroupCapacity, rows: BoolArray | None) -> str:
    """The part of a sentence about closed nodes: how many, by which plugins."""
    closed = capacity.closed(rows)
    if not closed:
        return ""
    return f"; nodes closed: {', '.join(f'{n} by {plugin}' for plugin, n in closed.items())}"


def not_admitted(group: Group, status: Status, pods: Sequence[Pod]) -> GroupDecision:
    """A plugin that admits whole groups rejected the group, such as for a queue's limit."""
    reason, word = Reason.UNSCHEDULABLE, "Refused"
    if status.held_by:
        reason, word = Reason(status.held_by), status.held_by
    sentence, message = status.reasons[0], status.reasons[-1]
    rejection = GroupRejection(
        f"{word}: {sentence}",
        f"the group {group.key} {message}",
        reason,
        frozenset({status.plugin}),
        tuple(pods[:1]),
    )
    return rejected(group, pods, rejection)


def no_min_resources(group: Group, short: Sequence[str], pods: Sequence[Pod]) -> GroupRejection:
    """The nodes together do not have free what the group says it needs."""
    names = [text.partition(" ")[0] for text in short]
    return GroupRejection(
        f"NoRoom: minResources are not free: {', '.join(short)}",
        f"{_named(group, group)} does not fit at once{short_by(names)}",
        pods=tuple(pods[:1]),
    )


def too_few_copies(
    group: Group, part: SubGroup, capacity: GroupCapacity, within: BoolArray | None
) -> GroupRejection:
    """By the upper bound, a part of the group fits in no choice of nodes."""
    fit = capacity.at_most(within)
    short, closed = short_by(capacity.short_of(within)), _closed(capacity, within)
    return GroupRejection(
        f"NoRoom: at most {fit} of {part.minimum}{_of(part)} fit{short}{closed}",
        f"{_named(group, part)} does not fit at once{short}",
        plugins=capacity.plugins,
        pods=capacity.pods,
        fit=fit,
    )


def too_few_slices(
    group: Group, part: SubGroup, capacity: GroupCapacity, domain: Domain
) -> GroupRejection:
    """By the upper bound, all of ``domain`` holds not enough slices of a part of the group."""
    short, slices = short_by(capacity.short_of(domain.rows)), in_slices_of(part)
    closed = _closed(capacity, domain.rows)
    return GroupRejection(
        f"NoRoom: at most {domain.holds} of {part.minimum}{_of(part)} fit{slices}{short}{closed}",
        f"{_named(group, part)} does not fit at once{slices}{short}",
        plugins=capacity.plugins,
        pods=capacity.pods,
        fit=domain.holds,
    )


def too_few_nodes(
    group: Group, part: SubGroup, placed: int, rejected: Sequence[tuple[Pod, Rejection]]
) -> GroupRejection:
    """Only ``placed`` Pods of a part of the group got nodes; why others have none."""
    for pod, rejection in rejected:
        if rejection.reason is Reason.SCHEDULER_ERROR:
            return failed(group, pod, rejection)
    rejections = [rejection for _, rejection in rejected]
    short = short_by(_insufficient(rejections))
    first = "".join(f". {pod.key}: {rejection.message}" for pod, rejection in rejected[:1])
    return GroupRejection(
        f"NoRoom: {placed} of {part.minimum}{_of(part)} fit{short}{first}",
        f"{_named(group, part)} does not fit at once{short}",
        plugins=frozenset().union(*(r.unschedulable_plugins for r in rejections)),
        pods=tuple(pod for pod, _ in rejected),
        fit=placed,
    )


def _insufficient(rejections: Sequence[Rejection]) -> list[str]:
    """The insufficient resources, sorted by the number of nodes."""
    counts: Counter[str] = Counter()
    for rejection in rejections:
        groups = rejection.diagnosis.groups() if rejection.diagnosis is not None else []
        for status, rows in groups:
            for reason in status.reasons:
                if reason.startswith(_INSUFFICIENT):
                    counts[reason.removeprefix(_INSUFFICIENT)] += len(rows)
    return [name for name, _ in counts.most_common()]


def bad_topology(group: Group, fault: str, pods: Sequence[Pod]) -> GroupRejection:
    """What the group asks for is not there, however much is free."""
    message = f"the group {group.key} asks for a topology that there is not: {fault}"
    return GroupRejection(f"BadTopology: {fault}", message, pods=tuple(pods[:1]))


def no_domain(
    group: Group,
    part: SubGroup,
    level: str,
    domains: Sequence[Domain],
    tried: Sequence[tuple[Domain, GroupRejection]],
    capacity: GroupCapacity,
) -> GroupRejection:
    """No domain of a part's required level holds the minimum of the part.

    Args:
        group: the group.
        part: of it, or the group itself.
        level: the node label.
        domains: all there are.
        tried: those that seemed to hold it, with what came of each, the narrower levels' too.
        capacity: of the part.
    """
    by_value = {domain.value: rejection for domain, rejection in tried if domain.level == level}
    fits = {d.value: by_value[d.value].fit if d.value in by_value else d.holds for d in domains}
    if not domains:
        text = "there is none"
    elif part.parts and by_value:
        value, rejection = next(iter(by_value.items()))
        text = f"in {shown(value)}, {rejection.sentence.partition(': ')[2]}"
    else:
        text = _best(part, domains, fits, capacity)
    rejections = [rejection for _, rejection in tried]
    what = f"the sub-group {part.name}" if part.name else "the group"
    what += in_slices_of(part)
    return GroupRejection(
        f"NoDomain: no {level} holds {what}: {text}",
        f"{_named(group, part)} does not fit into one {level}",
        plugins=capacity.plugins.union(*(r.plugins for r in rejections)),
        pods=capacity.pods,
        fit=max(fits.values(), default=0),
    )


def _best(
    part: SubGroup,
    domains: Sequence[Domain],
    fits: Mapping[str, int],
    capacity: GroupCapacity,
) -> str:
    """The two domains with most Pods of the part, from the number of fitting Pods in each."""
    (fit, value), *others = sorted((-fit, value) for value, fit in fits.items())
    best = next(domain for domain in domains if domain.value == value)
    short = short_by(capacity.short_of(best.rows))
    text = f"best is {shown(value)} with {-fit} of {part.minimum}{short}"
    return f"{text}; next {shown(others[0][1])} with {-others[0][0]}" if others else text


def _of(part: SubGroup) -> str:
    return f" of the sub-group {part.name}" if part.name else ""


def in_slices_of(part: SubGroup) -> str:
    """What a part with slices asks for besides its minimum; "" for no slices."""
    layers = " and ".join(f"{layer.size} in one {layer.topology}" for layer in part.slices)
    return f" with every {layers}" if layers else ""


def _named(group: Group, part: SubGroup) -> str:
    """For the condition of Pods, which does not say what the event is about."""
    return (
        f"the group {group.key}" if not part.name else f"the sub-group {part.name} of {group.key}"
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

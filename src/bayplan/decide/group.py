"""Deciding about a group: check, limits, search, Permit, and room where there is none.

The scheduler's group cycle, ``simulate`` and ``explain`` ask `deciding_group` and nothing else.
What each does with a decision differs. The steps:

1. Check that the Pods can be one group.
2. Ask the limits of tenants about the whole minimum, before any Pod is tried.
3. Search nodes, by the policy of the group (`bayplan.groups.planner`), and ask Permit.
4. If the group does not fit, ask PodGroupPostFilter plugins for room. Each may have the group
   planned as if some Pods were gone; what it wants done is an effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

import structlog
from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Rejection
from bayplan.cache.group_policy import Words
from bayplan.cache.kubernetes_groups import pods_of
from bayplan.cache.pod_groups import Group
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault, is_interrupt
from bayplan.engine.runtime import Framework
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.groups import words_kubernetes, words_label
from bayplan.groups.decision import GroupDecision, GroupRejection, completed
from bayplan.groups.placers import Placers
from bayplan.groups.room import of_group
from bayplan.support.text import error_text

log = structlog.get_logger("groups")

_DEVICES = "deallocation and deletion of ResourceClaims completed"
"""What DynamicResources says of each group without constraints, whether it has claims or not."""


@contextmanager
def deciding_group(
    placers: Placers,
    framework: Framework,
    group: Group,
    pods: Sequence[Pod],
    *,
    acting: bool = False,
    make_room: bool = True,
) -> Iterator[GroupDecision]:
    """Decides about the Pods of a group for the length of a ``with`` block.

    At its end all is as before (nodes, what plugins reserved, nominations, where the next sample of
    nodes begins), unless `GroupDecision.keep` was called. Never raises. Scheduling thread only.

    Args:
        placers: the scheduler's.
        framework: the profile.
        group: what is asked for.
        pods: the Pods that need nodes, at least every minimum, in the order of the tries.
        acting: whether this is the scheduling cycle; see `bayplan.groups.fill.Fill`.
        make_room: whether PodGroupPostFilter plugins are asked where the group does not fit.
    """
    kept = False

    def keep() -> None:
        nonlocal kept
        kept = True

    nominations = placers.nominator.nominations(pods)
    sample_start = placers.selector.sampler.start
    decision = _decide(placers, framework, group, pods, acting=acting)
    if not decision.fits:
        placers.nominator.nominate_all(nominations)
        if make_room:
            decision = _with_room(placers, framework, decision)
    try:
        yield replace(decision, keep=keep)
    finally:
        if not kept:
            placers.planner.drop(decision)
            placers.nominator.nominate_all(nominations)
            placers.selector.sampler.start = sample_start


def _decide(
    placers: Placers, framework: Framework, group: Group, pods: Sequence[Pod], *, acting: bool
) -> GroupDecision:
    if group.is_composite:
        pods = pods_of(group, pods)
    sources = framework.services.group_sources
    source = next((s for s in sources if s.policy is group.policy), None)
    if source is not None:
        group = source.with_asks_of(group, pods)
    if group.policy.refuses_mixed:
        fault = words_kubernetes.invalid(group, pods, placers.planner.scheduled(group))
        if fault:
            return completed(GroupDecision(group, tuple(pods), Status.error(fault)))
        pods = [pod for pod in pods if pod.deleted is None]
        if not pods:
            return GroupDecision(group, (), SUCCESS)
    try:
        decision = _not_admitted(placers, framework, group, pods)
    except AttemptFault as fault:
        decision = _by_error(group, pods, fault)
    if decision is None:
        decision = placers.planner.plan(framework, group, pods, acting=acting)
    return replace(completed(decision), searched_at=perf_counter())


def _not_admitted(
    placers: Placers, framework: Framework, group: Group, pods: Sequence[Pod]
) -> GroupDecision | None:
    """Why no nodes are sought for the group at all; None where nothing is against that."""
    plugins = framework.plugins
    if not plugins.admitting:
        return None
    minimum = pods[: placers.planner.needed(group)]
    for plugin in plugins.admitting:
        status = plugins.status(plugin, Point.PRE_FILTER, plugin.admit_group, group, minimum)
        if status.rejected:
            is_label = group.policy.words is Words.EVENT
            words = words_label.not_admitted if is_label else words_kubernetes.not_admitted
            return words(group, status.by(plugin.name), pods)
        if not status.ok:
            raise AttemptFault(Point.PRE_FILTER, plugin.name, status)
    return None


def _by_error(group: Group, pods: Sequence[Pod], fault: AttemptFault) -> GroupDecision:
    if group.policy.words is Words.CONDITION:
        return GroupDecision(group, tuple(pods), Status.error(str(fault)))
    rejection = Rejection.by_error(str(fault), fault)
    return words_label.rejected(group, pods, words_label.failed(group, pods[0], rejection))


# Room


def _with_room(placers: Placers, framework: Framework, decision: GroupDecision) -> GroupDecision:
    """Find out whose eviction makes room for a rejected group, and say so. Never raises."""
    if decision.status.code is not Code.UNSCHEDULABLE:
        return decision
    request = of_group(placers.planner, framework, decision.group, decision.pods)
    fault, answers = "", list[Room | NoRoom]()
    try:
        answers = _ask(framework, request)
    except AttemptFault as broken:
        fault = str(broken)
    except BaseException as exc:
        if is_interrupt(exc):
            raise
        # What a plugin hands out may break wherever it is looked at.
        log.exception("making room broke", group=decision.group.key)
        fault = error_text(exc)
    decision = replace(decision, effects=(*decision.effects, *request.effects))
    if fault:
        return _broken(decision, fault)
    if decision.rejection is not None:
        return _label_room(decision, decision.rejection, answers[-1] if answers else NoRoom())
    return _kubernetes_room(framework, decision, answers)


def _ask(framework: Framework, request: RoomRequest) -> list[Room | NoRoom]:
    """What the plugins answer, in their order, up to the first room or final answer."""
    plugins, answers = framework.plugins, list[Room | NoRoom]()
    for plugin in plugins.pod_group_post_filter:
        point, method = Point.POD_GROUP_POST_FILTER, plugin.pod_group_post_filter
        answer = plugins.ask((Room, NoRoom), plugin, point, method, request)
        answers.append(answer)
        if isinstance(answer, Room) or answer.final:
            break
    return answers


def _broken(decision: GroupDecision, text: str) -> GroupDecision:
    if decision.rejection is not None:
        return _label_room(decision, decision.rejection, NoRoom(text))
    return _said(decision, None, Status.error(text))


def _label_room(
    decision: GroupDecision, rejection: GroupRejection, answer: Room | NoRoom
) -> GroupDecision:
    room = answer if isinstance(answer, Room) else None
    return replace(decision, rejection=words_label.with_room(rejection, answer), room=room)


def _kubernetes_room(
    framework: Framework, decision: GroupDecision, answers: Sequence[Room | NoRoom]
) -> GroupDecision:
    """As ``RunPodGroupPostFilterPlugins`` and ``applyPodGroupPostFilterResult``."""
    texts = []
    pod_group, is_composite = decision.group.pod_group, decision.group.is_composite
    constraints = None if pod_group is None else pod_group.spec.scheduling_constraints
    if not is_composite and (framework.placements is None or constraints is None):
        texts += [_DEVICES for plugin in framework.plugins.all if plugin.name == "DynamicResources"]
    texts += [f"pod group preemption: {a.sentence}" if a.sentence else "" for a in answers]
    decides = [a for a in answers[-1:] if isinstance(a, Room) or a.final]
    room = next((a for a in decides if isinstance(a, Room)), None)
    text = texts[-1] if decides else ", ".join(text for text in texts if text)
    return _said(decision, room, text)


def _said(decision: GroupDecision, room: Room | None, what: Status | str) -> GroupDecision:
    """The same with what came of making room, said of each group of the tree."""
    status = decision.status
    if isinstance(what, Status):
        after = what
    else:
        after = Status(status.code, (*status.reasons, what), status.plugin)
    children = tuple(_said(child, room, what) for child in decision.children)
    return replace(decision, status=after, untried=status, room=room, children=children)

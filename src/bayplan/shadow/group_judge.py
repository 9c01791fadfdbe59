"""GroupJudge: our decision about a group of Pods, made and dropped, beside the other scheduler's.

What the other one has decided is known of the Pods that were bound or refused shortly after each
other (`bayplan.shadow.shadow`). Whether the group fits is asked as a whole. Where it fits there and
here, on different nodes, their choice is judged step by step: is there an order in which each Pod,
with those before it on the nodes that they were given, went to one of the best nodes? So a group
for which nodes are drawn among equal ones does not differ. The steps know nothing of a topology: a
group that has one is judged by its nodes alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason
from bayplan.cache.group_policy import Words
from bayplan.cache.pod_groups import Group
from bayplan.decide.group import deciding_group
from bayplan.framework.status import Code
from bayplan.groups.decision import GroupDecision
from bayplan.groups.placers import Placers
from bayplan.groups.words_kubernetes import failures
from bayplan.profiles import Profiles
from bayplan.queue.queued_group import QueuedGroup
from bayplan.shadow.judge import Judge, both_wait
from bayplan.shadow.moves import Move, Other, imagined
from bayplan.shadow.verdict import NotCompared, Ours, Outcome, Theirs, Verdict, owner_of
from bayplan.world import World

MOST_NAMED = 3
"""Nodes that a verdict names."""

TheirGroup = Mapping[str, Theirs]
"""By the uid of a Pod, what has become of it there."""


class Compared(NamedTuple):
    """How both compare, and the plugin behind a difference."""

    outcome: Outcome
    ours: Ours
    plugin: str = ""


class GroupJudge:
    """See the module's docstring. Scheduling thread only."""

    def __init__(self, world: World, profiles: Profiles, placers: Placers, judge: Judge) -> None:
        self._world, self._profiles, self._placers = world, profiles, placers
        self._judge = judge

    def judge(self, entry: QueuedGroup, theirs: TheirGroup, at: float) -> Verdict | NotCompared:
        """Compare what became of Pods of a group with what would have become of them here.

        Where there is no telling, the reason: other nodes for a group that has a topology, Pods
        that are being deleted, or an error here.

        Raises:
            AttemptFault: a plugin broke over the details.
        """
        told = [pod for pod in entry.pods if pod.uid in theirs]
        if not told:
            return NotCompared.GROUP
        missing, group = entry.gathering(), entry.group
        if missing is not None or group is None:
            plugin, message = ("", "") if missing is None else (missing.plugin, missing.message)
            summary, ours = _summary(theirs), Ours(message=message)
            outcome = Outcome.PENDING_HERE if summary.node else both_wait(summary, ours)
            return _verdict(entry, told, theirs, at, Compared(outcome, ours, plugin))
        compared = self._whole(entry, group, told, theirs)
        if compared is None:
            return NotCompared.ERROR
        if compared.outcome is not Outcome.BETTER:
            return _verdict(entry, told, theirs, at, compared)
        if _has_topology(group):
            return NotCompared.GROUP
        step = self._first_other([pod for pod in told if theirs[pod.uid].node], theirs, at)
        if step is not None:
            return replace(step, pod=entry.key, members=tuple(pod.key for pod in told))
        ours = Ours(_summary(theirs).node, 1)
        return _verdict(entry, told, theirs, at, Compared(Outcome.EQUAL, ours))

    def agrees(self, entry: QueuedGroup, theirs: TheirGroup) -> bool:
        """Whether both decide alike."""
        verdict = self.judge(entry, theirs, 0.0)
        return isinstance(verdict, Verdict) and verdict.agreed

    def _whole(
        self, entry: QueuedGroup, group: Group, told: Sequence[Pod], theirs: TheirGroup
    ) -> Compared | None:
        """None where the attempt ended in an error."""
        framework, summary = self._profiles[entry.profile], _summary(theirs)
        room = not summary.node
        asked = deciding_group(self._placers, framework, group, entry.pods, make_room=room)
        with asked as decision:
            if _failed(decision):
                return None
            if summary.node or decision.fits:
                return _places(decision, told, theirs)
            return _waits(decision, told, theirs)

    def _first_other(self, pods: Sequence[Pod], theirs: TheirGroup, at: float) -> Verdict | None:
        """The first Pod that would have gone elsewhere; None for none."""
        left = list(pods)
        with ExitStack() as before:
            while left:
                pod = self._next(left, theirs)
                if pod is None:
                    return self._judge.judge(
                        left[0], theirs[left[0].uid], at, commits=False
                    ).verdict
                left.remove(pod)
                done = Move(0, 0.0, pod.on_node(theirs[pod.uid].node), came=True)
                before.enter_context(imagined(self._world.cache, Other(done=(done,))))
        return None

    def _next(self, left: Sequence[Pod], theirs: TheirGroup) -> Pod | None:
        """Some Pod whose node is among the best now: it may have been the next one.

        In which order they were tried there is not known, and of equal Pods it is no matter.
        """
        by_shape: dict[int, list[Pod]] = {}
        for pod in left:
            by_shape.setdefault(pod.shape.id, []).append(pod)
        for pods in by_shape.values():
            best = self._judge.best(pods[0])
            for pod in pods:
                if theirs[pod.uid].node in best:
                    return pod
        return None


def _places(decision: GroupDecision, told: Sequence[Pod], theirs: TheirGroup) -> Compared:
    """Nodes there, or here; `Outcome.BETTER` where there are as many on other nodes."""
    nodes = {member.pod.uid: member.pod.node_name for member in decision.members}
    ours = Ours(_named(nodes.values()), 1, decision.status.message)
    if decision.rejection is not None:
        ours = replace(ours, message=decision.rejection.sentence)
    here = Counter(pod.shape.id for pod in decision.pods if pod.uid in nodes)
    there = Counter(pod.shape.id for pod in told if theirs[pod.uid].node)
    refused = Counter(pod.shape.id for pod in told if not theirs[pod.uid].node)
    pods = Counter(pod.shape.id for pod in decision.pods)
    if any(here[shape] < count for shape, count in there.items()):
        plugin = min(decision.rejectors, default="")
        return Compared(Outcome.PENDING_HERE, ours, plugin)
    if any(here[shape] > pods[shape] - count for shape, count in refused.items()):
        return Compared(Outcome.PLACED_HERE, ours)
    same = Counter((pod.shape.id, nodes.get(pod.uid)) for pod in told if pod.uid in nodes)
    their = Counter((pod.shape.id, theirs[pod.uid].node) for pod in told if theirs[pod.uid].node)
    return Compared(Outcome.SAME if same == their else Outcome.BETTER, ours)


def _waits(decision: GroupDecision, told: Sequence[Pod], theirs: TheirGroup) -> Compared:
    """No nodes, there and here."""
    summary, room = _summary(theirs), decision.room
    said = _messages(decision)
    ours = Ours(message=next((said[pod.uid] for pod in told if pod.uid in said), ""))
    if room is not None:
        victims = frozenset(pod.key for pod in room.victims)
        ours = Ours(_named(room.nodes.values()), 0, ours.message, victims)
    if room is not None and summary.nominated:
        same = ours.victims == summary.victims
        return Compared(Outcome.SAME_EVICTIONS if same else Outcome.OTHER_EVICTIONS, ours)
    if room is not None:
        return Compared(Outcome.EVICTS_HERE, ours)
    if summary.nominated:
        return Compared(Outcome.EVICTS_THERE, ours)
    same = all(said.get(pod.uid) == theirs[pod.uid].message for pod in told)
    return Compared(Outcome.SAME_MESSAGE if same else Outcome.OTHER_MESSAGE, ours)


def _messages(decision: GroupDecision) -> dict[str, str]:
    """By uid, what would be said of each Pod."""
    if decision.group.policy.words is Words.CONDITION:
        return {pod.uid: rejection.message for pod, rejection in failures(decision)}
    message = "" if decision.rejection is None else decision.rejection.message
    return {pod.uid: message for pod in decision.pods}


def _failed(decision: GroupDecision) -> bool:
    rejection = decision.rejection
    reason = None if rejection is None else rejection.reason
    return decision.status.code is Code.ERROR or reason is Reason.SCHEDULER_ERROR


def _has_topology(group: Group) -> bool:
    if group.is_composite or any(part.topology for part in group.walk()):
        return True
    return group.pod_group is not None and bool(group.pod_group.topology_key)


def _summary(theirs: TheirGroup) -> Theirs:
    """What became of the group there."""
    every = list(theirs.values())
    return Theirs(
        _named(one.node for one in every),
        next((one.message for one in every if one.message), ""),
        _named(one.nominated for one in every),
        frozenset().union(*(one.victims for one in every)),
    )


def _named(nodes: Iterable[str]) -> str:
    """The first nodes by name, and how many more there are."""
    names = sorted(set(nodes) - {""})
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _verdict(
    entry: QueuedGroup, told: Sequence[Pod], theirs: TheirGroup, at: float, compared: Compared
) -> Verdict:
    outcome, ours, plugin = compared
    members = tuple(pod.key for pod in told)
    owner = owner_of(told[0])
    return Verdict(entry.key, owner, at, outcome, _summary(theirs), ours, plugin, members=members)

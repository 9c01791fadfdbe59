"""Attempt of a PodGroup of Kubernetes: nodes for its Pods in kube-scheduler's way, or why not.

The Pods are tried once each, in the order of the queue. One that gets a node is assumed and
reserved, so that the next one sees it there. After each Pod the minimum is looked at: as soon as it
cannot be reached any more, the rest is not tried and all is undone. Otherwise Pods that fit nowhere
do not keep the others from their nodes. A Pod whose attempt breaks ends the attempt of the group.

Example, minCount 3, Pods a to d, of which b does not fit: a placed (1 of 3, 3 remain), b rejected
(1 of 3, 2 remain), c placed, d placed (3 of 3): the group is placed, b comes back to the queue. Had
c not fit either, 1 of 3 with 1 to come is too few: d is not tried, and a is undone.

With the feature gate TopologyAwareWorkloadScheduling a group has placements: sets of nodes of which
one has to hold it, such as the racks. It is tried on each of them, one after the other, and each
try is undone. Of the placements that hold it the one that scores best is taken. If none does, the
Pods are told what they were told on the first. What came of tries is remembered for later groups of
equal Pods (`PlacementMemory`).

Answers to ``podGroupSchedulingDefaultAlgorithm`` and ``podGroupSchedulingPlacementAlgorithm`` in
kube-scheduler's ``pkg/scheduler/schedule_one_podgroup.go`` and to PlacementFeasible of its plugin
GangScheduling.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import structlog

from bayplan.api.pod import Pod
from bayplan.api.scheduling import WorkloadPodGroup
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.outcome import Placement, Reason, Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.pod_groups import WorkloadGroupMembers
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.faults import AttemptFault
from bayplan.framework.placement_memory import Tried
from bayplan.framework.placement_stage import PlacementStage
from bayplan.framework.placements import GroupPlacement, PodGroupInfo
from bayplan.framework.room import Room
from bayplan.framework.row_answers import RowAnswers
from bayplan.framework.runtime import Framework
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.framework.text import error_text
from bayplan.queue.nominator import Nominator

log = structlog.get_logger("groups")

UNSCHEDULABLE = "pod group is unschedulable"
_LOWER_PRIORITY = "PreemptLowerPriority"


class Placed(msgspec.Struct, frozen=True, eq=False):
    """A Pod that got a node; in an attempt that failed as a whole it does not count on it."""

    member: Member
    placement: Placement


Result = Placed | Rejection


class GroupAttempt(msgspec.Struct, frozen=True, eq=False):
    """What came of an attempt.

    Attributes:
        status: Success, Unschedulable or Error, of the group. Its plugin, if it has one, is a
            PlacementGenerate plugin that left no other nodes.
        pods: all of its Pods that need nodes, in the order in which they are tried.
        results: of as many of them as were tried.
        room: where there will be room for them, and who is evicted for that.
        effects: what plugins want done when the attempt counts.
    """

    status: Status
    pods: tuple[Pod, ...]
    results: tuple[Result, ...] = ()
    room: Room | None = None
    effects: Sequence[Effect] = ()

    @property
    def placed(self) -> list[Placed]:
        """The results that are nodes."""
        return [result for result in self.results if isinstance(result, Placed)]

    @property
    def fits(self) -> bool:
        """Whether the group has its nodes."""
        return self.status.ok

    def failures(self, untried: Status) -> Iterator[tuple[Pod, Rejection]]:
        """Why each Pod that is not to be bound comes back.

        Args:
            untried: what those are told that were not tried: it has nothing of PodGroupPostFilter.
        """
        for index, pod in enumerate(self.pods):
            result = self.results[index] if index < len(self.results) else None
            failure = self._failure(result, untried)
            if failure is None:
                continue
            node_name = None if self.room is None else self.room.nodes.get(pod.uid)
            if node_name is not None and failure.reason is not Reason.SCHEDULER_ERROR:
                failure = msgspec.structs.replace(failure, nominated=node_name)
            yield pod, failure

    def _failure(self, result: Result | None, untried: Status) -> Rejection | None:
        own = result if isinstance(result, Rejection) else None
        if self.status.code is Code.ERROR:
            failed = own is not None and own.reason is Reason.SCHEDULER_ERROR
            return own if own and failed else Rejection.by_error(self.status.message)
        if own is not None:
            return own
        if result is None:
            return Rejection(Reason.UNSCHEDULABLE, untried.message, nominated=None)
        if self.status.ok:
            return None
        message = self.status.message
        if self.room is None:
            message = f"{UNSCHEDULABLE}, {message}"
        return Rejection(Reason.UNSCHEDULABLE, message)

    @property
    def rejections(self) -> list[tuple[Pod, Rejection]]:
        """The results that are not."""
        pairs = zip(self.pods, self.results, strict=False)
        return [(pod, result) for pod, result in pairs if isinstance(result, Rejection)]


_Try = tuple[GroupPlacement, GroupAttempt | Tried]


class GroupAttempts:
    """Makes attempts. Scheduling thread only."""

    def __init__(
        self,
        commit: Commit,
        selector: NodeChooser,
        nominator: Nominator,
        members: WorkloadGroupMembers,
    ) -> None:
        self._commit = commit
        self._selector = selector
        self._nominator = nominator
        self._members = members

    def run(
        self,
        framework: Framework,
        pod_group: WorkloadPodGroup,
        pods: Sequence[Pod],
        *,
        dry_run: bool = False,
    ) -> GroupAttempt:
        """Try the Pods in their order. Only what succeeds counts afterwards. Never raises."""
        scheduled = tuple(self._members.scheduled(pod_group.key))
        group = PodGroupInfo(pod_group, tuple(pods), scheduled)
        this = _Attempt(self._commit, self._selector, self._nominator, framework, group, dry_run)
        done = this.on(None) if framework.placements is None else this.choose(framework.placements)
        if done.status.ok and not done.placed:
            return msgspec.structs.replace(done, status=Status.unschedulable(UNSCHEDULABLE))
        return done

    def undo(self, done: GroupAttempt) -> None:
        """None of its Pods counts on a node any more."""
        self._commit.undo([placed.member for placed in done.placed])


class _Attempt:
    """One attempt of one group, on one placement or on several."""

    def __init__(
        self,
        commit: Commit,
        selector: NodeChooser,
        nominator: Nominator,
        framework: Framework,
        group: PodGroupInfo,
        dry_run: bool,
    ) -> None:
        self._commit, self._selector, self._nominator = commit, selector, nominator
        self._framework, self._group, self._dry_run = framework, group, dry_run
        self._nominations = nominator.nominations(group.pods)
        self._kind = group.pod_group.minimum, tuple(pod.shape.id for pod in group.pods)
        self._by_rows_alone = False
        """Whether only kept answers decided in the latest try."""

    def choose(self, stage: PlacementStage) -> GroupAttempt:
        """The best placement of those that hold the group."""
        state = CycleState(dry_run=self._dry_run)
        try:
            placements = stage.generate(state, self._group)
            if isinstance(placements, Status):
                return GroupAttempt(placements, self._group.pods)
            tries = self._tries(stage, placements)
            last = tries[-1][1]
            if isinstance(last, GroupAttempt) and last.status.code is Code.ERROR:
                return last
            fits = [one for one in tries if one[1].fits]
            placement, done = fits[self._best(stage, state, fits)] if fits else tries[0]
            if isinstance(done, Tried):
                done = self.on(placement)
                if fits and not done.fits:
                    log.error("a remembered placement does not hold the group", name=placement.name)
                    stage.memory.forget()
                    return self.choose(stage)
            elif fits and len(tries) > 1:
                done = self._repeat(done)
            return done if fits else _nowhere(done, len(tries), stage.generator)
        except AttemptFault as fault:
            return GroupAttempt(Status.error(str(fault)), self._group.pods)
        except Exception as exc:
            log.exception("placing a group broke", podGroup=self._group.pod_group.key)
            return GroupAttempt(Status.error(error_text(exc)), self._group.pods)

    def _tries(self, stage: PlacementStage, placements: Sequence[GroupPlacement]) -> list[_Try]:
        """What comes of each placement, up to an error; of several none counts afterwards."""
        alone = len(placements) == 1
        answers = self._answers(placements)
        known = stage.memory.recall(self._kind, answers, placements)
        kept = dict(known)
        tries: list[_Try] = []
        for placement in placements:
            started = time.perf_counter()
            done = known.get(placement.name) or self.on(placement)
            tries.append((placement, done))
            if isinstance(done, GroupAttempt):
                if done.status.code is Code.ERROR:
                    return tries
                if done.fits and not alone:
                    self._take_off(done)
                if self._by_rows_alone:
                    kept[placement.name] = _tried(placement, done)
            stage.evaluated(fits=done.fits, seconds=time.perf_counter() - started)
        stage.memory.keep(self._kind, answers, kept)
        return tries

    def _best(self, stage: PlacementStage, state: CycleState, fits: Sequence[_Try]) -> int:
        """Which of ``fits`` scores best; of equally good ones any, in a dry run the first."""
        if len(fits) == 1:
            return 0
        candidates = [(placement, self._on_nodes(done)) for placement, done in fits]
        scores = stage.score(state, self._group, candidates)
        ties: list[int] = np.flatnonzero(scores == scores.max()).tolist()
        return ties[0] if self._dry_run else random.choice(ties)

    def _on_nodes(self, done: GroupAttempt | Tried) -> list[Pod]:
        if isinstance(done, GroupAttempt):
            return [placed.member.pod for placed in done.placed]
        pairs = zip(self._group.pods, done.nodes, strict=False)
        return [pod.on_node(node) for pod, node in pairs if node]

    def _answers(self, placements: Sequence[GroupPlacement]) -> list[RowAnswers]:
        """The kept answers for the Pods, if these alone decide about them; else nothing.

        Nothing either where nothing is to be remembered.
        """
        names = {placement.name for placement in placements}
        if self._dry_run or self._group.scheduled or not 1 < len(placements) == len(names):
            return []
        shapes = {pod.shape.id: pod for pod in self._group.pods}
        found = [self._selector.by_rows_alone(self._framework, pod) for pod in shapes.values()]
        answers = [answer for answer in found if answer is not None]
        return answers if len(answers) == len(found) else []

    def on(self, placement: GroupPlacement | None) -> GroupAttempt:
        """Try the Pods in their order, on the nodes of ``placement`` or on all."""
        minimum, pods = self._group.pod_group.minimum, self._group.pods
        scheduled = len(self._group.scheduled)
        status = _feasible(minimum, scheduled, len(pods))
        if status.rejected:
            return GroupAttempt(_unschedulable(status), pods)
        results: list[Result] = []
        self._by_rows_alone = True
        for pod in pods:
            result = self._place(pod, placement)
            results.append(result)
            if isinstance(result, Placed):
                scheduled += 1
            elif result.reason is Reason.SCHEDULER_ERROR:
                text = f"failed to schedule other pod from a pod group: {result.message}"
                status = Status.error(text)
                break
            status = _feasible(minimum, scheduled, len(pods) - len(results))
            if status.rejected:
                break
        return self._counted(GroupAttempt(status, pods, tuple(results)))

    def _place(self, pod: Pod, placement: GroupPlacement | None) -> Result:
        state = CycleState(dry_run=self._dry_run)
        if placement is not None and not placement.everywhere:
            state.domain, state.outside = placement.rows, None
        outcome = attempt(self._framework, self._selector, state, pod, make_room=False)
        scored = isinstance(outcome, Placement) and outcome.fit.count > 1
        if self._framework.search.asked_others(state, scored=scored):
            self._by_rows_alone = False
        if isinstance(outcome, Rejection):
            if outcome.diagnosis is not None:
                # Whether a nomination ends is for PodGroupPostFilter to say.
                return msgspec.structs.replace(outcome, nominated=None)
            return outcome
        member = self._commit.take(Choice(self._framework, state, pod, outcome.node_name))
        if isinstance(member, Rejection):
            return member
        return Placed(member, outcome if self._dry_run else outcome.without_rows())

    def _repeat(self, done: GroupAttempt) -> GroupAttempt:
        """Take the nodes of an attempt once more that was taken off."""
        results = list(done.results)
        for index, result in enumerate(done.results):
            if isinstance(result, Placed):
                node_name = result.placement.node_name
                choice = Choice(
                    self._framework, result.member.state, self._group.pods[index], node_name
                )
                member = self._commit.take(choice)
                if isinstance(member, Rejection):
                    results[index] = member
                else:
                    results[index] = Placed(member, result.placement)
        again = GroupAttempt(done.status, done.pods, tuple(results))
        scheduled = len(self._group.scheduled) + len(again.placed)
        status = _feasible(self._group.pod_group.minimum, scheduled, 0)
        return self._counted(msgspec.structs.replace(again, status=status))

    def _counted(self, done: GroupAttempt) -> GroupAttempt:
        """It counts if it succeeded."""
        if not done.status.ok:
            self._take_off(done)
        return done

    def _take_off(self, done: GroupAttempt) -> None:
        """As if the attempt had not been made."""
        self._commit.undo([placed.member for placed in done.placed])
        self._nominator.nominate_all(self._nominations)


def _tried(placement: GroupPlacement, done: GroupAttempt) -> Tried:
    nodes = (
        result.member.pod.node_name if isinstance(result, Placed) else "" for result in done.results
    )
    return Tried(np.flatnonzero(placement.rows), done.fits, tuple(nodes))


def _nowhere(first: GroupAttempt, count: int, generator: str) -> GroupAttempt:
    """None of ``count`` placements holds the group; the first try speaks for all."""
    why = first.status.message if first.results else UNSCHEDULABLE
    text = f"0/{count} placements are available, first placement status: {why}"
    status = Status.unschedulable(UNSCHEDULABLE, text)
    # Where too few Pods are left to try, other nodes would not help.
    status = status.by(generator) if first.results else status
    return msgspec.structs.replace(first, status=status)


def _feasible(minimum: int, scheduled: int, remaining: int) -> Status:
    """Whether the minimum is reached, may be (Wait), or cannot be."""
    counts = f"{scheduled} scheduled, {remaining} remaining"
    if remaining + scheduled < minimum:
        return Status.unschedulable(f"minCount ({minimum}) cannot be satisfied: {counts}")
    if scheduled < minimum:
        return Status(Code.WAIT, (f"minCount ({minimum}) is not yet satisfied: {counts}",))
    return SUCCESS


def _unschedulable(status: Status) -> Status:
    return Status.unschedulable(UNSCHEDULABLE, *status.reasons)


def invalid(pod_group: WorkloadPodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]) -> str:
    """Why these Pods cannot be one group; "" where they can. The first of ``pods`` sets the rule.

    Args:
        pod_group: their PodGroup.
        pods: those that need nodes.
        scheduled: those that have one.
    """
    for pod in (*pods, *scheduled):
        theirs, ours = pod.spec, pods[0].spec
        if theirs.scheduler_name != ours.scheduler_name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{theirs.scheduler_name}" and "{ours.scheduler_name}"'
            )
        if theirs.priority != pod_group.priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's "
                f"priority, got {theirs.priority} and {pod_group.priority}"
            )
        policies = [spec.preemption_policy or _LOWER_PRIORITY for spec in (theirs, ours)]
        if policies[0] != policies[1]:
            return (
                "all pods in a single pod group should have the same preemption policy, "
                f"got {policies[0]} and {policies[1]}"
            )
    return ""

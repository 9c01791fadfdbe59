"""PlacementSearch: nodes for the Pods of a PodGroup of Kubernetes, in kube-scheduler's way.

The Pods are tried once each, in the order of the queue. After each Pod the minimum is looked at: as
soon as it cannot be reached any more, the rest is not tried and all is undone. Otherwise Pods that
fit nowhere do not keep the others from their nodes. A Pod whose attempt breaks ends the search.

Example, minCount 3, Pods a to d, of which b does not fit: a placed (1 of 3, 3 remain), b rejected
(1 of 3, 2 remain), c placed, d placed (3 of 3): the group is placed, b comes back to the queue. Had
c not fit either, 1 of 3 with 1 to come is too few: d is not tried, and a is undone.

With the feature gate TopologyAwareWorkloadScheduling a group has placements: sets of nodes of which
one has to hold it, such as the racks. The search goes in four steps:

1. Try the group on each placement, one after the other, and undo each try. The first placement is
   always tried, as its verdict speaks for all if none holds the group. Another one is not tried if
   the capacity of its nodes is below the minimum, or if the memory of groups of equal Pods has the
   result (`PlacementMemory`).
2. Score the placements that hold the group.
3. Take the best one; of equally good ones any.
4. Repeat the try of that placement, or take the nodes of the try once more.

Answers to ``podGroupSchedulingDefaultAlgorithm`` and ``podGroupSchedulingPlacementAlgorithm`` in
kube-scheduler's ``pkg/scheduler/schedule_one_podgroup.go``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import structlog
from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.pod_groups import Group
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault, is_interrupt
from bayplan.engine.placement_memory import PlacementResult
from bayplan.engine.placement_stage import PlacementStage
from bayplan.engine.row_answers import RowAnswers
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.placements import GroupPlacement, PlacementProgress, PodGroupInfo
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.groups.capacity import GroupCapacity
from bayplan.groups.decision import GroupDecision, Placed
from bayplan.groups.domains import Domain
from bayplan.groups.fill import Fill
from bayplan.support.text import error_text

log = structlog.get_logger("groups")

UNSCHEDULABLE = "pod group is unschedulable"
# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_FEASIBLE = Point.PLACEMENT_FEASIBLE

_Try = tuple[GroupPlacement, GroupDecision | PlacementResult]


class PlacementSearch:
    """One search. What `run` returns as placed is the caller's to undo.

    Args:
        framework: the profile of the Pods.
        selector: breaks ties.
        fill: places Pods.
        group: what is asked for.
        info: the group, its Pods, and those that have nodes already.
        remembers: whether results are recalled and kept for later groups of equal Pods.
    """

    def __init__(
        self,
        framework: Framework,
        selector: NodeChooser,
        fill: Fill,
        group: Group,
        info: PodGroupInfo,
        *,
        remembers: bool,
    ) -> None:
        self._framework, self._selector, self._fill = framework, selector, fill
        self._group, self._info = group, info
        self._kind = group.minimum, tuple(pod.shape.id for pod in info.pods)
        self._remembers = remembers
        self._state = CycleState()

    def run(self) -> GroupDecision:
        """Try the Pods in their order. Never raises."""
        stage = self._framework.placements
        try:
            done = self._on(None) if stage is None else self._choose(stage)
        except AttemptFault as fault:
            return self._broken(str(fault))
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            # What a plugin hands out may break wherever it is looked at.
            log.exception("placing a group broke", podGroup=self._group.key)
            return self._broken(error_text(exc))
        if done.status.ok and not done.placed:
            return replace(done, status=Status.unschedulable(UNSCHEDULABLE))
        return done

    def _broken(self, text: str) -> GroupDecision:
        """Nothing is known: a plugin broke."""
        self._fill.undo()
        return self._decision(Status.error(text))

    def _choose(self, stage: PlacementStage) -> GroupDecision:
        """The best of all placements with room for the group."""
        state = self._state
        placements = stage.generate(state, self._info)
        if isinstance(placements, Status):
            return self._decision(placements)
        # 1. Try each
        tries = self._tries(stage, placements)
        last = tries[-1][1]
        if isinstance(last, GroupDecision) and last.status.code is Code.ERROR:
            return last
        fits = [one for one in tries if one[1].fits]
        # 2. and 3. Score those that hold the group, take the best
        placement, done = fits[self._best(stage, state, fits)] if fits else tries[0]
        # 4. Repeat it
        if isinstance(done, PlacementResult):
            done = self._on(placement)
            if fits and not done.fits:
                log.error("a remembered placement does not hold the group", name=placement.name)
                stage.memory.forget()
                return self._choose(stage)
        elif fits and len(tries) > 1:
            done = self._repeat(done)
        if not fits:
            return _nowhere(done, len(tries), stage.generator)
        level = self._group.required_level
        if placement.everywhere or not level:
            return done
        return replace(done, domains={"": Domain(level, placement.name, None, 0, 0)})

    def _tries(self, stage: PlacementStage, placements: Sequence[GroupPlacement]) -> list[_Try]:
        """What comes of each placement, up to an error; of several none counts afterwards."""
        alone = len(placements) == 1
        answers = self._answers(placements)
        recalled = stage.memory.recall(self._kind, answers, placements)
        kept = dict(recalled)
        capacity = None if alone else GroupCapacity(self._framework, self._info.pods)
        needed = self._group.minimum - len(self._info.scheduled)
        tries: list[_Try] = []
        for placement in placements:
            started = time.perf_counter()
            done: GroupDecision | PlacementResult | None = recalled.get(placement.name)
            if done is None and tries and capacity and capacity.at_most(placement.rows) < needed:
                done = PlacementResult(np.flatnonzero(placement.rows), fits=False, nodes=())
            elif done is None:
                done = self._on(placement)
            tries.append((placement, done))
            if isinstance(done, GroupDecision):
                if done.status.code is Code.ERROR:
                    return tries
                if not alone:
                    self._fill.undo()
                if self._fill.by_rows_alone:
                    kept[placement.name] = _tried(placement, done)
            stage.evaluated(fits=done.fits, seconds=time.perf_counter() - started)
        stage.memory.keep(self._kind, answers, kept)
        return tries

    def _best(self, stage: PlacementStage, state: CycleState, fits: Sequence[_Try]) -> int:
        """Which of ``fits`` scores best; of equally good ones any."""
        if len(fits) == 1:
            return 0
        candidates = [(placement, self._on_nodes(done)) for placement, done in fits]
        scores = stage.score(state, self._info, candidates)
        ties: list[int] = np.flatnonzero(scores == scores.max()).tolist()
        return ties[self._selector.pick(len(ties))]

    def _on_nodes(self, done: GroupDecision | PlacementResult) -> list[Pod]:
        if isinstance(done, GroupDecision):
            return [placed.member.pod for placed in done.placed]
        pairs = zip(self._info.pods, done.nodes, strict=False)
        return [pod.on_node(node) for pod, node in pairs if node]

    def _answers(self, placements: Sequence[GroupPlacement]) -> list[RowAnswers]:
        """The kept answers for the Pods, if these alone decide about them; else nothing.

        Nothing either where nothing is to be remembered.
        """
        names = {placement.name for placement in placements}
        if not self._remembers or self._info.scheduled or not 1 < len(placements) == len(names):
            return []
        shapes = {pod.shape.id: pod for pod in self._info.pods}
        found = [self._selector.by_rows_alone(self._framework, pod) for pod in shapes.values()]
        answers = [answer for answer in found if answer is not None]
        return answers if len(answers) == len(found) else []

    def _on(self, placement: GroupPlacement | None) -> GroupDecision:
        """Try the Pods in their order, on the nodes of ``placement`` or on all."""
        pods, scheduled = self._info.pods, len(self._info.scheduled)
        status = self._feasible(scheduled, len(pods))
        if status.rejected:
            status = Status.unschedulable(UNSCHEDULABLE, *status.reasons).by(status.plugin)
        if status.rejected or status.code is Code.ERROR:
            return self._decision(status)
        rejected: dict[str, Rejection] = {}
        everywhere = placement is None or placement.everywhere
        rows = None if placement is None or everywhere else placement.rows
        self._fill.by_rows_alone = True
        for tried, pod in enumerate(pods, 1):
            rejection = self._fill.place(pod, rows, outside=None)
            if rejection is None:
                scheduled += 1
            else:
                if rejection.diagnosis is not None:
                    # Whether a nomination ends is for PodGroupPostFilter to say.
                    rejection = replace(rejection, nominated=None)
                rejected[pod.uid] = rejection
                if rejection.reason is Reason.SCHEDULER_ERROR:
                    text = f"failed to schedule other pod from a pod group: {rejection.message}"
                    status = Status.error(text)
                    break
            status = self._feasible(scheduled, len(pods) - tried)
            if status.rejected or status.code is Code.ERROR:
                break
        done = self._decision(status, tuple(self._fill.placed), rejected)
        if not status.ok:
            self._fill.undo()
        return done

    def _feasible(self, scheduled: int, remaining: int) -> Status:
        """What PlacementFeasible plugins say: Success, Wait, Unschedulable or Error."""
        plugins, answer = self._framework.plugins, SUCCESS
        progress = PlacementProgress(scheduled, remaining)
        for plugin in plugins.placement_feasible:
            status = plugins.status(
                plugin, _FEASIBLE, plugin.placement_feasible, self._state, self._info, progress
            )
            if status.code is Code.WAIT:
                answer = status.by(plugin.name)
            elif status.code is Code.UNSCHEDULABLE:
                return status.by(plugin.name)
            elif status.code is Code.ERROR:
                return Status.error(f"running PlacementFeasible plugin: {status.message}")
            elif not status.ok:
                text = f"unexpected status from PlacementFeasible plugin: {status.code}"
                return Status.error(text)
        return answer

    def _decision(
        self,
        status: Status,
        placed: tuple[Placed, ...] = (),
        rejected: dict[str, Rejection] | None = None,
    ) -> GroupDecision:
        rejected = rejected or {}
        return GroupDecision(
            self._group,
            self._info.pods,
            status,
            placed,
            rejected,
            tried=len(placed) + len(rejected),
            begun=bool(self._info.scheduled),
        )

    def _repeat(self, done: GroupDecision) -> GroupDecision:
        """Take the nodes of a try once more that was undone."""
        pods = {pod.uid: pod for pod in self._info.pods}
        rejected = dict(done.rejected)
        for placed in done.placed:
            pod = pods[placed.member.pod.uid]
            rejection = self._fill.take(pod, placed.member.state, placed.placement)
            if rejection is not None:
                rejected[pod.uid] = rejection
        scheduled = len(self._info.scheduled) + len(self._fill.placed)
        status = self._feasible(scheduled, 0)
        again = replace(done, placed=tuple(self._fill.placed), rejected=rejected, status=status)
        if not status.ok:
            self._fill.undo()
        return again


def _tried(placement: GroupPlacement, done: GroupDecision) -> PlacementResult:
    nodes = {placed.member.pod.uid: placed.member.pod.node_name for placed in done.placed}
    names = tuple(nodes.get(pod.uid, "") for pod in done.pods[: done.tried])
    return PlacementResult(np.flatnonzero(placement.rows), done.fits, names)


def _nowhere(first: GroupDecision, count: int, generator: str) -> GroupDecision:
    """None of ``count`` placements holds the group; the first try speaks for all."""
    why = first.status.message if first.tried else UNSCHEDULABLE
    text = f"0/{count} placements are available, first placement status: {why}"
    status = Status.unschedulable(UNSCHEDULABLE, text)
    # Where too few Pods are left to try, other nodes would not help.
    status = status.by(generator) if first.tried else status
    return replace(first, status=status)

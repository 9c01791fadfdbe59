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

A CompositePodGroup is placed in the same way, with groups in place of Pods: those below it are
tried one after the other, each on placements within that of its parent, and count as placed or not.
What was placed below it is undone with it.

Example: root "both of a and b" on racks, a and b gangs of 4. On rack r1 a fits, b does not: a is
undone. On r2 both fit: r2 is taken.

Answers to ``podGroupSchedulingRecursiveAlgorithm`` and the functions below it in kube-scheduler's
``pkg/scheduler/schedule_one_podgroup.go``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import structlog
from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.config.points import Point
from bayplan.engine.capacity import PodKind
from bayplan.engine.faults import AttemptFault, is_interrupt
from bayplan.engine.placement_memory import PlacementResult
from bayplan.engine.placement_stage import PlacementStage
from bayplan.engine.row_answers import RowAnswers
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.placements import GroupPlacement, PlacementProgress, PodGroupInfo
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.groups.capacity import GroupCapacity, kinds_of
from bayplan.groups.decision import GroupDecision, Placed
from bayplan.groups.domains import Domain
from bayplan.groups.fill import Fill
from bayplan.groups.placement_slices import PlacementSlices
from bayplan.groups.slice_packing import Steps
from bayplan.support.text import error_text

log = structlog.get_logger("groups")

UNSCHEDULABLE = "pod group is unschedulable"
# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_FEASIBLE = Point.PLACEMENT_FEASIBLE
_ERROR = Code.ERROR

_BY_CHILD = "composite pod group evaluation failed due to child error"

_Try = tuple[GroupPlacement, GroupDecision | PlacementResult]


class _Node(NamedTuple):
    """A group of the tree, with its Pods.

    Attributes:
        group: what is asked for.
        info: the same, for plugins.
        children: the groups below it.
        needed: at least as many Pods get nodes where the group is placed.
    """

    group: Group
    info: PodGroupInfo
    children: tuple[_Node, ...]
    needed: int


class PlacementSearch:
    """One search. What `run` returns as placed is the caller's to undo.

    Args:
        framework: the profile of the Pods.
        selector: breaks ties.
        fill: places Pods.
        info_of: a group of the tree with its Pods, and those that have nodes already.
        remembers: whether results are recalled and kept for later groups of equal Pods.
        steps: how much work packings of slices may do.
    """

    def __init__(
        self,
        framework: Framework,
        selector: NodeChooser,
        fill: Fill,
        info_of: Callable[[Group], PodGroupInfo],
        *,
        remembers: bool,
        steps: Steps,
    ) -> None:
        self._framework, self._selector, self._fill = framework, selector, fill
        self._info_of = info_of
        self._remembers, self._steps = remembers, steps
        self._kinds: Mapping[PodKind, Pod] = {}

    def run(self, group: Group) -> GroupDecision:
        """Try the Pods of the group, or the groups below it, in their order. Never raises."""
        root = self._node(group)
        self._kinds = kinds_of(root.info.pods) if group.is_composite else {}
        try:
            done = self._place(root, None)
        except AttemptFault as fault:
            return self._broken(root, str(fault))
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            # What a plugin hands out may break wherever it is looked at.
            log.exception("placing a group broke", podGroup=group.key)
            return self._broken(root, error_text(exc))
        if done.status.ok and not done.placed:
            return replace(done, status=Status.unschedulable(UNSCHEDULABLE))
        return done

    def _node(self, group: Group) -> _Node:
        children = tuple(map(self._node, group.children))
        info = self._info_of(group)
        needed = max(group.minimum - len(info.scheduled), 0)
        if group.is_composite:
            needed = sum(sorted(child.needed for child in children)[: info.pod_group.minimum])
        return _Node(group, info, children, needed)

    def _broken(self, node: _Node, text: str, mark: int = 0) -> GroupDecision:
        """Nothing is known: a plugin broke."""
        self._fill.undo(mark)
        return _decision(node, Status.error(text))

    def _place(self, node: _Node, within: GroupPlacement | None) -> GroupDecision:
        """The best of all placements with room for the group."""
        state, stage = CycleState(), self._framework.placements
        if stage is None:
            return self._on(node, state, None)
        placements = stage.generate(state, node.info, within)
        if isinstance(placements, Status):
            return _decision(node, placements)
        mark = len(self._fill.placed)
        # 1. Try each
        tries = self._tries(stage, node, state, placements)
        last = tries[-1][1]
        if isinstance(last, GroupDecision) and last.status.code is _ERROR:
            return last
        fits = [one for one in tries if one[1].fits]
        # 2. and 3. Score those that hold the group, take the best
        placement, done = fits[self._best(stage, node, state, fits)] if fits else tries[0]
        # 4. Repeat it
        if isinstance(done, PlacementResult):
            done = self._on(node, state, placement)
            if fits and not done.fits:
                log.error("a remembered placement does not hold the group", name=placement.name)
                stage.memory.forget()
                return self._place(node, within)
        elif fits and len(tries) > 1:
            done = self._repeat(node, state, done, mark)
        if not fits:
            return _nowhere(done, len(tries), stage.generator)
        level = node.group.required_level
        if placement.everywhere or not level:
            return done
        own = {"": Domain(level, placement.name, None, 0, 0)}
        return replace(done, domains={**done.domains, **own})

    def _tries(
        self,
        stage: PlacementStage,
        node: _Node,
        state: CycleState,
        placements: Sequence[GroupPlacement],
    ) -> list[_Try]:
        """What comes of each placement, up to an error; of several none counts afterwards."""
        alone, mark = len(placements) == 1, len(self._fill.placed)
        answers = self._answers(node, placements)
        kind = node.group.minimum, tuple(pod.shape.id for pod in node.info.pods)
        recalled = stage.memory.recall(kind, answers, placements)
        kept = dict(recalled)
        capacity = None if alone else GroupCapacity(self._framework, node.info.pods, self._kinds)
        tries: list[_Try] = []
        for placement in placements:
            started = time.perf_counter()
            done: GroupDecision | PlacementResult | None = recalled.get(placement.name)
            if (
                done is None
                and tries
                and capacity
                and capacity.at_most(placement.rows) < node.needed
            ):
                done = PlacementResult(np.flatnonzero(placement.rows), fits=False, nodes=())
            elif done is None:
                done = self._on(node, state, placement)
            tries.append((placement, done))
            if isinstance(done, GroupDecision):
                if done.status.code is _ERROR:
                    return tries
                if not alone:
                    self._fill.undo(mark)
                if self._fill.by_rows_alone:
                    kept[placement.name] = _tried(placement, done)
            stage.evaluated(fits=done.fits, seconds=time.perf_counter() - started)
        stage.memory.keep(kind, answers, kept)
        return tries

    def _best(
        self, stage: PlacementStage, node: _Node, state: CycleState, fits: Sequence[_Try]
    ) -> int:
        """Which of ``fits`` scores best; of equally good ones any."""
        if len(fits) == 1:
            return 0
        candidates = [(placement, _on_nodes(node, done)) for placement, done in fits]
        scores = stage.score(state, node.info, candidates)
        ties: list[int] = np.flatnonzero(scores == scores.max()).tolist()
        return ties[self._selector.pick(len(ties))]

    def _answers(self, node: _Node, placements: Sequence[GroupPlacement]) -> list[RowAnswers]:
        """The kept answers for the Pods, if these alone decide about them; else nothing.

        Nothing either where nothing is to be remembered.
        """
        names = {placement.name for placement in placements}
        if (
            not self._remembers
            or node.info.scheduled
            or node.group.slices
            or not 1 < len(placements) == len(names)
        ):
            return []
        shapes = {pod.shape.id: pod for pod in node.info.pods}
        found = [self._selector.by_rows_alone(self._framework, pod) for pod in shapes.values()]
        answers = [answer for answer in found if answer is not None]
        return answers if len(answers) == len(found) else []

    def _on(
        self, node: _Node, state: CycleState, placement: GroupPlacement | None
    ) -> GroupDecision:
        """Try the group on the nodes of ``placement`` or on all."""
        mark = len(self._fill.placed)
        on = self._groups_on if node.group.is_composite else self._pods_on
        done = on(node, state, placement)
        if not done.status.ok:
            self._fill.undo(mark)
        return done

    def _groups_on(
        self, node: _Node, state: CycleState, placement: GroupPlacement | None
    ) -> GroupDecision:
        """Try the groups below, in their order."""
        children: list[GroupDecision] = []
        status = self._feasible(node, state, 0, len(node.children))
        if status.rejected or status.code is _ERROR:
            return _decision(node, status)
        for child in node.children:
            done = self._below(child, placement)
            if done.status.code is _ERROR:
                return _decision(node, Status.error(f"{_BY_CHILD}: {done.status.message}"))
            children.append(done)
            scheduled = sum(done.fits for done in children)
            remaining = len(node.children) - len(children)
            status = self._feasible(node, state, scheduled, remaining)
            if status.rejected or status.code is _ERROR:
                break
        return _of_children(node, status, children)

    def _below(self, child: _Node, within: GroupPlacement | None) -> GroupDecision:
        mark = len(self._fill.placed)
        try:
            return self._place(child, within)
        except AttemptFault as fault:
            return self._broken(child, str(fault), mark)

    def _pods_on(
        self, node: _Node, state: CycleState, placement: GroupPlacement | None
    ) -> GroupDecision:
        """Try the Pods, in their order."""
        pods, scheduled = node.info.pods, len(node.info.scheduled)
        status = self._feasible(node, state, scheduled, len(pods))
        if status.rejected:
            status = Status.unschedulable(UNSCHEDULABLE, *status.reasons).by(status.plugin)
        if status.rejected or status.code is _ERROR:
            return _decision(node, status)
        mark, rejected = len(self._fill.placed), dict[str, Rejection]()
        everywhere = placement is None or placement.everywhere
        rows = None if placement is None or everywhere else placement.rows
        self._fill.by_rows_alone = self._remembers
        slices = self._slices(node, rows)
        refusal = None if slices is None else self._lay_out(node, slices)
        if refusal is not None:
            return refusal
        if first := len(self._fill.placed) - mark:
            scheduled += first
            status = self._feasible(node, state, scheduled, len(pods) - first)
        for tried, pod in enumerate(pods[first:], first + 1):
            rejection = self._try(pod, rows, slices, mark)
            if rejection is None:
                scheduled += 1
            else:
                rejected[pod.uid] = rejection
                if rejection.reason is Reason.SCHEDULER_ERROR:
                    text = f"failed to schedule other pod from a pod group: {rejection.message}"
                    status = Status.error(text)
                    break
            status = self._feasible(node, state, scheduled, len(pods) - tried)
            if status.rejected or status.code is _ERROR:
                break
        done = _decision(node, status, tuple(self._fill.placed[mark:]), rejected)
        return replace(done, slices={"": slices.shares}) if slices and slices.shares else done

    def _try(
        self, pod: Pod, rows: BoolArray | None, slices: PlacementSlices | None, mark: int
    ) -> Rejection | None:
        """Place one Pod of a group, after the first ``mark`` Pods of others, or say why not."""
        if slices is None:
            rejection = self._fill.place(pod, rows, outside=None)
        else:
            home = slices.home(pod, self._fill.placed[mark:])
            rejection = self._fill.place(pod, home.rows, home.outside)
        if rejection is not None and rejection.diagnosis is not None:
            # Whether a nomination ends is for PodGroupPostFilter to say.
            return replace(rejection, nominated=None)
        return rejection

    def _slices(self, node: _Node, rows: BoolArray | None) -> PlacementSlices | None:
        """What places the Pods of a group with slices, or with a fault in these."""
        topology = node.group.topology
        if topology is None or not (topology.slices or topology.fault):
            return None
        nodes = self._selector.nodes
        capacity = GroupCapacity(self._framework, node.info.pods, self._kinds)
        return PlacementSlices(
            self._framework,
            self._fill,
            nodes,
            node.group,
            node.info,
            capacity,
            rows,
            self._steps,
        )

    def _lay_out(self, node: _Node, slices: PlacementSlices) -> GroupDecision | None:
        """Place the minimum of a group with slices; the decision if that does not fit."""
        refused = slices.lay_out()
        if refused is None:
            return None
        pod, rejection = refused
        rejected = {pod.uid: replace(rejection, nominated=None)}
        status = Status.unschedulable(UNSCHEDULABLE, rejection.message)
        if rejection.reason is Reason.SCHEDULER_ERROR:
            status = Status.error(rejection.message)
        return _decision(node, status, rejected=rejected)

    def _feasible(self, node: _Node, state: CycleState, scheduled: int, remaining: int) -> Status:
        """What PlacementFeasible plugins say: Success, Wait, Unschedulable or Error."""
        plugins, answer = self._framework.plugins, SUCCESS
        progress = PlacementProgress(scheduled, remaining)
        for plugin in plugins.placement_feasible:
            status = plugins.status(
                plugin, _FEASIBLE, plugin.placement_feasible, state, node.info, progress
            )
            if status.ok:
                continue
            if status.code is Code.WAIT:
                answer = status.by(plugin.name)
            elif status.code is Code.UNSCHEDULABLE:
                return status.by(plugin.name)
            elif status.code is _ERROR:
                return Status.error(f"running PlacementFeasible plugin: {status.message}")
            else:
                text = f"unexpected status from PlacementFeasible plugin: {status.code}"
                return Status.error(text)
        return answer

    def _repeat(
        self, node: _Node, state: CycleState, done: GroupDecision, mark: int
    ) -> GroupDecision:
        """Take the nodes of a try once more that was undone; ``mark`` Pods were placed before."""
        if node.group.is_composite:
            pairs = zip(node.children, done.children, strict=False)
            children = [
                self._repeat(child, state, below, len(self._fill.placed)) if below.fits else below
                for child, below in pairs
            ]
            status = self._feasible(node, state, sum(below.fits for below in children), 0)
            again = _of_children(node, status, children)
        else:
            pods = {pod.uid: pod for pod in node.info.pods}
            rejected = dict(done.rejected)
            for placed in done.placed:
                pod = pods[placed.member.pod.uid]
                rejection = self._fill.take(pod, placed.member.state, placed.placement)
                if rejection is not None:
                    rejected[pod.uid] = rejection
            taken = tuple(self._fill.placed[mark:])
            status = self._feasible(node, state, len(node.info.scheduled) + len(taken), 0)
            again = replace(done, placed=taken, rejected=rejected, status=status)
        if not status.ok:
            self._fill.undo(mark)
        return replace(again, domains=done.domains)


def _decision(
    node: _Node,
    status: Status,
    placed: tuple[Placed, ...] = (),
    rejected: Mapping[str, Rejection] = {},
) -> GroupDecision:
    tried, begun = len(placed) + len(rejected), bool(node.info.scheduled)
    return GroupDecision(
        node.group, node.info.pods, status, placed, rejected, tried=tried, begun=begun
    )


def _of_children(node: _Node, status: Status, children: Sequence[GroupDecision]) -> GroupDecision:
    """The decision about a CompositePodGroup: what counts is in the children that fit."""
    placed = [placed for child in children if child.fits for placed in child.placed]
    rejected = {uid: why for child in children for uid, why in child.rejected.items()}
    domains = {
        name or child.group.key: domain
        for child in children
        if child.fits
        for name, domain in child.domains.items()
    }
    slices = {
        child.group.key: child.slices[""] for child in children if child.fits and child.slices
    }
    done = _decision(node, status, tuple(placed), rejected)
    return replace(done, children=tuple(children), domains=domains, slices=slices)


def _on_nodes(node: _Node, done: GroupDecision | PlacementResult) -> list[Pod]:
    if isinstance(done, GroupDecision):
        return [placed.member.pod for placed in done.placed]
    pairs = zip(node.info.pods, done.nodes, strict=False)
    return [pod.on_node(name) for pod, name in pairs if name]


def _tried(placement: GroupPlacement, done: GroupDecision) -> PlacementResult:
    nodes = {placed.member.pod.uid: placed.member.pod.node_name for placed in done.placed}
    names = tuple(nodes.get(pod.uid, "") for pod in done.pods[: done.tried])
    return PlacementResult(np.flatnonzero(placement.rows), done.fits, names)


def _nowhere(first: GroupDecision, count: int, generator: str) -> GroupDecision:
    """None of ``count`` placements holds the group; the first try speaks for all."""
    asked = first.tried or first.group.is_composite
    why = first.status.message if asked else UNSCHEDULABLE
    text = f"0/{count} placements are available, first placement status: {why}"
    status = Status.unschedulable(UNSCHEDULABLE, text)
    # Where too few Pods are left to try, other nodes would not help.
    status = status.by(generator) if first.tried else status
    return replace(first, status=status)

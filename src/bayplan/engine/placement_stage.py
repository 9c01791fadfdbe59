"""PlacementStage: the PlacementGenerate plugin and the PlacementScore plugins of one profile.

Answers to ``RunPlacementGeneratePlugins`` and ``RunPlacementScorePlugins`` in kube-scheduler's
``pkg/scheduler/engine/runtime/framework.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.config.points import Point
from bayplan.engine.faults import InvalidScoreError
from bayplan.engine.placement_memory import PlacementMemory
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.stages import integers
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, Integers
from bayplan.framework.placements import GroupPlacement, PodGroupInfo
from bayplan.framework.points import NormalizePlacementScores, PlacementScore
from bayplan.framework.status import Status

NO_PLACEMENT = Status.unschedulable("no feasible placements found")


class PlacementStage:
    """Where a PodGroup of Kubernetes may go, and which of these places is the best.

    Methods raise `AttemptFault` when a plugin broke.

    Attributes:
        memory: what came of tries on placements.
    """

    def __init__(self, plugins: ProfilePlugins, nodes: LiveNodeTable) -> None:
        self._plugins = plugins
        self._nodes = nodes
        self.memory = PlacementMemory(nodes)

    def generate(
        self, state: CycleState, group: PodGroupInfo, within: GroupPlacement | None = None
    ) -> Sequence[GroupPlacement] | Status:
        """The placements to try, in order, or why there is none: a rejection or an error.

        Args:
            state: of the attempt of the group.
            group: the group.
            within: the placement of the group above it; None where there is no such group.
        """
        answer = self._generate(state, group, within or self._everywhere)
        if not isinstance(answer, Status):
            self._plugins.instrument.placements_generated(self._plugins.profile, len(answer))
        return answer

    @property
    def generator(self) -> str:
        """The name of the PlacementGenerate plugin; "" for none."""
        plugin = self._plugins.placement_generate
        return "" if plugin is None else plugin.name

    def evaluated(self, *, fits: bool, seconds: float) -> None:
        """A group was tried on one placement."""
        result = "feasible" if fits else "infeasible"
        self._plugins.instrument.placement_evaluated(self._plugins.profile, result, seconds)

    @property
    def _everywhere(self) -> GroupPlacement:
        return GroupPlacement("", self._nodes.exists, everywhere=True)

    def _generate(
        self, state: CycleState, group: PodGroupInfo, within: GroupPlacement
    ) -> Sequence[GroupPlacement] | Status:
        generator, point = self._plugins.placement_generate, Point.PLACEMENT_GENERATE
        if generator is None:
            return [within]
        method = generator.generate_placements
        answer = self._plugins.call(generator, point, method, state, group, self._nodes)
        if answer is None:
            return [within]
        if isinstance(answer, Status):
            return answer.by(generator.name)
        placements = self._plugins.call(generator, point, self._checked, answer)
        if not within.everywhere:
            parts = [GroupPlacement(p.name, p.rows & within.rows) for p in placements]
            placements = [part for part in parts if part.rows.any()]
        return placements or NO_PLACEMENT.by(generator.name)

    def _checked(self, answer: object) -> list[GroupPlacement]:
        """The placements that a plugin returned; raises TypeError or ValueError where not."""
        placements: list[GroupPlacement] = []
        for placement in answer if isinstance(answer, Iterable) else [answer]:
            if not isinstance(placement, GroupPlacement):
                text = "was returned, not a sequence of GroupPlacement, a Status or None"
                raise TypeError(f"{answer!r} {text}")
            rows = placement.rows
            if rows.dtype != np.bool_ or rows.shape != (len(self._nodes),):
                wrong = f"{rows.dtype} of shape {rows.shape}"
                raise ValueError(f"rows must be bool of ({len(self._nodes)},), not {wrong}")
            placements.append(placement)
        return placements

    def score(
        self,
        state: CycleState,
        group: PodGroupInfo,
        candidates: Sequence[tuple[GroupPlacement, Sequence[Pod]]],
    ) -> IntArray:
        """The weighted sum of all plugins' scores, ``(len(candidates),)``.

        Args:
            state: of the attempt of the group.
            group: the group.
            candidates: placements that hold it, each with the Pods of ``group.pods`` that get a
                node there, that node filled in.
        """
        totals = np.zeros(len(candidates), np.int64)
        for plugin in self._plugins.placement_score:
            weight = self._plugins.placement_weights[plugin.name]
            totals += weight * self._scores(plugin, state, group, candidates)
        return totals

    def _scores(
        self,
        plugin: PlacementScore,
        state: CycleState,
        group: PodGroupInfo,
        candidates: Sequence[tuple[GroupPlacement, Sequence[Pod]]],
    ) -> Integers:
        ask, method, point = self._plugins.ask, plugin.score_placement, Point.PLACEMENT_SCORE
        answers = [
            ask(
                (int, np.integer), plugin, point, method, state, group, placement, pods, self._nodes
            )
            for placement, pods in candidates
        ]
        scores: Integers = np.array(answers, np.int64)
        if isinstance(plugin, NormalizePlacementScores):
            given = self._plugins.call(
                plugin, point, plugin.normalize_placement_scores, state, group, scores
            )
            scores = self._plugins.call(plugin, point, integers, "scores", given, len(answers))
        for score in scores.tolist():
            if not 0 <= score <= MAX_NODE_SCORE:
                self._plugins.call(plugin, point, _refuse, plugin.name, score)
        return scores


def _refuse(name: str, score: int) -> NoReturn:
    raise InvalidScoreError(
        f'plugin "{name}" returns an invalid score {score}, it should in the range of '
        f"[0, {MAX_NODE_SCORE}] after normalizing"
    )

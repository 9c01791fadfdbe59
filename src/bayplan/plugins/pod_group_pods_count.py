"""PodGroupPodsCount: the placement of a PodGroup of Kubernetes where most of its Pods get nodes."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod
from bayplan.cache.node_table import NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Integers, Normalizer, Plugin
from bayplan.framework.placements import GroupPlacement, PodGroupInfo
from bayplan.framework.points import NormalizePlacementScores, PlacementScore


class PodGroupPodsCount(Plugin, PlacementScore, NormalizePlacementScores):
    """Scores by the number of Pods; the placement with most of them scores 100."""

    def score_placement(
        self,
        state: CycleState,
        group: PodGroupInfo,
        placement: GroupPlacement,
        pods: Sequence[Pod],
        nodes: NodeTable,
    ) -> int:
        """How many Pods of the group have nodes then."""
        return len(group.scheduled) + len(pods)

    def normalize_placement_scores(
        self, state: CycleState, group: PodGroupInfo, scores: Integers
    ) -> Integers:
        """In relation to the highest."""
        return Normalizer()(scores, int(scores.max()))

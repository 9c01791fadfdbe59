"""PlacementMemory: what came of trying a group on placements, for later groups of equal Pods.

A group that is placed changes one of fifty racks. The next one of equal Pods fares on the others as
the one before did, so there it need not be tried again. That holds where only the kept answers of
row-local plugins decide about its Pods (`NodeSearch.by_rows_alone`): these are a matter of the
Pods' shapes and of the rows, and the journals say which rows have changed. A placement is tried
again when one of its rows has changed, when it has other rows than before, or when the answers of
one of the shapes have started over.

What is remembered decides which placement is the best one, never that a Pod gets a node: the group
is tried on the best one in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.engine.row_answers import RowAnswers
from bayplan.framework.placements import GroupPlacement

KINDS = 16
"""Kinds of groups that are remembered, the latest ones."""

GroupKind = tuple[int, tuple[int, ...]]
"""The minimum of a group, and the ids of the shapes of its Pods in the order of the tries."""


class PlacementResult(msgspec.Struct, frozen=True, eq=False):
    """A group was tried on a placement.

    Attributes:
        rows: of the placement.
        fits: whether it holds the group.
        nodes: the names of the nodes of as many Pods as were tried; "" for one that fits nowhere.
    """

    rows: IntArray
    fits: bool
    nodes: tuple[str, ...]


@dataclass
class _Kind:
    answers: Sequence[RowAnswers]
    generations: Sequence[int]
    positions: tuple[int, int]
    tried: dict[str, PlacementResult] = field(default_factory=dict)


class PlacementMemory:
    """Of one profile. Scheduling thread only."""

    def __init__(self, nodes: LiveNodeTable) -> None:
        self._nodes = nodes
        self._kinds: OrderedDict[GroupKind, _Kind] = OrderedDict()

    def recall(
        self,
        kind: GroupKind,
        answers: Sequence[RowAnswers],
        placements: Iterable[GroupPlacement],
    ) -> dict[str, PlacementResult]:
        """What would come of trying such a group now, by placement.

        Args:
            kind: of the group.
            answers: for its Pods, up to date; none where more than these decide.
            placements: those that are asked for.
        """
        previous = self._kinds.get(kind)
        if not answers or previous is None or not _are_the_same(previous, answers):
            return {}
        moved = self._nodes.node_journal.since(previous.positions[0])
        moved_pods = self._nodes.pod_journal.since(previous.positions[1])
        if moved is None or moved_pods is None:
            return {}
        changed = np.unique(np.array(moved + moved_pods, np.intp))
        results = {}
        for placement in placements:
            tried = previous.tried.get(placement.name)
            if tried is None or placement.rows[changed].any():
                continue
            if np.array_equal(np.flatnonzero(placement.rows), tried.rows):
                results[placement.name] = tried
        return results

    def keep(
        self, kind: GroupKind, answers: Sequence[RowAnswers], tried: Mapping[str, PlacementResult]
    ) -> None:
        """Remember all that is known of such groups; nothing of ``tried`` counts any more."""
        if not answers:
            return
        nodes = self._nodes
        positions = nodes.node_journal.position, nodes.pod_journal.position
        generations = [answer.generation for answer in answers]
        self._kinds[kind] = _Kind(answers, generations, positions, dict(tried))
        self._kinds.move_to_end(kind)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)

    def forget(self) -> None:
        """Start over: forget all results."""
        self._kinds.clear()


def _are_the_same(previous: _Kind, answers: Sequence[RowAnswers]) -> bool:
    return len(previous.answers) == len(answers) and all(
        before is now and generation == now.generation
        for before, now, generation in zip(
            previous.answers, answers, previous.generations, strict=True
        )
    )

"""Answers: what the row-local plugins of a profile say about one Pod shape, kept between cycles.

A row-local plugin (`Depends` without CLUSTER) looks at nothing but the Pod's shape and one row. So
its answers stay right until that row moves, and the next Pod of the shape recomputes only the rows
in the table's journals: after a bind, one. A plugin whose answers also depend on one thing about
all rows (ImageLocality: how many nodes have an image) says so by an `epoch`.

Many shapes over many nodes have to fit into memory, so what can be had from the totals is not kept
beside them, nor are scores that are zero on every row; integers are as narrow as they can be.

Invariants after `Answers.refresh`:
- ``fits[row]`` is True where the row has a node and no local Filter plugin rejects it;
- ``totals()[row]`` is the sum of the local Score plugins' weighted, normalized scores where
  ``fits`` holds, and -1 elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, Load, NodeTable
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.interface import MAX_NODE_SCORE, Integers, PreFilterResult
from bayplan.framework.stages import Caller, FilterStage, ScoreStage
from bayplan.framework.status import Status

_NEVER = -1
"""A position from which every journal says: start over."""
MEMORY_BUDGET = 64 << 20
"""Bytes that one profile's answers may take, roughly; the least recently used shapes go first."""
FEWEST_SHAPES = 16
"""Shapes that are kept whatever they take."""
MAX_LOADS = 32
"""Loads of a node that a shape remembers the answers for."""
_BYTES_BESIDE = MAX_LOADS * 600
"""What a shape's answers take beside the columns: mostly what is remembered by load."""

PreFilterAnswer = PreFilterResult | Status | None
OnPods = tuple[BoolArray, IntArray]
"""Whether rows fit, and the weighted sum of the scores that are not kept; ``(m,)`` each."""


@dataclass
class LocalStages:
    """The row-local Filter and Score stages that are not skipped for a shape."""

    static_filters: list[FilterStage]
    pod_filters: list[FilterStage]
    scores: list[ScoreStage]


class Answers:
    """The kept answers for one shape; see the module's docstring."""

    def __init__(
        self,
        state: CycleState,
        stages: LocalStages,
        pre_filter: dict[str, PreFilterAnswer],
        score_fault: AttemptFault | None,
        call: Caller,
    ) -> None:
        self.state = state
        self.stages = stages
        self.pre_filter = pre_filter
        self.score_fault = score_fault
        self.failed = False
        """Whether a Filter plugin answered with an error for some row."""
        self.fits: BoolArray = np.empty(0, np.bool_)
        self._static: BoolArray = self.fits
        highest = MAX_NODE_SCORE * sum(score.weight for score in stages.scores)
        self._totals: IntArray = np.empty(0, np.min_scalar_type(-1 - highest))
        self._kept = [s for s in stages.scores if s.normalizer is not None or not s.on_pods]
        self._summed = [s for s in stages.scores if s not in self._kept]
        self._raw: dict[str, IntArray] = {}
        """Raw scores of the `_kept` stages, those left out that are zero on every row."""
        self._maxima: dict[str, int] = {}
        """The highest raw score where the Pod fits, by stage that normalizes by it."""
        self._node_position = self._pod_position = _NEVER
        self._epochs: list[int] = []
        filters = (*stages.static_filters, *stages.pod_filters)
        epochs = [*(s.epoch for s in stages.scores), *(f.epoch for f in filters)]
        self._with_epoch = [p for p in dict.fromkeys(epochs) if p is not None]
        self._call = call
        asked = [s.by_load for s in stages.pod_filters] + [s.by_load for s in self._summed]
        self._by_load = all(asked)
        self._of_load: dict[Load, OnPods] = {}

    @property
    def nbytes(self) -> int:
        """Bytes that the answers take, roughly."""
        columns = (self.fits, self._static, self._totals, *self._raw.values())
        return _BYTES_BESIDE + sum(column.nbytes for column in columns)

    def refresh(self, pod: Pod, nodes: LiveNodeTable) -> None:
        """Bring the answers up to date with ``nodes``.

        Raises:
            AttemptFault: a plugin broke; the next refresh starts over.
        """
        moved = nodes.node_journal.since(self._node_position)
        moved_pods = nodes.pod_journal.since(self._pod_position)
        self._node_position = self._pod_position = _NEVER
        epochs = [self._call(p, Point.SCORE, p.epoch, pod) for p in self._with_epoch]
        stale = moved is None or moved_pods is None or len(nodes) != len(self.fits)
        if stale or epochs != self._epochs:
            self._rebuild(pod, nodes)
        elif moved or moved_pods:
            self._follow(pod, nodes, moved or [], moved_pods or [])
        self._epochs = epochs
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position

    def _follow(
        self, pod: Pod, nodes: LiveNodeTable, moved: list[int], moved_pods: list[int]
    ) -> None:
        rows = set(moved).union(moved_pods)
        if len(rows) * 4 > len(nodes):
            self._rebuild(pod, nodes)
        else:
            self._update(pod, nodes, np.array(sorted(rows)), nodes_moved=bool(moved))

    def _rebuild(self, pod: Pod, nodes: LiveNodeTable) -> None:
        self.failed = False
        self._of_load.clear()
        self._static = self._passing(self.stages.static_filters, pod, nodes, nodes.exists)
        self.fits, summed = self._ask_on_pods(pod, nodes, self._static)
        self._raw.clear()
        for score in self._kept:
            self._keep(score, slice(None), score.raw(self.state, pod, nodes, self.fits))
        self._maxima = self._maxima_among(self.fits)
        totals = summed + self._sum_kept(slice(None), self._maxima)
        self._totals = masked(self.fits, totals).astype(self._totals.dtype)

    def _update(self, pod: Pod, nodes: LiveNodeTable, rows: IntArray, *, nodes_moved: bool) -> None:
        if nodes_moved:
            table = nodes.take(rows)
            static_filters = self.stages.static_filters
            self._static[rows] = self._passing(static_filters, pod, table, table.exists)
        fits, summed = self._on_pods(pod, nodes, rows)
        # A one-node plugin was not asked about nodes that did not fit.
        anew = nodes_moved or bool((fits > self.fits[rows]).any())
        self.fits[rows] = fits
        again = [score for score in self._kept if anew or score.on_pods]
        if again:
            table = nodes.take(rows)
            for score in again:
                self._keep(score, rows, score.raw(self.state, pod, table, fits))
        self._renormalize(self._maxima_among(self.fits))
        self._totals[rows] = masked(fits, summed + self._sum_kept(rows, self._maxima))

    # Stages that look at Pods

    def _on_pods(self, pod: Pod, nodes: LiveNodeTable, rows: IntArray) -> OnPods:
        """The answers for ``rows``; those of one row are remembered by its load."""
        static = self._static[rows]
        if len(rows) > 1 or not self._by_load or not static[0]:
            return self._ask_on_pods(pod, nodes.take(rows), static)
        load = nodes.load(int(rows[0]))
        known = self._of_load.get(load)
        if known is None:
            known = self._ask_on_pods(pod, nodes.take(rows), static)
            if len(self._of_load) >= MAX_LOADS:
                self._of_load.clear()
            if not self.failed:
                self._of_load[load] = known
        return known

    def _ask_on_pods(self, pod: Pod, table: NodeTable, static: BoolArray) -> OnPods:
        fits = self._passing(self.stages.pod_filters, pod, table, static)
        summed = np.zeros(len(table), np.int64)
        for score in self._summed:
            raw = score.raw(self.state, pod, table, fits)
            summed += score.weight * raw.astype(np.int64, copy=False)
        return fits, summed

    def _passing(
        self, stages: Iterable[FilterStage], pod: Pod, table: NodeTable, undecided: BoolArray
    ) -> BoolArray:
        passing = undecided.copy()
        for stage in stages:
            codes = stage.codes(self.state, pod, table, passing)
            self.failed = self.failed or bool(codes.min(initial=0) < 0)
            passing &= codes == 0
        return passing

    # Kept scores

    def _keep(self, score: ScoreStage, rows: IntArray | slice, values: Integers) -> None:
        column = self._raw.get(score.name)
        if column is None:
            if not values.any():
                return
            column = np.zeros(len(self.fits), np.uint8)
        highest = values.max()
        if highest > np.iinfo(column.dtype).max:
            column = column.astype(np.min_scalar_type(highest))
        column[rows] = values
        self._raw[score.name] = column
        if not values.any() and not column.any():
            del self._raw[score.name]

    def _maxima_among(self, feasible: BoolArray) -> dict[str, int]:
        return {
            score.name: int((self._raw[score.name] * feasible).max(initial=0))
            for score in self._kept
            if score.normalizer is not None and score.name in self._raw
        }

    def _sum_kept(self, rows: IntArray | slice, maxima: dict[str, int]) -> IntArray | int:
        total: IntArray | int = 0
        for score in self._kept:
            total = total + score.weight * self._normalized(score, rows, maxima)
        return total

    def _normalized(
        self, score: ScoreStage, rows: IntArray | slice, maxima: dict[str, int]
    ) -> IntArray | int:
        column = self._raw.get(score.name)
        if column is None:
            reverse = score.normalizer is not None and score.normalizer.reverse
            return MAX_NODE_SCORE if reverse else 0
        raw = column[rows].astype(np.int64)
        return raw if score.normalizer is None else score.normalizer(raw, maxima.get(score.name, 0))

    def _renormalize(self, maxima: dict[str, int]) -> None:
        if maxima != self._maxima:
            totals = self._totals_by(maxima)
            self._totals = masked(self.fits, totals).astype(self._totals.dtype)
            self._maxima = maxima

    def _totals_by(self, maxima: dict[str, int]) -> IntArray:
        every = slice(None)
        return self._totals + (self._sum_kept(every, maxima) - self._sum_kept(every, self._maxima))

    # What is asked

    def totals(self, feasible: BoolArray | None = None) -> IntArray:
        """The local total of every node, -1 where not ``feasible`` (a subset of `fits`; None: it).

        Plugins that normalize by the highest score use the highest among ``feasible``. The integers
        may be too narrow to add to. With None the array is the one that is kept: read it only.
        """
        if feasible is None:
            return self._totals
        maxima = self._maxima_among(feasible)
        totals = self._totals if maxima == self._maxima else self._totals_by(maxima)
        return masked(feasible, totals)

    def normalized(
        self, score: ScoreStage, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> IntArray:
        """The normalized, not weighted scores of all nodes that are ``feasible``, in row order."""
        rows = np.flatnonzero(feasible)
        if score in self._summed:
            return score.raw(self.state, pod, nodes, self.fits)[rows].astype(np.int64, copy=False)
        scores = self._normalized(score, rows, self._maxima_among(feasible))
        return np.zeros(len(rows), np.int64) + scores


def masked(feasible: BoolArray, totals: IntArray) -> IntArray:
    """``totals``, but -1 where not ``feasible``; for large arrays much faster than `np.where`."""
    return (totals + 1) * feasible - 1


class AnswerBook:
    """The `Answers` of one profile by shape, least recently used ones dropped."""

    def __init__(self) -> None:
        self._book: OrderedDict[PodShape, Answers] = OrderedDict()

    def get(self, shape: PodShape) -> Answers | None:
        """The answers kept for ``shape``."""
        answers = self._book.get(shape)
        if answers is not None:
            self._book.move_to_end(shape)
        return answers

    def put(self, shape: PodShape, answers: Answers) -> None:
        """Keep ``answers``, which are filled in; the others are taken to be about as large."""
        self._book[shape] = answers
        limit = max(FEWEST_SHAPES, MEMORY_BUDGET // answers.nbytes)
        while len(self._book) > limit:
            self._book.popitem(last=False)

    def __len__(self) -> int:
        return len(self._book)

"""RowAnswers: the parts of a Pod's kept answers, joined to what fits and to totals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable
from bayplan.engine.faults import AttemptFault
from bayplan.engine.row_answers.blocks import MANY, Blocks
from bayplan.engine.row_answers.kept_scores import Measures
from bayplan.engine.row_answers.part import PartAnswers, PreFilterAnswer, far_behind, masked
from bayplan.engine.stages import ScoreStage
from bayplan.engine.ties import Ties, highest
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.framework.status import SKIP

_ALL = slice(None)
_NUMBERS = count()


class RowAnswers:
    """The kept answers for one kind of Pod.

    Args:
        shared: the parts that other kinds of Pods may share.
        own: the part that reads all of the Pod. It comes last, so that users' plugins are asked
            only about nodes that the others leave.
        unconcerned: names of plugins that have nothing to do with such Pods.

    After `refresh`, ``totals()[row]`` is the sum of the row-local Score plugins' weighted,
    normalized scores where ``fits`` holds, and -1 elsewhere.

    Attributes:
        fits: ``(n,)`` where there is a node and no row-local Filter plugin rejects it.
        count: how many rows fit.
        where: a number that is the same, among all answers, only as long as the same rows fit.
        state: what the row-local PreFilter and PreScore plugins wrote, and who skips.
        pre_filter: what the row-local PreFilter plugins answered; Skip of the unconcerned ones.
        score_fault: why the Pod cannot be scored, if PreScore reported an error.
        generation: changes whenever all rows were recomputed.
        released: whether the columns were given back, and all rows will be computed.
    """

    def __init__(
        self,
        shared: Sequence[PartAnswers],
        own: PartAnswers | None,
        unconcerned: frozenset[str] = frozenset(),
    ) -> None:
        self._shared = shared
        self._own = own
        self._parts = parts = [*shared, own] if own else shared
        self.fits: BoolArray = np.empty(0, np.bool_)
        self.count = 0
        self.where = next(_NUMBERS)
        self.state = CycleState()
        self.state.unconcerned = unconcerned
        self.state.skip_filter |= unconcerned
        self.pre_filter: dict[str, PreFilterAnswer] = dict.fromkeys(unconcerned, SKIP)
        for part in parts:
            self.state.adopt(part.stages.state)
            self.pre_filter |= part.stages.pre_filter
        faults = (part.stages.score_fault for part in parts)
        self.score_fault: AttemptFault | None = next((f for f in faults if f), None)
        most = MAX_NODE_SCORE * sum(s.weight for part in parts for s in part.stages.scores)
        self._totals: IntArray = np.empty(0, np.min_scalar_type(-1 - most))
        self._blocks: Blocks | None = None
        self._measures: dict[str, Any] = {}
        self._kept_version = -1
        self.generation = -1
        self.released = False
        self._node_position = self._pod_position = 0

    @property
    def failed(self) -> bool:
        """Whether a Filter plugin answered with an error for some row."""
        return any(part.failed for part in self._parts)

    @property
    def scores(self) -> list[ScoreStage]:
        """The row-local Score plugins that take part."""
        return [stage for part in self._parts for stage in part.stages.scores]

    @property
    def nbytes(self) -> int:
        """Bytes that the joined columns take."""
        of_blocks = self._blocks.nbytes if self._blocks is not None else 0
        return self.fits.nbytes + self._totals.nbytes + of_blocks

    def release(self, nodes: LiveNodeTable) -> bool:
        """Give the columns back if the next `refresh` will compute every row; whether it will."""
        if not far_behind(nodes.pod_journal.position - self._pod_position, len(nodes)):
            return False
        self.released = True
        self.fits = np.empty(0, np.bool_)
        self._set_totals(np.empty(0, self._totals.dtype))
        for part in self._parts:
            part.release(nodes)
        return True

    def refresh(self, pod: Pod, nodes: LiveNodeTable) -> None:
        """Bring the answers up to date with ``nodes``.

        Raises:
            AttemptFault: a plugin broke; the next refresh asks it again.
        """
        exists = undecided = nodes.exists
        generation = 0
        for part in self._shared:
            part.refresh(pod, nodes, exists)
            generation += part.generation
        if self._own is not None:
            for part in self._shared:
                undecided = undecided & part.fits
            self._own.refresh(pod, nodes, undecided)
            generation += self._own.generation
        moved = nodes.node_journal.since(self._node_position)
        moved_pods = nodes.pod_journal.since(self._pod_position)
        if (
            generation != self.generation
            or moved is None
            or moved_pods is None
            or len(exists) != len(self.fits)
        ):
            self._join_all(exists)
        elif len(changed := moved + moved_pods) == 1:
            self._join_row(changed[0])
        elif far_behind(len(changed), len(exists)):
            self._join_all(exists)
        elif changed:
            self._join_rows(list(set(changed)))
        self.generation = generation
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position

    def _join_all(self, exists: BoolArray) -> None:
        self.released, self.where = False, next(_NUMBERS)
        self.fits = exists.copy()
        for part in self._parts:
            self.fits &= part.fits
        self.count = int(np.count_nonzero(self.fits))
        self._measures = self._measures_among(self.fits)
        self._kept_version = self._version_of_kept()
        self._set_totals(masked(self.fits, self._sum(_ALL, self._measures)))

    def _join_row(self, row: int) -> None:
        fits = True
        for part in self._parts:
            fits = fits and part.fits.item(row)
        before = self.fits.item(row)
        self.count += fits - before
        self.fits[row] = fits
        self._renormalize(other_fits=fits != before)
        total = 0 if fits else -1
        for part in self._parts if fits else ():
            if part.scores is not None:
                total += part.scores.item(row)
            total += part.kept.total_of(row, self._measures)
        self._totals[row] = total
        if self._blocks is not None:
            self._blocks.changed((row,))

    def _join_rows(self, changed: list[int]) -> None:
        rows = np.array(changed)
        fits = np.ones(len(rows), np.bool_)
        for part in self._parts:
            fits &= part.fits[rows]
        before = self.fits[rows]
        self.count += int(np.count_nonzero(fits)) - int(np.count_nonzero(before))
        self.fits[rows] = fits
        self._renormalize(other_fits=not np.array_equal(fits, before))
        self._totals[rows] = masked(fits, self._sum(rows, self._measures))
        if self._blocks is not None:
            self._blocks.changed(changed)

    def _renormalize(self, *, other_fits: bool) -> None:
        """Recompute all totals if what a stage normalizes by has changed.

        It cannot have where the same rows fit, with the same raw scores.
        """
        version = self._version_of_kept()
        if not other_fits and version == self._kept_version:
            return
        if other_fits:
            self.where = next(_NUMBERS)
        self._kept_version = version
        measures = self._measures_among(self.fits)
        if measures != self._measures:
            self._measures = measures
            self._set_totals(masked(self.fits, self._sum(_ALL, measures)))

    def _version_of_kept(self) -> int:
        version = 0  # as `sum`, which takes two calls more, once for every Pod
        for part in self._parts:
            version += part.kept.version
        return version

    def _set_totals(self, totals: IntArray) -> None:
        self._totals, self._blocks = totals, None

    def _measures_among(self, feasible: BoolArray) -> dict[str, Any]:
        measures: dict[str, Any] = {}
        for part in self._parts:
            if part.kept.columns:
                measures |= part.kept.measures(feasible)
        return measures

    def _sum(self, rows: IntArray | slice, measures: Measures) -> IntArray:
        """The totals of ``rows``, whether they fit or not."""
        total = np.zeros(np.shape(self.fits[rows]), self._totals.dtype)
        for part in self._parts:
            if part.scores is not None:
                total += part.scores[rows]
            total += part.kept.total(rows, measures)
        return total

    # What is asked

    def totals(self, feasible: BoolArray | None = None) -> IntArray:
        """The local total of every node, -1 where not ``feasible`` (a subset of `fits`; None: it).

        Plugins that normalize by the highest score use the highest among ``feasible``. The integers
        may be too narrow to add to. With None the array is the one that is kept: read it only.
        """
        if feasible is None:
            return self._totals
        measures = self._measures_among(feasible)
        totals = self._totals if measures == self._measures else self._sum(_ALL, measures)
        return masked(feasible, totals)

    def best(self) -> Ties:
        """The rows with the highest of the kept totals; valid until the next `refresh`."""
        if len(self._totals) < MANY:
            return highest(self._totals)
        if self._blocks is None:
            self._blocks = Blocks(self._totals)
        return self._blocks.ties()

    def normalized(
        self,
        score: ScoreStage,
        pod: Pod,
        nodes: LiveNodeTable,
        feasible: BoolArray,
        rows: IntArray,
    ) -> IntArray:
        """The normalized, not weighted scores of ``rows``, all of which are ``feasible``."""
        part = next(part for part in self._parts if score in part.stages.scores)
        if score not in part.kept.stages:
            return part.raw(score, pod, nodes)[rows]
        scores = part.kept.normalized(score, rows, self._measures_among(feasible))
        return np.zeros(len(rows), np.int64) + scores

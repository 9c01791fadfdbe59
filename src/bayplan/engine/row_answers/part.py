"""PartAnswers: the cached answers, for every row, of the plugins that read one part of a Pod.

The essay of the package says what a part is and works through one refresh. This page says what a
part holds, and how `PartAnswers.refresh` chooses between five ways to become current.

The state of a part is of three kinds:

- *The plan*, fixed when the part is made: the stages, divided by what changes their answers.
  A stage ``on_pods`` depends on the Pods of a row, any other stage on the node object alone. A
  stage ``by_load`` depends on the load alone. A score is either summed at once or, if its
  normalization needs the highest score, kept raw.
- *The cache*: columns over all rows (`fits`, `scores`, `kept`, and `_static`, the part of `fits`
  that Pods cannot change), and `_of_load`, answers by load, valid for every row.
- *The cursor*: up to where the cache is current. Positions in both journals, the epochs of plugins
  that have one, and `_asked`, the rows that a one-node plugin was asked about. Such a plugin is
  expensive, so it is asked only about rows that no other part rejects; a row that is not asked
  about now may have to be asked about later, although nothing on the row has changed.

A refresh, in steps:

1. Read the changes since the cursor: rows whose node changed, rows whose Pods changed, epochs.
   Then set the cursor to "never": should a plugin raise, the next refresh starts over.
2. If a journal no longer has all changes, an epoch or the number of rows differs: *start over*.
   Every column is computed, and the `generation` grows.
3. If nothing changed: done. Most parts of most refreshes end here.
4. If many rows changed (`far_behind`): *update all rows*, but keep `_static` if no node changed.
   After a change of nodes, or after an error, start over instead.
5. If the Pods of a few rows changed, and all answers are by load: *look the loads up*. Nodes that
   fill up with equal Pods pass through the same loads, so mostly no plugin is called. Where Pods of
   some kinds come in turns, the rows of all others have changed since a Pod of this kind came.
6. If they are very few, and each plugin can be asked about a single node: *ask singly*, as plain
   numbers take a tenth of the time of arrays of one number.
7. Otherwise: *update the changed rows* in a what-if table of these rows.
8. Set the cursor to the journals' ends.

Example: the requests part (NodeResourcesFit alone) after one binding to row 7. Step 1 finds no
node, one row, no epoch; step 5 computes the load of row 7 as bytes and finds ``(fits, 62)`` in
`_of_load`, since row 3 had this load before: ``fits[7], scores[7] = True, 62``. The constraints
part (no stage on Pods) does not even read the Pod journal and ends in step 3.

The reasons: docs/decisions/0017-answers-by-part.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, Load, NodeTable
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault
from bayplan.engine.row_answers.kept_scores import KeptScores
from bayplan.engine.stages import Caller, FilterStage, ScoreStage, has_error
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, PreFilterResult
from bayplan.framework.status import Status

# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_SCORE = Point.SCORE
_NEVER = -1
"""A position from which every journal answers: start over."""
MAX_LOADS = 128
"""Loads of a node that a part remembers the answers for.

A node that fills up with equal Pods passes through one for each: 110, the kubelet's default.
"""
_BYTES_OF_LOAD = 256
_DOES_NOT_FIT = -1
_FEW_BY_LOAD = 32
"""So many rows are looked up by their loads; for more it takes as long to ask the plugins."""
_FEW_SINGLY = 4
"""So many rows are asked about one at a time."""
_FEW_ONE_BY_ONE = 4
"""Where more than one row in so many has changed, a one-node plugin is asked about all."""

PreFilterAnswer = PreFilterResult | Status | None


@dataclass
class PartStages:
    """The row-local plugins that read one part of a Pod, after their PreFilter and PreScore.

    Attributes:
        state: what PreFilter and PreScore wrote, and who skips.
        pre_filter: what PreFilter answered, by plugin.
        score_fault: why the Pod cannot be scored, if PreScore reported an error.
        filters: the Filter plugins that do not skip.
        scores: the Score plugins that do not skip.
    """

    state: CycleState
    pre_filter: dict[str, PreFilterAnswer]
    score_fault: AttemptFault | None
    filters: Sequence[FilterStage]
    scores: Sequence[ScoreStage]


def far_behind(changes: int, rows: int) -> bool:
    """Whether after ``changes`` in a table of so many ``rows`` all are computed, not only those.

    A row that is picked takes longer: one in 16 of 5,000 and one in 24 of 20,000 take as long as
    all. The limit is lower, as all rows take less in memory that `release` has just given back.
    """
    return changes > 8 + rows // 32


class PartAnswers:
    """The cached answers of one part; the module's docstring explains the steps.

    Attributes:
        fits: ``(n,)`` where there is a node and no Filter plugin of the part rejects it.
        scores: ``(n,)`` the weighted sum of the scores that are not in `kept`; None if it is zero.
        kept: raw scores that are normalized by the highest, or that Pods do not change.
        failed: whether a Filter plugin answered with an error for some row.
        generation: grows when the part starts over.
    """

    def __init__(self, stages: PartStages, call: Caller) -> None:
        # The plan
        self.stages = stages
        self._call = call
        scores = stages.scores
        self._summed = [s for s in scores if s.normalizer is None and s.on_pods]
        highest = MAX_NODE_SCORE * sum(stage.weight for stage in self._summed)
        self._score_type = np.min_scalar_type(-1 - highest)
        self._static_filters = [f for f in stages.filters if not f.on_pods]
        self._pod_filters = [f for f in stages.filters if f.on_pods]
        kept = [s for s in scores if s.normalizer is not None or not s.on_pods]
        self._kept_on_pods = [s for s in kept if s.on_pods]
        self._follows_pods = bool(self._pod_filters or self._summed or self._kept_on_pods)
        filters_by_load = all(stage.by_load for stage in self._pod_filters)
        summed_by_load = all(stage.by_load for stage in self._summed)
        self._by_load = filters_by_load and summed_by_load and not self._kept_on_pods
        one_node = any(f.one_node for f in stages.filters) or any(s.one_node for s in scores)
        self._can_release = self._follows_pods and not (self._static_filters or kept or one_node)
        on_pods: list[FilterStage | ScoreStage]
        on_pods = [*self._pod_filters, *self._summed, *self._kept_on_pods]
        self._singly = not one_node and all(stage.singly for stage in on_pods)
        with_epoch = [s.epoch for s in scores] + [f.epoch for f in stages.filters]
        self._with_epoch = list({id(plugin): plugin for plugin in with_epoch if plugin}.values())
        # The cache
        self.fits: BoolArray = np.empty(0, np.bool_)
        self.scores: IntArray | None = None
        self.kept = KeptScores(kept)
        self.failed = False
        self.generation = 0
        self._static: BoolArray = self.fits
        """`fits` by the Filter plugins that do not depend on Pods."""
        self._of_load: dict[Load, int] = {}
        """The sum of the scores where the Pod fits, else `_DOES_NOT_FIT`."""
        # The cursor
        self._node_position = self._pod_position = _NEVER
        self._epochs: list[int] = []
        self._asked: BoolArray | None = self.fits if one_node else None
        """Rows that a one-node plugin was asked about; None if no plugin is a one-node plugin."""

    @property
    def nbytes(self) -> int:
        """Bytes that the part takes, roughly."""
        columns = (self.fits, self._static, self._asked, self.scores)
        held = sum(column.nbytes for column in columns if column is not None)
        return MAX_LOADS * _BYTES_OF_LOAD + held + self.kept.nbytes

    def release(self, nodes: LiveNodeTable) -> None:
        """Give the columns back if the next `refresh` will compute every row of all of them."""
        if self._can_release and far_behind(
            nodes.pod_journal.position - self._pod_position, len(nodes)
        ):
            self.fits = self._static = np.empty(0, np.bool_)
            self.scores = None

    def refresh(self, pod: Pod, nodes: LiveNodeTable, undecided: BoolArray) -> None:
        """Bring the answers up to date with ``nodes``.

        ``undecided`` are the rows with a node that no other part rejects, ``(n,)``: one-node
        plugins are asked about those only.

        Raises:
            AttemptFault: a plugin broke; the next refresh starts over.
        """
        if self._asked is None:
            # Other parts may accept a row later that they reject now, without a change of the row.
            undecided = nodes.exists
        # 1. Read the changes since the cursor.
        moved = nodes.node_journal.since(self._node_position)
        moved_pods = nodes.pod_journal.since(self._pod_position) if self._follows_pods else []
        self._node_position = self._pod_position = _NEVER
        epochs = self._epochs
        if self._with_epoch:
            epochs = [self._call(p, _SCORE, p.epoch, pod) for p in self._with_epoch]
        # 2. Start over where the changes are not known.
        if (
            moved is None
            or moved_pods is None
            or epochs != self._epochs
            or len(undecided) != len(self.fits)
        ):
            self._start_over(pod, nodes, undecided)
        # 3. Nothing to do where nothing changed.
        elif moved or moved_pods or self._asked is not None:
            self._follow(pod, nodes, moved, moved_pods, undecided)
        # 8. The cache is current.
        self._epochs = epochs
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position

    def _follow(
        self,
        pod: Pod,
        nodes: LiveNodeTable,
        moved: list[int],
        moved_pods: list[int],
        undecided: BoolArray,
    ) -> None:
        # 4. Many rows: all at once.
        if self._asked is not None:
            moved = moved + np.flatnonzero(undecided & ~self._asked).tolist()
            many = len({*moved, *moved_pods}) * _FEW_ONE_BY_ONE > len(undecided)
        else:
            many = far_behind(len(moved) + len(moved_pods), len(undecided))
        if many:
            if moved or self.failed:
                self._start_over(pod, nodes, undecided)
            else:
                self._update(pod, nodes, _ALL, undecided, static=True)
            return
        rows = {*moved, *moved_pods}
        # 5. The Pods of a few rows: by load.
        if len(rows) <= _FEW_BY_LOAD and self._by_load and not moved:
            self._take_by_load(pod, nodes, rows, undecided)
        # 6. Very few: singly.
        elif len(rows) <= _FEW_SINGLY and self._singly and not moved:
            for row in rows:
                self._ask_singly(pod, nodes, row)
        # 7. The changed rows alone.
        elif rows:
            self._update(pod, nodes, np.array(sorted(rows)), undecided, static=not moved)

    def _start_over(self, pod: Pod, nodes: LiveNodeTable, undecided: BoolArray) -> None:
        self.failed = False
        self._of_load.clear()
        self._static = self._passing(self._static_filters, pod, nodes, undecided)
        self.fits, self.scores = self._ask_on_pods(pod, nodes, self._static)
        self.kept.clear()
        for score in self.kept:
            raw = score.raw(self.stages.state, pod, nodes, self.fits)
            self.kept.write(score, slice(None), raw, len(nodes))
        if self._asked is not None:
            self._asked = undecided.copy()
        self.generation += 1

    @property
    def is_by_load(self) -> bool:
        """Whether all answers are by load."""
        return self._by_load and not (self._static_filters or self.kept.stages)

    @property
    def is_even(self) -> bool:
        """Whether all rows that fit have the same score."""
        return self.scores is None and not self.kept.columns

    def ask_by_load(self, pod: Pod, table: NodeTable) -> tuple[BoolArray, IntArray | None]:
        """`fits` and `scores` of the rows of ``table``, where all answers are by load; not kept.

        Raises:
            AttemptFault: a plugin broke.
        """
        return self._ask_on_pods(pod, table, np.ones(len(table), np.bool_))

    def _take_by_load(
        self, pod: Pod, nodes: LiveNodeTable, rows: Iterable[int], undecided: BoolArray
    ) -> None:
        """Only Pods of ``rows`` changed; take the answers of any rows with the same loads."""
        unknown: dict[int, Load] = {}
        for row in rows:
            if self._static[row] and undecided[row]:
                load = nodes.load(row)
                answer = self._of_load.get(load)
                if answer is None:
                    unknown[row] = load
                else:
                    self._take(pod, nodes, row, answer, undecided)
            elif self._asked is not None:
                self._asked[row] = undecided[row]
        if unknown:
            answers = self._ask_by_load(pod, nodes, unknown)
            for row, load in unknown.items():
                self._take(pod, nodes, row, answers[load], undecided)

    def _take(
        self, pod: Pod, nodes: LiveNodeTable, row: int, answer: int, undecided: BoolArray
    ) -> None:
        """``answer`` is that of ``row``; see `_of_load`."""
        fits = answer != _DOES_NOT_FIT
        if fits and not self.fits[row] and self.kept.stages:
            self._update(pod, nodes, np.array([row]), undecided, static=True)
            return
        self.fits[row] = fits
        if self.scores is not None:
            self.scores[row] = answer

    def _ask_singly(self, pod: Pod, nodes: LiveNodeTable, row: int) -> None:
        """Only Pods of ``row`` changed."""
        state, node = self.stages.state, nodes.info(row)
        fits = self._static.item(row)
        for filter_ in self._pod_filters:
            verdict = filter_.verdict(state, pod, node) if fits else None
            if verdict is not None and not verdict.ok:
                fits = False
                self.failed = self.failed or not verdict.rejected
        self.fits[row] = fits
        if not fits:
            return
        if self.scores is not None:
            self.scores[row] = sum(
                [score.weight * score.raw_score(state, pod, node) for score in self._summed]
            )
        for score in self._kept_on_pods:
            self.kept.write_one(score, row, score.raw_score(state, pod, node), len(nodes))

    def _ask_by_load(
        self, pod: Pod, nodes: LiveNodeTable, loads: Mapping[int, Load]
    ) -> Mapping[Load, int]:
        """Ask the plugins about ``loads``, by row, and remember what they say in `_of_load`."""
        new = {load: row for row, load in loads.items()}
        fits, summed = self._ask_on_pods(
            pod, nodes.take(np.array(list(new.values()))), np.ones(len(new), np.bool_)
        )
        scores = summed.tolist() if summed is not None else [0] * len(new)
        of_new = {
            load: score if fits_there else _DOES_NOT_FIT
            for load, score, fits_there in zip(new, scores, fits.tolist(), strict=True)
        }
        if not self.failed:
            answers = self._of_load | of_new
            self._of_load = answers if len(answers) <= MAX_LOADS else of_new
        return of_new

    def _update(
        self,
        pod: Pod,
        nodes: LiveNodeTable,
        rows: IntArray | slice,
        undecided: BoolArray,
        *,
        static: bool,
    ) -> None:
        """Ask about ``rows`` (a slice: all) again; ``static``: what Pods do not change is known."""
        table = nodes if isinstance(rows, slice) else nodes.take(rows)
        undecided = undecided[rows]
        if not static:
            self._static[rows] = self._passing(self._static_filters, pod, table, undecided)
        fits, summed = self._ask_on_pods(pod, table, self._static[rows] & undecided)
        if self.kept.stages:
            # A one-node plugin was not asked for the score of nodes that did not fit.
            again = not static or bool((fits > self.fits[rows]).any())
            for score in self.kept if again else self._kept_on_pods:
                raw = score.raw(self.stages.state, pod, table, fits)
                self.kept.write(score, rows, raw, len(nodes))
        self.fits[rows] = fits
        if self.scores is not None and summed is not None:
            self.scores[rows] = summed
        if self._asked is not None:
            self._asked[rows] = undecided

    def _ask_on_pods(
        self, pod: Pod, table: NodeTable, static: BoolArray
    ) -> tuple[BoolArray, IntArray | None]:
        """`fits` and `scores` of every row of ``table``."""
        fits = self._passing(self._pod_filters, pod, table, static)
        if not self._summed:
            return fits, None
        # Where the Pod does not fit a score may be any number, and wrap around.
        summed = np.zeros(len(table), self._score_type)
        for score in self._summed:
            raw = score.raw(self.stages.state, pod, table, fits)
            raw = raw.astype(self._score_type, copy=False)
            summed += raw if score.weight == 1 else score.weight * raw
        return fits, summed

    def _passing(
        self, filters: Iterable[FilterStage], pod: Pod, table: NodeTable, undecided: BoolArray
    ) -> BoolArray:
        passing = undecided.copy()
        for stage in filters:
            codes = stage.codes(self.stages.state, pod, table, passing)
            self.failed = self.failed or has_error(codes)
            passing &= codes == 0
        return passing

    def raw(self, score: ScoreStage, pod: Pod, nodes: NodeTable) -> IntArray:
        """Scores of every row by a stage that is not in `kept`; calls the stage's plugin."""
        raw = score.raw(self.stages.state, pod, nodes, self.fits)
        return raw.astype(np.int64, copy=False)


_ALL = slice(None)


def masked(feasible: BoolArray, totals: IntArray) -> IntArray:
    """``totals``, but -1 where not ``feasible``; for large arrays much faster than `np.where`.

    -1 has all bits set: it stays what it is, and makes -1 of everything.
    """
    masked: IntArray = totals | (feasible.view(np.int8) - np.int8(1))
    return masked

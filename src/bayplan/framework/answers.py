"""Answers: what the row-local plugins of a profile say about one Pod shape, kept between cycles.

A row-local plugin (`Depends` without CLUSTER) looks at nothing but the Pod's shape and one row. So
its answers stay right until that row moves, and the next Pod of the shape recomputes only the rows
in the table's journals: after a bind, one. A plugin whose answers also depend on one thing about
all rows (ImageLocality: how many nodes have an image) says so by an `epoch`.

Invariants after `Answers.refresh`:
- ``fits[row]`` is True where the row has a node and no local Filter plugin rejects it;
- ``totals()[row]`` is the sum of the local Score plugins' weighted, normalized scores where
  ``fits`` holds, and -1 elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import PreFilterResult
from bayplan.framework.stages import Caller, FilterStage, ScoreStage
from bayplan.framework.status import Status

_NEVER = -1
"""A position from which every journal says: start over."""
MEMORY_BUDGET = 64 << 20
"""Bytes that one profile's answers may take, roughly; the least recently used shapes go first."""

PreFilterAnswer = PreFilterResult | Status | None


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
        score_error: str | None,
        call: Caller,
    ) -> None:
        self.state = state
        self.stages = stages
        self.pre_filter = pre_filter
        self.score_error = score_error
        self.failed = False
        """Whether a Filter plugin answered with an error for some row."""
        self.fits: BoolArray = np.empty(0, np.bool_)
        self._masked: IntArray = np.empty(0, np.int64)
        self._static: BoolArray = np.empty(0, np.bool_)
        self._raw: dict[str, IntArray] = {}
        self._maxima: dict[str, int] = {}
        self._fit_maxima: dict[str, int] = {}
        self._uniform: set[str] = set()
        self._node_position = self._pod_position = _NEVER
        self._epochs: list[int] = []
        filters = (*stages.static_filters, *stages.pod_filters)
        plugins: list[Any] = [*(s.plugin for s in stages.scores), *(f.plugin for f in filters)]
        self._with_epoch = [p for p in dict.fromkeys(plugins) if hasattr(p, "epoch")]
        self._call = call

    def refresh(self, pod: Pod, nodes: NodeTable) -> None:
        """Bring the answers up to date with ``nodes``.

        Raises:
            AttemptError: a plugin broke; the next refresh starts over.
        """
        moved = nodes.node_journal.since(self._node_position)
        moved_pods = nodes.pod_journal.since(self._pod_position)
        self._node_position = self._pod_position = _NEVER
        epochs = [self._call(p, "Score", p.epoch, pod) for p in self._with_epoch]
        stale = moved is None or moved_pods is None or len(nodes) != len(self.fits)
        if stale or epochs != self._epochs:
            self._rebuild(pod, nodes)
        elif moved or moved_pods:
            self._follow(pod, nodes, moved or [], moved_pods or [])
        self._epochs = epochs
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position

    def _follow(self, pod: Pod, nodes: NodeTable, moved: list[int], moved_pods: list[int]) -> None:
        rows = set(moved).union(moved_pods)
        if len(rows) * 4 > len(nodes):
            self._rebuild(pod, nodes)
        else:
            self._update(pod, nodes, np.array(sorted(rows)), nodes_moved=bool(moved))

    def _rebuild(self, pod: Pod, nodes: NodeTable) -> None:
        self.failed = False
        self._static = nodes.exists.copy()
        for stage in self.stages.static_filters:
            self._static &= self._passes(stage, pod, nodes, self._static)
        self.fits = self._static.copy()
        for stage in self.stages.pod_filters:
            self.fits &= self._passes(stage, pod, nodes, self.fits)
        self._uniform.clear()
        for score in self.stages.scores:
            raw = score.raw(self.state, pod, nodes, self.fits)
            self._raw[score.name] = raw
            self._mark_uniform(score, raw)
        self._fit_maxima = self._maxima_among(self.fits)
        self._total(self._fit_maxima)

    def _passes(
        self, stage: FilterStage, pod: Pod, nodes: NodeTable, undecided: BoolArray
    ) -> BoolArray:
        codes = stage.codes(self.state, pod, nodes, undecided)
        self.failed = self.failed or bool(codes.min(initial=0) < 0)
        passes: BoolArray = codes == 0
        return passes

    def _update(self, pod: Pod, nodes: NodeTable, rows: IntArray, *, nodes_moved: bool) -> None:
        table = nodes.take(rows)
        static = table.exists.copy() if nodes_moved else self._static[rows]
        if nodes_moved:
            for stage in self.stages.static_filters:
                static &= self._passes(stage, pod, table, static)
            self._static[rows] = static
        fits = static.copy()
        for stage in self.stages.pod_filters:
            fits &= self._passes(stage, pod, table, fits)
        # A one-node plugin was not asked about nodes that did not fit.
        gained = bool((fits & ~self.fits[rows]).any())
        self.fits[rows] = fits
        for score in self.stages.scores:
            if score.on_pods or nodes_moved or gained:
                self._raw[score.name][rows] = score.raw(self.state, pod, table, fits)
                self._uniform.discard(score.name)
        if nodes_moved:
            for score in self.stages.scores:
                self._mark_uniform(score, self._raw[score.name])
        self._fit_maxima = self._maxima_among(self.fits)
        if self._fit_maxima != self._maxima:
            self._total(self._fit_maxima)
        else:
            self._masked[rows] = np.where(fits, self._sum(rows), -1)

    def _mark_uniform(self, score: ScoreStage, raw: IntArray) -> None:
        if score.normalizer is not None and not raw.any():
            self._uniform.add(score.name)

    def _maxima_among(self, feasible: BoolArray) -> dict[str, int]:
        return {
            score.name: 0
            if score.name in self._uniform
            else int(self._raw[score.name][feasible].max(initial=0))
            for score in self.stages.scores
            if score.normalizer is not None
        }

    def _sum(self, rows: IntArray | slice) -> IntArray:
        total: IntArray | int = 0
        for score in self.stages.scores:
            total = total + score.weight * self.normalized(score, rows)
        return total if isinstance(total, np.ndarray) else np.zeros_like(self.fits[rows], np.int64)

    def normalized(self, score: ScoreStage, rows: IntArray | slice) -> IntArray:
        """The normalized scores of ``rows``, not weighted."""
        raw = self._raw[score.name][rows]
        if score.normalizer is not None:
            raw = score.normalizer(raw, self._maxima[score.name])
        return raw

    def _total(self, maxima: dict[str, int]) -> None:
        self._maxima = maxima
        self._masked = np.where(self.fits, self._sum(slice(None)), -1)

    def totals(self, feasible: BoolArray | None = None) -> IntArray:
        """The local total of every node, -1 where not ``feasible`` (a subset of `fits`; None: it).

        Plugins that normalize by the highest score use the highest among ``feasible``. With None
        the array is the one that is kept: read it only.
        """
        maxima = self._fit_maxima if feasible is None else self._maxima_among(feasible)
        if maxima != self._maxima:
            self._total(maxima)
        return self._masked if feasible is None else np.where(feasible, self._masked, -1)


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

    def put(self, shape: PodShape, answers: Answers, nodes: int) -> None:
        """Keep ``answers``; ``nodes`` tells how large they are."""
        self._book[shape] = answers
        bytes_each = 10 + 8 * (1 + len(answers.stages.scores))
        limit = max(16, MEMORY_BUDGET // (bytes_each * max(nodes, 1)))
        while len(self._book) > limit:
            self._book.popitem(last=False)

    def __len__(self) -> int:
        return len(self._book)

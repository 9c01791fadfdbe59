"""KeptScores: cached raw scores, in the narrowest integer type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.engine.stages import ScoreStage
from bayplan.framework.interface import MAX_NODE_SCORE, Integers

Rows = IntArray | slice | int
"""Some rows, all of them (a slice), or one."""
Maxima = Mapping[str, int]
"""The highest raw score where the Pod fits, by name of a stage that normalizes by it."""


class KeptScores:
    """The raw scores of ``stages`` by row; of a stage that gives zero everywhere nothing is kept.

    Attributes:
        columns: by name of the stage, those that are kept.
        constant: what the stages without a column add to the total of every row.
    """

    def __init__(self, stages: Sequence[ScoreStage]) -> None:
        self.stages = stages
        self.columns: dict[str, IntArray] = {}
        self._by_name = {stage.name: stage for stage in stages}
        self.constant = self._constant()

    def __iter__(self) -> Iterator[ScoreStage]:
        return iter(self.stages)

    @property
    def nbytes(self) -> int:
        """Bytes that the columns take."""
        return sum(column.nbytes for column in self.columns.values())

    def clear(self) -> None:
        """Start over."""
        self.columns.clear()
        self.constant = self._constant()

    def write(self, stage: ScoreStage, rows: IntArray | slice, values: Integers, n: int) -> None:
        """The raw scores of ``rows`` are ``values`` now, of ``n`` rows in all."""
        column = self.columns.get(stage.name)
        if column is None:
            if not values.any():
                return
            column = np.zeros(n, np.uint8)
        highest = values.max()
        if highest > np.iinfo(column.dtype).max:
            column = column.astype(np.min_scalar_type(highest))
        column[rows] = values
        self.columns[stage.name] = column
        if not values.any() and not column.any():
            del self.columns[stage.name]
        self.constant = self._constant()

    def maxima(self, feasible: BoolArray) -> dict[str, int]:
        """The highest raw score where ``feasible``, for stages that normalize by the maximum."""
        return {
            name: int((column * feasible).max(initial=0))
            for name, column in self.columns.items()
            if self._by_name[name].normalizer is not None
        }

    def total(self, rows: Rows, maxima: Maxima) -> IntArray | int:
        """The weighted, normalized sum of all stages for ``rows``; one number if it is the same."""
        total: IntArray | int = self.constant
        for name in self.columns:
            stage = self._by_name[name]
            total = total + stage.weight * self.normalized(stage, rows, maxima)
        return total

    def normalized(self, stage: ScoreStage, rows: Rows, maxima: Maxima) -> IntArray | int:
        """The normalized scores of one stage, not weighted; one number if it is the same."""
        column = self.columns.get(stage.name)
        if column is None:
            return _without_column(stage)
        raw = np.asarray(column[rows], np.int64)
        if stage.normalizer is None:
            return raw
        return stage.normalizer(raw, maxima.get(stage.name, 0))

    def _constant(self) -> int:
        absent = (stage for stage in self.stages if stage.name not in self.columns)
        return sum(stage.weight * _without_column(stage) for stage in absent)


def _without_column(stage: ScoreStage) -> int:
    """The normalized score where all raw scores are zero."""
    return MAX_NODE_SCORE if stage.normalizer is not None and stage.normalizer.reverse else 0

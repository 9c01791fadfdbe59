"""KeptScores: cached raw scores, in the narrowest integer type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.engine.stages import ScoreStage
from bayplan.framework.interface import Integers

Rows = IntArray | slice | int
"""Some rows, all of them (a slice), or one."""
Measures = Mapping[str, Any]
"""`Normalizer.measure` of the raw scores where the Pod fits, by name of a stage that has one."""


class KeptScores:
    """The raw scores of ``stages`` by row; of a stage that gives zero everywhere nothing is kept.

    Attributes:
        columns: by name of the stage, those that are kept.
        constant: what the stages without a column add to the total of every row.
    """

    def __init__(self, stages: Sequence[ScoreStage]) -> None:
        self.stages = stages
        self._of_zeros = {stage.name: _of_zeros(stage) for stage in stages}
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
        lowest, highest = values.min(), values.max()
        if lowest < np.iinfo(column.dtype).min:
            column = column.astype(np.promote_types(column.dtype, np.min_scalar_type(lowest)))
        if highest > np.iinfo(column.dtype).max:
            column = column.astype(np.promote_types(column.dtype, np.min_scalar_type(highest)))
        column[rows] = values
        self.columns[stage.name] = column
        if not values.any() and not column.any():
            del self.columns[stage.name]
        self.constant = self._constant()

    def measures(self, feasible: BoolArray) -> dict[str, Any]:
        """What stages that normalize need to know of the raw scores where ``feasible``."""
        return {
            name: normalizer.measure(column, feasible)
            for name, column in self.columns.items()
            if (normalizer := self._by_name[name].normalizer) is not None
        }

    def total(self, rows: Rows, measures: Measures) -> IntArray | int:
        """The weighted, normalized sum of all stages for ``rows``; one number if it is the same."""
        total: IntArray | int = self.constant
        for name in self.columns:
            stage = self._by_name[name]
            total = total + stage.weight * self.normalized(stage, rows, measures)
        return total

    def normalized(self, stage: ScoreStage, rows: Rows, measures: Measures) -> IntArray | int:
        """The normalized scores of one stage, not weighted; one number if it is the same."""
        column = self.columns.get(stage.name)
        if column is None:
            return self._of_zeros[stage.name]
        raw = np.asarray(column[rows], np.int64)
        if stage.normalizer is None:
            return raw
        return stage.normalizer(raw, measures[stage.name])

    def _constant(self) -> int:
        absent = (stage for stage in self.stages if stage.name not in self.columns)
        return sum(stage.weight * self._of_zeros[stage.name] for stage in absent)


def _of_zeros(stage: ScoreStage) -> int:
    """The normalized score where all raw scores are zero."""
    if stage.normalizer is None:
        return 0
    zero = np.zeros(1, np.int64)
    measure = stage.normalizer.measure(zero, np.ones(1, np.bool_))
    return int(stage.normalizer(zero, measure)[0])

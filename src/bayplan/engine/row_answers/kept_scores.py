"""KeptScores: cached raw scores, in the narrowest integer type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.engine.stages import ScoreStage
from bayplan.framework.interface import Integers

Rows = IntArray | slice
"""Some rows, or all of them (a slice)."""
Measures = Mapping[str, Any]
"""`Normalizer.measure` of the raw scores where the Pod fits, by name of a stage that has one."""


_MOST_NORMALIZED = 1024


class KeptScores:
    """The raw scores of ``stages`` by row; of a stage that gives zero everywhere nothing is kept.

    Attributes:
        columns: by name of the stage, those that are kept.
        constant: what the stages without a column add to the total of every row.
        version: another number when a raw score has become another one.
    """

    def __init__(self, stages: Sequence[ScoreStage]) -> None:
        self.stages = stages
        self.columns: dict[str, IntArray] = {}
        self._by_name = {stage.name: stage for stage in stages}
        self.constant = self._constant()
        self.version = 0
        self._normalized: dict[tuple[str, int], int] = {}
        """By stage and raw score, for `total_of`, by the measures `_seen`."""
        self._seen: Measures | None = None

    def __iter__(self) -> Iterator[ScoreStage]:
        return iter(self.stages)

    @property
    def nbytes(self) -> int:
        """Bytes that the columns take."""
        return sum(column.nbytes for column in self.columns.values())

    def clear(self) -> None:
        """Start over."""
        self.columns.clear()
        self.version += 1
        self.constant = self._constant()

    def write(self, stage: ScoreStage, rows: IntArray | slice, values: Integers, n: int) -> None:
        """The raw scores of ``rows`` are ``values`` now, of ``n`` rows in all."""
        column = self.columns.get(stage.name)
        if column is None:
            if not values.any():
                return
            column = np.zeros(n, np.uint8)
        elif np.array_equal(column[rows], values):
            return
        lowest, highest = values.min(), values.max()
        least, most = _limits(column.dtype)
        if lowest < least:
            column = column.astype(np.promote_types(column.dtype, np.min_scalar_type(lowest)))
        if highest > most:
            column = column.astype(np.promote_types(column.dtype, np.min_scalar_type(highest)))
        column[rows] = values
        self.columns[stage.name] = column
        if lowest == highest == 0 and not column.any():
            del self.columns[stage.name]
        self.constant = self._constant()
        self.version += 1

    def write_one(self, stage: ScoreStage, row: int, value: int, n: int) -> None:
        """`write` for one row; much faster where the column is there and wide enough."""
        column = self.columns.get(stage.name)
        if column is None or value <= 0 or value > _limits(column.dtype)[1]:
            self.write(stage, slice(row, row + 1), np.array([value]), n)
        elif column.item(row) != value:
            column[row] = value
            self.version += 1

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

    def total_of(self, row: int, measures: Measures) -> int:
        """`total` for one row, without arrays; ``measures`` are a value, never changed."""
        if measures is not self._seen or len(self._normalized) > _MOST_NORMALIZED:
            self._seen = measures
            self._normalized.clear()
        total = self.constant
        for name, column in self.columns.items():
            stage, raw = self._by_name[name], column.item(row)
            if stage.normalizer is not None:
                score = self._normalized.get((name, raw))
                if score is None:
                    score = int(stage.normalizer(np.array(raw), measures[name]))
                    self._normalized[name, raw] = score
                raw = score
            total += stage.weight * raw
        return total

    def normalized(self, stage: ScoreStage, rows: Rows, measures: Measures) -> IntArray | int:
        """The normalized scores of one stage, not weighted; one number if it is the same."""
        column = self.columns.get(stage.name)
        if column is None:
            return stage.of_zeros
        raw = np.asarray(column[rows], np.int64)
        if stage.normalizer is None:
            return raw
        return stage.normalizer(raw, measures[stage.name])

    def _constant(self) -> int:
        absent = (stage for stage in self.stages if stage.name not in self.columns)
        return sum(stage.weight * stage.of_zeros for stage in absent)


@lru_cache(16)
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """`np.iinfo`, which takes 3 us each time, once for each type."""
    info = np.iinfo(dtype)
    return info.min, info.max

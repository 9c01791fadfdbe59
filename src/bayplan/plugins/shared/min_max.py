"""MinMax: scores in proportion, the lowest of all feasible nodes to the highest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.framework.interface import MAX_NODE_SCORE, Integers, Normalizer

NO_SCORE = -(1 << 63)
"""The raw score of a node that is not scored: it gets 0, and does not count for the others."""


@dataclass(frozen=True)
class MinMax(Normalizer):
    """The highest raw score becomes 100, the lowest ``lowest``; if all are equal, all get that.

    Raw scores must be less than 2**56 apart. Integer arithmetic, as in scheduler-plugins.
    """

    lowest: int = 0

    def measure(self, scores: Integers, feasible: BoolArray) -> tuple[int, int] | None:
        """The lowest and the highest; None if no feasible node is scored."""
        counted = scores[feasible & (scores != NO_SCORE)]
        return (int(counted.min()), int(counted.max())) if len(counted) else None

    def __call__(self, scores: Integers, measure: Any) -> IntArray:
        """See `Normalizer`."""
        if measure is None:
            return np.zeros(scores.shape, np.int64)
        low, high = measure
        # What is not feasible may be anything. `np.clip` of one number takes 8 us.
        risen = np.minimum(np.maximum(scores, low), high).astype(np.int64) - low
        scaled: IntArray = risen * (MAX_NODE_SCORE - self.lowest) // max(high - low, 1)
        return np.where(scores == NO_SCORE, 0, scaled + self.lowest)

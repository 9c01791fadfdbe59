"""Blocks: the highest of many totals, without passing over all of these for each Pod.

One binding changes one total. To look for the highest among a million takes three passes over all,
a hundred times the rest of a decision. So the rows are divided into blocks of `BLOCK`; of each the
highest total and the number of rows that have it are kept. A changed row makes its block stale, and
only stale blocks are read again.

Example with blocks of three rows, row 4 has just been taken::

    totals   [75 75 50 | 50 62 75 | 75 75 75]
    highest  [75       | 75       | 75      ]
    counts   [2        | 1        | 3       ]     the block of row 4 was read again

Six rows have the highest total. To choose the fourth of these (index 3) the counts are summed up:
2, 3, 6. So it is the first such row of the third block, row 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from bayplan.cache.node_table import IntArray
from bayplan.engine.ties import Ties

BLOCK = 1024
"""Rows of a block: a million rows are about as many blocks."""
MANY = 16 * BLOCK
"""From so many rows on blocks are worth the time that these take."""


class Blocks:
    """The highest total of each block; see the module's docstring.

    Args:
        totals: ``(n,)``, of which the caller says when some have changed.
    """

    def __init__(self, totals: IntArray) -> None:
        self._totals = totals
        starts = np.arange(0, len(totals), BLOCK)
        self._highest: IntArray = np.maximum.reduceat(totals, starts)
        is_highest = totals == np.repeat(self._highest, BLOCK)[: len(totals)]
        self._counts: IntArray = np.add.reduceat(is_highest, starts, dtype=np.int64)
        self._stale: set[int] = set()

    @property
    def nbytes(self) -> int:
        """Bytes that the columns of blocks take."""
        return self._highest.nbytes + self._counts.nbytes

    def changed(self, rows: Iterable[int]) -> None:
        """The totals of these rows are others."""
        self._stale.update([row // BLOCK for row in rows])

    def ties(self) -> Ties:
        """The rows with the highest total; valid until the next change."""
        for block in self._stale:
            start = block * BLOCK
            totals = self._totals[start : start + BLOCK]
            highest = np.maximum.reduce(totals)  # as `max`, which takes twice as long
            self._highest[block] = highest
            self._counts[block] = np.count_nonzero(totals == highest)
        self._stale.clear()
        highest = np.maximum.reduce(self._highest)
        return _BlockTies(self._totals, highest, (self._highest == highest).nonzero()[0], self)

    def counts(self, blocks: IntArray) -> IntArray:
        """How many rows of each of ``blocks`` have the highest total of that block."""
        return self._counts[blocks]


class _BlockTies(Ties):
    """Rows that are listed only when all are asked for."""

    def __init__(self, totals: IntArray, highest: int, blocks: IntArray, of: Blocks) -> None:
        self._totals, self.total, self._blocks = totals, highest, blocks
        self._ends = of.counts(blocks).cumsum()
        self.count = int(self._ends[-1])

    @cached_property
    def rows(self) -> IntArray:
        """See `Ties.rows`."""
        return np.concatenate([self._within(int(block)) for block in self._blocks])

    def row(self, index: int) -> int:
        """See `Ties.row`."""
        at = int(self._ends.searchsorted(index, "right"))
        before = int(self._ends[at - 1]) if at else 0
        return int(self._within(int(self._blocks[at]))[index - before])

    def _within(self, block: int) -> IntArray:
        start = block * BLOCK
        rows: IntArray = (self._totals[start : start + BLOCK] == self.total).nonzero()[0]
        return rows + start

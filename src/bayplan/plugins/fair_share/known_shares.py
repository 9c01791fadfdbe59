"""KnownShares: shares and guarantees by row, as lists, as of a look at these.

Turns and rivals ask about one row at a time, where a lookup in an array costs more than the sums.
What is used is always as of now.
"""

from __future__ import annotations

import numpy as np

from bayplan.cache.amounts import Amounts
from bayplan.cache.node_table import BoolArray
from bayplan.cache.queue_tree import QueueTree
from bayplan.cache.queue_tree.shares import FloatArray, Shares


class KnownShares:
    """See the module's docstring.

    Attributes:
        shares: what the lists are made of.
        contended: by row, the columns of which siblings need more than there is, and the share of
            each; last, nothing for Pods without a queue.
        guaranteed: by row and line, the columns in which something is guaranteed, and how much.
    """

    def __init__(self, queues: QueueTree, shares: Shares) -> None:
        self._queues = queues
        self.shares = shares
        self.contended = _by_row(shares.exact, shares.contended)
        lines = [columns.tolist() for columns in queues.structure.lines]
        self.guaranteed: list[list[list[tuple[int, int]]]] = [
            [] for _ in range(len(shares.guaranteed) + 1)
        ]
        for row in np.flatnonzero(shares.guaranteed.any(axis=1)).tolist():
            amounts = shares.guaranteed[row].tolist()
            by_line = ([(c, amounts[c]) for c in line if amounts[c]] for line in lines)
            self.guaranteed[row] = [line for line in by_line if line]

    def covers(self, row: int, requests: Amounts) -> bool:
        """Whether what is guaranteed to a queue covers a Pod beside what is used."""
        guaranteed = self.guaranteed[row]
        if not guaranteed:
            return False
        used = self._queues.sums.used_rows[row]
        return any(_is_covered(line, used, requests) for line in guaranteed)

    def is_within_share(self, row: int, requests: Amounts) -> bool:
        """Whether a Pod fits into the share of a queue."""
        sums = self._queues.sums
        used, compared = sums.used_rows[row], sums.structure.compared_for(requests)
        return all(
            used[column] + requests[column] <= share
            for column, share in self.contended[row]
            if requests[column] and column in compared
        )


def _is_covered(line: list[tuple[int, int]], used: Amounts, requests: Amounts) -> bool:
    """In each column asked for; not where none is."""
    asks = False
    for column, amount in line:
        requested = requests[column]
        if requested:
            asks = True
            if used[column] + requested > amount:
                return False
    return asks


def _by_row(amounts: FloatArray, named: BoolArray) -> list[list[tuple[int, float]]]:
    """By row, the named columns with their amounts; last, nothing for Pods without a queue."""
    by_row: list[list[tuple[int, float]]] = [[] for _ in range(len(amounts) + 1)]
    rows, columns = np.nonzero(named)
    entries = zip(rows.tolist(), columns.tolist(), amounts[named].tolist(), strict=True)
    for row, column, amount in entries:
        by_row[row].append((column, amount))
    return by_row

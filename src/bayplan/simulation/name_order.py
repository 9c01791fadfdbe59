"""NameOrder: nodes in the order of their names, the last tie-break."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.engine.ties import Ties


class NameOrder:
    """Sorts rows by node name; the names themselves are sorted only when nodes come or go.

    As a `bayplan.attempt.selection.TieBreak` it takes the first of the best rows.
    """

    def __init__(self) -> None:
        self._position = -1
        self._names: npt.NDArray[np.object_] = np.empty(0, np.object_)
        self._rank: IntArray = np.empty(0, np.int64)

    def __call__(self, nodes: LiveNodeTable, best: Ties) -> int:
        """The row among the best whose node comes first."""
        self._refresh(nodes)
        rows = best.rows
        return int(rows[self._rank[rows].argmin()])

    def names(self, nodes: LiveNodeTable, rows: IntArray) -> list[str]:
        """The names of the nodes at ``rows``, sorted."""
        self._refresh(nodes)
        names: list[str] = self._names[rows[np.argsort(self._rank[rows])]].tolist()
        return names

    def nth(self, nodes: LiveNodeTable, rows: IntArray, n: int) -> int:
        """The row among ``rows`` whose node comes after ``n`` others."""
        self._refresh(nodes)
        ranks = self._rank[rows]
        return int(rows[ranks == np.partition(ranks, n)[n]][0])

    def _refresh(self, nodes: LiveNodeTable) -> None:
        position = nodes.node_journal.position
        if position == self._position:
            return
        self._position = position
        self._names = np.array([name or "" for name in nodes.names], np.object_)
        self._rank = np.empty(len(nodes), np.int64)
        self._rank[np.argsort(self._names, kind="stable")] = np.arange(len(nodes))

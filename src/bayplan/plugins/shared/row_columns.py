"""RowColumns: numbers per row of the full node table and per key, as long as the table is."""

from __future__ import annotations

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable


class RowColumns:
    """Columns by key, created at the first write; rows that were never written hold ``fill``."""

    def __init__(self, nodes: LiveNodeTable, fill: int = 0) -> None:
        self._nodes = nodes
        self._fill = fill
        self._columns: dict[str, IntArray] = {}
        self._default = np.zeros(0, np.int64)

    def __getitem__(self, key: str) -> IntArray:
        """The column of ``key``, ``(n,)``; not to be changed."""
        column = self._columns.get(key)
        if column is not None:
            if len(column) != len(self._nodes):
                column = self._columns[key] = self._grown(column)
            return column
        if len(self._default) != len(self._nodes):
            self._default = self._grown(self._default)
        return self._default

    def __setitem__(self, at: tuple[str, int], value: int) -> None:
        key, row = at
        if key not in self._columns:
            self._columns[key] = self._grown(np.zeros(0, np.int64))
        self[key][row] = value

    def holds(self, key: str) -> BoolArray:
        """Which rows hold another number than 0 under ``key``, ``(n,)``."""
        held: BoolArray = self[key] != 0
        return held

    def add(self, key: str, row: int, delta: int) -> None:
        """Change one number by ``delta``."""
        self[key, row] = int(self[key][row]) + delta

    def clear(self, row: int) -> None:
        """Forget what was written for ``row``."""
        for key in self._columns:
            self[key, row] = self._fill

    def _grown(self, column: IntArray) -> IntArray:
        more = np.full(len(self._nodes) - len(column), self._fill, np.int64)
        return np.concatenate([column, more])

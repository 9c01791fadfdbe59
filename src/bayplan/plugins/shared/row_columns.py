"""RowColumns: numbers per row of the full node table and per key, as long as the table is."""

from __future__ import annotations

from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable
from bayplan.cache.node_table.column import NumbersByKey


class RowColumns(NumbersByKey):
    """`NumbersByKey` beside the node table, for plugins that write the numbers themselves."""

    def __init__(self, nodes: LiveNodeTable, fill: int = 0) -> None:
        super().__init__(fill)
        self._nodes = nodes

    def __getitem__(self, key: str) -> IntArray:
        """The numbers of ``key``, ``(n,)``."""
        self._follow()
        return super().__getitem__(key)

    def holds(self, key: str) -> BoolArray:
        """Which rows hold another number than 0 under ``key``, ``(n,)``."""
        held: BoolArray = self[key] != 0
        return held

    def clear(self, row: int) -> None:
        """Forget what was written for ``row``."""
        self._follow()
        super().clear(row)

    def _follow(self) -> None:
        if self._n != len(self._nodes):
            self.grow(len(self._nodes))

"""WhatIfTable: a copy of some rows of a table, with other Pods on them. Each row is independent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from bayplan.api.pod import Pod
from bayplan.cache.node_table.column import BoolArray, Columns, IntArray, PodColumn
from bayplan.cache.node_table.view import NodeTable


class WhatIfTable(NodeTable):
    """The rows ``picked`` of ``source``, in that order, for "what if" questions.

    Adding and removing Pods changes this table alone. A column is taken when it is first read, so
    ``source`` must not change as long as this table is used. `NodeTable.origin` holds the rows'
    numbers in the live table, also where ``source`` is a what-if table itself.
    """

    def __init__(self, source: NodeTable, picked: IntArray) -> None:
        self._source = source
        self._picked = picked
        self.live = source.live
        self.origin = picked if source.origin is None else source.origin[picked]
        self.columns = _Taken(source.columns, picked)

    @cached_property
    def exists(self) -> BoolArray:
        """Which rows have a node, ``(n,)``."""
        return self._source.exists[self._picked]

    @cached_property
    def names(self) -> list[str | None]:
        """Node names by row; None where there is no node."""
        names = self._source.names
        return [names[row] for row in self._picked.tolist()]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names) if name is not None}

    def __len__(self) -> int:
        return len(self._picked)

    @property
    def node_count(self) -> int:
        """How many rows there are, with or without a node."""
        return len(self._picked)

    def row(self, name: str) -> int | None:
        """The row of the node called ``name``, or None."""
        return self._index.get(name)

    def take(self, rows: IntArray) -> WhatIfTable:
        """A table of only ``rows``, with the Pods that are on these rows now."""
        return WhatIfTable(self, rows)

    def add_pods(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """What if ``pods[i]`` were on ``rows[i]``, for all i?"""
        self._count(rows, pods, 1)

    def remove_pods(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """What if ``pods[i]`` were gone from ``rows[i]``, for all i?"""
        self._count(rows, pods, -1)

    def _count(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        for kind in self.columns.pod_kinds:
            column: PodColumn = self.columns[kind]
            column.count_all(rows, pods, sign)


class _Taken(Columns):
    """Columns by class, each taken from ``source`` when it is first asked for."""

    def __init__(self, source: Columns, picked: IntArray) -> None:
        super().__init__(source.pod_kinds)
        self._source = source
        self._picked = picked

    def __missing__(self, kind: type[Any]) -> Any:
        column = self[kind] = self._source[kind].take(self._picked)
        return column

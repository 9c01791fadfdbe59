"""Table: columns of equal length, and which of their cells were written lately."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NONE = -1
"""In a column of numbers: there is no such thing, or nobody knows."""

Delta = dict[str, Any]


class Table:
    """Columns of equal length; remembers the cells that were written since the last `changes`.

    A cell where nothing was written is "" in a column of texts, else `NONE`.

    Args:
        first: the column that is there before anything is written.
        empty: what it has in rows that are free.
    """

    def __init__(self, first: str, empty: Any) -> None:
        self.columns: dict[str, list[Any]] = {first: []}
        self.rows: dict[str, int] = {}
        """By the key of what a row stands for."""
        self._free: list[int] = []
        self._size = 0
        self._empty: dict[str, Any] = {first: empty}
        self._written: dict[str, set[int]] = {}

    def add(self, key: str) -> int:
        """A row for something new."""
        if self._free:
            row = self._free.pop()
        else:
            row, self._size = self._size, self._size + 1
            for name, column in self.columns.items():
                column.append(self._empty[name])
        self.rows[key] = row
        return row

    def write(self, row: int, values: Iterable[tuple[str, Any]]) -> None:
        """The values of columns in a row."""
        for name, value in values:
            column = self.columns.get(name)
            if column is None:
                self._empty[name] = empty = "" if isinstance(value, str) else NONE
                column = self.columns[name] = [empty] * self._size
                self._written[name] = set()
            if column[row] != value:
                column[row] = value
                self._written.setdefault(name, set()).add(row)

    def remove(self, key: str) -> None:
        """The row of ``key`` is empty from now on."""
        row = self.rows.pop(key)
        self.write(row, self._empty.items())
        self._free.append(row)

    def changes(self) -> Delta:
        """By column the rows that were written since the last call, and their values."""
        written, self._written = self._written, {}
        delta = {}
        for name, rows in written.items():
            column = self.columns[name]
            where = sorted(rows)
            delta[name] = [where, [column[row] for row in where]]
        return delta

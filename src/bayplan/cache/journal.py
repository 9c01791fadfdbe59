"""Journal: the rows that changed, in order, for readers with cached results per row."""

from __future__ import annotations


class Journal:
    """Numbers of rows, in the order of the changes.

    A reader remembers a `position` and later asks what came `since`. Old entries are dropped; a
    reader that is further behind gets None and starts over.
    """

    __slots__ = ("_base", "_capacity", "_rows", "position")

    def __init__(self, capacity: int = 65536) -> None:
        self._rows: list[int] = []
        self._base = 0
        self._capacity = capacity
        self.position = 0
        """Where a reader stands that has seen everything. Read only."""

    def append(self, row: int) -> None:
        """Row ``row`` has changed."""
        self._rows.append(row)
        self.position += 1
        if self.position - self._base > self._capacity:
            dropped = self._capacity // 2
            del self._rows[:dropped]
            self._base += dropped

    def since(self, position: int) -> list[int] | None:
        """Rows changed after ``position``, with repetitions; None when that is forgotten."""
        if position < self._base:
            return None
        return self._rows[position - self._base :]

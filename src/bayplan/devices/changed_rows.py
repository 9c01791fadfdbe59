"""ChangedRows: the rows of nodes that changed since the last call."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cache.journal import Journal
from bayplan.cache.node_table import LiveNodeTable


class ChangedRows:
    """One reader's place in some journals about the rows of ``nodes``."""

    def __init__(self, nodes: LiveNodeTable, journals: Sequence[Journal]) -> None:
        self._nodes = nodes
        self._journals = journals
        self._positions: list[int] | None = None
        self._count = 0

    def forget(self) -> None:
        """All rows count as changed at the next look."""
        self._positions = None

    def take(self) -> list[int] | None:
        """The rows that changed since the last call; None for all rows, also after a resize."""
        previous = self._positions
        current = [journal.position for journal in self._journals]
        if current == previous and len(self._nodes) == self._count:
            return []
        rows = None if previous is None else self._since(previous)
        if len(self._nodes) != self._count:
            rows = None
        self._positions, self._count = current, len(self._nodes)
        return rows

    def _since(self, positions: Sequence[int]) -> list[int] | None:
        rows: set[int] = set()
        for journal, position in zip(self._journals, positions, strict=True):
            some = journal.since(position)
            if some is None:
                return None
            rows.update(some)
        return sorted(rows)

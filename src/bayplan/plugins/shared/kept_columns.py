"""KeptColumns: what a plugin computes from the node table alone, kept from Pod to Pod.

The answers for Pods of one size are kept by row (`bayplan.engine.row_answers`). For Pods of a
new size all rows are computed. What does not depend on the Pod then comes from here: after a
binding one row of it is computed, not all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from bayplan.cache.node_table import IntArray, LiveNodeTable, NodeTable

_NEVER = -1
"""A position from which every journal answers: start over."""
_FEW = 16
"""Where more than one row in so many has changed, all are computed."""

Rows = slice | IntArray | int
"""Which rows to compute: all, several, or one, which scalars compute much faster than arrays."""


class KeptColumns(ABC):
    """Columns of one table; a subclass names and computes the columns."""

    def __init__(self) -> None:
        self._table: LiveNodeTable | None = None
        self._node_position = self._pod_position = _NEVER
        self._length = 0

    @abstractmethod
    def start(self, nodes: NodeTable) -> None:
        """Compute all columns, whatever they held before."""

    @abstractmethod
    def update(self, nodes: NodeTable, rows: Rows) -> None:
        """Compute ``rows`` again; only Pods have changed there."""

    @abstractmethod
    def take(self, rows: IntArray) -> Self:
        """Columns of these rows; columns that depend on Pods are left to `update`."""

    def copy(self) -> Self:
        """A shallow copy; `copy.copy` takes five times as long."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def is_of(self, live: NodeTable) -> bool:
        """Whether these are columns of ``live``, and no node has changed since the last refresh."""
        table = self._table
        return (
            table is not None
            and table is live
            and table.node_journal.position == self._node_position
            and len(table) == self._length
        )

    def refresh(self, nodes: LiveNodeTable) -> None:
        """Bring the columns up to date with ``nodes``."""
        changed = nodes.pod_journal.since(self._pod_position)
        if changed is None or not self.is_of(nodes) or len(changed) * _FEW > len(nodes) > _FEW:
            self.start(nodes)
        elif len(changed) == 1:
            self.update(nodes, changed[0])
        elif changed:
            self.update(nodes, np.array(sorted(set(changed)), np.int64))
        self._table, self._length = nodes, len(nodes)
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position

"""Rows: the row of each node, and the rows that have changed."""

from __future__ import annotations

import numpy as np

from bayplan.cache.journal import Journal
from bayplan.cache.node_table.column import BoolArray


class Rows:
    """Gives rows to nodes; a row that was freed is used again.

    Attributes:
        names: the node's name by row; None where there is no node.
        exists: ``(n,)`` whether there is a node.
        index: the row by name.
        node_journal: rows whose node came, went or changed in anything but its resourceVersion.
        pod_journal: rows whose Pods changed.
        start_journal: rows on which a Pod has got its start time, which only preemption reads.
    """

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self.exists: BoolArray = np.zeros(0, np.bool_)
        self.node_journal = Journal()
        self.pod_journal = Journal()
        self.start_journal = Journal()
        self.index: dict[str, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.names)

    @property
    def full(self) -> bool:
        """Whether no row is free."""
        return not self._free

    def occupy(self, name: str) -> int:
        """Give a free row to the node called ``name``."""
        row = self._free.pop()
        self.index[name] = row
        self.names[row] = name
        self.exists[row] = True
        return row

    def free(self, name: str) -> None:
        """The node called ``name`` is gone."""
        row = self.index.pop(name)
        self.names[row] = None
        self.exists[row] = False
        self._free.append(row)

    def grow(self, n: int) -> None:
        """Have ``n`` rows; lower ones are given away first."""
        self._free[:0] = range(n - 1, len(self) - 1, -1)
        more = n - len(self)
        self.names += [None] * more
        self.exists = np.concatenate([self.exists, np.zeros(more, np.bool_)])

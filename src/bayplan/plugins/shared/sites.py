"""Sites: what is alike for all nodes of one place.

A node's *site* is the tuple of its domains, coarse to fine, such as region and zone. Whatever lies
between two nodes (a price, a cost of the network) lies between their sites, which are few.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.cache.node_table import ABSENT, IntArray, LiveNodeTable

Site = tuple[str | None, ...]
"""The values of the labels; None for a label that the nodes lack."""


class Sites:
    """The site of each row. Scheduling thread only.

    Attributes:
        names: ``(k,)`` the sites.
        codes: ``(n,)`` the index of each row's site.
    """

    def __init__(self, nodes: LiveNodeTable, keys: Sequence[str]) -> None:
        self._nodes, self._keys = nodes, keys
        self._position = -1
        self.names: list[Site] = []
        self.codes: IntArray = np.zeros(0, np.int64)

    def refresh(self) -> bool:
        """Follow the nodes; whether `names` is another list now."""
        position = self._nodes.node_journal.position
        if position == self._position and len(self.codes) == len(self._nodes):
            return False
        self._position = position
        columns = [self._nodes.label(key) for key in self._keys]
        stacked = np.stack([column.codes for column in columns], axis=1)
        there, codes = np.unique(stacked, axis=0, return_inverse=True)
        self.codes = codes.reshape(-1).astype(np.int64)
        names: list[Site] = [
            tuple(
                None if code == ABSENT else column.values[code]
                for code, column in zip(row, columns, strict=True)
            )
            for row in there.tolist()
        ]
        is_new = names != self.names
        if is_new:
            self.names = names
        return is_new

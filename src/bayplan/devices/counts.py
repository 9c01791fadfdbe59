"""DeviceCounts: how many devices a class accepts on each node, and how many of them are in use.

For the scores of extended resources that a class stands for. Unlike the allocator, kube-scheduler
counts the devices of all slices here, whatever their pool's generation and state. A node where a
selector fails for some device offers none. Answers to ``calculateDRAResourceTotals`` of
``noderesources/resource_allocation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from bayplan.api.node import Node
from bayplan.api.resource import ResourceSlice
from bayplan.api.selectors import SelectorError
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.devices.changed_rows import ChangedRows
from bayplan.devices.nodes import slice_matches
from bayplan.devices.pools import device_matches
from bayplan.devices.selectors import NO, YES, Mask
from bayplan.devices.table import FREE, DeviceTable


class DeviceCounts:
    """The counts for one class, brought up to date by `update`.

    Args:
        mask: what the class's selectors say.
        changed: rows of nodes whose devices changed.
        reached: called with a node and slices that name no node and are for it all the same.

    Attributes:
        capacity: per row of the live table, how many devices the class accepts, ``(n,)``.
        in_use: how many of them are allocated, as a whole or in shares, ``(n,)``.
    """

    def __init__(
        self,
        table: DeviceTable,
        nodes: LiveNodeTable,
        mask: Mask,
        changed: ChangedRows,
        reached: Callable[[Node, Iterable[ResourceSlice]], None],
    ) -> None:
        self.capacity: IntArray = np.zeros(0, np.int64)
        self.in_use: IntArray = np.zeros(0, np.int64)
        self._table = table
        self._nodes = nodes
        self._mask = mask
        self._changed = changed
        self._reached = reached

    def update(self) -> None:
        """Count again where devices, or nodes, have changed."""
        rows = self._changed.take()
        if rows is None:
            n = len(self._nodes)
            self.capacity, self.in_use = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for row in range(len(self._nodes)) if rows is None else rows:
            node = self._nodes.nodes[row]
            self.capacity[row], self.in_use[row] = self._count(node) if node else (0, 0)

    def _count(self, node: Node) -> tuple[int, int]:
        try:
            rows = np.array(self._devices(node), np.int32)
        except SelectorError:
            return 0, 0
        codes = self._mask.codes(self._table, rows)
        if codes.min(initial=NO) < NO:
            return 0, 0
        accepted = codes == YES
        in_use = self._table.usage_code.codes[rows] != FREE
        return int(accepted.sum()), int((accepted & in_use).sum())

    def _devices(self, node: Node) -> list[int]:
        """Table rows of the devices that are for ``node``."""
        shared = [e for e in self._table.shared_slices() if slice_matches(e.slice.spec, node)]
        self._reached(node, (entry.slice for entry in shared))
        return [
            row
            for entry in (*self._table.local_slices(node), *shared)
            for row, device in zip(entry.rows, entry.slice.spec.devices, strict=True)
            if device_matches(entry.slice, device, node)
        ]

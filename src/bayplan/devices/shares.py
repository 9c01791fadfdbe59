"""DeviceShares: what is left of each device that a class accepts, on every node.

A device that nobody uses counts 1, one that is used as a whole 0, one of which shares are in use
(KEP-5075, consumable capacity) as the part that is left; of several capacities the scarcest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.api.quantity import Amount
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.devices.candidates import NodeDevices
from bayplan.devices.capacity import CapacityError, consumption
from bayplan.devices.changed_rows import ChangedRows
from bayplan.devices.errors import AllocationError
from bayplan.devices.quantity import quantity
from bayplan.devices.selectors import NO, YES, Mask
from bayplan.devices.table import DeviceState, DeviceTable, Traits

NEVER = 2.0
"""The share of a request that a device cannot serve."""
_LEAST = 1e-6
"""The share of a request that takes nothing of the device's capacity."""


class DeviceShares:
    """The shares for one class, brought up to date by `update`.

    Args:
        devices: what a node reaches, in the order in which the search tries it.
        mask: what the class's selectors say.
        changed: rows of nodes whose devices changed.

    Attributes:
        left: per row of the live table and device, in the search's order, 0 to 1; 0 where a node
            has fewer devices, ``(n, k)``.
        count: how many devices the class accepts, ``(n,)``.
        kind: the kind of the first of them, ``(n,)``; a node's devices are taken to be of one kind.
        kinds: what devices of a kind have in common.
    """

    def __init__(
        self,
        table: DeviceTable,
        nodes: LiveNodeTable,
        devices: Callable[[Node], NodeDevices],
        mask: Mask,
        changed: ChangedRows,
    ) -> None:
        self.left: npt.NDArray[np.float64] = np.zeros((0, 0))
        self.count: IntArray = np.zeros(0, np.int64)
        self.kind: IntArray = np.zeros(0, np.int64)
        self.kinds: list[Traits] = []
        self._table = table
        self._nodes = nodes
        self._devices = devices
        self._mask = mask
        self._changed = changed
        self._kind_of: dict[int, int] = {}
        self._known: dict[tuple[int, int], float] = {}

    def update(self) -> None:
        """Look again where devices, or nodes, have changed."""
        rows = self._changed.take()
        if rows is None:
            n = len(self._nodes)
            self.left = np.zeros((n, self.left.shape[1]))
            self.count, self.kind = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for row in range(len(self._nodes)) if rows is None else rows:
            node = self._nodes.nodes[row]
            self._set(row, self._accepted(node) if node is not None else [])

    def share(self, kind: int, requests: Mapping[str, Amount]) -> float:
        """What a request for these amounts takes of a device of that kind, or `NEVER`."""
        traits = self.kinds[kind]
        try:
            need = consumption(traits.capacity, requests)
        except CapacityError:
            return NEVER
        if need is None:
            return NEVER
        if not traits.shared:
            return 1.0
        parts = (
            amount.nano / total
            for name, amount in need.items()
            if (total := quantity(traits.capacity[name].value).nano) > 0
        )
        return min(max(parts, default=0.0) or _LEAST, NEVER)

    def _accepted(self, node: Node) -> list[int]:
        """Table rows of the devices for the class; none where a selector has no answer."""
        try:
            devices = self._devices(node)
        except AllocationError:
            return []
        codes = self._mask.codes(self._table, devices.rows)
        if codes.min(initial=NO) < NO:
            return []
        accepted = codes == YES
        accepted[devices.excluded] = False
        rows: list[int] = devices.rows[accepted].tolist()
        return rows

    def _set(self, row: int, accepted: list[int]) -> None:
        more = len(accepted) - self.left.shape[1]
        if more > 0:
            self.left = np.pad(self.left, ((0, 0), (0, more)))
        self.left[row] = 0.0
        self.left[row, : len(accepted)] = [self._left(device) for device in accepted]
        self.count[row] = len(accepted)
        if accepted:
            traits = int(self._table.traits.codes[accepted[0]])
            if traits not in self._kind_of:
                self._kind_of[traits] = len(self.kinds)
                self.kinds.append(self._table.traits.values[traits])
            self.kind[row] = self._kind_of[traits]

    def _left(self, device: int) -> float:
        key = self._table.usage_code.codes.item(device), self._table.traits.codes.item(device)
        left = self._known.get(key)
        if left is None:
            usage, traits = self._table.usage_code.values[key[0]], self._table.traits.values[key[1]]
            left = self._known[key] = _left_of(usage, traits)
        return left


def _left_of(usage: DeviceState, traits: Traits) -> float:
    if usage.exclusive:
        return 0.0
    if usage.consumed is None:
        return 1.0
    if not traits.shared:
        return 0.0
    return min(
        (
            max(0.0, 1 - usage.consumed.get(name, 0) / total)
            for name, capacity in traits.capacity.items()
            if (total := quantity(capacity.value).nano) > 0
        ),
        default=1.0,
    )

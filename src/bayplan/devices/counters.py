"""Counters: what is left of a pool's shared counters (KEP-4815, partitionable devices).

A device draws from the counters of its pool while it is allocated, to whatever node, and once
however many shares it is allocated in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bayplan.api.resource import Device
from bayplan.devices.pools import CounterName, Pool, PoolId
from bayplan.devices.quantity import quantity
from bayplan.devices.table import FREE, DeviceTable


@dataclass(frozen=True, slots=True)
class Available:
    """What is left of a pool's counters, in steps of 1e-9.

    Attributes:
        overdrawn: whether a counter is below zero, as after a change of the slices.
    """

    left: Mapping[CounterName, int]
    overdrawn: bool


def draws(device: Device) -> Iterator[tuple[CounterName, int]]:
    """What ``device`` draws from each counter of its pool, in steps of 1e-9."""
    for draw in device.consumes_counters:
        for name, counter in draw.counters.items():
            yield (draw.counter_set, name), quantity(counter.value).nano


class Counters:
    """What is left, computed when a pool is first asked for, and again when it has changed."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table
        self._available: dict[PoolId, Available] = {}

    def available(self, pool: Pool) -> Available:
        """What is left of the counters of ``pool``."""
        available = self._available.get(pool.id)
        if available is None:
            available = self._available[pool.id] = self._compute(pool)
        return available

    def clear(self) -> None:
        """Slices have changed."""
        self._available.clear()

    def forget(self, pool: PoolId) -> None:
        """Devices of the pool, or their usage, have changed."""
        self._available.pop(pool, None)

    def _compute(self, pool: Pool) -> Available:
        left = dict(pool.counters)
        for row in (*pool.rows, *pool.other_rows):
            if self._table.usage_code.codes[row] == FREE:
                continue
            for counter, amount in draws(self._table.row(row).device):
                if counter in left:
                    left[counter] -= amount
        return Available(left, any(amount < 0 for amount in left.values()))

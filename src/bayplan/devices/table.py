"""DeviceTable: one row a device of every slice, one array a fact.

Rows are given out slice by slice and used again; what a node reaches, and in which order, is the
business of `bayplan.devices.pools`, whose pools name rows. Facts that many devices share (what a
selector can see, taints, capacity, what shares consume) are codes of distinct values, so a selector
or a toleration is judged once per distinct value and the answers are taken by code.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from bayplan.api.node import Node
from bayplan.api.resource import (
    Device,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceTaintRule,
    ResourceSlice,
)
from bayplan.cache.node_table.column import ABSENT, CodedColumn
from bayplan.devices.content import Content, content_key
from bayplan.devices.pools import Pool, PoolId, SliceRows, gather
from bayplan.devices.taints import applies
from bayplan.devices.usage import DeviceId, Usage


@dataclass(frozen=True, slots=True)
class Traits:
    """What many devices have in common and the allocator counts with."""

    capacity: Mapping[str, DeviceCapacity]
    draws: tuple[DeviceCounterConsumption, ...]
    shared: bool


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What claims have taken of a device.

    Attributes:
        exclusive: a claim holds the whole device.
        consumed: what shares consume by capacity name; None without shares.
    """

    exclusive: bool = False
    consumed: Mapping[str, int] | None = None


SPARE_CODES = 4096
"""So many codes may stand for nothing."""
FREE, IN_USE = 0, 1
"""Codes of the two most frequent states in the usage column."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """What stands in one row."""

    id: DeviceId
    device: Device
    slice: ResourceSlice


class DeviceTable:
    """All devices of the cluster, and who uses them.

    Args:
        layout_changed: called with the name of a node whose pools, or whose devices' taints,
            changed; None stands for all nodes, because a slice without a node name is concerned.
        device_changed: called with the row of a device that came or has another usage.

    Attributes:
        content: per row, what a selector can see of the device: values are `Content`.
        taints: per row, its taints with those that rules add.
        traits: per row, its `Traits`.
        usage_code: per row, `FREE`, `IN_USE`, or the code of what its shares consume.
        usage: who holds what.
        slices: all slices by pool.
    """

    def __init__(
        self,
        layout_changed: Callable[[str | None], None] = lambda _: None,
        device_changed: Callable[[DeviceRow], None] = lambda _: None,
    ) -> None:
        self.content = CodedColumn(0)
        self.taints = CodedColumn(0)
        self.traits = CodedColumn(0)
        self.usage_code = _usage_column()
        self.usage = Usage(self._usage_changed)
        self.slices: dict[PoolId, list[SliceRows]] = {}
        self._layout_changed = layout_changed
        self._device_changed = device_changed
        self._rows: list[DeviceRow | None] = []
        self._free: dict[int, list[int]] = {}
        self._by_id: dict[DeviceId, list[int]] = {}
        self._by_name: dict[str, SliceRows] = {}
        self._by_node: dict[str, dict[str, SliceRows]] = {}
        self._rules: dict[str, DeviceTaintRule] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, row: int) -> DeviceRow:
        """What stands in ``row``, which must be in use."""
        device = self._rows[row]
        if device is None:
            raise LookupError(f"no device in row {row}")
        return device

    def rows_of(self, device: DeviceId) -> tuple[int, ...]:
        """Rows of a device: more than one where slices of two generations have it."""
        return tuple(self._by_id.get(device, ()))

    def pools(self, node: Node) -> list[Pool]:
        """The pools that ``node`` reaches; see `bayplan.devices.pools.gather`."""
        local = sorted(self.local_slices(node), key=_name)
        return gather(local, sorted(self.shared_slices(), key=_name), self.slices, node)

    def local_slices(self, node: Node) -> list[SliceRows]:
        """The slices that name ``node``."""
        return list(self._by_node.get(node.name, {}).values())

    def shared_slices(self) -> list[SliceRows]:
        """The slices that name no node."""
        return list(self._by_node.get("", {}).values())

    def set_slice(self, piece: ResourceSlice) -> None:
        """Add a slice, or replace the one of its name."""
        previous = self._by_name.get(piece.name)
        if previous is not None and (
            len(previous.rows) != len(piece.spec.devices)
            or previous.pool_id != (piece.spec.driver, piece.spec.pool.name)
        ):
            self.remove_slice(piece.name)
            previous = None
        if previous is None:
            entry = SliceRows(piece, self._block(len(piece.spec.devices)))
        else:
            self._forget(previous)
            entry = SliceRows(piece, previous.first_row)
        for row, device in zip(entry.rows, piece.spec.devices, strict=True):
            device_id = DeviceId(piece.spec.driver, piece.spec.pool.name, device.name)
            written = self._rows[row] = DeviceRow(device_id, device, piece)
            self._by_id.setdefault(device_id, []).append(row)
            self._encode(row, written)
            self._device_changed(written)
        self._by_name[piece.name] = entry
        self._by_node.setdefault(piece.spec.node_name or "", {})[piece.name] = entry
        siblings = self.slices.setdefault(entry.pool_id, [])
        insort(siblings, entry, key=_name)
        self._tell(siblings)

    def remove_slice(self, name: str) -> None:
        """Forget a slice and its devices; the allocations of claims are kept."""
        entry = self._by_name.get(name)
        if entry is None:
            return
        siblings = self.slices[entry.pool_id]
        self._tell(siblings)
        self._forget(entry)
        for row in entry.rows:
            self._rows[row] = None
        if entry.rows:
            self._free.setdefault(len(entry.rows), []).append(entry.first_row)

    @property
    def wasteful(self) -> bool:
        """Whether most codes stand for values that no device has any more."""
        most = max([len(column.values) for column in self._columns()])
        return most > 2 * len(self._rows) + SPARE_CODES

    def compact(self) -> None:
        """Reassign all codes: readers with cached codes have to start over."""
        self.content, self.taints, self.traits = CodedColumn(0), CodedColumn(0), CodedColumn(0)
        self.usage_code = _usage_column()
        for column in self._columns():
            column.grow(len(self._rows))
        for row, entry in enumerate(self._rows):
            if entry is not None:
                self._encode(row, entry)

    def set_rule(self, rule: DeviceTaintRule) -> None:
        """Add a taint rule, or replace the one of its name."""
        previous = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._taint(r for r in (previous, rule) if r is not None)

    def remove_rule(self, name: str) -> None:
        """Take back the taint that a rule gave."""
        if (rule := self._rules.pop(name, None)) is not None:
            self._taint((rule,))

    def _forget(self, entry: SliceRows) -> None:
        """Remove an entry from all indexes; the rows stay allocated."""
        piece = entry.slice
        del self._by_name[piece.name]
        del self._by_node[piece.spec.node_name or ""][piece.name]
        siblings = self.slices[entry.pool_id]
        siblings.remove(entry)
        self._tell((entry,))
        if not siblings:
            del self.slices[entry.pool_id]
        for row in entry.rows:
            device_id = self.row(row).id
            self._by_id[device_id].remove(row)
            if not self._by_id[device_id]:
                del self._by_id[device_id]

    def _tell(self, entries: Iterable[SliceRows]) -> None:
        self._tell_nodes({entry.slice.spec.node_name for entry in entries})

    def _tell_nodes(self, nodes: set[str | None]) -> None:
        for node in (None,) if None in nodes else nodes:
            self._layout_changed(node)

    def _block(self, length: int) -> int:
        """The first of ``length`` rows in a row that are free."""
        if self._free.get(length):
            return self._free[length].pop()
        first = len(self._rows)
        self._rows.extend([None] * length)
        for column in self._columns():
            if len(self._rows) > len(column.codes):
                more = max(len(self._rows) - len(column.codes), len(column.codes), 64)
                column.grow(len(column.codes) + more)
        return first

    def _columns(self) -> tuple[CodedColumn, ...]:
        return self.content, self.taints, self.traits, self.usage_code

    def _encode(self, row: int, entry: DeviceRow) -> None:
        """Set all columns of a row from the device that stands there."""
        self.content.codes[row] = self._content_code(entry)
        self.traits.codes[row] = self._traits_code(entry.device)
        self.taints.codes[row] = self.taints.code(self._all_taints(entry))
        self.usage_code.codes[row] = self._usage_code(entry.id)

    def _content_code(self, entry: DeviceRow) -> int:
        key = content_key(entry.id.driver, entry.device)
        code = self.content.find(key)
        if code == ABSENT:
            code = self.content.code(Content(entry.id.driver, entry.device), key)
        return code

    def _traits_code(self, device: Device) -> int:
        draws, shared = device.consumes_counters, device.allow_multiple_allocations
        key = msgspec.json.encode((device.capacity, draws, shared))
        code = self.traits.find(key)
        if code == ABSENT:
            code = self.traits.code(Traits(device.capacity, draws, shared), key)
        return code

    def _all_taints(self, entry: DeviceRow) -> tuple[DeviceTaint, ...]:
        rules = (rule for rule in self._rules.values() if applies(rule, entry.id))
        return (*entry.device.taints, *(rule.spec.taint for rule in rules))

    def _taint(self, rules: Iterable[DeviceTaintRule]) -> None:
        rules = tuple(rules)
        nodes = set()
        for device_id, rows in self._by_id.items():
            if any(applies(rule, device_id) for rule in rules):
                for row in rows:
                    entry = self.row(row)
                    self.taints.codes[row] = self.taints.code(self._all_taints(entry))
                    nodes.add(entry.slice.spec.node_name)
        self._tell_nodes(nodes)

    def _usage_changed(self, device: DeviceId) -> None:
        for row in self.rows_of(device):
            self.usage_code.codes[row] = self._usage_code(device)
            self._device_changed(self.row(row))

    def _usage_code(self, device: DeviceId) -> int:
        usage = self.usage.of(device)
        if not usage.exclusive and not usage.shares:
            return FREE
        if not usage.shares:
            return IN_USE
        consumed = usage.consumed()
        state = DeviceState(bool(usage.exclusive), consumed)
        return self.usage_code.code(state, (state.exclusive, *sorted(consumed.items())))


def _usage_column() -> CodedColumn:
    column = CodedColumn(0)
    column.code(DeviceState(), FREE)
    column.code(DeviceState(exclusive=True), IN_USE)
    return column


def _name(entry: SliceRows) -> str:
    return entry.slice.name

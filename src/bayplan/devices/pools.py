"""Pools: the devices a node can reach, in order, and the pools that cannot be used.

A pool is all slices of one driver and pool name that have the highest generation. It is incomplete
while slices are missing, and invalid where its slices contradict each other; nothing is allocated
from either. The order of pools, slices and devices is the policy of the first-fit search: drivers
steer it by naming. Answers to ``pools_incubating.go`` of kube-scheduler's allocator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.api.node import Node
from bayplan.api.resource import CounterSet, Device, ResourceSlice
from bayplan.api.selectors import SelectorError
from bayplan.devices.errors import AllocationError
from bayplan.devices.nodes import matches, slice_matches
from bayplan.devices.quantity import quantity

PoolId = tuple[str, str]
"""Driver and pool name."""
CounterName = tuple[str, str]
"""Counter set and counter."""


@dataclass(frozen=True, slots=True)
class SliceRows:
    """A slice and the row of its first device in the device table; the others follow."""

    slice: ResourceSlice
    first_row: int

    @property
    def rows(self) -> range:
        """The rows of the slice's devices, in the slice's order."""
        return range(self.first_row, self.first_row + len(self.slice.spec.devices))

    @property
    def pool_id(self) -> PoolId:
        """The pool that the slice is a part of."""
        return self.slice.spec.driver, self.slice.spec.pool.name


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool as a node sees it.

    Attributes:
        rows: devices for this node, in the order in which they are tried.
        other_rows: devices for other nodes, which draw from the same counters.
        counters: the totals of its counter sets, in steps of 1e-9.
    """

    id: PoolId
    incomplete: bool = False
    invalid: bool = False
    rows: tuple[int, ...] = ()
    other_rows: tuple[int, ...] = ()
    counters: Mapping[CounterName, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "/".join(self.id)


def gather(
    local: Iterable[SliceRows],
    shared: Iterable[SliceRows],
    every: Mapping[PoolId, Sequence[SliceRows]],
    node: Node,
) -> list[Pool]:
    """The pools that ``node`` can reach.

    Args:
        local: slices that name the node.
        shared: slices that name no node.
        every: all slices by pool, those for other nodes and of other generations too.
        node: whose devices are asked for.

    Raises:
        AllocationError: a slice's node selector is faulty.
    """
    relevant: dict[PoolId, list[SliceRows]] = {}
    for entry in (*local, *shared):
        if not _uses_compatibility_groups(entry.slice) and _is_for(entry.slice, node):
            _add(relevant, entry)
    pools: list[Pool] = []
    last: list[Pool] = []
    for pool_id, entries in relevant.items():
        siblings = _siblings(entries, every[pool_id])
        if siblings is None:
            continue
        pool, has_conditions = _build(pool_id, entries, siblings)
        (last if has_conditions else pools).append(pool)
    return sorted(pools, key=lambda pool: pool.id) + sorted(last, key=lambda pool: pool.id)


def _is_for(piece: ResourceSlice, node: Node) -> bool:
    try:
        return slice_matches(piece.spec, node)
    except SelectorError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for slice "
            f"{piece.name}: failed to parse node selector: {error}"
        ) from None


def _uses_compatibility_groups(piece: ResourceSlice) -> bool:
    """Slices with compatibility groups are left out, as DRADeviceCompatibilityGroups is off."""
    return any(c.compatibility_groups for d in piece.spec.devices for c in d.consumes_counters)


def _add(relevant: dict[PoolId, list[SliceRows]], entry: SliceRows) -> None:
    """Keep the slice unless the pool has newer ones; older ones go."""
    entries = relevant.setdefault(entry.pool_id, [])
    generation = entry.slice.spec.pool.generation
    if entries and entries[0].slice.spec.pool.generation > generation:
        return
    if entries and entries[0].slice.spec.pool.generation < generation:
        entries.clear()
    entries.append(entry)


def _siblings(entries: list[SliceRows], every: Sequence[SliceRows]) -> list[SliceRows] | None:
    """All slices of the generation; None where a newer one exists, on whatever node."""
    pool = entries[0].slice.spec.pool
    if len(entries) == pool.resource_slice_count:
        return entries
    if any(e.slice.spec.pool.generation > pool.generation for e in every):
        return None
    return [
        e
        for e in every
        if e.slice.spec.pool.generation == pool.generation
        and not _uses_compatibility_groups(e.slice)
    ]


def _build(
    pool_id: PoolId, entries: list[SliceRows], siblings: list[SliceRows]
) -> tuple[Pool, bool]:
    """The pool, and whether any of its devices has binding conditions."""
    if len(siblings) != entries[0].slice.spec.pool.resource_slice_count:
        return Pool(pool_id, incomplete=True), False
    entries = sorted(entries, key=lambda e: e.slice.name)
    names = {e.slice.name for e in entries}
    here = [e for e in entries if not e.slice.spec.shared_counters]
    others = [e for e in siblings if e.slice.name not in names and not e.slice.spec.shared_counters]
    sets = [s for e in siblings for s in e.slice.spec.shared_counters]
    if not _is_valid(here, others, sets):
        return Pool(pool_id, invalid=True), False
    pool = Pool(
        pool_id,
        rows=tuple(row for e in here for row in e.rows),
        other_rows=tuple(row for e in others for row in e.rows),
        counters={
            (s.name, name): quantity(counter.value).nano
            for s in sets
            for name, counter in s.counters.items()
        },
    )
    return pool, any(device.binding_conditions for device in _devices(here))


def _is_valid(
    here: Iterable[SliceRows], others: Iterable[SliceRows], sets: Sequence[CounterSet]
) -> bool:
    """No device or counter set twice, and no device draws from a counter that is not there."""
    names = [device.name for device in _devices(here)]
    by_name = {s.name: s.counters.keys() for s in sets}
    if len(set(names)) != len(names) or len(by_name) != len(sets):
        return False
    return all(
        draw.counter_set in by_name and draw.counters.keys() <= by_name[draw.counter_set]
        for devices in (_devices(here), _devices(others))
        for device in devices
        for draw in device.consumes_counters
    )


def _devices(entries: Iterable[SliceRows]) -> Iterable[Device]:
    return (device for e in entries for device in e.slice.spec.devices)


def device_matches(piece: ResourceSlice, device: Device, node: Node) -> bool:
    """Whether a device of a relevant slice is for ``node``; most slices do not say per device."""
    return not piece.spec.per_device_node_selection or matches(device, node)

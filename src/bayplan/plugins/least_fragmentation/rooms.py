"""Rooms: the room on all nodes, and how much of it is stranded, kept from Pod to Pod.

After a binding one row is computed again. All is computed anew only where the typical Pods, the
device classes or the number of rows have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayplan.cache.journal import Journal
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.args import LeastFragmentationArgs
from bayplan.devices.changed_rows import ChangedRows
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.least_fragmentation.demand import (
    Capacity,
    Demand,
    DemandReader,
    TypicalPod,
    TypicalPods,
)
from bayplan.plugins.least_fragmentation.measure import FloatArray, Room, Types
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.plugins.shared.device_tracker import device_tracker
from bayplan.plugins.shared.node_selectors import required_node_affinity
from bayplan.plugins.shared.tolerations import repelling_taints

if TYPE_CHECKING:
    from bayplan.devices.shares import DeviceShares


@dataclass(slots=True)
class Ground:
    """One resource on some nodes.

    Attributes:
        size: how many devices the nodes have, ``(n,)``.
        stranded: how much of the room is of no use for typical Pods, in devices, ``(n,)``.
    """

    room: Room
    size: FloatArray
    stranded: FloatArray


class Effect(NamedTuple):
    """What a Pod does to nodes, in devices, ``(n,)`` each.

    Attributes:
        size: how many devices a node has.
        before: how much of its room is stranded without the Pod.
        after: the same with the Pod.
        left: the room with the Pod.
        full: how full the devices are that the Pod takes parts of, from 0 to 1, where it does; else
            NaN. None where no node has such devices.
    """

    size: FloatArray
    before: FloatArray
    after: FloatArray
    left: FloatArray
    full: FloatArray | None


class Rooms:
    """See the module's docstring.

    Attributes:
        reader: says what Pods ask for.
        typical: says which demands are typical.
        journal: rows of the live table that were computed again.
        epoch: changes when all rows were.
        rows: rows of the live table whose nodes have devices.
    """

    def __init__(self, args: LeastFragmentationArgs, handle: InTreeHandle) -> None:
        self._names = args.resources
        self._nodes = handle.nodes
        self._classes = handle.objects.shared(DeviceClasses, handle.objects)
        self._tracker = device_tracker(handle)
        self.reader = DemandReader(self._names, self._classes, self._tracker)
        self.typical = TypicalPods(self.reader, handle, args.half_life_seconds, args.typical_share)
        self.journal = Journal()
        self.epoch = 0
        self.rows: IntArray = np.zeros(0, np.int64)
        self._changed = ChangedRows(self._nodes, (self._nodes.pod_journal,))
        self._devices_changed: ChangedRows | None = None
        self._nodes_position = -1
        self._key: object = None
        self._shares: list[DeviceShares | None] = []
        self._members: list[list[TypicalPod]] = []
        self._types: list[Types] = []
        self._has_devices: BoolArray = np.zeros(0, np.bool_)
        self._nothing: tuple[int, int] | None = None
        """The state of nodes and classes in which there is no device, if it was the last."""
        self._share_of: dict[tuple[int, Capacity], FloatArray] = {}
        self._runs: list[BoolArray] = []
        self._grounds: list[Ground] = []

    def refresh(self) -> None:
        """Bring the rows of the live table up to date."""
        journal = self._nodes.node_journal
        nothing = (journal.position, self._classes.epoch)
        if nothing == self._nothing:
            return
        self.typical.update()
        changed = self._changed.take()
        rows = None if changed is None else {row for row in changed if self._has_devices[row]}
        rows = self._refresh_devices(rows)
        key = (
            self.typical.version,
            self._classes.epoch,
            *((id(s), len(s.kinds), s.left.shape[1]) for s in self._shares if s is not None),
        )
        if key != self._key:
            self._key, rows = key, None
            self._compile()
        if rows is None or journal.position != self._nodes_position:
            some = journal.since(self._nodes_position)
            rows = None if rows is None or some is None else rows.union(some)
            self._nodes_position = journal.position
            self._runs = [self._masks(members) for members in self._members]
        if rows is None:
            self._grounds = self.look(self._nodes, np.arange(len(self._nodes)))
            self.epoch += 1
            self._find_rows()
        elif rows:
            self._set(np.array(sorted(rows), np.int64))
        if not len(self.rows) and not any(self._shares):
            self._nothing = nothing

    def _refresh_devices(self, rows: set[int] | None) -> set[int] | None:
        classes = [self._classes.behind(name) for name in self._names]
        if not any(classes):
            self._shares, self._devices_changed = [None for _ in classes], None
            return rows
        fleet = self._tracker.fleet
        if self._devices_changed is None:
            self._devices_changed = fleet.changed_rows()
        some = self._devices_changed.take()
        self._shares = [fleet.shares(c) if c is not None else None for c in classes]
        return None if rows is None or some is None else rows.union(some)

    def _compile(self) -> None:
        self._members, self._types = [], []
        self._share_of.clear()
        for index, shares in enumerate(self._shares):
            asking = {t: w for t, w in self.typical.types.items() if t.demand.devices[index].number}
            devices = [typical.demand.devices[index] for typical in asking]
            levels = list(dict.fromkeys(each.capacity for each in devices))
            self._members.append(list(asking))
            self._types.append(
                Types(
                    weight=np.array(list(asking.values()), np.float64),
                    cpu=np.array([typical.demand.cpu for typical in asking], np.int64),
                    count=np.array([each.number for each in devices], np.int64),
                    level=np.array([levels.index(each.capacity) for each in devices], np.int64),
                    shares=_table(shares, levels),
                )
            )

    def _masks(self, members: Iterable[TypicalPod]) -> BoolArray:
        """Where the Pods of each type may run, ``(n, types)``."""
        masks = []
        for typical in members:
            constraints = self.typical.constraints(typical)
            mask = constraints.memo(required_node_affinity).mask(self._nodes)
            masks.append(mask & ~constraints.memo(repelling_taints).of(self._nodes.taints))
        return np.array(masks, np.bool_).reshape(len(masks), len(self._nodes)).T

    def look(self, nodes: NodeTable, rows: IntArray) -> list[Ground]:
        """The resources on ``rows`` of any table, after `refresh`."""
        live = rows if nodes.origin is None else nodes.origin[rows]
        grounds = []
        for index, name in enumerate(self._names):
            shares = self._shares[index]
            size = nodes.allocatable(name)[rows].astype(np.float64)
            whole = np.maximum(size - nodes.requested(name)[rows], 0.0)
            left, kind = np.zeros((len(rows), 0)), np.zeros(len(rows), np.int64)
            if shares is not None:
                left, kind = shares.left[live], shares.kind[live]
                left[size > 0] = 0.0
                size = np.where(size > 0, size, shares.count[live])
            cpu = nodes.allocatable("cpu")[rows] - nodes.requested("cpu")[rows]
            room = Room(cpu, whole, left, kind, self._runs[index][live])
            grounds.append(Ground(room, size, self._types[index].stranded(room)))
        return grounds

    def _set(self, rows: IntArray) -> None:
        for ground, new in zip(self._grounds, self.look(self._nodes, rows), strict=True):
            ground.room.put(rows, new.room)
            ground.stranded[rows] = new.stranded
            if (ground.size[rows] != new.size).any():
                ground.size[rows] = new.size
                self._find_rows()
        for row in rows.tolist():
            self.journal.append(row)

    def _find_rows(self) -> None:
        self._has_devices = np.any([ground.size > 0 for ground in self._grounds], axis=0)
        self.rows = np.flatnonzero(self._has_devices)

    def live(self, rows: IntArray) -> list[Ground]:
        """The resources on ``rows`` of the live table, a copy."""
        return [
            Ground(ground.room.take(rows), ground.size[rows], ground.stranded[rows])
            for ground in self._grounds
        ]

    def effect(self, demand: Demand, grounds: Iterable[Ground]) -> Effect:
        """What a Pod does to nodes; it is put on every node of ``grounds``."""
        effects, full = [], None
        for index, ground in enumerate(grounds):
            devices = demand.devices[index]
            share = self._share_of.get((index, devices.capacity))
            if share is None:
                share = _table(self._shares[index], [devices.capacity])[:, 0]
                self._share_of[index, devices.capacity] = share
            filled = ground.room.place(demand.cpu, devices.number, share)
            full = filled if full is None else full
            after = self._types[index].stranded(ground.room)
            effects.append((ground.size, ground.stranded, after, ground.room.total()))
        size, before, after, left = (sum(p[1:], p[0]) for p in zip(*effects, strict=True))
        return Effect(size, before, after, left, full)


def _table(shares: DeviceShares | None, levels: list[Capacity]) -> FloatArray:
    """What each of ``levels`` takes of a device, by kind, ``(kinds, levels)``."""
    if shares is None or not shares.kinds:
        return np.ones((1, len(levels)))
    return np.array(
        [[shares.share(kind, dict(level)) for level in levels] for kind in range(len(shares.kinds))]
    ).reshape(len(shares.kinds), len(levels))

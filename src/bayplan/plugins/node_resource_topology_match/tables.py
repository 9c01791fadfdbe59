"""ZoneTable: the zones of all nodes as arrays; rows are those of a node table.

``available(resource)`` is ``(n, width)``: what the object shows, less what is reserved for Pods
that it does not show yet, and more by what Pods had that are gone since and whose zone is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import IntArray
from bayplan.plugins.node_resource_topology_match.asking import Amounts
from bayplan.plugins.node_resource_topology_match.zones import (
    FARTHEST,
    NOT_LISTED,
    POD_SCOPE,
    SINGLE,
    NodeZones,
)

Distances = npt.NDArray[np.int16]
NO_ZONE = -1
_ARRAYS = ("known", "stale", "single", "pod_scope", "most_zones", "ids", "distances")

State = tuple[object, ...] | None
"""None where there is no object."""
Freed = Iterable[tuple[int, Amounts]]
"""Index of a zone, and what is free there besides."""


class ZoneTable:
    """See the module's docstring.

    Attributes:
        width: the most zones that a node has, at least 1.
        known: ``(n,)`` rows with an object.
        stale: ``(n,)`` rows whose object cannot be believed.
        single: ``(n,)`` rows with the policy ``single-numa-node``.
        pod_scope: ``(n,)`` rows whose scope is the Pod.
        most_zones: ``(n,)`` as the kubelet is configured.
        ids: ``(n, width)`` the numbers of the zones, ascending; -1 where there is none.
        distances: ``(n, width, width)``.
        states: what all the rest follows from; rows with equal ones are alike.
        zones: what the rows were written from.
    """

    def __init__(self, n: int = 0) -> None:
        self.width = 1
        self.known, self.stale, self.single, self.pod_scope = np.zeros((4, n), np.bool_)
        self.most_zones = np.ones(n, np.int64)
        self.ids = np.full((n, 1), NO_ZONE, np.int64)
        self.distances: Distances = np.full((n, 1, 1), FARTHEST, np.int16)
        self.states: list[State] = [None] * n
        self.zones: list[NodeZones | None] = [None] * n
        self._available: dict[str, IntArray] = {}
        self._source: tuple[ZoneTable, IntArray] | None = None

    def __len__(self) -> int:
        return len(self.known)

    def available(self, resource: str) -> IntArray:
        """``(n, width)`` milli-CPU, bytes or counts; `NOT_LISTED` where a zone has none."""
        amounts = self._available.get(resource)
        if amounts is None:
            if self._source is not None:
                source, rows = self._source
                amounts = source.available(resource)[rows]
            else:
                amounts = np.full((len(self), self.width), NOT_LISTED, np.int64)
            self._available[resource] = amounts
        return amounts

    @property
    def resources(self) -> set[str]:
        """What zones may list."""
        return {*self._available, *(self._source[0].resources if self._source else ())}

    def take(self, rows: IntArray) -> Self:
        """A copy of these rows; amounts are copied when they are read."""
        copy = object.__new__(type(self))
        copy.width, copy._available, copy._source = self.width, {}, (self, rows)
        copy.states = [self.states[row] for row in rows.tolist()]
        copy.zones = [self.zones[row] for row in rows.tolist()]
        for name in _ARRAYS:
            setattr(copy, name, getattr(self, name)[rows])
        return copy

    def grow(self, n: int, width: int) -> None:
        """Have room for ``n`` rows and ``width`` zones."""
        if n <= len(self) and width <= self.width:
            return
        old, rows = self, len(self)
        new = type(self)(n)
        new.width = max(width, self.width)
        new.ids = np.full((n, new.width), NO_ZONE, np.int64)
        new.distances = np.full((n, new.width, new.width), FARTHEST, np.int16)
        for name in ("known", "stale", "single", "pod_scope", "most_zones"):
            getattr(new, name)[:rows] = getattr(old, name)
        new.states[:rows], new.zones[:rows] = old.states, old.zones
        new.ids[:rows, : old.width] = old.ids
        new.distances[:rows, : old.width, : old.width] = old.distances
        for resource, amounts in old._available.items():
            new.available(resource)[:rows, : old.width] = amounts
        self.__dict__ = new.__dict__

    def write(
        self, row: int, zones: NodeZones | None, *, stale: bool, taken: Amounts, freed: Freed
    ) -> None:
        """Row ``row`` has these zones, less ``taken`` in each, and more by ``freed``."""
        if zones is None or zones is not self.zones[row]:
            self._write_zones(row, zones)
        self.stale[row] = stale
        if zones is None:
            self.states[row] = None
            return
        n = len(zones.ids)
        amounts = left(zones, taken, freed)
        for resource, per_zone in amounts.items():
            self.available(resource)[row, :n] = per_zone
        rooms = tuple([(name, *per_zone) for name, per_zone in amounts.items()])
        self.states[row] = (stale, zones.config, zones.ids, zones.distances, rooms)

    def _write_zones(self, row: int, zones: NodeZones | None) -> None:
        """Write all but amounts; none is listed now."""
        self.zones[row] = zones
        self.known[row] = zones is not None
        self.ids[row] = NO_ZONE
        self.single[row] = zones is not None and zones.config.policy == SINGLE
        for resource in self.resources:
            self.available(resource)[row] = NOT_LISTED
        if zones is not None:
            n = len(zones.ids)
            self.pod_scope[row] = zones.config.scope == POD_SCOPE
            self.most_zones[row] = zones.config.most_zones
            self.ids[row, :n] = zones.ids
            self.distances[row, :n, :n] = zones.distances


def left(zones: NodeZones, taken: Amounts, freed: Freed) -> Mapping[str, list[int]]:
    """By resource, what is available in each zone; see `ZoneTable.write`."""
    amounts = {name: list(per_zone) for name, per_zone in zones.available.items()}
    for index, more in freed:
        for name, amount in more.items():
            if name in amounts and amounts[name][index] >= 0:
                amounts[name][index] += amount
    for name, amount in taken.items():
        if name in amounts and amount:
            amounts[name] = [max(a - amount, 0) if a >= 0 else a for a in amounts[name]]
    return amounts

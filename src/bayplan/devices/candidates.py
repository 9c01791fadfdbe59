"""Candidates: which devices of a node a request may have, before other requests are considered.

`NodeDevices` is what a node reaches, and stays as long as its slices and the node stay the same.
`Candidates` is one request's view of it: selectors, tolerated taints and the capacity it would
consume, each judged once per distinct value. `collect` makes them for a claim and refuses claims
that cannot be allocated whatever is free, in kube-scheduler's order of checks
(``validateDeviceRequest``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.node import Node
from bayplan.api.resource import MAX_RESULTS
from bayplan.api.selectors import SelectorError
from bayplan.cache.node_table.column import CodeArray
from bayplan.devices.capacity import CapacityError, Consumption, consumption, suffices
from bayplan.devices.errors import AllocationError
from bayplan.devices.pools import Pool, device_matches
from bayplan.devices.requests import ClaimShape, RequestShape
from bayplan.devices.selectors import NO, YES, Mask, Selectors
from bayplan.devices.table import DeviceRow, DeviceTable
from bayplan.devices.taints import tolerated


@dataclass(frozen=True, slots=True, eq=False)
class NodeDevices:
    """What a node reaches. A position is an index into the lists.

    Attributes:
        pools: all pools in order, incomplete and invalid ones too.
        rows: table rows of the devices of the other pools, in the order in which they are tried.
        pool_of: per position, the index of its pool.
        excluded: positions of devices that are for other nodes only (perDeviceNodeSelection).
        with_counters: those of the pools whose devices may draw from counters.
        outline: equal for nodes whose pools have the same borders and, position by position,
            devices of the same taints and traits.
    """

    pools: tuple[Pool, ...]
    rows: CodeArray
    pool_of: tuple[int, ...]
    excluded: CodeArray
    with_counters: tuple[Pool, ...]
    outline: bytes

    @classmethod
    def of(cls, table: DeviceTable, node: Node) -> NodeDevices:
        """Collect the pools of ``node``; raises AllocationError for a faulty node selector."""
        pools = tuple(table.pools(node))
        rows = np.array([row for pool in pools for row in pool.rows], np.int32)
        pool_of = tuple(i for i, pool in enumerate(pools) for _ in pool.rows)
        entries = (table.row(row) for row in rows.tolist())
        try:
            excluded = [
                i for i, e in enumerate(entries) if not device_matches(e.slice, e.device, node)
            ]
        except SelectorError as error:
            raise AllocationError(f"failed to parse node selector: {error}") from None
        with_counters = tuple(pool for pool in pools if pool.counters)
        positions = np.array(excluded, np.int32)
        outline = _outline(table, pools, rows, positions)
        return cls(pools, rows, pool_of, positions, with_counters, outline)


def _outline(
    table: DeviceTable, pools: Sequence[Pool], rows: CodeArray, excluded: CodeArray
) -> bytes:
    sizes = np.array([len(rows), len(excluded)], np.int32)
    borders = repr([(pool.incomplete, pool.invalid, len(pool.rows)) for pool in pools])
    columns = sizes, table.taints.codes[rows], table.traits.codes[rows], excluded
    return b"".join([*(column.tobytes() for column in columns), borders.encode()])


_NeedKey = tuple[int, tuple[tuple[str, str], ...]]
"""The code of a device's traits, and the requested amounts."""


class Needs:
    """What requests consume of devices, by distinct capacity."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table
        self._known: dict[_NeedKey, Consumption | CapacityError | None] = {}

    def of(self, traits: int, request: RequestShape) -> Consumption | None:
        """For a code of traits: amounts by name; None where the device is no candidate.

        Raises:
            CapacityError: an amount cannot be computed.
        """
        key = (traits, tuple((name, str(amount)) for name, amount in request.capacity.items()))
        if key not in self._known:
            capacity = self._table.traits.values[traits].capacity
            try:
                self._known[key] = consumption(capacity, request.capacity)
            except CapacityError as error:
                self._known[key] = error
        need = self._known[key]
        if isinstance(need, CapacityError):
            raise need
        return need


class Candidates:
    """One request's view of a node's devices.

    Attributes:
        count: how many devices it needs.
        all_positions: the devices of a request for all of them.
    """

    def __init__(
        self,
        claim: str,
        request: RequestShape,
        table: DeviceTable,
        devices: NodeDevices,
        mask: Mask,
    ) -> None:
        self.request = request
        self.count = request.count
        self.all_positions: list[int] = []
        self._claim = claim
        self._table = table
        self._devices = devices
        self._mask = mask
        codes = mask.codes(table, devices.rows)
        if len(devices.excluded):
            excluded = devices.excluded[codes[devices.excluded] == YES]
            codes[excluded] = NO
        self._codes: list[int] = codes.tolist()
        self._tolerated: dict[int, bool] = {}

    def selected(self, position: int) -> bool:
        """Whether the selectors hold; raises AllocationError where one has no answer."""
        code = self._codes[position]
        if code < NO:
            device = str(self._entry(position).id)
            raise AllocationError(self._mask.faults[-1 - code].describe(self._claim, device))
        return code == YES

    def tolerated(self, position: int) -> bool:
        """Whether the request tolerates the device's taints."""
        code = int(self._table.taints.codes[self._devices.rows[position]])
        answer = self._tolerated.get(code)
        if answer is None:
            answer = tolerated(self._table.taints.values[code], self.request.tolerations)
            self._tolerated[code] = answer
        return answer

    def need(self, position: int, needs: Needs, *, full_id: bool = True) -> Consumption | None:
        """What the request would consume of the device; see `Needs`.

        Raises:
            AllocationError: an amount cannot be computed.
        """
        code = int(self._table.traits.codes[self._devices.rows[position]])
        try:
            return needs.of(code, self.request)
        except CapacityError as error:
            entry = self._entry(position)
            raise AllocationError(
                f"claim {self._claim}, request {self.request.name}: checking capacity for device "
                f"{entry.id if full_id else entry.device.name}: {error}"
            ) from None

    def take_all(self, needs: Needs) -> None:
        """Find out what "all" is: devices in use count, whatever stands against taking them."""
        first = 0
        for pool in self._devices.pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"claim {self._claim}, request {self.request.name}: asks for all devices, but "
                    f"resource pool {pool} is currently {state}"
                )
            for position in range(first, first + len(pool.rows)):
                if self.selected(position) and self._is_large_enough(position, needs):
                    self.all_positions.append(position)
            first += len(pool.rows)
        self.count = len(self.all_positions)

    def _is_large_enough(self, position: int, needs: Needs) -> bool:
        need = self.need(position, needs, full_id=False)
        capacity = self._entry(position).device.capacity
        return need is not None and suffices(capacity, need)

    def _entry(self, position: int) -> DeviceRow:
        return self._table.row(int(self._devices.rows[position]))


def collect(
    claim: str,
    shape: ClaimShape,
    table: DeviceTable,
    devices: NodeDevices,
    selectors: Selectors,
    needs: Needs,
) -> list[list[Candidates]]:
    """The candidates of a claim, per request and alternative.

    Raises:
        AllocationError: a request is at fault, or asks for more than a claim can hold.
    """
    collected = []
    least = 0
    for alternatives in shape.requests:
        views = []
        for request in alternatives:
            if request.fault:
                raise AllocationError(f"claim {claim}, request {request.name}{request.fault}")
            view = Candidates(claim, request, table, devices, selectors.mask(request.selectors))
            if request.take_all:
                view.take_all(needs)
            views.append(view)
        collected.append(views)
        more = min(view.count for view in views)
        if more > MAX_RESULTS - least:
            name = alternatives[0].parent or alternatives[0].name
            raise AllocationError(
                f"claim {claim}, request {name}: adding {more} devices exceeds the claim limit of "
                f"{MAX_RESULTS}, with {least} already accounted for"
            )
        least += more
    return collected

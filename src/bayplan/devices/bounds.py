"""Bounds: what cannot fit, seen before the search tries every combination in vain.

A failing first-fit search is exponential: 18 devices asked for where 17 are free can take seconds.
Four counts end it at once, and change no result: the devices left for a request, the devices for
all requests together, those of them that shared counters allow at once, and those of one value of
an attribute that all must share. They look at more devices than the search would, so they are made
only where nothing that they look at can be an error, and where no claim can run into its limit of
devices, which unwinds the search in a way of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from bayplan.api.resource import MAX_RESULTS
from bayplan.cache.node_table import BoolArray
from bayplan.devices.candidates import Candidates, Needs, NodeDevices
from bayplan.devices.capacity import suffices
from bayplan.devices.constraints import Constraint, MatchAttribute, lookup
from bayplan.devices.counters import Available, Counters, draws
from bayplan.devices.errors import AllocationError
from bayplan.devices.pools import CounterName, PoolId
from bayplan.devices.table import DeviceState, DeviceTable

Alternatives = Sequence[Candidates]


@dataclass(slots=True)
class _View:
    """What the bounds need to know of a node's devices, by position."""

    table: DeviceTable
    devices: NodeDevices
    states: Sequence[DeviceState]
    needs: Needs

    def free(self, wanted: Candidates) -> BoolArray | None:
        """The devices that are free for the request; None where a check of a device is an error."""
        try:
            positions = range(len(self.devices.rows))
            return np.array([self._is_free(wanted, p) for p in positions], np.bool_)
        except AllocationError:
            return None

    def _is_free(self, wanted: Candidates, position: int) -> bool:
        if not wanted.selected(position):
            return False
        need = wanted.need(position, self.needs)
        state = self.states[position]
        if need is None or (state.exclusive and not wanted.request.admin_access):
            return False
        row = int(self.devices.rows[position])
        capacity = self.table.row(row).device.capacity
        return wanted.tolerated(position) and suffices(capacity, need, state.consumed or {})

    def shared(self) -> BoolArray:
        """Devices that several requests can have."""
        traits = self.table.traits.codes[self.devices.rows].tolist()
        return np.array([self.table.traits.values[code].shared for code in traits], np.bool_)


class SearchBounds:
    """The counts for one search.

    Attributes:
        hopeless: whether the devices do not suffice for all requests together.
    """

    def __init__(
        self,
        table: DeviceTable,
        devices: NodeDevices,
        states: Sequence[DeviceState],
        needs: Needs,
        counters: Counters,
        claims: Sequence[tuple[Sequence[Alternatives], Sequence[Constraint]]],
    ) -> None:
        self.hopeless = False
        self._left: dict[Candidates, list[int]] = {}
        requests = [listed for claim, _ in claims for listed in claim]
        if not _is_safe([claim for claim, _ in claims]):
            return
        view = _View(table, devices, states, needs)
        free: dict[Candidates, BoolArray] = {}
        for wanted in (w for listed in requests for w in listed):
            mask = view.free(wanted)
            if mask is None:
                return
            free[wanted] = mask
        for wanted, mask in free.items():
            self._left[wanted] = [*np.cumsum(mask[::-1])[::-1].tolist(), 0]
        if any(w.request.admin_access for w in free):
            return
        shared = view.shared()
        if any((mask & shared).any() for mask in free.values()):
            return
        asked = sum(min(w.count for w in listed) for listed in requests)
        self.hopeless = _too_few(requests, free) or (
            asked > 1
            and bool(devices.with_counters)
            and asked > _most_at_once(np.logical_or.reduce([*free.values()]), view, counters)
        )
        for claim, constraints in claims:
            for constraint in constraints:
                if isinstance(constraint, MatchAttribute):
                    _limit(constraint, claim, free, table, devices)

    def enough(self, wanted: Candidates, start: int, missing: int) -> bool:
        """Whether at or behind position ``start`` there may be ``missing`` devices."""
        left = self._left.get(wanted)
        return left is None or left[start] >= missing


def _is_safe(claims: Sequence[Sequence[Alternatives]]) -> bool:
    """No request for all devices, and no claim that could exceed the limit of results."""
    return all(
        sum(max(w.count for w in listed) for listed in claim) <= MAX_RESULTS
        and not any(w.request.take_all for listed in claim for w in listed)
        for claim in claims
    )


def _too_few(requests: Sequence[Alternatives], free: dict[Candidates, BoolArray]) -> bool:
    """Whether all requests, or requests for the same devices, ask for more than is free."""
    asked: dict[bytes, int] = {}
    total, union = 0, np.zeros(0, np.bool_)
    for listed in requests:
        least = min(w.count for w in listed)
        masks = [free[w] for w in listed]
        union = np.logical_or.reduce(masks) if not total else np.logical_or.reduce([union, *masks])
        total += least
        if len(listed) == 1:
            key = masks[0].tobytes()
            asked[key] = asked.get(key, 0) + least
    same = any(count > sum(key) for key, count in asked.items())
    return same or total > int(union.sum())


def _most_at_once(free: BoolArray, view: _View, counters: Counters) -> int:
    """A number of ``free`` devices that cannot be exceeded, by what is left of counters.

    Each device counts in one set of counters that it draws from. Of those in a set no more can be
    taken than, beginning with the smallest draws, fit into any one of its counters, and those that
    draw nothing from this one.
    """
    devices, most = view.devices, 0
    in_set: dict[tuple[PoolId, str], list[dict[CounterName, int]]] = {}
    left: dict[tuple[PoolId, str], Available] = {}
    for position in np.flatnonzero(free).tolist():
        device = view.table.row(int(devices.rows[position])).device
        if not device.consumes_counters:
            most += 1
            continue
        pool = devices.pools[devices.pool_of[position]]
        drawn: dict[CounterName, int] = {}
        for counter, amount in draws(device):
            drawn[counter] = drawn.get(counter, 0) + amount
        key = pool.id, device.consumes_counters[0].counter_set
        in_set.setdefault(key, []).append(drawn)
        left[key] = counters.available(pool)
    for key, members in in_set.items():
        if not left[key].overdrawn:
            most += _most_of_set(members, left[key].left)
    return most


def _most_of_set(
    members: Sequence[Mapping[CounterName, int]], left: Mapping[CounterName, int]
) -> int:
    most = len(members)
    for counter in {counter for member in members for counter in member}:
        amounts = sorted(member[counter] for member in members if counter in member)
        fit = sum(total <= left[counter] for total in accumulate(amounts))
        most = min(most, fit + len(members) - len(amounts))
    return most


def _limit(
    constraint: MatchAttribute,
    claim: Sequence[Alternatives],
    free: dict[Candidates, BoolArray],
    table: DeviceTable,
    devices: NodeDevices,
) -> None:
    """Exclude values that are too rare for all requests of the constraint."""
    covered = [listed for listed in claim if all(constraint.covers(w.request) for w in listed)]
    if not covered:
        return
    needed = sum(min(w.count for w in listed) for listed in covered)
    union = np.logical_or.reduce([free[w] for listed in covered for w in listed])
    supply: dict[object, int] = {}
    for row in devices.rows[union].tolist():
        entry = table.row(row)
        attribute = lookup(entry.device, entry.id.driver, constraint.attribute)
        if attribute is not None:
            supply[attribute.typed] = supply.get(attribute.typed, 0) + 1
    constraint.refused = {value for value, count in supply.items() if count < needed}

"""Search: the first-fit, depth-first choice of devices for the claims of one Pod on one node.

Claims come in their order, in a claim its requests, in a request its alternatives. A request's
devices are tried in the node's order, each behind the one before (combinations, not permutations);
the next request starts at the first device again. The first complete choice wins, so the order of
everything is part of the result. Answers to ``allocateOne`` and ``allocateDevice`` of
kube-scheduler's allocator ("incubating").

A device is a *position* in `NodeDevices`: devices of pools that are complete and valid, in order.
Everything that a step changes is undone in reverse order when the search steps back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bayplan.api.resource import MAX_RESULTS
from bayplan.devices.bounds import SearchBounds
from bayplan.devices.candidates import Candidates, Needs, NodeDevices
from bayplan.devices.capacity import Consumption, suffices
from bayplan.devices.constraints import Constraint
from bayplan.devices.counters import Counters, draws
from bayplan.devices.errors import AllocationError, AllocationTimeoutError
from bayplan.devices.pools import CounterName, PoolId
from bayplan.devices.requests import RequestShape
from bayplan.devices.table import DeviceState, DeviceTable

_CLOCK_EVERY = 64
"""Devices tried between two looks at the clock."""


class Obstacle(enum.Enum):
    """What keeps a device from a request when nothing else is chosen; the value is for people."""

    IN_USE = "in use"
    NOT_SELECTED = "not selected"
    NO_CAPACITY = "short of capacity"
    NO_COUNTERS = "short of counters"
    TAINTED = "tainted"
    CONSTRAINT = "against a constraint"
    ERROR = "in error"


class _TooManyError(Exception):
    """More devices than a claim's result can hold: no device of this request would help."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """One device for one request.

    Attributes:
        consumed: what a share consumes; None for a whole device.
    """

    request: RequestShape
    position: int
    consumed: Consumption | None = None


@dataclass(frozen=True, slots=True)
class ClaimToAllocate:
    """One claim with what the node offers to each alternative of each request."""

    name: str
    requests: Sequence[Sequence[Candidates]]
    constraints: Sequence[Constraint]


@dataclass(slots=True)
class _Shares:
    """What the shares chosen in this search consume of one device."""

    count: int = 0
    consumed: dict[str, int] = field(default_factory=dict)


class DeviceSearch:
    """One search; `run` it once.

    Args:
        expired: asked now and then whether the time is over.
    """

    def __init__(
        self,
        table: DeviceTable,
        devices: NodeDevices,
        claims: Sequence[ClaimToAllocate],
        needs: Needs,
        counters: Counters,
        expired: Callable[[], bool] = lambda: False,
    ) -> None:
        self.chosen: list[list[DeviceChoice]] = [[] for _ in claims]
        self._devices = devices
        self._claims = claims
        self._needs = needs
        self._counters = counters
        self._size = len(devices.rows)
        self._entries = [table.row(row) for row in devices.rows.tolist()]
        states = table.usage_code.codes[devices.rows].tolist()
        self._states: list[DeviceState] = [table.usage_code.values[code] for code in states]
        self._expired = expired
        self._bounds = SearchBounds(
            table,
            devices,
            self._states,
            needs,
            counters,
            [(c.requests, c.constraints) for c in claims],
        )
        self._taken: dict[int, int] = {}  # by position: one bit a claim
        self._shares: dict[int, _Shares] = {}
        self._drew: list[list[bool]] = [[] for _ in claims]  # beside `chosen`
        self._drawn: dict[PoolId, dict[CounterName, int]] = {}
        self._tries = 0

    def run(self) -> bool:
        """Whether everything fits; `chosen` has then per claim the devices, in order.

        Raises:
            AllocationError: the search met an error, which ends it.
        """
        try:
            return not self._bounds.hopeless and self._claim(0)
        except _TooManyError:
            raise AllocationError("allocation max size exceeded") from None

    def obstacle(self, claim: int, wanted: Candidates, position: int) -> Obstacle | None:
        """What the search would meet first at this device. Not for a search that has run."""
        try:
            return self._obstacle(claim, wanted, position)
        except AllocationError:
            return Obstacle.ERROR

    def _obstacle(self, claim: int, wanted: Candidates, position: int) -> Obstacle | None:
        if self._is_used(claim, wanted.request, position):
            return Obstacle.IN_USE
        if not wanted.selected(position):
            return Obstacle.NOT_SELECTED
        if not self._has_capacity(wanted, position):
            return Obstacle.NO_CAPACITY
        drawn = self._draw(position)
        if drawn is None:
            return Obstacle.NO_COUNTERS
        if drawn:
            self._undraw(position)
        if not wanted.tolerated(position):
            return Obstacle.TAINTED
        if not self._constrain(claim, wanted, position, must=False):
            return Obstacle.CONSTRAINT
        for constraint in self._claims[claim].constraints:
            constraint.remove(wanted.request)
        return None

    def _claim(self, claim: int) -> bool:
        return claim == len(self._claims) or self._request(claim, 0)

    def _request(self, claim: int, index: int) -> bool:
        """Allocate this request and everything behind it."""
        self._check_clock()
        requests = self._claims[claim].requests
        if index == len(requests):
            try:
                return self._claim(claim + 1)
            except _TooManyError:
                return False
        alternatives = requests[index]
        if not alternatives[0].request.parent:
            return self._alternative(claim, index, alternatives[0])
        only_too_many = True
        for alternative in alternatives:
            try:
                if self._alternative(claim, index, alternative):
                    return True
            except _TooManyError:
                continue
            only_too_many = False
        if only_too_many:
            raise _TooManyError
        return False

    def _alternative(self, claim: int, index: int, wanted: Candidates) -> bool:
        if wanted.request.take_all:
            return self._all(claim, index, wanted)
        if wanted.count == 0:
            return self._request(claim, index + 1)
        self._check_size(claim, wanted)
        choices = self.chosen[claim]
        first, position = len(choices), 0
        while True:
            if len(choices) - first == wanted.count:
                try:
                    if self._request(claim, index + 1):
                        return True
                except _TooManyError:
                    self._put_back_to(claim, wanted, first)
                    raise
            elif (position := self._next(claim, wanted, position, first)) >= 0:
                position += 1
                continue
            if len(choices) == first:
                return False
            position = self._put_back(claim, wanted) + 1

    def _all(self, claim: int, index: int, wanted: Candidates) -> bool:
        """Take all devices, of which every one must be free; there is no second choice."""
        if not wanted.all_positions:
            return False
        self._check_size(claim, wanted)
        first = len(self.chosen[claim])
        fits = all(self._take(claim, wanted, p, must=True) for p in wanted.all_positions)
        try:
            if fits and self._request(claim, index + 1):
                return True
        except _TooManyError:
            self._put_back_to(claim, wanted, first)
            raise
        self._put_back_to(claim, wanted, first)
        return False

    def _check_size(self, claim: int, wanted: Candidates) -> None:
        if wanted.count > MAX_RESULTS - len(self.chosen[claim]):
            raise _TooManyError

    def _next(self, claim: int, wanted: Candidates, start: int, first: int) -> int:
        """Take the next device at or behind ``start`` that can be had; -1 if there is none.

        ``first`` is how many devices the claim had before this request.
        """
        missing = wanted.count - (len(self.chosen[claim]) - first)
        if not self._bounds.enough(wanted, start, missing):
            return -1
        for position in range(start, self._size):
            self._tries += 1
            if self._tries % _CLOCK_EVERY == 0:
                self._check_clock()
            if (
                not self._is_used(claim, wanted.request, position)
                and wanted.selected(position)
                and self._has_capacity(wanted, position)
                and self._take(claim, wanted, position, must=False)
            ):
                return position
        return -1

    def _take(self, claim: int, wanted: Candidates, position: int, *, must: bool) -> bool:
        """Take one device, or change nothing; ``must`` makes a broken constraint an error."""
        if self._is_used(claim, wanted.request, position):
            return False
        drawn = self._draw(position)
        if drawn is None:
            return False
        if wanted.tolerated(position) and self._constrain(claim, wanted, position, must=must):
            # Where there is a choice, the capacity was checked before the device was taken.
            if not must or self._has_capacity(wanted, position):
                self._record(claim, wanted, position, drawn=drawn)
                return True
            for constraint in self._claims[claim].constraints:
                constraint.remove(wanted.request)
        if drawn:
            self._undraw(position)
        return False

    def _record(self, claim: int, wanted: Candidates, position: int, *, drawn: bool) -> None:
        need = wanted.need(position, self._needs)
        device = self._entries[position].device
        shared = device.allow_multiple_allocations
        if shared:
            shares = self._shares.setdefault(position, _Shares())
            shares.count += 1
            for name, amount in (need or {}).items():
                shares.consumed[name] = shares.consumed.get(name, 0) + amount.nano
        else:
            self._taken[position] = self._taken.get(position, 0) | 1 << claim
        self.chosen[claim].append(DeviceChoice(wanted.request, position, need if shared else None))
        self._drew[claim].append(drawn)

    def _put_back(self, claim: int, wanted: Candidates) -> int:
        """Undo the claim's last choice; returns its position."""
        choice = self.chosen[claim].pop()
        position = choice.position
        if choice.consumed is not None:
            shares = self._shares[position]
            shares.count -= 1
            for name, amount in choice.consumed.items():
                shares.consumed[name] -= amount.nano
        else:
            self._taken[position] &= ~(1 << claim)
        for constraint in reversed(self._claims[claim].constraints):
            constraint.remove(wanted.request)
        if self._drew[claim].pop():
            self._undraw(position)
        return position

    def _put_back_to(self, claim: int, wanted: Candidates, length: int) -> None:
        while len(self.chosen[claim]) > length:
            self._put_back(claim, wanted)

    def _is_used(self, claim: int, request: RequestShape, position: int) -> bool:
        taken = self._taken.get(position, 0)
        if request.admin_access:
            return bool(taken >> claim & 1)
        return bool(taken) or self._states[position].exclusive

    def _has_capacity(self, wanted: Candidates, position: int) -> bool:
        """Whether the device has what is asked for, besides what shares consume already."""
        need = wanted.need(position, self._needs)
        if not need:
            return need is not None
        allocated = self._states[position].consumed or {}
        shares = self._shares.get(position)
        chosen = shares.consumed if shares is not None else {}
        capacity = self._entries[position].device.capacity
        return suffices(capacity, need, allocated, chosen)

    def _constrain(self, claim: int, wanted: Candidates, position: int, *, must: bool) -> bool:
        """Count the device into all constraints of the claim, or into none."""
        constraints = self._claims[claim].constraints
        for i, constraint in enumerate(constraints):
            if constraint.add(wanted.request, self._entries[position]):
                continue
            for added in reversed(constraints[:i]):
                added.remove(wanted.request)
            if must:
                raise AllocationError(
                    f"claim {self._claims[claim].name}, request {wanted.request.name}: cannot add "
                    f"device {self._entries[position].id} because a claim constraint would not be "
                    "satisfied"
                )
            return False
        return True

    def _draw(self, position: int) -> bool | None:
        """Draw from the pool's counters: False if there is no need, None if too little is left."""
        device = self._entries[position].device
        if not device.consumes_counters or self._is_shared(position):
            return False
        pool = self._devices.pools[self._devices.pool_of[position]]
        available = self._counters.available(pool)
        # One counter below zero blocks every device of the pool that draws from any.
        if available.overdrawn:
            return None
        drawn = self._drawn.setdefault(pool.id, {})
        wanted = list(draws(device))
        for counter, amount in wanted:
            drawn[counter] = drawn.get(counter, 0) + amount
        if all(drawn[counter] <= available.left[counter] for counter, _ in wanted):
            return True
        self._undraw(position)
        return None

    def _undraw(self, position: int) -> None:
        drawn = self._drawn[self._devices.pools[self._devices.pool_of[position]].id]
        for counter, amount in draws(self._entries[position].device):
            drawn[counter] -= amount

    def _is_shared(self, position: int) -> bool:
        """Whether shares of the device exist, whose counters were drawn with the first one."""
        if not self._entries[position].device.allow_multiple_allocations:
            return False
        shares = self._shares.get(position)
        chosen = shares is not None and shares.count > 0
        return chosen or self._states[position].consumed is not None

    def _check_clock(self) -> None:
        if self._expired():
            raise AllocationTimeoutError("filter operation aborted: context deadline exceeded")

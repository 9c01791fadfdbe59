"""Allocator: the devices that the claims of one Pod get on one node.

The parts: `bayplan.devices.table` (what there is, and who uses it), `bayplan.devices.pools` (what a
node reaches), `bayplan.devices.candidates` (what a request may have of it), and
`bayplan.devices.search` (which devices it gets).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.api.node import Node
from bayplan.api.resource import AllocationResult, ResourceClaim
from bayplan.devices.candidates import Needs, NodeDevices, collect
from bayplan.devices.constraints import Constraint, constraint
from bayplan.devices.counters import Counters
from bayplan.devices.errors import AllocationError, NodeAllocationError
from bayplan.devices.requests import ClaimShape, ClaimShapes, ClassLookup
from bayplan.devices.result import allocation
from bayplan.devices.search import ClaimToAllocate, DeviceChoice, DeviceSearch
from bayplan.devices.selectors import Selectors
from bayplan.devices.table import DeviceTable
from bayplan.devices.tally import Tally, tally

Choices = list[list[DeviceChoice]]


class Allocator:
    """Allocates claims on one node after the other; what is in use must not change meanwhile.

    Args:
        classes: the class of a name, or None.
        expired: asked now and then whether a search took too long.
        counters: what is left of counters, if the caller keeps them up to date.
    """

    def __init__(
        self,
        table: DeviceTable,
        selectors: Selectors,
        shapes: ClaimShapes,
        classes: ClassLookup,
        expired: Callable[[], bool] = lambda: False,
        counters: Counters | None = None,
    ) -> None:
        self._table = table
        self._selectors = selectors
        self._shapes = shapes
        self._classes = classes
        self._expired = expired
        self._needs = Needs(table)
        self._counters = counters or Counters(table)

    def allocate(
        self, node: Node, claims: Sequence[ResourceClaim]
    ) -> list[AllocationResult] | None:
        """The allocations of ``claims`` on ``node``, in their order; None where they do not fit.

        Raises:
            AllocationError: see its subclasses for how far it reaches.
        """
        devices = NodeDevices.of(self._table, node)
        shapes = [self._shapes.of(claim, self._classes) for claim in claims]
        choices = self.choose(devices, [claim.key for claim in claims], shapes)
        if choices is None:
            return None
        return self.results(node, devices, claims, shapes, choices)

    def choose(
        self, devices: NodeDevices, names: Sequence[str], shapes: Sequence[ClaimShape]
    ) -> Choices | None:
        """The devices for claims of these names and shapes; None where they do not fit."""
        search = self._search(devices, self._collected(devices, names, shapes))
        if search.run():
            return search.chosen
        if any(pool.invalid for pool in devices.pools):
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    def tallies(
        self, devices: NodeDevices, names: Sequence[str], shapes: Sequence[ClaimShape]
    ) -> list[Tally]:
        """What stands against each device, per request; see `bayplan.devices.tally`.

        Raises:
            AllocationError: a request is at fault, so that nothing can be said of devices.
        """
        claims = self._collected(devices, names, shapes)
        search = self._search(devices, claims)
        return list(tally(search, claims, self._table, devices, self._selectors))

    def _collected(
        self, devices: NodeDevices, names: Sequence[str], shapes: Sequence[ClaimShape]
    ) -> list[ClaimToAllocate]:
        return [
            ClaimToAllocate(
                name,
                collect(name, shape, self._table, devices, self._selectors, self._needs),
                _constraints(name, shape),
            )
            for name, shape in zip(names, shapes, strict=True)
        ]

    def _search(self, devices: NodeDevices, claims: Sequence[ClaimToAllocate]) -> DeviceSearch:
        return DeviceSearch(
            self._table, devices, claims, self._needs, self._counters, self._expired
        )

    def results(
        self,
        node: Node,
        devices: NodeDevices,
        claims: Sequence[ResourceClaim],
        shapes: Sequence[ClaimShape],
        choices: Choices,
    ) -> list[AllocationResult]:
        """What is to be written into each claim for its choices on ``node``."""
        row, rows = self._table.row, devices.rows
        return [
            allocation(claim, shape, [(c, row(int(rows[c.position]))) for c in chosen], node.name)
            for claim, shape, chosen in zip(claims, shapes, choices, strict=True)
        ]


def _constraints(claim: str, shape: ClaimShape) -> list[Constraint]:
    constraints = [constraint(spec) for spec in shape.constraints]
    for index, made in enumerate(constraints):
        if made is None:
            raise AllocationError(
                f"claim {claim}, constraint #{index}: empty constraint "
                "(unsupported constraint type?)"
            )
    return [made for made in constraints if made is not None]

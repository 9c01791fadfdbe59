"""Tally: how many devices of a node are in use, not selected, tainted, ... for one request.

For people who ask why claims do not fit: `explain` shows it. Every device counts once, by the first
obstacle that the search would meet if nothing else were chosen. Devices that count as free can
still be too few, or exclude each other: by a constraint, by counters, or because several requests
want the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bayplan.devices.candidates import NodeDevices
from bayplan.devices.requests import RequestShape
from bayplan.devices.search import ClaimToAllocate, DeviceSearch, Obstacle
from bayplan.devices.selectors import SelectorExpression, Selectors
from bayplan.devices.table import DeviceTable


@dataclass
class Tally:
    """The devices of one or several nodes, as one request sees them.

    Attributes:
        claim: ``namespace/name``.
        nodes: how many nodes are counted.
        obstacles: devices by what stands against them; None is nothing.
        refusals: devices that are not selected, by the selector that says no. Those that only other
            nodes can use have none.
        pools: pools whose devices do not count, as they are incomplete or invalid.
    """

    claim: str
    request: RequestShape
    nodes: int = 1
    obstacles: Counter[Obstacle | None] = field(default_factory=Counter)
    refusals: Counter[SelectorExpression | None] = field(default_factory=Counter)
    pools: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Count in the same request on another node."""
        self.nodes += other.nodes
        self.obstacles.update(other.obstacles)
        self.refusals.update(other.refusals)
        self.pools.update(other.pools)

    def describe(self) -> str:
        """One sentence, such as ``claim ns/c, request r (1 of class gpu): 8 in use``."""
        asked = "all" if self.request.take_all else str(self.request.count)
        device_class = self.request.device_class
        name = device_class.name if device_class is not None else ""
        nodes = f"{self.nodes} node{'s' if self.nodes > 1 else ''}"
        counts = ", ".join(self._counts()) or "no devices"
        return (
            f"claim {self.claim}, request {self.request.full_name} ({asked} of class {name}), "
            f"{nodes}: {counts}"
        )

    def _counts(self) -> Iterator[str]:
        for obstacle in Obstacle:
            if obstacle is Obstacle.NOT_SELECTED:
                for selector, count in self.refusals.items():
                    yield f"{count} {_refusal(selector)}"
            elif count := self.obstacles[obstacle]:
                yield f"{count} {obstacle.value}"
        if free := self.obstacles[None]:
            yield f"{free} free"
        for kind, count in self.pools.items():
            yield f"{count} {kind} pool{'s' if count > 1 else ''}"


def _refusal(selector: SelectorExpression | None) -> str:
    if selector is None:
        return "for other nodes"
    owner = selector.owner or "the request"
    return f"not selected by {owner} ({selector.expression})"


def merge(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally per claim and request, in the order of the first."""
    merged: dict[tuple[str, str], Tally] = {}
    for one in tallies:
        key = (one.claim, one.request.full_name)
        if key in merged:
            merged[key].add(one)
        else:
            merged[key] = one
    return list(merged.values())


def tally(
    search: DeviceSearch,
    claims: Sequence[ClaimToAllocate],
    table: DeviceTable,
    devices: NodeDevices,
    selectors: Selectors,
) -> Iterator[Tally]:
    """A tally for each request of ``claims``, and for each alternative of a prioritized list."""
    pools = Counter(
        "incomplete" if pool.incomplete else "invalid"
        for pool in devices.pools
        if pool.incomplete or pool.invalid
    )
    for index, claim in enumerate(claims):
        for wanted in (wanted for alternatives in claim.requests for wanted in alternatives):
            one = Tally(claim.name, wanted.request, pools=Counter(pools))
            for position, row in enumerate(devices.rows.tolist()):
                obstacle = search.obstacle(index, wanted, position)
                one.obstacles[obstacle] += 1
                if obstacle is Obstacle.NOT_SELECTED:
                    content = table.content.values[table.content.codes[row]]
                    one.refusals[selectors.refusing(wanted.request.selectors, content)] += 1
            yield one

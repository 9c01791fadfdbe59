"""Fleet: the answer for all nodes at once, kept until something on a node changes.

The claims of Pods that were made from one template have the same shape, so the answers are kept by
shape: `Answers.update` looks again only at nodes whose devices, usage or node object changed since
the last Pod, which after a binding is one. Nodes with the same `signature` are searched once.

An error is kept as a code without its text, which names the claim: whoever needs the text runs the
search again on that node. A search that runs out of time ends the update: the nodes that are left
get the same code, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.node import Node
from bayplan.api.resource import AllocationResult, ResourceClaim
from bayplan.cache.journal import Journal
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.devices.allocator import Allocator, Choices
from bayplan.devices.candidates import NodeDevices
from bayplan.devices.counters import Counters
from bayplan.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from bayplan.devices.requests import ClaimShape, ClaimShapes, ClassLookup
from bayplan.devices.selectors import Selectors
from bayplan.devices.signature import Signatures
from bayplan.devices.table import DeviceRow, DeviceTable
from bayplan.devices.tally import Tally

FITS, DOES_NOT_FIT, INVALID_POOLS = 0, 1, 2
ERROR, TIMEOUT = -1, -2
Shapes = tuple[ClaimShape, ...]
_KEPT_SHAPES = 256
_MAX_PREFERENCE = 8
"""What the first alternative of a list scores; each further one scores one less."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search said.

    Attributes:
        choices: per claim its devices by position, if everything fits.
        score: how much alternatives are to the Pod's liking, summed up.
    """

    code: int
    choices: Choices | None = None
    score: int = 0


class Answers:
    """The outcome on every node for claims of certain shapes.

    Attributes:
        codes: per node row, ``(n,)``; negative ones are errors.
        scores: per node row, ``(n,)``.
        late_node: the node whose search ran out of time.
    """

    def __init__(self, fleet: Fleet, shapes: Shapes) -> None:
        self.codes: IntArray = np.zeros(0, np.int64)
        self.scores: IntArray = np.zeros(0, np.int64)
        self.late_node = ""
        self._fleet = fleet
        self._shapes = shapes
        self._signatures = fleet.signatures(shapes)
        self._by_signature: dict[bytes, Outcome] = {}
        self._outcomes: list[Outcome | None] = []
        self._positions = (-1, -1)

    def update(self) -> None:
        """Bring all nodes up to date."""
        nodes, journals = self._fleet.nodes, self._fleet.journals
        moved = [j.since(p) for j, p in zip(journals, self._positions, strict=True)]
        grown = len(nodes) != len(self._outcomes)
        if grown or self.late_node or None in moved or -1 in self._positions:
            self._outcomes = [None] * len(nodes)
            self.codes = np.zeros(len(nodes), np.int64)
            self.scores = np.zeros(len(nodes), np.int64)
            rows = list(range(len(nodes)))
        else:
            rows = sorted({row for some in moved for row in some or ()})
        self.late_node = ""
        for row in rows:
            self._set(row, nodes.nodes[row])
        self._positions = (journals[0].position, journals[1].position)

    def choices(self, row: int) -> Choices | None:
        """The devices by position on the node at ``row``."""
        outcome = self._outcomes[row]
        return outcome.choices if outcome is not None else None

    def _set(self, row: int, node: Node | None) -> None:
        outcome = None
        if node is not None:
            outcome = Outcome(TIMEOUT) if self.late_node else self._outcome(node)
        self._outcomes[row] = outcome
        self.codes[row] = outcome.code if outcome is not None else DOES_NOT_FIT
        self.scores[row] = outcome.score if outcome is not None else 0

    def _outcome(self, node: Node) -> Outcome:
        try:
            devices = self._fleet.devices(node)
            signature = self._signatures.of(devices)
        except AllocationError:
            return Outcome(ERROR)
        known = self._by_signature.get(signature) if signature is not None else None
        if known is not None:
            return known
        outcome = self._search(devices)
        if signature is not None and outcome.code != TIMEOUT:
            if len(self._by_signature) > 4 * len(self._outcomes) + 1000:
                self._by_signature.clear()
            self._by_signature[signature] = outcome
        return outcome

    def _search(self, devices: NodeDevices) -> Outcome:
        try:
            choices = self._fleet.choose(devices, [""] * len(self._shapes), self._shapes)
        except NodeAllocationError:
            return Outcome(INVALID_POOLS)
        except AllocationTimeoutError:
            self.late_node = devices.node.name
            return Outcome(TIMEOUT)
        except AllocationError:
            return Outcome(ERROR)
        if choices is None:
            return Outcome(DOES_NOT_FIT)
        return Outcome(FITS, choices, _score(self._shapes, choices))


class Fleet:
    """All devices, as all nodes see them.

    Args:
        nodes: the nodes of the cluster.
        classes: the class of a name, or None.
        clock: seconds, for durations.
        timeout: seconds that a search on one node may take; 0 means no limit.

    Attributes:
        table: the devices; its slices, rules and usage may be changed between two Pods.
    """

    def __init__(
        self,
        nodes: LiveNodeTable,
        classes: ClassLookup,
        clock: Callable[[], float],
        timeout: float = 0,
    ) -> None:
        self.nodes = nodes
        self.timeout = timeout
        self.table = DeviceTable(self._layout_changed, self._device_changed)
        self._clock = clock
        self._deadline = 0.0
        self._classes = classes
        self._shapes = ClaimShapes()
        self._counters = Counters(self.table)
        self._start_over()
        self._changed = Journal()
        self._layouts: dict[str, NodeDevices] = {}
        self._shared_nodes: set[str] = set()

    @property
    def journals(self) -> tuple[Journal, Journal]:
        """Node rows whose devices, or whose node object, changed."""
        return self._changed, self.nodes.node_journal

    def shapes(self, claims: Sequence[ResourceClaim]) -> Shapes:
        """The shapes of claims, with their classes as they are now."""
        return tuple(self._shapes.of(claim, self._classes) for claim in claims)

    def answers(self, shapes: Shapes) -> Answers:
        """The answers for claims of these shapes, up to date."""
        if self.table.wasteful:
            self.table.compact()
            self._start_over()
        answers = self._answers.pop(shapes, None)
        if answers is None:
            answers = Answers(self, shapes)
            if len(self._answers) >= _KEPT_SHAPES:
                del self._answers[next(iter(self._answers))]
        self._answers[shapes] = answers
        answers.update()
        return answers

    def allocate(
        self, node: Node, claims: Sequence[ResourceClaim]
    ) -> list[AllocationResult] | None:
        """One node by itself, to get results or the text of an error; see `Allocator.allocate`."""
        self._start_clock()
        return self._allocator.allocate(node, claims)

    def tallies(self, node: Node, claims: Sequence[ResourceClaim]) -> list[Tally]:
        """What stands against each device of a node, per request; see `Allocator.tallies`."""
        names = [claim.key for claim in claims]
        return self._allocator.tallies(self.devices(node), names, self.shapes(claims))

    def results(
        self, node: Node, claims: Sequence[ResourceClaim], choices: Choices
    ) -> list[AllocationResult]:
        """What is to be written into claims for the devices that were chosen on ``node``."""
        return self._allocator.results(self.devices(node), claims, self.shapes(claims), choices)

    def signatures(self, shapes: Shapes) -> Signatures:
        """Makes signatures for claims of these shapes."""
        return Signatures(shapes, self.table, self._selectors, self._counters)

    def choose(self, devices: NodeDevices, names: Sequence[str], shapes: Shapes) -> Choices | None:
        """See `Allocator.choose`; with the time limit."""
        self._start_clock()
        return self._allocator.choose(devices, names, shapes)

    def devices(self, node: Node) -> NodeDevices:
        """What ``node`` reaches, kept while its slices and labels stay the same."""
        devices = self._layouts.get(node.name)
        if devices is None or (devices.node is not node and devices.node.labels != node.labels):
            devices = self._layouts[node.name] = NodeDevices.of(self.table, node)
            entries = (self.table.row(row) for pool in devices.pools for row in pool.rows)
            if any(entry.slice.spec.node_name is None for entry in entries):
                self._shared_nodes.add(node.name)
        return devices

    def _start_over(self) -> None:
        """Forget everything that is kept by the codes of the table."""
        self._answers: dict[Shapes, Answers] = {}
        self._selectors = Selectors()
        self._allocator = Allocator(
            self.table, self._selectors, self._shapes, self._classes, self._expired, self._counters
        )

    def _start_clock(self) -> None:
        self._deadline = self._clock() + self.timeout if self.timeout else float("inf")

    def _expired(self) -> bool:
        return self.timeout > 0 and self._clock() > self._deadline

    def _layout_changed(self, node: str | None) -> None:
        if node is not None:
            self._layouts.pop(node, None)
            self._log(node)
        else:
            self._layouts.clear()
            self._shared_nodes.clear()
            for row in np.flatnonzero(self.nodes.exists).tolist():
                self._changed.append(row)
        # Pools are few compared to the work of finding out which ones the change touches.
        self._counters.clear()

    def _device_changed(self, entry: DeviceRow) -> None:
        node = entry.slice.spec.node_name
        if node is not None:
            self._log(node)
        else:
            for name in self._shared_nodes:
                self._log(name)
        if entry.device.consumes_counters:
            pool = (entry.id.driver, entry.id.pool)
            self._counters.forget(pool)
            for sibling in self.table.slices.get(pool, ()):
                if sibling.slice.spec.node_name:
                    self._log(sibling.slice.spec.node_name)

    def _log(self, node: str) -> None:
        row = self.nodes.row(node)
        if row is not None:
            self._changed.append(row)


def _score(shapes: Shapes, choices: Choices) -> int:
    total = 0
    for shape, chosen in zip(shapes, choices, strict=True):
        requests = {choice.request for choice in chosen}
        for alternatives in shape.requests:
            total += sum(
                _MAX_PREFERENCE - index
                for index, request in enumerate(alternatives)
                if request.parent and request in requests
            )
    return total

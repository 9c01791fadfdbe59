"""Fleet: the answer for all nodes at once, kept until something on a node changes.

The claims of Pods that were made from one template have the same shape, so the answers are kept by
shape: `Answers.update` looks again only at nodes whose devices, usage or node object changed since
the last Pod, which after a binding is one. Nodes with the same `signature` are searched once; where
many nodes reach the same devices, as those of a network, their signature is made once as well.

An error is kept as a code without its text, which names the claim: whoever needs the text runs the
search again on that node. A search that runs out of time ends the update: the nodes that are left
get the same code, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.api.resource import AllocationResult, DeviceClass, ResourceClaim
from bayplan.cache.journal import Journal
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.devices.allocator import Allocator, Choices
from bayplan.devices.candidates import NodeDevices
from bayplan.devices.changed_rows import ChangedRows
from bayplan.devices.codes import DOES_NOT_FIT, ERROR, FITS, INVALID_POOLS, TIMEOUT
from bayplan.devices.counters import Counters
from bayplan.devices.counts import DeviceCounts
from bayplan.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from bayplan.devices.pools import PoolId
from bayplan.devices.requests import ClaimShape, ClaimShapes, ClassLookup, class_selectors
from bayplan.devices.selectors import Selector, Selectors
from bayplan.devices.signature import Signatures
from bayplan.devices.table import DeviceRow, DeviceTable
from bayplan.devices.tally import Tally

Shapes = tuple[ClaimShape, ...]
CodeColumn = npt.NDArray[np.int8]
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


_NO_NODE, _LATE = Outcome(DOES_NOT_FIT), Outcome(TIMEOUT)


@dataclass(slots=True, eq=False)
class _Alike:
    """Nodes that reach the same devices and see them in the same way.

    Attributes:
        devices: of one of them.
        lasting: the part of the signature that stays with ``devices``; None if there is none.
        outcome: that of the update with the number ``updated``.
    """

    devices: NodeDevices
    lasting: bytes | None
    outcome: Outcome = _NO_NODE
    updated: int = -1


class Answers:
    """The outcome on every node for claims of certain shapes.

    Attributes:
        codes: per node row, ``(n,)``; negative ones are errors. Read only.
        scores: per node row, ``(n,)``. Read only.
        late_node: the node whose search ran out of time.
    """

    def __init__(self, fleet: Fleet, shapes: Shapes) -> None:
        self.codes: CodeColumn = np.zeros(0, np.int8)
        self.scores: IntArray = np.zeros(0, np.int64)
        self.late_node = ""
        self._fleet = fleet
        self._shapes = shapes
        self._signatures = fleet.signatures(shapes)
        self._by_signature: dict[tuple[bytes, bytes, str], Outcome] = {}
        self._alike: dict[tuple[bytes, bytes, tuple[PoolId, ...]], _Alike] = {}
        self._kept: list[tuple[NodeDevices, _Alike] | None] = []
        """By row: what the node reaches, and which nodes are like it."""
        self._updates = 0
        self._changed = fleet.changed_rows()

    @property
    def prioritized(self) -> bool:
        """Whether a request is a list of alternatives: all nodes score 0 otherwise."""
        return any(shape.prioritized for shape in self._shapes)

    def update(self) -> None:
        """Bring all nodes up to date."""
        nodes, rows = self._fleet.nodes, self._changed.take()
        if rows is None:
            self._kept = [None] * len(nodes)
            self.codes = np.full(len(nodes), DOES_NOT_FIT, np.int8)
            self.scores = np.zeros(len(nodes), np.int64)
            rows = list(range(len(nodes)))
        self.late_node = ""
        self._updates += 1
        for row in rows:
            self._set(row, nodes.nodes[row])
        if self.late_node:
            self._changed.forget()

    def choices(self, row: int) -> Choices | None:
        """The devices by position on the node at ``row``."""
        kept = self._kept[row]
        return kept[1].outcome.choices if kept is not None else None

    def _set(self, row: int, node: Node | None) -> None:
        outcome = self._update_row(row, node)
        self.codes[row] = outcome.code
        self.scores[row] = outcome.score

    def _update_row(self, row: int, node: Node | None) -> Outcome:
        if node is None:
            self._kept[row] = None
            return _NO_NODE
        if self.late_node:
            return _LATE
        try:
            devices = self._fleet.devices(node)
            kept = self._kept[row]
            if kept is None or kept[0] is not devices:
                kept = self._kept[row] = devices, self._alike_of(devices)
        except AllocationError:
            self._kept[row] = None
            return Outcome(ERROR)
        alike = kept[1]
        if alike.updated != self._updates:
            alike.outcome = self._outcome(alike)
            alike.updated = self._updates
        return alike.outcome

    def _alike_of(self, devices: NodeDevices) -> _Alike:
        lasting = self._signatures.lasting(devices)
        if lasting is None:
            return _Alike(devices, None)
        key = lasting, devices.rows.tobytes(), tuple(pool.id for pool in devices.pools)
        alike = self._alike.get(key)
        if alike is None:
            if len(self._alike) > 4 * len(self._kept) + 1000:
                self._alike.clear()
            alike = self._alike[key] = _Alike(devices, lasting)
        return alike

    def _outcome(self, alike: _Alike) -> Outcome:
        if alike.lasting is None:
            return self._search(alike.devices)
        signature = self._signatures.of(alike.devices, alike.lasting)
        outcome = self._by_signature.get(signature)
        if outcome is None:
            outcome = self._search(alike.devices)
            if outcome.code != TIMEOUT:
                if len(self._by_signature) > 4 * len(self._kept) + 1000:
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
    def epoch(self) -> int:
        """Changes when the devices of some node do, or who uses them."""
        return self._changed.position

    def changed_rows(self) -> ChangedRows:
        """For a reader of nodes whose devices, or whose node object, change."""
        return ChangedRows(self.nodes, (self._changed, self.nodes.node_journal))

    def shapes(self, claims: Sequence[ResourceClaim]) -> Shapes:
        """The shapes of claims, with their classes as they are now."""
        return tuple(self._shapes.of(claim, self._classes) for claim in claims)

    def answers(self, shapes: Shapes) -> Answers:
        """The answers for claims of these shapes, up to date."""
        self._ensure_compact()
        answers = self._answers.pop(shapes, None)
        if answers is None:
            answers = Answers(self, shapes)
            if len(self._answers) >= _KEPT_SHAPES:
                del self._answers[next(iter(self._answers))]
        self._answers[shapes] = answers
        answers.update()
        return answers

    def counts(self, device_class: DeviceClass) -> DeviceCounts:
        """How many devices the class accepts, and how many are in use, up to date."""
        self._ensure_compact()
        selectors = tuple(s for s in class_selectors(device_class) if s.expression)
        counts = self._counts.get(selectors)
        if counts is None:
            if len(self._counts) >= _KEPT_SHAPES:
                self._counts.clear()
            mask = self._selectors.mask(selectors)
            counts = self._counts[selectors] = DeviceCounts(
                self.table, self.nodes, mask, self.changed_rows(), self._shared_nodes.add
            )
        counts.update()
        return counts

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
        self, node: Node, claims: Sequence[ResourceClaim], shapes: Shapes, choices: Choices
    ) -> list[AllocationResult]:
        """What is to be written into claims for the devices that were chosen on ``node``."""
        return self._allocator.results(self.devices(node), claims, shapes, choices)

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

    def _ensure_compact(self) -> None:
        if self.table.wasteful:
            self.table.compact()
            self._start_over()

    def _start_over(self) -> None:
        """Forget everything that is kept by the codes of the table."""
        self._answers: dict[Shapes, Answers] = {}
        self._counts: dict[tuple[Selector, ...], DeviceCounts] = {}
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

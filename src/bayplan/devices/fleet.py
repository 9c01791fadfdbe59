"""Fleet: the answer for all nodes at once, kept until something on a node changes.

The claims of Pods that were made from one template have the same shape, so the outcomes are cached
by shape: `NodeOutcomes.update` looks again only at nodes whose devices, usage or node object
changed since the last Pod; after a binding that is one node. Nodes of the same state
(`bayplan.devices.node_states`) are searched once.

An error is cached as a code without its text, which names the claim: for the text, callers run the
search again on that node. A search that runs out of time ends the update: the nodes whose answer is
not known yet get the same code, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from bayplan.api.selectors import SelectorError
from bayplan.cache.journal import Journal
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.devices.allocator import Allocator, Choices
from bayplan.devices.candidates import NodeDevices
from bayplan.devices.changed_rows import ChangedRows
from bayplan.devices.codes import DOES_NOT_FIT, ERROR, FITS, INVALID_POOLS, TIMEOUT
from bayplan.devices.counters import Counters
from bayplan.devices.counts import DeviceCounts
from bayplan.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from bayplan.devices.node_states import FAULTY, NO_NODE, NodeStates, View, view_of
from bayplan.devices.nodes import slice_matches
from bayplan.devices.requests import ClaimShape, ClaimShapes, ClassLookup, class_selectors
from bayplan.devices.selectors import SelectorExpression, Selectors
from bayplan.devices.shares import DeviceShares
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


_LATE = Outcome(TIMEOUT)
_KNOWN = {NO_NODE: Outcome(DOES_NOT_FIT), FAULTY: Outcome(ERROR)}


class NodeOutcomes:
    """The outcome on every node for claims of certain shapes.

    Attributes:
        codes: per node row, ``(n,)``; negative ones are errors. Read only.
        scores: per node row, ``(n,)``. Read only.
        errors: how many codes are negative.
        late_node: the node whose search ran out of time.
        prioritized: whether a request is a list of alternatives: all nodes score 0 otherwise.
    """

    def __init__(self, fleet: Fleet, shapes: Shapes) -> None:
        self.codes: CodeColumn = np.zeros(0, np.int8)
        self.scores: IntArray = np.zeros(0, np.int64)
        self.errors = 0
        self.late_node = ""
        self.prioritized = any(shape.prioritized for shape in shapes)
        self._fleet = fleet
        self._shapes = shapes
        self._states = fleet.states(shapes)
        self._outcomes: dict[int, Outcome] = {}
        """By the code of the state."""
        self._epoch = self._position = -1

    def update(self) -> None:
        """Bring all nodes up to date."""
        states = self._states
        states.update()
        position, journal = states.journal.position, states.journal
        if states.epoch != self._epoch:
            self._outcomes = dict(_KNOWN)
            rows = None
        else:
            rows = None if self.late_node else journal.since(self._position)
        self.late_node = ""
        if rows is None or len(rows) * 4 > len(states.codes):
            self._set_all()
        else:
            for row in rows:
                self._set(row)
        self._epoch, self._position = states.epoch, position

    def choices(self, row: int) -> Choices | None:
        """The devices by position on the node at ``row``."""
        outcome = self._outcomes.get(self._states.codes.item(row))
        return outcome.choices if outcome is not None else None

    def _set_all(self) -> None:
        """One search per state, on the first node of each state."""
        states = self._states
        first = np.full(states.count, len(states.codes))
        np.minimum.at(first, states.codes, np.arange(len(states.codes)))
        codes, scores = np.zeros(states.count, np.int8), np.zeros(states.count, np.int64)
        for row in np.sort(first[first < len(states.codes)]).tolist():
            outcome = self._outcome(row)
            state = states.codes[row]
            codes[state], scores[state] = outcome.code, outcome.score
        self.codes, self.scores = codes[states.codes], scores[states.codes]
        self.errors = int(np.count_nonzero(self.codes < 0))

    def _set(self, row: int) -> None:
        outcome = self._outcome(row)
        self.errors += (outcome.code < 0) - (self.codes.item(row) < 0)
        self.codes[row] = outcome.code
        self.scores[row] = outcome.score

    def _outcome(self, row: int) -> Outcome:
        state = self._states.codes.item(row)
        outcome = self._outcomes.get(state)
        if outcome is not None:
            return outcome
        if self.late_node:
            return _LATE
        node = self._fleet.nodes.nodes[row]
        assert node is not None, "its state is known"
        outcome = self._search(node)
        if outcome.code == TIMEOUT:
            self.late_node = node.name
        else:
            self._outcomes[state] = outcome
        return outcome

    def _search(self, node: Node) -> Outcome:
        fleet, shapes = self._fleet, self._shapes
        try:
            choices = fleet.choose(fleet.devices(node), [""] * len(shapes), shapes)
        except NodeAllocationError:
            return Outcome(INVALID_POOLS)
        except AllocationTimeoutError:
            return _LATE
        except AllocationError:
            return Outcome(ERROR)
        if choices is None:
            return Outcome(DOES_NOT_FIT)
        return Outcome(FITS, choices, _score(shapes, choices))


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
        self._reach: dict[str, set[str]] = {}
        """By slice that names no node: nodes that reach it; perhaps more."""

    @property
    def epoch(self) -> int:
        """Changes when the devices of some node do, or who uses them."""
        return self._changed.position

    def changed_rows(self) -> ChangedRows:
        """For a reader of nodes whose devices, or whose node object, change."""
        return ChangedRows(self.nodes, (self._changed, self.nodes.node_journal))

    def shapes(self, claims: Sequence[ResourceClaim]) -> Shapes:
        """The shapes of claims, with their classes as they are now."""
        return tuple([self._shapes.of(claim, self._classes) for claim in claims])

    def answers(self, shapes: Shapes) -> NodeOutcomes:
        """The answers for claims of these shapes, up to date."""
        self._ensure_compact()
        answers = self._answers.pop(shapes, None)
        if answers is None:
            answers = NodeOutcomes(self, shapes)
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
                self.table, self.nodes, mask, self.changed_rows(), self._reached
            )
        counts.update()
        return counts

    def shares(self, device_class: DeviceClass) -> DeviceShares:
        """What is left of each device that the class accepts, up to date."""
        self._ensure_compact()
        selectors = tuple(s for s in class_selectors(device_class) if s.expression)
        shares = self._shares.get(selectors)
        if shares is None:
            if len(self._shares) >= _KEPT_SHAPES:
                self._shares.clear()
            mask = self._selectors.mask(selectors)
            shares = self._shares[selectors] = DeviceShares(
                self.table, self.nodes, self.devices, mask, self.changed_rows()
            )
        shares.update()
        return shares

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
        return self._allocator.results(node, self.devices(node), claims, shapes, choices)

    def states(self, shapes: Shapes) -> NodeStates:
        """What searches for claims of these shapes see of each node."""
        view = view_of(shapes)
        states = self._states.get(view)
        if states is None:
            if len(self._states) >= _KEPT_SHAPES:
                self._states.clear()
            states = self._states[view] = NodeStates(
                view,
                self.table,
                self._selectors,
                self._counters,
                self.nodes,
                self.devices,
                self.changed_rows(),
            )
        return states

    def choose(self, devices: NodeDevices, names: Sequence[str], shapes: Shapes) -> Choices | None:
        """See `Allocator.choose`; with the time limit."""
        self._start_clock()
        return self._allocator.choose(devices, names, shapes)

    def devices(self, node: Node) -> NodeDevices:
        """What ``node`` reaches, kept while its slices and labels stay the same.

        Nodes that reach the same devices, as those of a network, share the object.

        Raises:
            AllocationError: a slice's node selector is faulty.
        """
        kept = self._layouts.get(node.name)
        if kept is not None and (kept[0] is node.labels or kept[0] == node.labels):
            return kept[1]
        local = self.table.local_slices(node)
        shared = [e.slice for e in self.table.shared_slices() if _may_be_for(e.slice, node)]
        self._reached(node, shared)
        if local or any(piece.spec.per_device_node_selection for piece in shared):
            devices = NodeDevices.of(self.table, node)
        else:
            key = tuple(piece.name for piece in shared)
            if key not in self._shared:
                self._shared[key] = NodeDevices.of(self.table, node)
            devices = self._shared[key]
        self._layouts[node.name] = node.labels, devices
        return devices

    def _reached(self, node: Node, slices: Iterable[ResourceSlice]) -> None:
        for piece in slices:
            self._reach.setdefault(piece.name, set()).add(node.name)

    def _ensure_compact(self) -> None:
        if self.table.wasteful:
            self.table.compact()
            self._start_over()

    def _start_over(self) -> None:
        """Forget everything that is kept by the codes of the table."""
        self._answers: dict[Shapes, NodeOutcomes] = {}
        self._states: dict[View, NodeStates] = {}
        self._layouts: dict[str, tuple[Mapping[str, str], NodeDevices]] = {}
        self._shared: dict[tuple[str, ...], NodeDevices] = {}
        """By the names of its slices, what nodes reach that have no devices of their own."""
        self._counts: dict[tuple[SelectorExpression, ...], DeviceCounts] = {}
        self._shares: dict[tuple[SelectorExpression, ...], DeviceShares] = {}
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
            self._shared.clear()
            self._reach.clear()
            for row in np.flatnonzero(self.nodes.exists).tolist():
                self._changed.append(row)
        # Pools are few compared to the work of finding out which ones the change touches.
        self._counters.clear()

    def _device_changed(self, entry: DeviceRow) -> None:
        self._log_slice(entry.slice)
        if entry.device.consumes_counters:
            pool = (entry.id.driver, entry.id.pool)
            self._counters.forget(pool)
            for sibling in self.table.slices.get(pool, ()):
                if sibling.slice is not entry.slice:
                    self._log_slice(sibling.slice)

    def _log_slice(self, piece: ResourceSlice) -> None:
        """The nodes that reach the slice have changed."""
        if piece.spec.node_name is not None:
            self._log(piece.spec.node_name)
        else:
            for node in self._reach.get(piece.name, ()):
                self._log(node)

    def _log(self, node: str) -> None:
        row = self.nodes.row(node)
        if row is not None:
            self._changed.append(row)


def _may_be_for(piece: ResourceSlice, node: Node) -> bool:
    try:
        return slice_matches(piece.spec, node)
    except SelectorError:
        return True


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

"""NodeStates: which nodes a search would treat alike, as one code a node.

The search sees a device through codes: what the requests' selectors say, taints, traits, usage, and
the attributes that constraints compare. Two nodes that agree on these, position by position, on the
pools' borders and on what is left of counters have the same answer, whatever their devices are
called. Such nodes have the same *state*; the state of a node is kept until something on it changes.

What is in a state besides devices are selectors and compared attributes: the *view*. Claims with
the same view, and many have the class's selectors only, share its states. So for a claim of a shape
that was never seen, one search a state is enough, and there are few: nodes of one type with eight
equal devices, given out in their order, have nine states, be they 5,000 nodes or 50,000::

                 devices in use   state   answer for one device   for five of them
    n1, n4, ...       none          2             fits                  fits
    n2                gpu-0         3             fits                  fits
    n3                gpu-0..gpu-4  4             fits                  does not

Values of compared attributes are numbered by first appearance, for only their equality counts, and
many (a PCIe root) are different on every node. An error names a device, so where a selector may
fail a node has a state of its own, and another one after every change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayplan.api.node import Node
from bayplan.cache.journal import Journal
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.node_table.column import CodeArray
from bayplan.devices.candidates import NodeDevices
from bayplan.devices.changed_rows import ChangedRows
from bayplan.devices.constraints import lookup
from bayplan.devices.content import Content
from bayplan.devices.counters import Counters
from bayplan.devices.errors import AllocationError
from bayplan.devices.requests import ClaimShape
from bayplan.devices.selectors import NO, SelectorExpression, Selectors
from bayplan.devices.table import DeviceTable

View = tuple[tuple[tuple[SelectorExpression, ...], ...], tuple[str, ...]]
"""The selectors of each request, and the attributes that constraints compare; each once."""

NO_NODE, FAULTY = 0, 1
"""States of rows without a node, and of nodes whose devices are unknown."""
_FIRST = 2
_MISSING = -1


def view_of(shapes: Sequence[ClaimShape]) -> View:
    """What a search for claims of these shapes looks at."""
    requests = [r for shape in shapes for listed in shape.requests for r in listed]
    constraints = [c for shape in shapes for c in shape.constraints]
    names = [c.match_attribute or c.distinct_attribute for c in constraints]
    return (
        tuple(dict.fromkeys(request.selectors for request in requests)),
        tuple(dict.fromkeys(name for name in names if name)),
    )


class NodeStates:
    """The states of all nodes in one view.

    Args:
        devices_of: what a node reaches; raises AllocationError.
        changed: nodes whose devices, or whose node object, changed.

    Attributes:
        codes: per row of the live table, ``(n,)``. Read only.
        count: codes are below it.
        epoch: changes when all codes are reassigned.
        journal: rows whose code changed since.
    """

    def __init__(
        self,
        view: View,
        table: DeviceTable,
        selectors: Selectors,
        counters: Counters,
        nodes: LiveNodeTable,
        devices_of: Callable[[Node], NodeDevices],
        changed: ChangedRows,
    ) -> None:
        requests, attributes = view
        self.codes: CodeArray = np.zeros(0, np.int32)
        self.count = _FIRST
        self.epoch = 0
        self.journal = Journal()
        self._table = table
        self._counters = counters
        self._nodes = nodes
        self._devices_of = devices_of
        self._changed = changed
        self._masks = [selectors.mask(key) for key in requests]
        self._attributes = [_AttributeCodes(name) for name in attributes]
        self._by_content: dict[tuple[int, bytes, str], int] = {}
        self._outlines: dict[bytes, int] = {}
        self._kept: list[tuple[NodeDevices, int | None] | None] = []
        """By row: what the node reaches, and its outline; see `_outline`."""

    def update(self) -> None:
        """Bring all nodes up to date."""
        rows = self._changed.take()
        if rows is None or self.count > 4 * len(self._nodes) + 1000:
            self._start_over()
            rows = list(range(len(self._nodes)))
        updated: dict[NodeDevices, int] = {}
        for row in rows:
            code = self._code(row, updated)
            if self.codes[row] != code:
                self.codes[row] = code
                self.journal.append(row)

    def _start_over(self) -> None:
        self.codes = np.full(len(self._nodes), NO_NODE, np.int32)
        self.count = _FIRST
        self.epoch += 1
        self.journal = Journal()
        self._by_content.clear()
        self._outlines.clear()
        self._kept = [None] * len(self._nodes)

    def _code(self, row: int, updated: dict[NodeDevices, int]) -> int:
        """The code of ``row``; ``updated`` has those of this update, by devices."""
        node = self._nodes.nodes[row]
        if node is None:
            return NO_NODE
        try:
            devices = self._devices_of(node)
        except AllocationError:
            return FAULTY
        code = updated.get(devices)
        if code is None:
            code = updated[devices] = self._state(row, devices)
        return code

    def _state(self, row: int, devices: NodeDevices) -> int:
        kept = self._kept[row]
        if kept is None or kept[0] is not devices:
            kept = self._kept[row] = devices, self._outline(devices)
        if kept[1] is None:
            return self._new()
        used: bytes = self._table.usage_code.codes[devices.rows].tobytes()
        key = kept[1], used, self._counted(devices)
        code = self._by_content.get(key)
        if code is None:
            code = self._by_content[key] = self._new()
        return code

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def _outline(self, devices: NodeDevices) -> int | None:
        """A number for what stays the same with ``devices``; None where a selector may fail."""
        table, rows = self._table, devices.rows
        parts = [devices.outline]
        for mask in self._masks:
            codes = mask.codes(table, rows)
            if mask.faults and codes.min(initial=NO) < NO:
                return None
            parts.append(codes.tobytes())
        contents = table.content.codes[rows].tolist() if self._attributes else []
        parts += [a.renumbered(table, contents).tobytes() for a in self._attributes]
        return self._outlines.setdefault(b"".join(parts), len(self._outlines))

    def _counted(self, devices: NodeDevices) -> str:
        """What is left of all counters."""
        if not devices.with_counters:
            return ""
        left = [self._counters.available(pool).left for pool in devices.with_counters]
        return repr([sorted(counters.items()) for counters in left])


class _AttributeCodes:
    """Values of one attribute as numbers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._by_content: dict[int, int] = {}
        self._numbers: dict[object, int] = {}

    def renumbered(self, table: DeviceTable, contents: Sequence[int]) -> CodeArray:
        """Numbers of the values of these contents, by first appearance."""
        seen = {_MISSING: _MISSING}
        numbers = [self._number(table, content) for content in contents]
        return np.array([seen.setdefault(n, len(seen) - 1) for n in numbers], np.int32)

    def _number(self, table: DeviceTable, code: int) -> int:
        number = self._by_content.get(code)
        if number is None:
            content: Content = table.content.values[code]
            attribute = lookup(content.wire, content.driver, self._name)
            number = _MISSING
            if attribute is not None:
                number = self._numbers.setdefault(attribute.typed, len(self._numbers))
            self._by_content[code] = number
        return number

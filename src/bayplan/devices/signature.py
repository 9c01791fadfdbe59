"""Signatures: nodes on which a search would do the same, position by position.

The search sees a device through codes: what the requests' selectors say, taints, traits, usage, and
the attributes that constraints compare. Two nodes that agree on these, on the pools' borders and on
what is left of counters have the same answer, whatever their devices are called. Values of compared
attributes are numbered by first appearance, for only their equality counts, and many (a PCIe root)
are different on every node. An error names a device, so where a selector may fail nothing is
shared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.devices.candidates import NodeDevices
from bayplan.devices.constraints import lookup
from bayplan.devices.content import Content
from bayplan.devices.counters import Counters
from bayplan.devices.requests import ClaimShape
from bayplan.devices.selectors import NO, Mask, Selectors
from bayplan.devices.table import DeviceTable

_MISSING = -1


class Signatures:
    """Makes signatures for claims of certain shapes."""

    def __init__(
        self,
        shapes: Sequence[ClaimShape],
        table: DeviceTable,
        selectors: Selectors,
        counters: Counters,
    ) -> None:
        requests = [r for shape in shapes for listed in shape.requests for r in listed]
        constraints = [c for shape in shapes for c in shape.constraints]
        names = [c.match_attribute or c.distinct_attribute for c in constraints]
        self._table = table
        self._counters = counters
        self._masks: list[Mask] = [
            selectors.mask(key) for key in dict.fromkeys(r.selectors for r in requests)
        ]
        self._attributes = [_AttributeCodes(name) for name in dict.fromkeys(names) if name]

    def lasting(self, devices: NodeDevices) -> bytes | None:
        """What stays the same with ``devices``; None where a selector may fail there."""
        table, rows = self._table, devices.rows
        parts = [column.codes[rows].tobytes() for column in (table.taints, table.traits)]
        for mask in self._masks:
            codes = mask.codes(table, rows)
            if codes.size and codes.min() < NO:
                return None
            parts.append(codes.tobytes())
        contents = table.content.codes[rows].tolist() if self._attributes else []
        parts += [a.renumbered(table, contents).tobytes() for a in self._attributes]
        sizes = np.array([len(rows), len(devices.excluded)], np.int32)
        pools = repr([(pool.incomplete, pool.invalid, len(pool.rows)) for pool in devices.pools])
        return b"".join([sizes.tobytes(), *parts, devices.excluded.tobytes(), pools.encode()])

    def of(self, devices: NodeDevices, lasting: bytes) -> tuple[bytes, bytes, str]:
        """The signature of a node; ``lasting`` is its first part."""
        used: bytes = self._table.usage_code.codes[devices.rows].tobytes()
        return lasting, used, self._counted(devices)

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

    def renumbered(self, table: DeviceTable, contents: Sequence[int]) -> np.ndarray:
        """Numbers of the values of these contents, by first appearance."""
        seen = {_MISSING: _MISSING}
        numbers = [self._number(table, content) for content in contents]
        return np.array([seen.setdefault(n, len(seen) - 1) for n in numbers], np.int32)

    def _number(self, table: DeviceTable, code: int) -> int:
        number = self._by_content.get(code)
        if number is None:
            content: Content = table.content.values[code]
            attribute = lookup(content.wire, content.driver, self._name)
            value = attribute.typed if attribute is not None else None
            if attribute is None:
                number = _MISSING
            else:
                number = self._numbers.setdefault(value, len(self._numbers))
            self._by_content[code] = number
        return number

"""Constraints: what the devices of a claim must have in common, or must not.

Both kinds look at one attribute. A device without it is refused. Adding and removing nest, as the
search backtracks; once a device is refused, more devices would not help.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set

from bayplan.api.resource import Device, DeviceAttribute, DeviceConstraint, Typed
from bayplan.devices.requests import RequestShape
from bayplan.devices.table import DeviceRow


class Constraint(ABC):
    """The state of one constraint during one search."""

    def __init__(self, spec: DeviceConstraint, attribute: str) -> None:
        self.attribute = attribute
        self._requests = spec.requests

    def covers(self, request: RequestShape) -> bool:
        """Whether the constraint is about the request."""
        return not self._requests or request.among(self._requests)

    def add(self, request: RequestShape, device: DeviceRow) -> bool:
        """Count the device in; False where it would break the constraint."""
        if not self.covers(request):
            return True
        attribute = lookup(device.device, device.id.driver, self.attribute)
        return attribute is not None and self._add(attribute.typed)

    def remove(self, request: RequestShape) -> None:
        """Take back the last device that was counted in for ``request``."""
        if self.covers(request):
            self._remove()

    @abstractmethod
    def _add(self, value: Typed | None) -> bool:
        """Count one more value in, unless it breaks the constraint."""

    @abstractmethod
    def _remove(self) -> None:
        """Take back the last value."""


class MatchAttribute(Constraint):
    """All devices have the same value; the first one fixes it.

    Attributes:
        refused: values of which there are too few devices; see `bayplan.devices.bounds`.
    """

    def __init__(self, spec: DeviceConstraint, attribute: str) -> None:
        super().__init__(spec, attribute)
        self.refused: Set[object] = frozenset()
        self._value: Typed | None = None
        self._devices = 0

    def _add(self, value: Typed | None) -> bool:
        if self._devices == 0:
            if value in self.refused:
                return False
            self._value = value
        elif value is None or value != self._value:
            return False
        self._devices += 1
        return True

    def _remove(self) -> None:
        self._devices -= 1


class DistinctAttribute(Constraint):
    """No two devices have the same value."""

    def __init__(self, spec: DeviceConstraint, attribute: str) -> None:
        super().__init__(spec, attribute)
        self._values: list[Typed | None] = []

    def _add(self, value: Typed | None) -> bool:
        if self._values and (value is None or value in self._values):
            return False
        self._values.append(value)
        return True

    def _remove(self) -> None:
        self._values.pop()


def constraint(spec: DeviceConstraint) -> Constraint | None:
    """The constraint that ``spec`` describes; None for a type from the future."""
    if spec.match_attribute is not None:
        return MatchAttribute(spec, spec.match_attribute)
    if spec.distinct_attribute is not None:
        return DistinctAttribute(spec, spec.distinct_attribute)
    return None


def lookup(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """The attribute of a full name; one without a domain has the driver's name as its domain."""
    if name in device.attributes:
        return device.attributes[name]
    domain, slash, short = name.partition("/")
    return device.attributes.get(short) if slash and domain == driver else None

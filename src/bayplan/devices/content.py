"""Contents: what a selector can see of a device, without the device's identity."""

from __future__ import annotations

from functools import cached_property

import msgspec

from bayplan.api.resource import Device as WireDevice
from bayplan.api.resource import DeviceAttribute
from bayplan.cel import Attribute, Device, Path, Version

Projection = tuple[object, ...]


class Content:
    """What many devices have in common.

    Attributes:
        driver: the domain of names that have none.
        wire: one device of this content.
    """

    def __init__(self, driver: str, wire: WireDevice) -> None:
        self.driver = driver
        self.wire = wire

    @cached_property
    def device(self) -> Device:
        """The input of a selector."""
        wire = self.wire
        return Device(
            self.driver,
            {name: _cel(attribute) for name, attribute in wire.attributes.items()},
            {name: str(capacity.value) for name, capacity in wire.capacity.items()},
            wire.allow_multiple_allocations,
        )

    @cached_property
    def error(self) -> str | None:
        """Why every selector fails for the device; None where none does for this reason."""
        plain = ("string", "int", "bool")
        attributes = self.wire.attributes.values()
        if all((typed := a.typed) is not None and typed[0] in plain for a in attributes):
            return None
        return self.device.error

    def project(self, paths: tuple[Path, ...]) -> Projection:
        """The values at ``paths``: where they are equal, a selector says the same."""
        return tuple([self._value(path) for path in paths])

    def _value(self, path: Path) -> object:
        if path.kind == "driver":
            return self.driver
        if path.kind == "attributes":
            attributes = self.wire.attributes
            return tuple([attributes.get(name) for name in self._names(path)])
        if path.kind == "capacity":
            capacity = self.wire.capacity
            return tuple([c.value if (c := capacity.get(n)) else None for n in self._names(path)])
        return self.wire.allow_multiple_allocations

    def _names(self, path: Path) -> tuple[str, ...]:
        """The names under which the value may stand."""
        full = f"{path.domain}/{path.name}"
        return (full, path.name) if path.domain == self.driver else (full,)


def content_key(driver: str, device: WireDevice) -> bytes:
    """Equal for devices of equal content."""
    amounts = [(name, capacity.value) for name, capacity in device.capacity.items()]
    visible = (driver, device.attributes, amounts, device.allow_multiple_allocations)
    return msgspec.json.encode(visible)


def _cel(attribute: DeviceAttribute) -> Attribute:
    if attribute.version_values is not None:
        return [Version(text) for text in attribute.version_values]
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return values
    if attribute.version_value is not None:
        return Version(attribute.version_value)
    typed = attribute.typed
    return typed[1] if typed is not None else None

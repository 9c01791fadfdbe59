"""Contents: what a selector can see of a device, apart from which device it is."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bayplan.api.quantity import Amount
from bayplan.api.resource import Device as WireDevice
from bayplan.api.resource import DeviceAttribute
from bayplan.cel import Attribute, Device, Path, Version

Projection = tuple[object, ...]


class Content(NamedTuple):
    """What many devices have in common.

    Attributes:
        device: the input of a selector.
        attributes: values as on the wire, by domain and name; without one it is the driver's.
        capacity: amounts in the same way.
    """

    device: Device
    driver: str
    shared: bool
    attributes: dict[tuple[str, str], bytes]
    capacity: dict[tuple[str, str], Amount]

    def project(self, paths: tuple[Path, ...]) -> Projection:
        """The values at ``paths``: where they are equal, a selector says the same."""
        return tuple([self._value(path) for path in paths])

    def _value(self, path: Path) -> object:
        match path.kind:
            case "driver":
                return self.driver
            case "attributes":
                return self.attributes.get((path.domain, path.name))
            case "capacity":
                return self.capacity.get((path.domain, path.name))
        return self.shared


def content_key(driver: str, device: WireDevice) -> bytes:
    """Equal for devices of equal content."""
    amounts = {name: capacity.value for name, capacity in device.capacity.items()}
    visible = (driver, device.attributes, amounts, device.allow_multiple_allocations)
    return msgspec.json.encode(visible)


def content(driver: str, device: WireDevice) -> Content:
    """The content of a device."""
    amounts = {name: capacity.value for name, capacity in device.capacity.items()}
    shared = device.allow_multiple_allocations
    return Content(
        Device(
            driver,
            {name: _cel(attribute) for name, attribute in device.attributes.items()},
            {name: str(amount) for name, amount in amounts.items()},
            shared,
        ),
        driver,
        shared,
        {_split(name, driver): msgspec.json.encode(a) for name, a in device.attributes.items()},
        {_split(name, driver): amount for name, amount in amounts.items()},
    )


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


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)

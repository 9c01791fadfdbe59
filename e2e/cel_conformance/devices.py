"""Random devices, as the API has them, and as bayplan's `Device`."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

from bayplan.cel import Attribute, Device, Version

Json: TypeAlias = dict[str, Any]

_DRIVERS = ["x.io", "y.io"]
_NAMES = ["a", "b", "c", "d", "e", "model", "x.io/a", "y.io/a", "y.io/b", "y.io/model", "x.io/f"]
_STRINGS = [
    *["", "a", "abc", "A100", "10", "1.2.3", "40Gi", "10.0.0.1", "10.0.0.0/8", "true", "x.io"],
    *["http://a/b?c=d", "1h", "2023-05-06T07:08:09Z", "é∑😀", "UTC", "%d", "(", "dns-name"],
]
_INTS = [0, 1, 2, 5, -1, 48, 2**63 - 1, -(2**63)]
_VERSIONS = ["1.2.3", "1.2.3-alpha.1", "1.2.3+b", "0.0.1", "10.0.0-rc.1.x"]
_BAD_VERSIONS = ["", "1.2", "01.2.3", "1.2.x", "1.2.3-", "1.2.3+", "1.2.3-01"]
_QUANTITIES = ["1", "0", "500m", "40Gi", "1.5Gi", "1e3", "-2k", "1n", "10E", "100Ei", "1Ki", "0.1"]


def random_device(source: random.Random) -> Json:
    """A device with some of the names that selectors look for."""
    driver = source.choice(_DRIVERS)
    # A name is given once, with the driver as its domain or without.
    names = [name for name in _NAMES if not name.startswith(f"{driver}/")]
    names = source.sample(names, source.randint(0, len(names)))
    device: Json = {
        "driver": driver,
        "attributes": {name: _attribute(source) for name in names},
        "capacity": {
            name: {"value": source.choice(_QUANTITIES)}
            for name in source.sample(names, source.randint(0, len(names)))
        },
    }
    if source.random() < 0.5:
        device["allowMultipleAllocations"] = source.random() < 0.5
    if source.random() < 0.02:
        device["attributes"]["bad"] = source.choice([{}, {"version": source.choice(_BAD_VERSIONS)}])
    return device


def _attribute(source: random.Random) -> Json:
    kind = source.choice(["int", "string", "string", "bool", "version"])
    if source.random() < 0.1:
        return {f"{kind}s": [_value(source, kind) for _ in range(source.randint(1, 3))]}
    return {kind: _value(source, kind)}


def _value(source: random.Random, kind: str) -> Any:
    choices: dict[str, list[Any]] = {
        "int": _INTS,
        "string": _STRINGS,
        "bool": [True, False],
        "version": _VERSIONS,
    }
    return source.choice(choices[kind])


def to_device(device: Json) -> Device:
    """The device as selectors of bayplan take it."""
    return Device(
        device["driver"],
        {name: _to_attribute(value) for name, value in device["attributes"].items()},
        {name: capacity["value"] for name, capacity in device["capacity"].items()},
        device.get("allowMultipleAllocations", False),
    )


def _to_attribute(attribute: Json) -> Attribute:
    if not attribute:
        return None
    (kind, value), *_ = attribute.items()
    if kind == "version":
        return Version(value)
    return [Version(text) for text in value] if kind == "versions" else value

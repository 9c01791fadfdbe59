"""The generator's expressions in Python, until `bayplan.cel` evaluates them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bayplan.devices.selectors import Program, SelectorFaultError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayplan.api.resource import Typed
    from bayplan.devices.table import DeviceRow


def _attribute(row: DeviceRow, domain: str, name: str) -> Typed:
    for full, attribute in row.device.attributes.items():
        prefix, _, short = full.rpartition("/")
        if (prefix or row.id.driver, short) == (domain, name) and attribute.typed:
            return attribute.typed
    raise SelectorFaultError(f"no such key: {name}")


def _has_model(row: DeviceRow) -> bool:
    try:
        return bool(_attribute(row, "gpu.example.com", "model"))
    except SelectorFaultError:
        return False


def _model(row: DeviceRow, domain: str) -> bool:
    return _attribute(row, domain, "model")[1] == "a100"


def _numa(row: DeviceRow) -> bool:
    value = _attribute(row, row.id.driver, "numa")[1]
    return isinstance(value, int) and value < 2


_ALL: dict[str, Callable[[DeviceRow], bool]] = {
    "true": lambda row: True,  # noqa: ARG005
    "device.driver == 'gpu.example.com'": lambda row: row.id.driver == "gpu.example.com",
    "device.attributes[device.driver].model == 'a100'": lambda row: _model(row, row.id.driver),
    "device.attributes[device.driver].numa < 2": _numa,
    "device.attributes[device.driver].healthy": lambda row: bool(
        _attribute(row, row.id.driver, "healthy")[1]
    ),
    "'model' in device.attributes['gpu.example.com']": _has_model,
    "device.allowMultipleAllocations": lambda row: row.device.allow_multiple_allocations,
    "device.attributes['other.example.com'].model == 'a100'": lambda row: _model(
        row, "other.example.com"
    ),
}


def compile_expression(expression: str) -> Program:
    """The program of one of the generator's expressions."""
    judge = _ALL[expression]

    def run(row: DeviceRow) -> bool:
        for name, attribute in row.device.attributes.items():
            version = attribute.version_value
            if version is not None and not re.fullmatch(r"\d+\.\d+\.\d+", version):
                raise SelectorFaultError(
                    f"attribute {name}: parse semantic version: No Major.Minor.Patch elements found"
                )
        return judge(row)

    return run

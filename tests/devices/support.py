"""Builders for slices, classes and claims, and selectors that need no CEL."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from bayplan.api.node import Node
from bayplan.api.resource import (
    AllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from bayplan.devices.allocator import Allocator
from bayplan.devices.requests import ClaimShapes
from bayplan.devices.selectors import Selectors
from bayplan.devices.table import DeviceTable

DRIVER = "gpu.example.com"
T = TypeVar("T")


def decode(body: dict[str, Any], cls: type[T]) -> T:
    """An object from what stands on the wire."""
    return msgspec.json.decode(msgspec.json.encode(body), type=cls)


def node(name: str = "n1", **labels: str) -> Node:
    return decode({"metadata": {"name": name, "labels": labels}}, Node)


def device(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def piece(name: str, *devices: dict[str, Any], pool: str = "p", **spec: Any) -> ResourceSlice:
    """A slice; without a node field it is for node n1."""
    places = ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection")
    if not any(place in spec for place in places):
        spec["nodeName"] = "n1"
    generation, count = spec.pop("generation", 1), spec.pop("count", 1)
    about = {"name": pool, "generation": generation, "resourceSliceCount": count}
    body = {"driver": DRIVER, "pool": about, "devices": devices, **spec}
    return decode({"metadata": {"name": name}, "spec": body}, ResourceSlice)


def exactly(name: str = "r", **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "any", **fields}}


def claim(*requests: dict[str, Any], name: str = "c", **spec: Any) -> ResourceClaim:
    body = {"devices": {"requests": requests or (exactly(),), **spec}}
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return decode({"metadata": metadata, "spec": body}, ResourceClaim)


def color(value: str) -> list[dict[str, Any]]:
    """Selects devices with that color; one without is no error."""
    return selected(f'device.attributes["{DRIVER}"].?color.orValue("") == "{value}"')


def selected(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]


def held(name: str, pool: str = "p", **fields: Any) -> DeviceRequestAllocationResult:
    body = {"request": "r", "driver": DRIVER, "pool": pool, "device": name, **fields}
    return decode(body, DeviceRequestAllocationResult)


def table(*slices: ResourceSlice) -> DeviceTable:
    made = DeviceTable()
    for one in slices:
        made.set_slice(one)
    return made


def allocator(devices: DeviceTable, *classes: DeviceClass, **options: Any) -> Allocator:
    known = {"any": DeviceClass(), **{c.name: c for c in classes}}
    selectors = Selectors()
    return Allocator(devices, selectors, ClaimShapes(), known.get, **options)


def names(results: list[AllocationResult] | None) -> list[list[str]] | None:
    """The devices of each claim."""
    if results is None:
        return None
    return [[d.device for d in result.devices.results] for result in results]

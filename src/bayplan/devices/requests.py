"""Requests: a claim's spec with classes looked up, shared by all claims with equal specs.

Claims made from one template differ in their names only, so a `ClaimShape` has no names in it;
texts that need the claim's name get it when they are made. Nor has it the parameters for drivers
(`config`), which are often a claim's own and have no part in the choice of devices. What is wrong
with a request is kept as its fault and raised when the allocator comes to it, as kube-scheduler
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from bayplan.api.quantity import Amount
from bayplan.api.resource import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from bayplan.devices.selectors import SelectorExpression

ClassLookup = Callable[[str], DeviceClass | None]


@dataclass(frozen=True, slots=True, eq=False)
class RequestShape:
    """A request, or one alternative of a prioritized list.

    Attributes:
        name: its own name.
        parent: the name of the request that it is an alternative of; else empty.
        device_class: the class as it was looked up.
        selectors: the class's, then its own.
        take_all: whether it asks for all devices rather than `count`.
        fault: what is wrong with it, to stand behind ``claim C, request R``; else empty.
    """

    name: str
    parent: str
    device_class: DeviceClass | None
    selectors: tuple[SelectorExpression, ...]
    take_all: bool
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Amount]
    fault: str

    @property
    def full_name(self) -> str:
        """As results name it: ``R`` or ``R/S``."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    def among(self, names: tuple[str, ...]) -> bool:
        """Whether ``names`` has the request; the name of a list stands for all alternatives."""
        return self.full_name in names or (self.parent or self.name) in names


@dataclass(frozen=True, slots=True, eq=False)
class ClaimShape:
    """What a claim asks for.

    Attributes:
        requests: per request its alternatives; a request that is no list has itself only.
        prioritized: whether one of them is a list.
        valid: whether every request names a class that exists.
    """

    requests: tuple[tuple[RequestShape, ...], ...]
    constraints: tuple[DeviceConstraint, ...]
    prioritized: bool
    valid: bool


class ClaimShapes:
    """Shapes by content: requests, constraints, and the classes as they are now."""

    def __init__(self, capacity: int = 4096) -> None:
        self._shapes: dict[tuple[bytes, tuple[tuple[str, str], ...]], ClaimShape] = {}
        self._capacity = capacity

    def of(self, claim: ResourceClaim, classes: ClassLookup) -> ClaimShape:
        """The shape of ``claim``."""
        versions = []
        for name in _class_names(claim):
            device_class = classes(name)
            meta = device_class.metadata if device_class is not None else None
            versions.append((meta.uid, meta.resource_version) if meta is not None else ("", ""))
        spec = claim.spec.devices
        key = (msgspec.json.encode((spec.requests, spec.constraints)), tuple(versions))
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= self._capacity:
                self._shapes.clear()
            shape = self._shapes[key] = _compile(claim, classes)
        return shape


def _class_names(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.exactly.device_class_name
        for sub in request.first_available:
            yield sub.device_class_name


def _compile(claim: ResourceClaim, classes: ClassLookup) -> ClaimShape:
    spec = claim.spec.devices
    requests = tuple(_alternatives(request, classes) for request in spec.requests)
    every = [request for alternatives in requests for request in alternatives]
    return ClaimShape(
        requests,
        spec.constraints,
        prioritized=any(request.parent for request in every),
        valid=all(request.device_class is not None for request in every),
    )


def _alternatives(request: DeviceRequest, classes: ClassLookup) -> tuple[RequestShape, ...]:
    if request.first_available:
        return tuple(
            _request(sub.name, request.name, sub, classes) for sub in request.first_available
        )
    return (_request(request.name, "", request.exactly or ExactDeviceRequest(), classes),)


def _request(
    name: str, parent: str, spec: ExactDeviceRequest | DeviceSubRequest, classes: ClassLookup
) -> RequestShape:
    device_class = classes(spec.device_class_name) if spec.device_class_name else None
    return RequestShape(
        name,
        parent,
        device_class,
        _selectors(spec, device_class),
        spec.allocation_mode == ALL,
        spec.count,
        isinstance(spec, ExactDeviceRequest) and spec.admin_access,
        spec.tolerations,
        spec.capacity.requests if spec.capacity is not None else {},
        _fault(spec, device_class),
    )


def _selectors(
    spec: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None
) -> tuple[SelectorExpression, ...]:
    of_class = class_selectors(device_class) if device_class is not None else ()
    return *of_class, *_numbered("", spec.selectors)


def class_selectors(device_class: DeviceClass) -> tuple[SelectorExpression, ...]:
    """The selectors of a class."""
    return _numbered(f"class {device_class.name}", device_class.spec.selectors)


def _numbered(owner: str, selectors: Iterable[DeviceSelector]) -> tuple[SelectorExpression, ...]:
    return tuple(
        SelectorExpression(
            owner, index, selector.cel.expression if selector.cel is not None else ""
        )
        for index, selector in enumerate(selectors)
    )


def _fault(spec: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None) -> str:
    if spec.derived_attributes:
        return ": cannot handle request with derived attributes, the feature is disabled"
    for index, selector in enumerate(spec.selectors):
        if selector.cel is None:
            return f", selector #{index}: CEL expression empty (unsupported selector type?)"
    if not spec.device_class_name:
        return ": missing device class name (unsupported request type?)"
    if device_class is None:
        name = spec.device_class_name
        return (
            f": could not retrieve device class {name}: "
            f'deviceclass.resource.k8s.io "{name}" not found'
        )
    if spec.allocation_mode not in (ALL, EXACT_COUNT):
        return f": unsupported count mode {spec.allocation_mode}"
    return ""

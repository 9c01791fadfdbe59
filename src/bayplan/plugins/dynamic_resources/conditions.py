"""Binding conditions: whether the devices of an allocated claim are ready, failed or too late.

A device may have to be attached before a Pod can use it. Its driver reports that in conditions of
``status.devices``; the Pod is bound when all are True (KEP-5007).
"""

from __future__ import annotations

import enum

from bayplan.api.resource import DeviceCondition, DeviceRequestAllocationResult, ResourceClaim

FAILED = "device binding failed"
TIMEOUT = "device binding timeout"


class Readiness(enum.Enum):
    """How far the devices of a claim are."""

    READY = enum.auto()
    WAITING = enum.auto()
    FAILED = enum.auto()


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether any device of the claim has binding conditions."""
    return any(result.binding_conditions for result in allocated_devices(claim))


def readiness(claim: ResourceClaim) -> tuple[Readiness, str]:
    """How far the claim's devices are, and for failed ones why."""
    if claim.status.allocation is None:
        return Readiness.WAITING, ""
    for result in allocated_devices(claim):
        if not result.binding_conditions:
            continue
        key = result.driver, result.pool, result.device
        statuses = claim.status.devices
        device = next((s for s in statuses if (s.driver, s.pool, s.device) == key), None)
        if device is None:
            return Readiness.WAITING, ""
        true = {c.type: c for c in device.conditions if c.status == "True"}
        for name in result.binding_failure_conditions:
            if name in true:
                return Readiness.FAILED, _failure(claim, true[name])
        if not all(name in true for name in result.binding_conditions):
            return Readiness.WAITING, ""
    return Readiness.READY, ""


def too_late(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Whether the devices have not become ready within ``timeout`` seconds of the allocation."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    return allocation.allocation_timestamp.timestamp() + timeout < now


def allocated_devices(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """The devices that the claim has."""
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def _failure(claim: ResourceClaim, condition: DeviceCondition) -> str:
    message = condition.message.replace('"', '\\"')
    return f'{FAILED}: claim={claim.name}, reason={condition.reason}, message="{message}"'

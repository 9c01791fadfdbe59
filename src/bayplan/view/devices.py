"""Devices of ResourceSlices on nodes, for the picture: how many, and how many claims have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bayplan.api.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.resource import (
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from bayplan.cache.objects import ObjectStore

Counts = Mapping[str, Sequence[int]]


def devices(objects: ObjectStore, nodes: Sequence[str]) -> Counts:
    """By column the counts of each of ``nodes``: ``devices/DRIVER`` and ``allocated/DRIVER``.

    Of slices that name a node, the newest generation of each pool. A device counts as allocated
    once, however many claims share it.
    """
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in objects.all(RESOURCE_SLICE):
        if piece.spec.node_name:
            pools.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    if not pools:
        return {}
    there: dict[str, Counter[str]] = {}
    node_of: dict[tuple[str, str, str], str] = {}
    for (driver, pool), pieces in pools.items():
        newest = max(piece.spec.pool.generation for piece in pieces)
        for piece in pieces:
            if piece.spec.pool.generation == newest:
                node = piece.spec.node_name or ""
                there.setdefault(driver, Counter())[node] += len(piece.spec.devices)
                node_of |= {(driver, pool, device.name): node for device in piece.spec.devices}
    taken = {
        (result.driver, result.pool, result.device)
        for claim in objects.all(RESOURCE_CLAIM)
        for result in _results(claim)
    }
    held = {driver: Counter[str]() for driver in there}
    for device in taken & node_of.keys():
        held[device[0]][node_of[device]] += 1
    columns = {}
    for driver in sorted(there):
        columns[f"devices/{driver}"] = [there[driver][node] for node in nodes]
        columns[f"allocated/{driver}"] = [held[driver][node] for node in nodes]
    return columns


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return [result for result in allocation.devices.results if not result.admin_access]

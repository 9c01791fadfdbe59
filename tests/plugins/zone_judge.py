"""The judge of NodeResourceTopologyMatch: plain loops, written from the rules alone.

Nothing of bayplan is imported. Two rules are bayplan's: a node does not win by what its object
lacks, and one resource alone is used evenly. Amounts are whole numbers, milli-CPU for cpu. A node
is a dictionary with ``allocatable``, ``policy``, ``scope``, ``most`` and ``zones``, or without
zones None: there is no object. A zone has ``id``, ``available`` and ``costs`` by the id of another
one. A Pod has ``init`` (with ``sidecar``), ``containers`` (each with ``requests``), ``overhead``,
and ``qos``.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Data = dict[str, Any]
NATIVE = ("cpu", "memory", "pods", "ephemeral-storage", "storage")


def native(resource: str) -> bool:
    return resource in NATIVE or resource.startswith("hugepages-")


def affine(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def whole(pod: Data) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod["containers"]:
        for name, amount in container["requests"].items():
            total[name] = total.get(name, 0) + amount
    for container in pod["init"]:
        for name, amount in container["requests"].items():
            total[name] = max(total.get(name, 0), amount)
    for name, amount in pod["overhead"].items():
        total[name] = total.get(name, 0) + amount
    return total


def suits(pod: Data, resource: str, amount: int, available: int) -> bool:
    if pod["qos"] != "Guaranteed" and affine(resource):
        return True
    return available >= amount


def chosen(pod: Data, node: Data, zones: list[Data], request: dict[str, int]) -> int | None:
    candidates = {zone["id"] for zone in zones}
    limited = False
    for name, amount in request.items():
        if amount == 0:
            continue
        if name not in NATIVE[:4] and name not in node["allocatable"]:
            return None
        listing = [zone for zone in zones if name in zone["available"]]
        host_level = name in ("ephemeral-storage", "storage") or not native(name)
        if not listing and host_level:
            continue
        limited = True
        fitting = {z["id"] for z in listing if suits(pod, name, amount, z["available"][name])}
        candidates &= fitting
        if not candidates:
            return None
    return min(candidates, default=0) if candidates or not limited else None


def verdict(pod: Data, node: Data) -> str:  # noqa: C901 - as the rules have it
    requested = [c["requests"] for c in (*pod["init"], *pod["containers"])]
    devices = any(not native(name) for request in requested for name in request)
    if pod["qos"] == "BestEffort" and not devices:
        return ""
    if node["zones"] is None or node["policy"] != "single-numa-node":
        return ""
    zones = [{**zone, "available": dict(zone["available"])} for zone in node["zones"]]
    if node["scope"] == "pod":
        return "" if chosen(pod, node, zones, whole(pod)) is not None else "cannot align pod"
    for container in pod["init"]:
        if chosen(pod, node, zones, container["requests"]) is None:
            return f"cannot align {'sidecar' if container['sidecar'] else 'init'} container"
    for container in pod["containers"]:
        id_ = chosen(pod, node, zones, container["requests"])
        if id_ is None:
            return "cannot align container"
        for zone in zones:
            if zone["id"] == id_:
                for name, amount in container["requests"].items():
                    if pod["qos"] != "Guaranteed" and affine(name):
                        continue
                    if name in zone["available"]:
                        zone["available"][name] -= amount
    return ""


# Scores


def value(resource: str, amount: int) -> int:
    return -(-amount // 1000) if resource == "cpu" else amount


def of_zone(strategy: str, weights: dict[str, int], request: dict[str, int], zone: Data) -> int:
    fractions = []
    total = weight = 0
    for name, amount in request.items():
        available = zone["available"].get(name, 0)
        need, room = value(name, amount), value(name, available)
        fraction = 1.0 if room == 0 else need / room
        if strategy == "BalancedAllocation" and fraction > 1:
            return 0
        fractions.append(fraction)
        if available == 0 or amount > available:
            score = 0
        elif strategy == "LeastAllocated":
            score = (room - need) * 100 // room
        else:
            score = need * 100 // room
        total += score * weights.get(name, 1)
        weight += weights.get(name, 1)
    if strategy != "BalancedAllocation":
        return total // weight
    if len(fractions) == 1:
        return 100
    mean = sum(fractions) / len(fractions)
    off = [f - mean for f in fractions]
    squares = sum(o * o for o in off) - sum(off) ** 2 / len(off)
    return int((1 - squares / (len(fractions) - 1)) * 100)


def of_zones(strategy: str, weights: dict[str, int], request: dict[str, int], node: Data) -> int:
    scores = [of_zone(strategy, weights, request, zone) for zone in node["zones"]]
    return min((score for score in scores if score), default=0)


def needed(request: dict[str, int], zones: list[Data]) -> tuple[tuple[int, ...], bool]:
    for size in range(1, len(zones) + 1):
        best: tuple[int, ...] = ()
        best_distance, least = 256.0, 255.0
        for members in itertools.combinations(range(len(zones)), size):
            cost = 0
            for a in members:
                for b in members:
                    cost += zones[a]["costs"].get(zones[b]["id"], 255)
            distance = float(np.float32(cost) / np.float32(size * size))
            least = min(least, distance)
            if any(name not in zones[i]["available"] for i in members for name in request):
                continue
            if any(
                amount and sum(zones[i]["available"][name] for i in members) < amount
                for name, amount in request.items()
            ):
                continue
            if distance < best_distance:
                best, best_distance = members, distance
        if best:
            return best, best_distance == least < 255
    return (), False


def fewest(pod: Data, node: Data) -> int:
    zones = [{**zone, "available": dict(zone["available"])} for zone in node["zones"]]
    containers = (*pod["init"], *pod["containers"])
    requests = [whole(pod)] if node["scope"] == "pod" else [c["requests"] for c in containers]
    most, ideal = 0, True
    for request in requests:
        listed = any(name in zone["available"] for zone in zones for name in request)
        if not listed and not any(amount and affine(name) for name, amount in request.items()):
            continue
        members, is_ideal = needed(request, zones)
        if not members:
            return 0
        most, ideal = max(most, len(members)), ideal and is_ideal
        for name, amount in request.items():
            rest = amount
            for i in members:
                taken = min(rest, zones[i]["available"][name])
                zones[i]["available"][name] -= taken
                rest -= taken
    if most == 0:
        return 100
    step = 100 // int(node["most"])
    return 100 - most * step + (step // 2 if ideal else 0)


def score(strategy: str, weights: dict[str, int], pod: Data, node: Data) -> int:
    if pod["qos"] != "Guaranteed":
        return 100
    if node["zones"] is None:
        return 0
    if strategy == "LeastNUMANodes":
        return fewest(pod, node)
    if node["policy"] != "single-numa-node":
        return 0
    if node["scope"] == "pod":
        return of_zones(strategy, weights, whole(pod), node)
    scores = [
        of_zones(strategy, weights, container["requests"], node)
        for container in (*pod["init"], *pod["containers"])
    ]
    return int(sum(scores) / len(scores))

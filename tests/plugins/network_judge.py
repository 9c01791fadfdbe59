"""What NetworkOverhead of scheduler-plugins says, in plain loops over plain data.

Written from a description of its behaviour, without any of bayplan's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Place = tuple[str, str, str]
"""A node: its name, region and zone; "" for a label that is missing."""
Prices = Mapping[tuple[str, str], int]


def look(
    node: Place,
    others: Sequence[tuple[str, Place]],
    dependencies: Sequence[tuple[str, int]],
    regions: Prices,
    zones: Prices,
) -> tuple[int, int, int]:
    """How many dependencies the node satisfies and violates, and what it costs.

    ``others`` are the Pods of the AppGroup on nodes, each the selector of a workload and the node;
    ``dependencies`` are the selector and the highest cost of each.
    """
    name, region, zone = node
    satisfied = violated = cost = 0
    for selector, (its_name, its_region, its_zone) in others:
        for wanted, most in dependencies:
            if wanted != selector:
                continue
            if its_name == name:
                satisfied += 1
                continue
            if its_region == "" and its_zone == "":
                violated += 1
                cost += 100
                continue
            if its_region == region and its_zone == zone:
                satisfied += 1
                cost += 1
                continue
            if its_region == region:
                price = zones.get((zone, its_zone)) if zone else None
            else:
                price = regions.get((region, its_region)) if region else None
            if price is None:
                cost += 100
                continue
            cost += price
            if price <= most:
                satisfied += 1
            else:
                violated += 1
    return satisfied, violated, cost


def normalize(costs: Sequence[int]) -> list[int]:
    """The scores of feasible nodes with these costs."""
    low, high = min(costs), max(costs)
    if low == 0 and high == 0:
        return list(costs)
    if low == high:
        return [100 - (cost - low) for cost in costs]
    return [100 - int(100.0 * float(cost - low) / float(high - low)) for cost in costs]

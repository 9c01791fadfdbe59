"""Searches that must fail do so at once: with a clock that only ticks, a long one would end."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from tests.devices.support import (
    allocator,
    claim,
    color,
    device,
    exactly,
    names,
    node,
    piece,
    table,
)

MATCH = [{"matchAttribute": "gpu.example.com/color"}]


def devices(number: int, **fields: Any) -> list[dict[str, Any]]:
    return [device(f"d{n:02}", **fields) for n in range(number)]


COLORED = [device(f"d{n:02}", attributes={"color": {"string": f"c{n % 9}"}}) for n in range(27)]


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        (devices(24), [claim(exactly(count=25))]),
        (devices(24), [claim(exactly(count=12), exactly("r2", count=13))]),
        (devices(24), [claim(exactly(count=12)), claim(exactly(count=13), name="c2")]),
        (COLORED, [claim(exactly(count=4), constraints=MATCH)]),
        (COLORED, [claim(exactly(count=2), exactly("r2", count=2), constraints=MATCH)]),
        (COLORED, [claim(exactly(count=4, selectors=color("c1")))]),
    ],
)
def test_what_cannot_fit_is_seen_at_once(offered: list[dict[str, Any]], asked: list[Any]) -> None:
    looks = iter(range(300))
    made = allocator(table(piece("s", *offered)), expired=lambda: next(looks, None) is None)
    assert made.allocate(node(), asked) is None


def partitions(amounts: list[dict[str, int]], **left: int) -> Any:
    """A table of devices, each of which draws ``amounts`` of the counters ``left``."""
    counters = {name: {"value": str(value)} for name, value in left.items()}
    offered = [
        device(
            f"d{n:02}",
            consumesCounters=[
                {"counterSet": "set", "counters": {k: {"value": str(v)} for k, v in one.items()}}
            ],
        )
        for n, one in enumerate(amounts)
    ]
    sets = [{"name": "set", "counters": counters}]
    return table(piece("sets", count=2, sharedCounters=sets), piece("parts", *offered, count=2))


def test_more_than_counters_allow_is_seen_at_once() -> None:
    looks = iter(range(300))
    offered = partitions([{"units": 1}] * 24, units=7)
    made = allocator(offered, expired=lambda: next(looks, None) is None)
    assert made.allocate(node(), [claim(exactly(count=8))]) is None
    assert made.allocate(node(), [claim(exactly(count=4)), claim(exactly(count=4))]) is None
    assert made.allocate(node(), [claim(exactly(count=7))]) is not None


@pytest.mark.parametrize("seed", range(40))
def test_what_counters_allow_is_found(seed: int) -> None:
    """Compared with all combinations."""
    rng = random.Random(seed)
    amounts = [{"a": rng.randint(0, 3), "b": rng.randint(1, 3)} for _ in range(7)]
    for one in amounts:
        if rng.random() < 0.3:
            del one[rng.choice("ab")]
    left = {"a": rng.randint(0, 6), "b": rng.randint(0, 6)}
    made = allocator(partitions(amounts, **left))
    for count in range(1, 6):
        possible = any(
            all(sum(one.get(name, 0) for one in some) <= most for name, most in left.items())
            for some in combinations(amounts, count)
        )
        found = made.allocate(node(), [claim(exactly(count=count))]) is not None
        assert found == possible


def test_the_first_value_of_which_there_are_enough_wins() -> None:
    colors = ["red", "blue", "blue", "red", "green", "blue"]
    offered = [device(f"d{n}", attributes={"color": {"string": c}}) for n, c in enumerate(colors)]
    made = allocator(table(piece("s", *offered)))
    result = made.allocate(node(), [claim(exactly(count=3), constraints=MATCH)])
    assert names(result) == [["d1", "d2", "d5"]]

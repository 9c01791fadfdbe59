"""Searches that must fail do so at once: with a clock that only ticks, a long one would end."""

from __future__ import annotations

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


def test_the_first_value_of_which_there_are_enough_wins() -> None:
    colors = ["red", "blue", "blue", "red", "green", "blue"]
    offered = [device(f"d{n}", attributes={"color": {"string": c}}) for n, c in enumerate(colors)]
    made = allocator(table(piece("s", *offered)))
    result = made.allocate(node(), [claim(exactly(count=3), constraints=MATCH)])
    assert names(result) == [["d1", "d2", "d5"]]

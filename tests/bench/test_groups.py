"""The benchmark of groups places what fits, and wakes whom it says, on a small cluster."""

from __future__ import annotations

import pytest
from bench.groups import CASES, CPU_OF_ALL, WAITING, Case, events_beside, measure


@pytest.mark.parametrize(
    ("case", "bound"),
    [
        pytest.param(Case("small", 2, 3), "6", id="fits"),
        pytest.param(Case("large", 1, 3, cpu=str(CPU_OF_ALL + 1)), "0", id="does-not-fit"),
        pytest.param(CASES[3]._replace(groups=1, size=3), "3", id="in-a-zone"),
        pytest.param(CASES[4]._replace(groups=1, size=20), "20", id="in-parts"),
    ],
)
def test_a_group_is_placed_as_a_whole_or_not_at_all(case: Case, bound: str) -> None:
    assert measure(case, 10)[0] == bound


@pytest.mark.parametrize("case", WAITING, ids=lambda case: case.name)
def test_only_room_wakes_the_groups_that_wait(case: Case) -> None:
    woken = {
        name: event.groups for name, event in events_beside(case._replace(groups=2), 40).items()
    }
    last = woken.pop("a Pod leaves a full node")
    assert last == (0 if case.missing else 2)
    assert not any(woken.values())

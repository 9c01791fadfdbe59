"""The benchmark of groups places what fits, on a small cluster."""

from __future__ import annotations

import pytest
from bench.groups import CASES, CPU_OF_ALL, Case, measure


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

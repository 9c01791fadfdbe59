"""The benchmark of the search for victims, on a small cluster."""

from __future__ import annotations

import pytest
from bench.room import Case, measure


@pytest.mark.parametrize(
    ("case", "victims"), [(Case(3, 1), 3), (Case(2, 4), 8)], ids=["one GPU", "whole nodes"]
)
def test_as_many_are_evicted_as_the_group_needs(case: Case, victims: int) -> None:
    assert measure(nodes=5, running=20, case=case).victims == victims

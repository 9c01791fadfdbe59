"""Blocks say what a look at all totals says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import length

from bayplan.engine.row_answers import blocks
from bayplan.engine.row_answers.blocks import Blocks
from bayplan.engine.ties import highest

TOTAL = st.integers(-1, 3)


@length(200)
@given(
    st.lists(TOTAL, min_size=1, max_size=20),
    st.lists(st.lists(st.tuples(st.integers(0, 19), TOTAL), max_size=5), max_size=6),
    st.integers(1, 7),
)
def test_the_highest_totals_are_those_of_a_look_at_all(
    first: list[int], changes: list[list[tuple[int, int]]], size: int
) -> None:
    totals = np.array(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", size)
        kept = Blocks(totals)
        for some in [[], *changes]:
            rows = [row % len(totals) for row, _ in some]
            for row, (_, total) in zip(rows, some, strict=True):
                totals[row] = total
            kept.changed(rows)
            expected, found = highest(totals).rows.tolist(), kept.ties()
            assert found.count == len(expected)
            assert [found.row(index) for index in range(found.count)] == expected
            assert found.rows.tolist() == expected

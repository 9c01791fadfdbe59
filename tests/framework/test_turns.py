"""A ranking has the lowest rank first, whatever changes in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.framework.turns import Ranking

KEYS = st.integers(0, 5)


@given(st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)), max_size=300))
def test_the_first_is_the_lowest_key_of_the_lowest_rank(
    changes: list[tuple[int, int | None]],
) -> None:
    ranking: Ranking[int] = Ranking()
    ranks: dict[int, int] = {}
    for key, rank in changes:
        if rank is None:
            ranking.discard(key)
            ranks.pop(key, None)
        else:
            ranking.put(key, rank)
            ranks[key] = rank
        assert len(ranking) == len(ranks)
        if ranks:
            assert ranking.first() == min(ranks, key=lambda key: (ranks[key], key))
        else:
            with pytest.raises(IndexError):
                ranking.first()


def test_stale_entries_do_not_pile_up() -> None:
    ranking: Ranking[str] = Ranking()
    ranking.put("first", 0)
    for rank in range(10_000):
        ranking.put("other", 10_000 - rank)
    assert ranking.first() == "first"
    assert len(ranking._heap) < 100


def test_ranks_change_together() -> None:
    ranking: Ranking[str] = Ranking()
    for rank, key in enumerate("abc"):
        ranking.put(key, rank)
    ranking.rerank({"a": 3.0, "b": 2.0, "c": 1.0}.__getitem__)
    assert ranking.first() == "c"

"""Answers by groups of rows that are as full are those of an evaluation of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.properties import length

from bayplan.api.pod import Pod
from bayplan.engine.row_answers import answer_cache
from bayplan.engine.row_answers.load_groups import GroupedAnswers, _equal
from bayplan.testing import PROFILE, make_node, make_pod

NODES = 200


@pytest.fixture(autouse=True)
def as_if_there_were_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MANY", NODES)
    monkeypatch.setattr(answer_cache, "_PATIENCE", 3)


def cluster() -> Cluster:
    made = Cluster()
    for i in range(NODES):
        node = make_node(f"n{i:03}").capacity(cpu=f"{4 + i % 2}", memory="8Gi", pods=10)
        made.add(node.taint("no", effect="NoSchedule") if i % 7 == 0 else node)
    return made


def sized(milli: int) -> Pod:
    return make_pod("asks").req(cpu=f"{milli}m").spec(schedulerName=PROFILE).obj()


def asked(made: Cluster, milli: int) -> bool:
    """Whether groups answer for such a Pod; the answers are those of a look at all rows."""
    kept, fresh = made.core.profiles[PROFILE].search.kept_and_fresh(sized(milli))
    assert kept.fits.tolist() == fresh.fits.tolist()
    assert kept.totals().tolist() == fresh.totals().tolist()
    assert kept.totals(fresh.fits).tolist() == fresh.totals().tolist()
    assert kept.count == fresh.count == fresh.fits.sum()
    expected, best = fresh.best().rows.tolist(), kept.best()
    assert [best.row(index) for index in range(best.count)] == best.rows.tolist() == expected
    return isinstance(kept, GroupedAnswers)


@length(20)
@given(st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(1, 30)), max_size=60))
def test_new_sizes_have_the_answers_of_all_rows(placed: list[tuple[int, int]]) -> None:
    made = cluster()
    grouped = [asked(made, 10 * step + 11) for step in range(3)]
    for index, (row, tenths) in enumerate(placed):
        pod = make_pod(f"p{index}").req(cpu=f"{100 * tenths}m").node(f"n{row:03}")
        made.add(pod)
        if tenths % 3 == 0:
            made.remove(pod)
        if index % 10 == 9:
            made.add(make_node(f"n{row:03}").capacity(cpu="6", memory="9Gi", pods=10))
        grouped.append(asked(made, 1000 + index * 50 % 4000 + index))
    assert grouped[:3] == [False, False, True]
    assert all(grouped[3:23]), "the first rows to fill up leave few groups"


def test_a_size_that_comes_again_and_again_is_kept() -> None:
    made = cluster()
    for milli in (10, 20):
        asked(made, milli)
    assert [asked(made, 30) for _ in range(5)] == [True, True, False, False, False]


def test_there_are_no_groups_where_hardly_two_nodes_are_alike() -> None:
    made = cluster()
    for i in range(NODES):
        made.add(make_pod(f"p{i}").req(cpu=f"{100 + i}m").node(f"n{i:03}"))
    assert not any(asked(made, 10 + i) for i in range(6))


@length(100)
@given(st.lists(st.tuples(*[st.integers(-2, 2) | st.just(1 << 60)] * 3), max_size=30))
def test_rows_with_equal_numbers_have_one_code(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    codes = _equal(columns, len(rows)).tolist()
    assert len(set(codes)) == len(set(rows)) == len(set(zip(codes, rows, strict=True)))

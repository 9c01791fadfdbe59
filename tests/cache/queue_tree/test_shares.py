"""Fair shares: what is divided, by which weight, and what is never exceeded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import length

from bayplan.cache.amounts import UNLIMITED
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree.shares import fair_shares, fill, needs


@dataclass(frozen=True)
class Tree:
    """Queues as columns; of one resource."""

    capacity: int
    parent: list[int]
    demand: list[int]
    guaranteed: list[int]
    limit: list[int]
    weight: list[int]
    priority: list[int]

    @property
    def levels(self) -> list[IntArray]:
        """The rows by depth."""
        depth: list[int] = []
        for parent in self.parent:
            depth.append(0 if parent < 0 else depth[parent] + 1)
        return [np.flatnonzero(np.array(depth) == d) for d in range(max(depth) + 1)]

    @property
    def need(self) -> list[int]:
        """What each queue can use."""
        leaves = [d * (row not in self.parent) for row, d in enumerate(self.demand)]
        parents = np.array(self.parent)
        found = needs(parents, self.levels, column(leaves), column(self.limit))
        return [int(value) for value in found[:, 0]]

    @property
    def shares(self) -> list[int]:
        """The share of each queue."""
        found = fair_shares(
            np.array([self.capacity]),
            np.array(self.parent),
            self.levels,
            column(self.need),
            column(self.guaranteed),
            column(self.weight),
            np.array(self.priority),
            np.array([False]),
        )
        return [int(value) for value in found.whole[:, 0]]


def column(values: list[int]) -> IntArray:
    """(q, 1)."""
    return np.array(values, np.int64)[:, None]


def flat(
    capacity: int,
    demand: list[int],
    weight: list[int] | None = None,
    guaranteed: list[int] | None = None,
    priority: list[int] | None = None,
    limit: list[int] | None = None,
) -> Tree:
    """Queues without parents."""
    n = len(demand)
    return Tree(
        capacity,
        [-1] * n,
        demand,
        guaranteed or [0] * n,
        limit or [UNLIMITED] * n,
        weight or [1] * n,
        priority or [0] * n,
    )


@pytest.mark.parametrize(
    ("tree", "shares"),
    [
        pytest.param(flat(12, [2, 9, 9], [1, 1, 2]), [2, 3, 7], id="by weight, none above demand"),
        pytest.param(flat(12, [2, 3, 4]), [2, 3, 4], id="room for all"),
        pytest.param(flat(12, [9, 9], guaranteed=[8, 0]), [9, 3], id="guaranteed first"),
        pytest.param(flat(12, [9, 9], guaranteed=[10, 0]), [9, 3], id="guaranteed but not asked"),
        pytest.param(flat(12, [20, 20], guaranteed=[16, 8]), [8, 4], id="more guaranteed than is"),
        pytest.param(flat(12, [9, 9], priority=[0, 5]), [3, 9], id="higher priority first"),
        pytest.param(flat(12, [9, 9], [0, 1]), [3, 9], id="weight 0 takes what is left"),
        pytest.param(flat(12, [9, 9], [0, 0]), [6, 6], id="weights 0 share alike"),
        pytest.param(flat(12, [9, 9], limit=[2, 99]), [2, 9], id="no more than the limit"),
        pytest.param(flat(81, [81] * 4), [21, 20, 20, 20], id="the rest by name"),
        pytest.param(flat(1, [1, 1], [1, 2]), [0, 1], id="one device by weight"),
        pytest.param(flat(1, [1, 1], guaranteed=[0, 1]), [0, 1], id="one device by guarantee"),
        pytest.param(flat(1, [1, 1], priority=[0, 1]), [0, 1], id="one device by priority"),
        pytest.param(
            flat(3, [2, 2], guaranteed=[2, 2], priority=[0, 1]), [1, 2], id="a cut by priority"
        ),
        pytest.param(flat(3, [2, 2], [1, 2], guaranteed=[2, 2]), [1, 2], id="a cut by weight"),
        pytest.param(
            Tree(
                12,
                [-1, -1, 0, 0],
                [0, 20, 9, 9],
                [0] * 4,
                [UNLIMITED] * 4,
                [2, 1, 3, 1],
                [0] * 4,
            ),
            [8, 4, 6, 2],
            id="children divide what their parent has",
        ),
    ],
)
def test_shares(tree: Tree, shares: list[int]) -> None:
    assert tree.shares == shares


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    n = draw(st.integers(1, 8))
    amounts = st.lists(st.integers(0, 1000), min_size=n, max_size=n)
    limits = st.lists(st.sampled_from([0, 5, 100, UNLIMITED]), min_size=n, max_size=n)
    return Tree(
        draw(st.integers(0, 3000)),
        [draw(st.integers(-1, row - 1)) for row in range(n)],
        draw(amounts),
        draw(amounts),
        draw(limits),
        draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)),
        draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)),
    )


def children(tree: Tree, parent: int) -> list[int]:
    """The rows below."""
    return [row for row, its in enumerate(tree.parent) if its == parent]


@given(trees())
def test_siblings_share_all_that_somebody_needs_and_no_more_than_there_is(tree: Tree) -> None:
    shares, need = tree.shares, tree.need
    for parent in range(-1, len(tree.parent)):
        below = children(tree, parent)
        room = tree.capacity if parent < 0 else shares[parent]
        needed = sum(need[row] for row in below)
        assert sum(shares[row] for row in below) == min(room, needed)


@given(trees())
def test_nobody_has_more_than_it_needs(tree: Tree) -> None:
    for share, need in zip(tree.shares, tree.need, strict=True):
        assert 0 <= share <= need


@given(trees(), st.data())
def test_a_higher_weight_never_lowers_the_share(tree: Tree, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(tree.parent) - 1))
    heavier = list(tree.weight)
    heavier[row] += data.draw(st.integers(1, 5))
    more = replace(tree, weight=heavier).shares[row]
    # Siblings and uncles round differently, each by less than one unit.
    assert more >= tree.shares[row] - len(tree.parent)


@given(trees())
def test_what_is_guaranteed_is_there_where_siblings_are_guaranteed_no_more_than_there_is(
    tree: Tree,
) -> None:
    shares, need = tree.shares, tree.need
    for parent in range(-1, len(tree.parent)):
        below = children(tree, parent)
        room = tree.capacity if parent < 0 else shares[parent]
        entitled = [min(need[row], tree.guaranteed[row]) for row in below]
        if sum(entitled) <= room:
            assert all(shares[r] >= e for r, e in zip(below, entitled, strict=True))


@length(50)
@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 9)), min_size=1), st.integers(0, 900))
def test_who_gets_less_than_it_wants_stands_at_one_level(
    asked: list[tuple[int, int]], room: int
) -> None:
    want, weight = (np.array(values) for values in zip(*asked, strict=True))
    of_one = np.zeros(len(want), np.int64)
    shares, _ = fill(np.array([room]), want, weight, of_one, np.arange(len(want)))
    levels = (shares / weight)[shares < want]
    assert not len(levels) or levels.max() - levels.min() <= 1
    assert (
        all(shares[shares == want] / weight[shares == want] <= levels.max(initial=0) + 1)
        or (shares == want).all()
    )


def test_a_thousand_queues_take_a_few_milliseconds() -> None:
    random = np.random.default_rng(0)
    n, r = 1000, 5
    parent = np.concatenate([np.full(20, -1), random.integers(0, 20, n - 20)])
    levels = [np.arange(20), np.arange(20, n)]
    demand = random.integers(0, 10**12, (n, r)) * (np.arange(n) >= 20)[:, None]
    guaranteed = random.integers(0, 10**11, (n, r))
    weight, priority = random.integers(0, 9, (n, 1)), random.integers(0, 3, n)
    limit = np.full((n, r), UNLIMITED)
    started = process_time()
    for _ in range(5):
        need = needs(parent, levels, demand, limit)
        fair_shares(
            np.full(r, 10**14), parent, levels, need, guaranteed, weight, priority, np.ones(r, bool)
        )
    milliseconds = (process_time() - started) * 1000 / 5
    assert milliseconds < 100

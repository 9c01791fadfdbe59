"""The givers that are found for all queues at once are those that are found one by one."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.queues import queue

from bayplan.api.queues import Queue
from bayplan.cache.queue_tree import Structure
from bayplan.cache.queue_tree.shares import Shares
from bayplan.plugins.fair_share.givers import MOST_OVER, SHARE, find_givers

Rows = list[list[int]]


class Found(NamedTuple):
    """What a giver is, in plain numbers; floors by resource, 0 for what is not bounded."""

    rule: str
    over: float
    path: list[int]
    floors: list[int]


def ratios(used: list[int], share: list[int], contended: list[int]) -> list[Fraction | float]:
    """``used / share`` of each resource that counts."""
    return [
        (Fraction(a, b) if b else inf) if counts and a else Fraction(0)
        for a, b, counts in zip(used, share, contended, strict=True)
    ]


def one_by_one(
    structure: Structure,
    row: int,
    claims: list[bool],
    needed: list[int],
    used: Rows,
    shares: Rows,
    contended: Rows,
) -> tuple[dict[int, Found], list[int]]:
    """By the words of the rules, queue by queue."""
    givers, undone = {}, []
    for leaf in structure.leaves:
        if leaf == row or not structure.queues[leaf].spec.reclaimable:
            continue
        path = [link for link in structure.links[leaf] if link not in structure.links[row]]
        up_to = [link for link in structure.links[row] if link not in structure.links[leaf]]
        rival, branch = up_to[-1], path[-1]
        with_taker = [a + b for a, b in zip(used[rival], needed, strict=True)]
        after = max(ratios(with_taker, shares[rival], contended[rival]), default=0)
        of_branch = ratios(used[branch], shares[branch], contended[branch])
        over = max(of_branch, default=0)
        floors = [0] * len(needed)
        if claims[structure.links[row].index(rival)]:
            givers[leaf] = Found("guaranteed", float(over), path, floors)
        elif after < over and after <= MOST_OVER:
            column = of_branch.index(over)
            floors[column] = ceil(after * shares[branch][column])
            givers[leaf] = Found("share", float(over), path, floors)
        elif over > 1:
            undone.append(leaf)
    return givers, undone


@st.composite
def trees(draw: st.DrawFn) -> list[Queue]:
    """Queues, each of which may have one of those before it as its parent."""
    names = [f"q{i}" for i in range(draw(st.integers(1, 7)))]
    return [
        queue(
            name,
            reclaimable=draw(st.booleans()) or draw(st.booleans()),
            parent=draw(st.sampled_from(["", *names[:index]])),
            created=index,
        ).obj()
        for index, name in enumerate(names)
    ]


@given(trees(), st.integers(1, 2), st.data())
def test_they_are_those_that_are_found_one_by_one(
    queues: list[Queue], columns: int, data: st.DataObject
) -> None:
    structure = Structure(queues)
    size = len(structure)

    def table(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
        amounts = st.lists(values, min_size=columns, max_size=columns)
        return st.lists(amounts, min_size=size, max_size=size)

    row = data.draw(st.sampled_from(structure.leaves))
    links = structure.links[row]
    claims = data.draw(st.lists(st.booleans(), min_size=len(links), max_size=len(links)))
    needed = data.draw(st.lists(st.integers(0, 6), min_size=columns, max_size=columns))
    used, whole = data.draw(table(st.integers(0, 6))), data.draw(table(st.integers(0, 6)))
    contended = data.draw(table(st.booleans()))
    amounts = np.array(whole, np.int64)
    shares = Shares(amounts, amounts.astype(float), amounts, np.array(contended))
    givers, undone = find_givers(
        structure, row, np.array(claims), np.array(needed), np.array(used), shares
    )
    ones, undone_ones = one_by_one(structure, row, claims, needed, used, whole, contended)
    assert undone == undone_ones
    assert [giver.leaf for giver in givers] == list(ones)
    for giver in givers:
        rule, over, path, floors = ones[giver.leaf]
        assert (giver.rule, list(giver.path), giver.branch) == (rule, path, path[-1])
        assert giver.over == pytest.approx(over)
        if rule == SHARE:
            assert giver.floor == floors[giver.column]
            assert giver.room(used) == used[giver.branch][giver.column] - giver.floor
            assert not any(floor for c, floor in enumerate(floors) if c != giver.column)


def test_equal_queues_share_to_the_last_fraction() -> None:
    """Of 4 CPUs each of three has 1333 1/3 milli-CPU; a Pod of 1 CPU is three quarters of that."""
    structure = Structure(queue(name).obj() for name in "abc")
    exact = np.full((3, 1), 4000 / 3)
    shares = Shares(exact.astype(np.int64), exact, np.zeros((3, 1), np.int64), exact > 0)
    used = np.array([[2000], [2000], [0]])
    givers, _ = find_givers(structure, 2, np.array([False]), np.array([1000]), used, shares)
    assert [giver.room(used.tolist()) for giver in givers] == [1000, 1000]

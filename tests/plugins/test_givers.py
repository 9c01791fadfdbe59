"""The givers that are found for all queues at once are those that are found one by one."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.queues import queue

from bayplan.api.queues import Queue
from bayplan.cache.queue_tree import Structure
from bayplan.plugins.fair_share.givers import MOST_OVER, find_givers

Found = tuple[dict[int, tuple[str, float, list[int], list[list[int]]]], list[int]]
"""By leaf: rule, saturation, path, what may go of each queue of the path; and who is undone."""
UNBOUNDED = 2**62


def saturation(used: list[int], share: list[int]) -> float:
    return max((a / b if b else np.inf for a, b in zip(used, share, strict=True) if a), default=0.0)


def room(used: list[list[int]], path: list[int], floors: list[list[int]]) -> list[list[int]] | None:
    """What may go of each queue of the path; None if one of them is above no floor."""
    rooms = [
        [a - b if a > b else UNBOUNDED for a, b in zip(used[link], bounds, strict=True)]
        for link, bounds in zip(path, floors, strict=True)
    ]
    return None if any(min(level, default=UNBOUNDED) == UNBOUNDED for level in rooms) else rooms


def one_by_one(
    structure: Structure,
    row: int,
    needed: list[int],
    used: list[list[int]],
    guaranteed: list[list[int]],
    shares: list[list[int]],
) -> Found:
    """By the words of the rules, queue by queue."""
    givers, undone = {}, []
    for leaf in structure.leaves:
        if leaf == row or not structure.queues[leaf].spec.reclaimable:
            continue
        path = [link for link in structure.links[leaf] if link not in structure.links[row]]
        up_to = [link for link in structure.links[row] if link not in structure.links[leaf]]
        after = [[a + b for a, b in zip(used[link], needed, strict=True)] for link in up_to]
        over = saturation(used[path[-1]], shares[path[-1]])
        taking = saturation(after[-1], shares[up_to[-1]])
        stays_within = all(
            a <= b
            for link, amounts in zip(up_to, after, strict=True)
            for a, b in zip(amounts, guaranteed[link], strict=True)
        )
        rooms = room(used, path, [guaranteed[link] for link in path]) if stays_within else None
        if rooms is not None:
            givers[leaf] = "guaranteed", over, path, rooms
        elif over > 1:
            top = [ceil(share * min(max(taking, 1.0), MOST_OVER)) for share in shares[path[-1]]]
            rooms = room(used, path, [*(shares[link] for link in path[:-1]), top])
            if rooms is None or taking > MOST_OVER:
                undone.append(leaf)
            else:
                givers[leaf] = "share", over, path, rooms
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


@given(trees(), st.integers(0, 2), st.data())
def test_they_are_those_that_are_found_one_by_one(
    queues: list[Queue], columns: int, data: st.DataObject
) -> None:
    structure = Structure(queues)
    amounts = st.lists(st.integers(0, 6), min_size=columns, max_size=columns)
    table = st.lists(amounts, min_size=len(structure), max_size=len(structure))
    row = data.draw(st.sampled_from(structure.leaves))
    needed, (used, guaranteed, shares) = data.draw(amounts), [data.draw(table) for _ in range(3)]

    def array(lists: list[list[int]]) -> np.ndarray:
        return np.array(lists, np.int64).reshape(len(structure), columns)

    givers, undone = find_givers(
        structure, row, np.array(needed, np.int64), array(used), array(guaranteed), array(shares)
    )
    ones, undone_ones = one_by_one(structure, row, needed, used, guaranteed, shares)
    assert undone == undone_ones
    assert [giver.leaf for giver in givers] == list(ones)
    for giver in givers:
        rule, over, path, rooms = ones[giver.leaf]
        assert (giver.rule, giver.over, list(giver.path)) == (rule, over, path)
        assert giver.room(used) == rooms
        assert giver.most == [min(levels) for levels in zip(*rooms, strict=True)]


@pytest.mark.parametrize(
    ("guaranteed_to_preemptor", "rules"), [(3, {"a": "guaranteed"}), (2, {"a": "share"})]
)
def test_a_preemptor_and_its_ancestors_stay_within_what_is_guaranteed(
    guaranteed_to_preemptor: int, rules: dict[str, str]
) -> None:
    queues = [queue("a"), queue("p", created=1), queue("taker", parent="p", created=2)]
    structure = Structure(builder.obj() for builder in queues)
    rows = {structure.name(row): row for row in range(len(structure))}
    used, guaranteed, shares = np.zeros((3, len(structure), 1), np.int64)
    for name, amounts in {
        "a": (6, 2, 4),
        "p": (2, 9, 9),
        "taker": (2, guaranteed_to_preemptor, 9),
    }.items():
        used[rows[name]], guaranteed[rows[name]], shares[rows[name]] = amounts
    givers, _ = find_givers(structure, rows["taker"], np.array([1]), used, guaranteed, shares)
    assert {structure.name(giver.leaf): giver.rule for giver in givers} == rules

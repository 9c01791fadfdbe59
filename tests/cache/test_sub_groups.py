"""Sub-groups: the tree that an annotation describes, and what it needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.groups import members, pod_group, sub_groups, topology

from bayplan.cache.pod_groups import Group, of_pod_group, only_itself
from bayplan.cache.sub_groups import SUB_GROUPS, Surplus


def group_of(*items: Any, minimum: int = 0, **annotations: str) -> Group:
    """A group with these sub-groups."""
    asked = sub_groups(*items) | annotations
    return of_pod_group(pod_group("g", asked, minMember=minimum).obj(), only_itself)


TREE = (
    {"name": "leader"},
    {"name": "workers", "minMember": 5, "requiredTopology": "rack"},
    {"name": "a", "minMember": 2, "parent": "workers", "preferredTopology": "host"},
    {"name": "b", "parent": "workers"},
)


def test_the_annotation_is_a_tree_and_every_minimum_at_least_that_of_the_parts() -> None:
    group = group_of(*TREE, minimum=3)
    assert [(part.name, part.minimum) for part in group.walk()] == [
        ("", 6),
        ("leader", 1),
        ("workers", 5),
        ("a", 2),
        ("b", 1),
    ]
    assert [part.name for part in group.path("b")] == ["", "workers", "b"]
    assert [part.name for part in group.path("workers")] == ["", "workers"]
    assert [part.name for part in group.path("")] == [""]
    asked = {part.name: part.topology for part in group.walk() if part.topology is not None}
    assert [(t.required, t.preferred) for t in asked.values()] == [("rack", ""), ("", "host")]
    assert group.fault == ""


def test_a_group_without_sub_groups_is_a_tree_of_one() -> None:
    group = of_pod_group(pod_group("g", topology("rack"), minMember=3).obj(), only_itself)
    assert list(group.walk()) == [group]
    assert group.short({"": 2}) == [group]
    assert group.short({"": 1, "unknown": 2}) == []
    pods = [pod.obj() for pod in members("g", 5)]
    assert group.needed_first(pods) == pods


@pytest.mark.parametrize(
    ("counts", "short"),
    [
        ({"leader": 1, "a": 2, "b": 3}, []),
        ({"leader": 1, "a": 2, "b": 1, "workers": 2}, []),
        ({"leader": 2, "a": 2, "b": 2}, ["workers"]),
        ({"leader": 1, "a": 1, "b": 4}, ["a"]),
        ({"a": 4, "b": 1}, ["", "leader"]),
        ({}, ["", "leader", "workers", "a", "b"]),
    ],
)
def test_every_part_needs_its_minimum(counts: dict[str, int], short: list[str]) -> None:
    assert [part.name for part in group_of(*TREE).short(counts)] == short


def test_the_pods_that_make_up_every_minimum_come_first() -> None:
    group = group_of(*TREE, minimum=8)
    pods = [
        builder.obj()
        for name, number in (("a", 4), ("b", 4), ("leader", 2), ("", 1))
        for builder in members("g", number, sub_group=name)
    ]
    order = [pod.name for pod in group.needed_first(pods)]
    # a: 2, b: 1, workers: 2 more, leader: 1, the group: 2 more
    assert order[:8] == [
        "g-a-0",
        "g-a-1",
        "g-a-2",
        "g-a-3",
        "g-b-0",
        "g-b-1",
        "g-b-2",
        "g-leader-0",
    ]
    assert sorted(order) == sorted(pod.name for pod in pods)


def test_a_pod_may_go_as_long_as_its_group_and_all_its_sub_groups_have_enough() -> None:
    surplus = Surplus(group_of(*TREE), {"leader": 1, "a": 3, "b": 3})
    assert not surplus.take("leader")
    assert surplus.take("a")
    assert not surplus.take("a")
    assert not surplus.take("b")  # the workers are five now
    surplus = Surplus(group_of(minimum=2), {"": 3})
    assert [surplus.take("") for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("[", "Input data was truncated", id="no-json"),
        pytest.param("{}", "Expected `array`, got `object`", id="no-list"),
        pytest.param("[{}]", "Object missing required field `name` - at `$[0]`", id="no-name"),
        pytest.param(
            '[{"name": "a", "min": 1}]',
            "Object contains unknown field `min` - at `$[0]`",
            id="unknown-field",
        ),
        pytest.param(
            '[{"name": "a", "minMember": -1}]',
            "Expected `int` >= 0 - at `$[0].minMember`",
            id="negative",
        ),
        pytest.param(
            '[{"name": "a", "minMember": "2"}]',
            "Expected `int`, got `str` - at `$[0].minMember`",
            id="no-number",
        ),
        pytest.param(
            '[{"name": ""}]', 'the name "" cannot be the value of a label', id="empty-name"
        ),
        pytest.param(
            '[{"name": "a b"}]', 'the name "a b" cannot be the value of a label', id="bad-name"
        ),
        pytest.param(
            '[{"name": "a"}, {"name": "a"}]', "two sub-groups have the name a", id="twice"
        ),
        pytest.param(
            json.dumps([{"name": f"s{i}"} for i in range(65)]),
            "there are 65 sub-groups; at most 64 are possible",
            id="too-many",
        ),
        pytest.param(
            '[{"name": "a", "parent": "b"}]',
            "a has the parent b, which is no sub-group",
            id="unknown-parent",
        ),
        pytest.param(
            '[{"name": "a", "parent": "a"}]', "the parents go in a cycle: a > a", id="own-parent"
        ),
        pytest.param(
            '[{"name": "a", "parent": "b"}, {"name": "b", "parent": "c"}, '
            '{"name": "c", "parent": "b"}]',
            "the parents go in a cycle: b > c > b",
            id="cycle",
        ),
    ],
)
def test_an_annotation_that_cannot_be_is_a_fault_of_the_group(text: str, fault: str) -> None:
    group = of_pod_group(pod_group("g", {SUB_GROUPS: text}, minMember=2).obj(), only_itself)
    assert group.fault == f"{SUB_GROUPS}: {fault}"
    assert group.parts == ()

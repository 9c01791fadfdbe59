"""Slices of unlike Pods, and of several sub-groups: placed wherever there is a way, and tightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import (
    GATES,
    gang,
    gang_members,
    group_cluster,
    pod_group,
    slices,
    sub_groups,
    workload_cluster,
)
from tests.packing_judge import LEVELS, Node, Part, best, numbers
from tests.properties import length

from bayplan.cache.inferred_groups import COMPLETION_INDEX
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.sub_groups import SUB_GROUP_LABEL
from bayplan.groups import packed_fill, slice_packing
from bayplan.groups.packing_problem import How, PackingProblem
from bayplan.testing import Json, NodeBuilder, PodBuilder, make_node, make_pod


def built(nodes: Sequence[Node]) -> list[NodeBuilder]:
    """Nodes n0, n1 and so on."""
    return [
        make_node(f"n{i}")
        .capacity(cpu=str(node.cpu), memory="64Gi", pods=110)
        .label("block", node.path[0])
        .label("rack", node.path[1])
        for i, node in enumerate(nodes)
    ]


def members_of(parts: Sequence[Part]) -> list[PodBuilder]:
    """The Pods of all parts, called g-PART-INDEX."""
    pods = []
    for number, part in enumerate(parts):
        for i, cpu in enumerate(part.cpus):
            pod = make_pod(f"g-{number}-{i}").req(cpu=str(cpu)).label(POD_GROUP_LABEL, "g")
            pod = pod.label(COMPLETION_INDEX, str(i)) if part.ranked else pod
            pods.append(pod.label(SUB_GROUP_LABEL, f"p{number}") if len(parts) > 1 else pod)
    return pods


def asked(parts: Sequence[Part]) -> Json:
    """The annotations of the group."""
    layers = [
        [(level, size) for level, size in zip(LEVELS, part.sizes, strict=True) if size]
        for part in parts
    ]
    required = [LEVELS[part.within] if part.within >= 0 else "" for part in parts]
    if len(parts) == 1:
        return slices(*layers[0], required=required[0])
    return sub_groups(
        *(
            {
                "name": f"p{number}",
                "minMember": len(part.cpus),
                "slices": [{"topology": level, "size": size} for level, size in layers[number]],
            }
            | ({"requiredTopology": required[number]} if required[number] else {})
            for number, part in enumerate(parts)
        )
    )


def placed(cluster: Cluster, parts: Sequence[Part]) -> list[int]:
    """The node of each Pod, by number."""
    at = {pod: int(node.removeprefix("n")) for pod, node in cluster.bound}
    return [at[f"g-{n}-{i}"] for n, part in enumerate(parts) for i in range(len(part.cpus))]


def planned(nodes: Sequence[Node], parts: Sequence[Part]) -> Cluster:
    """A cluster that has tried to place the group."""
    cluster = group_cluster(topologyLevels=LEVELS)
    cluster.add(*built(nodes))
    total = sum(len(part.cpus) for part in parts)
    cluster.add(pod_group("g", asked(parts), minMember=total), *members_of(parts))
    cluster.run()
    return cluster


@st.composite
def parts_of(draw: Any, most: int, within: int = -1) -> Part:
    """A part of up to so many Pods."""
    size = draw(st.integers(1, min(2, most)))
    outer = size * draw(st.sampled_from([0, 0, 1, 2])) if within < 0 else 0
    outer = outer if outer <= most else 0
    step = max(size, outer)
    count = step * draw(st.integers(1, max(most // step, 1)))
    cpus = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    inner = draw(st.sampled_from([1, 1, 1, 0])) if not outer and within < 0 else 1
    sizes = (outer, size) if inner else (size, 0)
    return Part(cpus, sizes, within, draw(st.booleans()) and not outer)


@st.composite
def questions(draw: Any) -> tuple[list[Node], list[Part]]:
    """Up to five nodes in racks and blocks, and up to three parts with six Pods in all."""
    nodes = []
    for _ in range(draw(st.integers(1, 5))):
        rack = draw(st.integers(0, 3))
        nodes.append(Node((f"b{rack % 2}", f"r{rack}"), draw(st.integers(1, 6))))
    number, parts = draw(st.integers(1, 3)), list[Part]()
    left = 6
    for index in range(number):
        most = left - (number - index - 1)
        parts.append(
            draw(
                parts_of(most if number == 1 else min(most, 4), draw(st.sampled_from([-1, -1, 0])))
            )
        )
        left -= len(parts[-1].cpus)
    return nodes, parts


@length(60)
@given(questions())
def test_slices_of_unlike_pods_and_parts_are_placed_wherever_there_is_a_way_and_tightly(
    question: tuple[list[Node], list[Part]],
) -> None:
    nodes, parts = question
    cluster, wanted = planned(nodes, parts), best(nodes, parts)
    if wanted is None:
        assert cluster.bound == []
        assert cluster.nodes.requested("cpu").sum() == 0
    else:
        assert numbers(nodes, parts, placed(cluster, parts)) == wanted
    assert cluster.is_at_rest()


TWO_RACKS = [Node(("b0", "r0"), 4), Node(("b0", "r1"), 1), Node(("b0", "r1"), 1)]


def test_a_slice_with_a_leader_that_needs_more_goes_where_both_fit() -> None:
    """Each rack has room for a slice by the number of Pods; the leader fits in r0 alone."""
    part = Part([1, 1, 3, 1], (0, 2), ranked=True)
    cluster = planned(TWO_RACKS, [part])
    assert placed(cluster, [part]) in ([1, 2, 0, 0], [2, 1, 0, 0])
    assert cluster.notes[-1][1] == (
        "Bound: 4 Pods, of which 4 are needed; 2 in rack r0, 2 in rack r1"
    )


def test_slices_of_one_sub_group_leave_the_only_rack_to_those_of_another() -> None:
    """Two slices of p0 would be in one rack, r0, which alone holds the slice of p1."""
    nodes = [Node(("b0", f"r{i}"), cpu) for i, cpu in enumerate([4, 2, 2])]
    parts = [Part([1, 1, 1, 1], (0, 2)), Part([1, 1, 1, 1], (0, 4))]
    cluster = planned(nodes, parts)
    assert sorted(placed(cluster, parts)) == [0, 0, 0, 0, 1, 1, 2, 2]
    assert cluster.notes[-1][1] == (
        "Bound: 8 Pods, of which 8 are needed; p0: 2 in rack r1, 2 in rack r2; p1: 4 in rack r0"
    )


def test_a_gang_of_kubernetes_may_have_slices_of_unlike_pods() -> None:
    cluster = workload_cluster(gates=GATES)
    group = gang("g", 4)
    for name, value in slices(("rack", 2)).items():
        group = group.annotation(name, value)
    small, large = gang_members("g", 3), gang_members("g", 1, cpu="3", first=3)
    cluster.add(*built(TWO_RACKS), group, *small, *large)
    cluster.settle()
    at = dict(cluster.bound)
    assert at["g-3"] == "n0"
    assert sorted(at.values()) == ["n0", "n0", "n1", "n2"]


@pytest.mark.parametrize("placement", ["Balanced", "LeastFree", "MostFree"])
def test_where_other_domains_are_asked_for_a_packing_is_the_last_resort(placement: str) -> None:
    part = Part([3, 1, 1, 1], (0, 2))
    cluster = group_cluster(topologyLevels=LEVELS)
    annotations = slices(("rack", 2), placement=placement)
    cluster.add(*built(TWO_RACKS), pod_group("g", annotations, minMember=4), *members_of([part]))
    cluster.settle()
    assert placed(cluster, [part])[0] == 0
    assert len(cluster.bound) == 4


def test_a_packing_that_takes_too_long_is_left_to_the_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slice_packing, "MOST_STEPS", 3)
    part = Part([1, 2], (0, 2))
    cluster = planned([Node(("b0", "r0"), 3), Node(("b0", "r1"), 1)], [part])
    assert placed(cluster, [part]) == [0, 0]


def test_slices_that_lack_pods_are_not_mixed() -> None:
    """Of three slices of p0 the first and the last have two Pods left, that between them four."""
    indexes = [0, 1, 4, 5, 6, 7, 8, 9]
    pods = members_of([Part([1] * 10, (0, 4), ranked=True), Part([1], (0, 1))])
    cluster = group_cluster(topologyLevels=LEVELS)
    cluster.add(*built([Node(("b0", f"r{i}"), 4) for i in range(4)]))
    annotation = sub_groups(
        {"name": "p0", "minMember": 8, "slices": [{"topology": "rack", "size": 4}]},
        {"name": "p1", "minMember": 1, "slices": [{"topology": "rack", "size": 1}]},
    )
    cluster.add(pod_group("g", annotation), *(pods[index] for index in [*indexes, 10]))
    cluster.settle()
    at = dict(cluster.bound)
    assert len(at) == 9
    assert len({at[f"g-0-{index}"] for index in (4, 5, 6, 7)}) == 1


def test_plans_for_room_share_the_work_of_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempts find room nevertheless; each of the plans would else take the whole time."""
    tried: list[bool] = []

    def pack(_problem: PackingProblem, steps: slice_packing.Steps) -> How:
        tried.append(steps.any)
        steps.spend(slice_packing.MOST_STEPS + 1)
        return None

    monkeypatch.setattr(packed_fill, "pack", pack)
    cluster = group_cluster(topologyLevels=LEVELS)
    cluster.add(*built([Node(("b0", f"r{i}"), 3) for i in range(4)]))
    cluster.add(*(make_pod(f"low{i}").req(cpu="2").node(f"n{i}") for i in range(4)))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=2))
    cluster.add(*(pod.priority(5) for pod in members_of([Part([1, 2], (0, 2))])))
    cluster.settle(2)
    assert len(cluster.writer.deleted) == 1
    assert len(cluster.bound) == 2
    assert tried == [True, True]


def test_pods_that_cannot_be_on_one_node_are_packed_on_several() -> None:
    cluster = group_cluster(topologyLevels=LEVELS)
    cluster.add(*built([Node(("b0", "r0"), 4), Node(("b0", "r0"), 4)]))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=2))
    cluster.add(*(pod.host_port(80) for pod in members_of([Part([1, 2], (0, 2))])))
    cluster.settle()
    assert sorted(node for _, node in cluster.bound) == ["n0", "n1"]

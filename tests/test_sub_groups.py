"""Sub-groups: each gets its minimum in its own domain, all at once, or the group gets nothing."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import (
    group_cluster,
    members,
    names_of,
    nodes,
    pod_group,
    racks,
    sub_groups,
    topology,
)
from tests.properties import length
from tests.scripted import scripted

from bayplan.cache.sub_groups import MOST_PARTS, SUB_GROUP_LABEL
from bayplan.framework import Status
from bayplan.queue.states import QueueState
from bayplan.testing import NodeBuilder, PodBuilder, make_pod
from bayplan.testing.builder import Json

LEVELS = ["zone", "rack", "host"]


def cluster_of(*built: NodeBuilder, plugins: tuple[Any, ...] = ()) -> Cluster:
    """A cluster with these nodes whose levels are zone, rack and host."""
    cluster = group_cluster(*plugins, topologyLevels=LEVELS)
    cluster.add(*built)
    return cluster


def in_rack(name: str, minimum: int, **more: Any) -> Json:
    """A sub-group that requires a rack."""
    return {"name": name, "minMember": minimum, "requiredTopology": "rack", **more}


def racks_of(cluster: Cluster, sub_group: str, group: str = "g") -> Counter[str]:
    """How many Pods of the sub-group were bound in each rack."""
    prefix = f"{group}-{sub_group}-"
    return Counter(node.partition("n")[0] for pod, node in cluster.bound if pod.startswith(prefix))


def notes(cluster: Cluster) -> list[str]:
    """All that was said of groups."""
    return [note for _, note in cluster.notes]


def test_each_sub_group_gets_a_domain_of_its_own_within_that_of_the_group() -> None:
    cluster = cluster_of(*racks(3, 2, 5, 4))
    asked = sub_groups({"name": "leader"}, in_rack("a", 3), in_rack("b", 4))
    cluster.add(pod_group("g", topology("zone") | asked))
    pods = [
        pod
        for name, number in (("leader", 1), ("a", 3), ("b", 4))
        for pod in members("g", number, sub_group=name)
    ]
    cluster.add(*pods[:-1])
    cluster.settle()
    assert cluster.bound == []
    assert [cluster.state(pod) for pod in pods[:-1]] == [QueueState.GROUPED] * 7
    assert notes(cluster) == ["WaitingForMembers 7/8, b 3/4"]

    cluster.add(pods[-1])
    cluster.settle()
    assert racks_of(cluster, "b") == {"r3": 4}
    assert racks_of(cluster, "a") == {"r2": 3}
    assert racks_of(cluster, "leader") == {"r2": 1}
    assert notes(cluster)[-1] == (
        "Bound: 8 Pods, of which 8 are needed, in zone z1, a in rack r2, b in rack r3"
    )
    assert cluster.is_at_rest()


def test_a_sub_group_that_fits_nowhere_keeps_all_others_from_being_placed() -> None:
    asked: list[str] = []
    counting = scripted("Counting", filter=lambda: asked.append(""))
    cluster = cluster_of(*racks(4, 3), plugins=(counting,))
    cluster.add(pod_group("g", sub_groups(in_rack("a", 2), in_rack("b", 5))))
    pods = [*members("g", 2, sub_group="a"), *members("g", 5, sub_group="b")]
    cluster.add(*pods)
    cluster.settle()
    assert asked == []
    assert cluster.bound == []
    assert all(cluster.counted_on(pod) == "" for pod in pods)
    assert notes(cluster) == [
        "NoDomain: no rack holds the sub-group b: best is r0 with 4 of 5, short by cpu; "
        "next r1 with 3"
    ]
    text = "the sub-group b of default/g does not fit into one rack"
    assert {c.message for _, c in cluster.recorder.conditions} == {text}
    assert cluster.is_at_rest()
    cluster.add(*racks(5)[4:])
    cluster.settle()
    assert racks_of(cluster, "b") == {"r0": 5}
    assert racks_of(cluster, "a") == {"r1": 2}


def test_room_that_one_sub_group_leaves_no_other_is_said_of_the_other() -> None:
    cluster = cluster_of(*racks(3, 1))
    cluster.add(pod_group("g", topology("zone") | sub_groups(in_rack("a", 2), in_rack("b", 2))))
    cluster.add(*members("g", 2, sub_group="a"), *members("g", 2, sub_group="b"))
    cluster.settle()
    assert cluster.bound == []
    assert notes(cluster) == [
        "NoDomain: no zone holds the group: in z0, no rack holds the sub-group b: best is r0 with "
        "1 of 2, short by cpu; next r1 with 1"
    ]


def test_a_sub_group_takes_another_domain_where_one_after_it_needs_the_first() -> None:
    """Both racks hold a, and only r0 has what b needs; the bound of b does not know that."""
    cluster = cluster_of(*racks(3, 3))
    cluster.add(
        *(
            make_pod(f"guard{i}")
            .pod_anti_affinity("host", {"matchLabels": {"app": "b"}})
            .node(f"r1n{i}")
            for i in range(3)
        )
    )
    cluster.add(pod_group("g", sub_groups(in_rack("a", 2), in_rack("b", 2))))
    cluster.add(
        *members("g", 2, sub_group="a"),
        *(pod.label("app", "b") for pod in members("g", 2, sub_group="b")),
    )
    cluster.settle()
    assert racks_of(cluster, "a") == {"r1": 2}
    assert racks_of(cluster, "b") == {"r0": 2}


def test_a_sub_group_is_placed_after_the_one_that_attracts_it() -> None:
    cluster = cluster_of(*racks(4, 4))
    cluster.add(pod_group("g", sub_groups({"name": "a", "minMember": 2}, {"name": "b"})))
    (leader,) = members("g", 1, sub_group="b")
    near = {"matchLabels": {SUB_GROUP_LABEL: "b"}}
    cluster.add(*(pod.pod_affinity("rack", near) for pod in members("g", 2, sub_group="a")), leader)
    cluster.settle()
    assert racks_of(cluster, "a").keys() == racks_of(cluster, "b").keys()
    assert racks_of(cluster, "a").total() == 2


def test_what_helps_only_a_part_that_is_not_spoken_of_wakes_the_group() -> None:
    """b has no room beside a, and needs GPUs; a rack without them takes a away."""
    cluster = cluster_of(*(node.label("gpu") for node in racks(3)))
    cluster.add(pod_group("g", sub_groups(in_rack("a", 2), in_rack("b", 2))))
    with_gpu = [pod.node_selector({"gpu": ""}) for pod in members("g", 2, sub_group="b")]
    cluster.add(*members("g", 2, sub_group="a"), *with_gpu)
    cluster.settle()
    assert notes(cluster) == [
        "NoDomain: no rack holds the sub-group b: best is r0 with 1 of 2, short by cpu"
    ]
    cluster.add(*racks(0, 2))
    cluster.settle(2)
    assert racks_of(cluster, "a") == {"r1": 2}
    assert racks_of(cluster, "b") == {"r0": 2}


def test_a_pod_that_changes_its_sub_group_while_it_waits_counts_for_the_other() -> None:
    cluster = cluster_of(*racks(4))
    cluster.add(pod_group("g", sub_groups({"name": "a"}, {"name": "b"})))
    first, second = members("g", 2, sub_group="a")
    cluster.add(first, second)
    cluster.settle()
    assert notes(cluster) == ["WaitingForMembers 2/2, b 0/1"]
    cluster.add(second.label(SUB_GROUP_LABEL, "b"))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 2


def test_sub_groups_may_have_sub_groups() -> None:
    cluster = cluster_of(*racks(2, 2, 4, 1))
    asked = sub_groups(
        {"name": "ring", "requiredTopology": "zone", "minMember": 5},
        in_rack("a", 2, parent="ring"),
        in_rack("b", 2, parent="ring"),
        {"name": "free"},
    )
    cluster.add(pod_group("g", asked))
    cluster.add(
        *members("g", 2, sub_group="a"),
        *members("g", 2, sub_group="b"),
        *members("g", 1, sub_group="ring"),
        *members("g", 1, sub_group="free"),
    )
    cluster.settle()
    used = {name: set(racks_of(cluster, name)) for name in ("a", "b", "ring", "free")}
    assert used["a"] | used["b"] | used["ring"] <= {"r2", "r3"}
    assert len(used["a"]) == len(used["b"]) == 1
    assert used["free"]


def test_minimums_come_before_what_goes_beyond_them() -> None:
    cluster = cluster_of(*racks(4))
    cluster.add(pod_group("g", topology("rack") | sub_groups({"name": "a"}, {"name": "b"})))
    cluster.add(*members("g", 5, sub_group="a"), *members("g", 1, sub_group="b"))
    cluster.run()
    assert racks_of(cluster, "b") == {"r0": 1}
    assert racks_of(cluster, "a") == {"r0": 3}


def test_a_minimum_above_that_of_all_sub_groups_takes_more_of_any() -> None:
    cluster = cluster_of(*racks(2, 4))
    cluster.add(pod_group("g", sub_groups(in_rack("a", 1), in_rack("b", 1)), minMember=5))
    cluster.add(*members("g", 4, sub_group="a"), *members("g", 1, sub_group="b"))
    cluster.settle()
    assert racks_of(cluster, "a") == {"r1": 4}
    assert racks_of(cluster, "b") == {"r0": 1}


def test_pods_that_come_later_are_kept_in_the_domain_of_their_sub_group() -> None:
    cluster = cluster_of(*racks(3, 3, 9, 9))
    cluster.add(pod_group("g", topology("zone") | sub_groups(in_rack("a", 2), in_rack("b", 2))))
    first = {name: members("g", 2, sub_group=name) for name in ("a", "b")}
    cluster.add(*first["a"], *first["b"])
    cluster.settle()
    homes = {name: racks_of(cluster, name) for name in ("a", "b")}
    assert sorted(homes["a"] + homes["b"]) == ["r0", "r1"]
    at = dict(cluster.bound)
    for pod in (*first["a"], *first["b"]):  # what the API server has seen meanwhile
        cluster.add(pod.node(at[pod.key.partition("/")[2]]))
    lost = first["a"][0]
    cluster.remove(lost)
    cluster.add(*members("g", 3, first=2, sub_group="a"))
    cluster.settle()
    assert set(racks_of(cluster, "a")) == set(homes["a"])
    assert racks_of(cluster, "a").total() == 4  # the third one finds the rack full
    assert cluster.verdict[1].startswith("0/24 nodes are available: ")
    assert "were outside of the group's topology domain" in cluster.verdict[1]
    # One without a sub-group is kept in the group's domain only.
    cluster.add(*members("g", 1))
    cluster.settle()
    assert {node[:2] for pod, node in cluster.bound if pod == "g-0"} == set(homes["b"])


def test_what_a_sub_group_lacks_comes_before_older_pods() -> None:
    cluster = cluster_of(*racks(2))
    cluster.add(pod_group("g", sub_groups({"name": "a"}, {"name": "b"})))
    (a,) = members("g", 1, sub_group="a")
    cluster.add(a.node("r0n0"))
    old = make_pod("old").req(cpu="1")
    cluster.add(*members("g", 1, sub_group="b", first=1), old)
    cluster.run()
    assert cluster.bound == [("g-b-1", "r0n1")]


def placed(cluster: Cluster, name: str, *nodes: str) -> list[PodBuilder]:
    """Pods of the sub-group that run on these nodes."""
    pods = members("g", len(nodes), sub_group=name)
    cluster.add(*(pod.node(node) for pod, node in zip(pods, nodes, strict=True)))
    return pods


def test_a_sub_group_that_has_lost_its_pods_is_placed_anew_as_a_whole() -> None:
    cluster = cluster_of(*racks(3, 2, 2, 9))
    cluster.add(pod_group("g", topology("zone") | sub_groups(in_rack("a", 2), in_rack("b", 1))))
    b = placed(cluster, "b", "r1n0")
    lost = placed(cluster, "a", "r0n0", "r0n1")
    taken = [make_pod(f"other{i}").req(cpu="1").node(f"r0n{i}") for i in range(2)]
    cluster.add(*taken)
    cluster.remove(*lost)
    first, second = members("g", 2, first=2, sub_group="a")
    cluster.add(first)
    cluster.settle()
    assert cluster.state(first) is QueueState.GROUPED
    assert notes(cluster)[-1] == "WaitingForMembers 1/2, a 1/2"

    cluster.add(second)
    cluster.settle()
    assert cluster.bound == []  # r0 and r1 have one place each, r3 is in another zone
    assert notes(cluster)[-1] == (
        "NoDomain: no zone holds the group: in z0, no rack holds the sub-group a: best is r0 with "
        "1 of 2, short by cpu; next r1 with 1"
    )
    cluster.remove(taken[1])
    cluster.settle()
    assert racks_of(cluster, "a") == {"r0": 2}
    assert notes(cluster)[-1] == (
        "Bound: 2 Pods, of which 2 are needed, in zone z0, a in rack r0, b in rack r1"
    )
    assert cluster.counted_on(b[0]) == "r1n0"
    assert cluster.is_at_rest()


def test_a_pod_that_waits_singly_joins_its_sub_group_when_that_has_lost_all_others() -> None:
    cluster = cluster_of(*racks(2, 3))
    cluster.add(pod_group("g", sub_groups(in_rack("a", 2), {"name": "b"})))
    placed(cluster, "b", "r1n0")
    lost = placed(cluster, "a", "r0n0", "r0n1")
    cluster.remove(lost[0])
    taken = make_pod("other").req(cpu="1").node("r0n0")
    cluster.add(taken)
    first, second = members("g", 2, first=2, sub_group="a")
    cluster.add(first)
    cluster.settle()
    assert cluster.state(first) is QueueState.UNSCHEDULABLE  # the rack of its sub-group is full
    cluster.add(make_pod("late").req(cpu="1").node("r0n1"))
    cluster.remove(lost[1])
    cluster.add(second)
    cluster.settle()
    assert racks_of(cluster, "a") == {"r1": 2}
    assert cluster.is_at_rest()


def test_what_a_lost_sub_group_lacks_comes_before_what_others_have_beyond_their_minimum() -> None:
    cluster = cluster_of(*nodes(1, cpu="4"))
    cluster.add(
        pod_group("g", sub_groups({"name": "a", "minMember": 2}, {"name": "b"}), minMember=4),
    )
    placed(cluster, "b", "n0", "n0")
    surplus = members("g", 1, first=2, sub_group="b")
    cluster.add(*surplus, *members("g", 2, first=2, sub_group="a"))
    cluster.settle()
    assert racks_of(cluster, "a").total() == 2
    assert cluster.state(surplus[0]) is QueueState.UNSCHEDULABLE


def test_pods_of_a_group_below_their_sub_groups_minimum_do_not_yield_one_by_one() -> None:
    cluster = cluster_of(*nodes(1, cpu="6"))
    cluster.add(pod_group("v", sub_groups({"name": "a", "minMember": 2}, {"name": "b"})))
    cluster.add(*(pod.node("n0") for pod in members("v", 2, sub_group="a")))
    cluster.add(*(pod.node("n0") for pod in members("v", 4, sub_group="b")))
    cluster.add(pod_group("g", minMember=3), *(pod.priority(5) for pod in members("g", 3)))
    cluster.run()
    assert len(cluster.writer.deleted) == 3
    assert all(name.startswith("v-b-") for name in cluster.writer.deleted)


def test_a_group_evicts_others_so_that_every_sub_group_fits() -> None:
    cluster = cluster_of(*racks(2, 2, 2))
    cluster.add(pod_group("g", sub_groups(in_rack("a", 2), in_rack("b", 2))))
    cluster.add(*(make_pod(f"low{i}").req(cpu="1").node(f"r{i}n0") for i in range(3)))
    cluster.add(*(pod.priority(5) for pod in members("g", 2, sub_group="a")))
    cluster.add(*(pod.priority(5) for pod in members("g", 2, sub_group="b")))
    cluster.run()
    text = "MakingRoom: 2 Pods of lower priority are evicted, so that 4 Pods fit"
    assert text in notes(cluster)
    assert len(cluster.writer.deleted) == 2
    cluster.settle()
    assert sorted((racks_of(cluster, "a") + racks_of(cluster, "b")).values()) == [2, 2]


def test_a_refusal_of_one_undoes_all_sub_groups() -> None:
    refusing = scripted("Refusing", permit=lambda: Status.unschedulable("not today"))
    cluster = cluster_of(*racks(4), plugins=(refusing,))
    cluster.add(pod_group("g", sub_groups({"name": "a"}, {"name": "b"})))
    cluster.add(*members("g", 1, sub_group="a"), *members("g", 1, sub_group="b"))
    cluster.run()
    assert cluster.bound == []
    assert notes(cluster) == ["Refused: 0/1 nodes are available: 1 not today."]
    assert cluster.nodes.requested("cpu").sum() == 0


@pytest.mark.parametrize(
    ("asked", "sub_group", "text"),
    [
        pytest.param(
            sub_groups({"name": "a", "parent": "a"}),
            "a",
            "BadPodGroup: bayplan.dev/sub-groups: the parents go in a cycle: a > a",
            id="cycle",
        ),
        pytest.param(
            sub_groups({"name": "a"}),
            "b",
            "BadPodGroup: Pods have the label bayplan.dev/sub-group=b, of which the group says "
            "nothing",
            id="unknown",
        ),
        pytest.param(
            {},
            "a",
            "BadPodGroup: Pods have the label bayplan.dev/sub-group=a, of which the group says "
            "nothing",
            id="no-sub-groups",
        ),
        pytest.param(
            sub_groups({"name": "a", "minMember": 3}),
            "a",
            "WaitingForMembers 2/3, a 2/3",
            id="too-few",
        ),
        pytest.param(
            sub_groups({"name": "a", "requiredTopology": "rak"}),
            "a",
            "BadTopology: no node has the label rak, which a's requiredTopology names",
            id="level",
        ),
        pytest.param(
            sub_groups(in_rack("a", 1, preferredTopology="zone")),
            "a",
            "BadTopology: a's preferredTopology zone is not a level below a's requiredTopology "
            "rack",
            id="order",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_held_until_it_is_mended(
    asked: Json, sub_group: str, text: str
) -> None:
    cluster = cluster_of(*racks(4))
    cluster.add(pod_group("g", asked))
    pods = members("g", 2, sub_group=sub_group)
    cluster.add(*pods)
    cluster.settle()
    assert cluster.bound == []
    assert notes(cluster) == [text]
    assert all(cluster.counted_on(pod) == "" for pod in pods)
    cluster.add(pod_group("g", sub_groups({"name": sub_group, "minMember": 2})))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 2
    assert cluster.is_at_rest()


def test_an_annotation_that_goes_lets_the_group_wait_and_its_return_lets_it_in() -> None:
    cluster = cluster_of(*racks(4))
    group = pod_group("g", sub_groups({"name": "a"}))
    cluster.add(group)
    cluster.remove(group)
    cluster.add(*members("g", 2, sub_group="a"))
    cluster.settle()
    assert cluster.bound == []
    cluster.add(pod_group("g", sub_groups({"name": "a"})))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 2


@pytest.mark.parametrize("nested", [False, True], ids=["beside", "below"])
def test_as_many_sub_groups_as_are_possible_can_be_placed(nested: bool) -> None:
    cluster = cluster_of(*nodes(1, cpu="200"))
    parts: list[Json] = [{"name": f"s{i}"} for i in range(MOST_PARTS)]
    if nested:
        parts[1:] = [{"name": f"s{i}", "parent": f"s{i - 1}"} for i in range(1, MOST_PARTS)]
    cluster.add(pod_group("g", sub_groups(*parts)))
    cluster.add(*(pod for part in parts for pod in members("g", 1, sub_group=part["name"])))
    cluster.run()
    assert len(names_of(cluster, "g")) == MOST_PARTS


def fits(sizes: list[int], needs: list[int]) -> bool:
    """Whether sub-groups of so many equal Pods each fit into racks with so much room."""
    for chosen in product(range(len(sizes)), repeat=len(needs)):
        used = Counter[int]()
        for rack, need in zip(chosen, needs, strict=True):
            used[rack] += need
        if all(used[rack] <= size for rack, size in enumerate(sizes)):
            return True
    return False


@length(80)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    needs=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    extra=st.integers(0, 2),
)
def test_sub_groups_of_equal_pods_are_placed_exactly_where_they_fit(
    sizes: list[int], needs: list[int], extra: int
) -> None:
    cluster = cluster_of(*racks(*sizes))
    parts = [in_rack(f"s{i}", need) for i, need in enumerate(needs)]
    cluster.add(pod_group("g", sub_groups(*parts)))
    pods = [pod for i, n in enumerate(needs) for pod in members("g", n, sub_group=f"s{i}")]
    cluster.add(*pods, *members("g", extra, first=90, sub_group="s0"))
    cluster.run()
    placed = [racks_of(cluster, f"s{i}") for i in range(len(needs))]
    if fits(sizes, needs):
        assert all(len(used) == 1 for used in placed)
        assert all(used.total() >= need for used, need in zip(placed, needs, strict=True))
    else:
        assert cluster.bound == []
        assert cluster.nodes.requested("cpu").sum() == 0
    assert cluster.is_at_rest()


@st.composite
def trees(draw: Any) -> list[Json]:
    """Up to four sub-groups, some of them below others, with levels that are nested or not."""
    parts: list[Json] = []
    for number in range(draw(st.integers(1, 4))):
        part: Json = {"name": f"s{number}", "minMember": draw(st.integers(0, 2))}
        if parent := draw(st.sampled_from(["", *(p["name"] for p in parts)])):
            part["parent"] = parent
        for field in ("requiredTopology", "preferredTopology"):
            if level := draw(st.sampled_from(["", "", "zone", "rack", "host"])):
                part[field] = level
        if LEVELS.index(part.get("preferredTopology", "host")) < LEVELS.index(
            part.get("requiredTopology", "zone")
        ):
            del part["preferredTopology"]
        parts.append(part)
    order: list[Json] = draw(st.permutations(parts))
    return order


@length(100)
@given(st.data())
def test_no_sub_group_is_ever_in_part_and_domains_are_nested(data: Any) -> None:
    """Whatever the tree: all minimums are met at once or nobody counts, each in its domain."""
    cluster = cluster_of(*racks(*data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))))
    parts = data.draw(trees())
    level = data.draw(st.sampled_from(["", "zone", "rack"]))
    built = pod_group("g", topology(level) | sub_groups(*parts))
    pods: list[PodBuilder] = []
    for part in parts:
        number = max(part["minMember"], data.draw(st.integers(0, 3)))
        pods += members("g", number, data.draw(st.sampled_from(["500m", "1"])), 0, part["name"])
    cluster.add(built)
    for pod in data.draw(st.permutations(pods)):
        cluster.add(pod)
        cluster.run()
        check(cluster, parts, level)
    cluster.settle(2)
    check(cluster, parts, level)
    assert cluster.is_at_rest()


def check(cluster: Cluster, parts: list[Json], level: str) -> None:
    """Every minimum is met or nobody is bound; every required level is kept."""
    names = {part["name"]: part for part in parts}
    bound: dict[str, list[str]] = {name: [] for name in names}
    for pod, node in cluster.bound:
        inner: str | None = pod.split("-")[1]
        while inner:
            bound[inner].append(node)
            inner = names[inner].get("parent")
    if not cluster.bound:
        assert cluster.nodes.requested("cpu").sum() == 0
        return
    table = cluster.nodes

    def values(label: str, used: list[str]) -> set[str]:
        column = table.label(label)
        rows = [table.row(node) for node in used]
        return {column.values[column.codes[row]] for row in rows if row is not None}

    for name, part in names.items():
        assert len(bound[name]) >= max(part["minMember"], 1)
        if required := part.get("requiredTopology"):
            assert len(values(required, bound[name])) == 1
    if level:
        assert len(values(level, [node for _, node in cluster.bound])) == 1

"""Slices: every so many Pods of a group are in one domain, in as few domains as there can be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import (
    GATES,
    below,
    composite,
    conditions,
    gang,
    gang_members,
    group_cluster,
    members,
    nodes,
    pod_group,
    racks,
    slices,
    sub_groups,
    topology,
    workload_cluster,
)
from tests.judge_slices import check
from tests.owners import make_job, pods_of_job
from tests.properties import length
from tests.slice_judge import Question, Rack, best, rank_of

from bayplan.api.batch import Job
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.testing import Builder, NodeBuilder, PodBuilder, make_node, make_pod
from bayplan.testing.builder import Json

LEVELS = ["zone", "block", "rack", "host"]


def tree(rooms: dict[str, int]) -> list[NodeBuilder]:
    """One node with room for so many Pods for each path, such as ``z0/b1/r2``."""
    built = []
    for path, room in rooms.items():
        zone, block, rack = path.split("/")
        node = make_node(f"{rack}n0").capacity(cpu=str(room), memory="64Gi", pods=110)
        labels = {"zone": zone, "block": block, "rack": rack, "host": f"{rack}n0"}
        for label, value in labels.items():
            node = node.label(label, value)
        built.append(node)
    return built


def cluster_of(*built: NodeBuilder, **args: Any) -> Cluster:
    """A cluster with these nodes whose levels are zone, block, rack and host."""
    cluster = group_cluster(topologyLevels=LEVELS, **args)
    cluster.add(*built)
    return cluster


def racks_of(cluster: Cluster, prefix: str = "g-") -> dict[str, int]:
    """How many Pods were bound in each rack."""
    return Counter(node.partition("n")[0] for pod, node in cluster.bound if pod.startswith(prefix))


def notes(cluster: Cluster) -> list[str]:
    """All that was said of groups."""
    return [note for _, note in cluster.notes]


def bind(cluster: Cluster, *pods: PodBuilder) -> None:
    """The API server has seen where these were bound."""
    at = dict(cluster.bound)
    cluster.add(*(pod.node(at[pod.key.partition("/")[2]]) for pod in pods))


def test_every_slice_is_in_one_rack_and_all_in_one_block() -> None:
    """b0 has more room, but its racks hold one slice each; b1 has racks for two and one."""
    rooms = {"z/b0/r0": 7, "z/b0/r1": 7, "z/b1/r2": 8, "z/b1/r3": 4}
    cluster = cluster_of(*tree(rooms))
    cluster.add(pod_group("g", slices(("rack", 4), required="block"), minMember=12))
    cluster.add(*members("g", 12))
    cluster.settle()
    assert racks_of(cluster) == {"r2": 8, "r3": 4}
    assert notes(cluster)[-1] == (
        "Bound: 12 Pods, of which 12 are needed, in block b1; 8 in rack r2, 4 in rack r3"
    )
    assert cluster.is_at_rest()


def test_slices_may_be_in_slices() -> None:
    rooms = {"z/b0/r0": 3, "z/b0/r1": 2, "z/b0/r2": 3, "z/b1/r3": 2, "z/b1/r4": 2, "z/b1/r5": 9}
    cluster = cluster_of(*tree(rooms))
    cluster.add(pod_group("g", slices(("block", 6), ("rack", 2)), minMember=18))
    cluster.add(*members("g", 18))
    cluster.settle()
    assert racks_of(cluster) == {"r0": 2, "r1": 2, "r2": 2, "r3": 2, "r4": 2, "r5": 8}


@pytest.mark.parametrize(
    ("placement", "placed"),
    [
        ("", {"r0": 6, "r2": 4}),
        ("Tightest", {"r0": 6, "r2": 4}),
        ("LeastFree", {"r1": 2, "r2": 4, "r3": 2, "r4": 2}),
        ("MostFree", {"r0": 6, "r1": 4}),
    ],
)
def test_which_domains_are_taken_is_said_by_the_placement(
    placement: str, placed: dict[str, int]
) -> None:
    """LeastFree is Kueue's example for LeastFreeCapacity."""
    rooms = {"z/b/r0": 6, "z/b/r1": 5, "z/b/r2": 4, "z/b/r3": 3, "z/b/r4": 2}
    cluster = cluster_of(*tree(rooms))
    cluster.add(pod_group("g", slices(("rack", 2), placement=placement), minMember=10))
    cluster.add(*members("g", 10))
    cluster.settle()
    assert racks_of(cluster) == placed


@pytest.mark.parametrize(
    ("placement", "placed"),
    [("Tightest", [10, 2]), ("Balanced", [6, 6])],
)
def test_balanced_gives_as_few_domains_equal_shares(placement: str, placed: list[int]) -> None:
    cluster = cluster_of(*tree({"z/b/r0": 10, "z/b/r1": 10, "z/b/r2": 4}))
    cluster.add(pod_group("g", slices(("rack", 1), placement=placement), minMember=12))
    cluster.add(*members("g", 12))
    cluster.settle()
    assert sorted(racks_of(cluster).values(), reverse=True) == placed


def test_balanced_takes_the_required_domain_in_which_it_is_most_even() -> None:
    """Kueue's example: 22 in hosts of 20 and 10, or of 15 and 15."""
    rooms = {"z/b0/r0": 20, "z/b0/r1": 10, "z/b1/r2": 15, "z/b1/r3": 15}
    cluster = cluster_of(*tree(rooms))
    asked = slices(("rack", 1), placement="Balanced", required="block")
    cluster.add(pod_group("g", asked, minMember=22), *members("g", 22))
    cluster.settle()
    assert racks_of(cluster) == {"r2": 11, "r3": 11}


def test_pods_that_have_an_index_are_with_their_neighbours() -> None:
    cluster = cluster_of(*tree({f"z/b/r{i}": 4 for i in range(3)}), inferGroups=["Job"])
    job = make_job("g", 12, completions=12).uid("job-g")
    for name, value in slices(("rack", 4)).items():
        job = job.annotation(name, value)
    cluster.add(job, *pods_of_job(job, range(12)))
    cluster.settle()
    by_rack: dict[str, set[int]] = {}
    for pod, node in cluster.bound:
        index = int(pod.split("-")[1])
        by_rack.setdefault(node.partition("n")[0], set()).add(index)
    assert sorted(map(sorted, by_rack.values())) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_what_lost_its_node_goes_where_the_rest_of_its_slice_is() -> None:
    cluster = cluster_of(*racks(3, 3, 9))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=4))
    first = members("g", 4)
    cluster.add(*first, make_pod("other").req(cpu="1").node("r2n0"))
    cluster.settle()
    assert racks_of(cluster) == {"r2": 4}
    bind(cluster, *first)
    at = dict(cluster.bound)
    cluster.remove(first[0])
    cluster.add(*members("g", 1, first=4))
    cluster.settle()
    assert at["g-0"].startswith("r2")
    assert racks_of(cluster, "g-4") == {"r2": 1}


def test_what_lost_its_node_waits_where_its_slice_has_no_room_and_says_so() -> None:
    cluster = cluster_of(*racks(2, 2))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=4))
    pods = members("g", 4)
    homes = ["r0n0", "r0n1", "r1n0", "r1n1"]
    cluster.add(*(pod.node(node) for pod, node in zip(pods, homes, strict=True)))
    cluster.remove(pods[0])
    blocking = make_pod("other").req(cpu="1").node("r0n0")
    spare = make_node("r9n0").capacity(cpu="9", memory="64Gi", pods=110).label("rack", "r9")
    cluster.add(blocking, spare, *members("g", 1, first=4))
    cluster.settle()
    assert cluster.bound == []
    assert cluster.verdict[1] == (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were outside of the domain of the "
        "Pod's slice, rack r0. preemption: 0/5 nodes are available: 2 No preemption victims found "
        "for incoming pod, 3 Preemption is not helpful for scheduling."
    )
    cluster.remove(blocking)
    cluster.settle()
    assert racks_of(cluster) == {"r0": 1}


def test_each_of_two_lost_pods_with_an_index_goes_back_to_its_own_slice() -> None:
    cluster = cluster_of(*racks(3, 3), inferGroups=["Job"])
    job = make_job("g", 4, completions=4).uid("job-g")
    for name, value in slices(("rack", 2)).items():
        job = job.annotation(name, value)
    pods = pods_of_job(job, range(4))
    homes = ["r0n0", "r0n1", "r1n0", "r1n1"]
    cluster.add(job, *(pod.node(node) for pod, node in zip(pods, homes, strict=True)))
    cluster.remove(pods[0], pods[3])
    again = [pod.uid(f"again-{i}") for i, pod in enumerate(pods_of_job(job, range(4)))]
    cluster.add(again[3], again[0])
    cluster.settle()
    where = {pod.split("-")[1]: node.partition("n")[0] for pod, node in cluster.bound}
    assert where == {"0": "r0", "3": "r1"}


def test_a_slice_that_is_lost_as_a_whole_begins_anew_where_all_of_it_has_room() -> None:
    cluster = cluster_of(*racks(2, 1, 2))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=4))
    pods = members("g", 4)
    homes = ["r0n0", "r0n1", "r2n0", "r2n1"]
    cluster.add(*(pod.node(node) for pod, node in zip(pods, homes, strict=True)))
    cluster.remove(*pods[:2])
    taken = [make_pod(f"other{i}").req(cpu="1").node(f"r0n{i}") for i in range(2)]
    cluster.add(*taken, *members("g", 2, first=4))
    cluster.settle()
    assert cluster.bound == []
    assert "were in no rack with room for 2 Pods of a slice" in cluster.verdict[1]
    cluster.remove(*taken)
    cluster.settle(3)
    assert racks_of(cluster) == {"r0": 2}


def test_pods_beyond_the_minimum_come_along_in_slices_of_their_own() -> None:
    cluster = cluster_of(*racks(4, 3, 1))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=4))
    cluster.add(*members("g", 7))
    cluster.settle()
    assert racks_of(cluster)["r0"] == 4
    assert racks_of(cluster).get("r1", 0) >= 2
    assert "r2" not in racks_of(cluster)


def test_sub_groups_may_have_slices() -> None:
    cluster = cluster_of(*racks(1, 4, 2))
    asked = [{"topology": "rack", "size": 2}]
    parts = sub_groups({"name": "leader"}, {"name": "w", "minMember": 6, "slices": asked})
    cluster.add(pod_group("g", parts))
    cluster.add(*members("g", 1, sub_group="leader"), *members("g", 6, sub_group="w"))
    cluster.settle()
    assert racks_of(cluster, "g-w") == {"r1": 4, "r2": 2}
    assert notes(cluster)[-1] == (
        "Bound: 7 Pods, of which 7 are needed; w: 4 in rack r1, 2 in rack r2"
    )


def test_what_the_arithmetic_does_not_see_lays_the_slices_out_anew() -> None:
    """By its CPUs r0 alone holds both slices; a guard allows none of its nodes but one."""
    cluster = cluster_of(*racks(4, 2, 2))
    guards = [
        make_pod(f"guard{i}")
        .pod_anti_affinity("host", {"matchLabels": {"app": "g"}})
        .node(f"r0n{i}")
        for i in range(3)
    ]
    cluster.add(*guards, pod_group("g", slices(("rack", 2)), minMember=4))
    cluster.add(*(pod.label("app", "g") for pod in members("g", 4)))
    cluster.settle()
    assert racks_of(cluster) == {"r1": 2, "r2": 2}


def test_a_group_evicts_others_so_that_its_slices_fit() -> None:
    cluster = cluster_of(*racks(2, 2))
    cluster.add(pod_group("g", slices(("rack", 2)), minMember=4))
    cluster.add(*(make_pod(f"low{i}").req(cpu="1").node(f"r{i}n0") for i in range(2)))
    cluster.add(*(pod.priority(5) for pod in members("g", 4)))
    cluster.settle(2)
    assert racks_of(cluster) == {"r0": 2, "r1": 2}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(
            slices(("rack", 3)),
            "BadPodGroup: bayplan.dev/slices: the size 3 does not divide the minimum, 4",
            id="minimum",
        ),
        pytest.param(
            slices(("block", 4), ("rack", 3)),
            "BadPodGroup: bayplan.dev/slices: the size 3 does not divide 4, that of the slices "
            "above",
            id="inner",
        ),
        pytest.param(
            slices(("rack", 4), ("rack", 2)),
            "BadPodGroup: bayplan.dev/slices: two layers have the topology rack",
            id="twice",
        ),
        pytest.param(
            slices(("rack", 0)),
            "BadPodGroup: bayplan.dev/slices: Expected `int` >= 1 - at `$[0].size`",
            id="zero",
        ),
        pytest.param(
            slices(("rack", 2), placement="Best"),
            'BadPodGroup: bayplan.dev/slice-placement: "Best" is none of Tightest, Balanced, '
            "LeastFree, MostFree",
            id="placement",
        ),
        pytest.param(
            slices(("rack", 2)) | sub_groups({"name": "a"}),
            "BadPodGroup: bayplan.dev/slices and bayplan.dev/sub-groups exclude each other; a "
            "sub-group may have slices",
            id="sub-groups",
        ),
        pytest.param(
            slices(("rak", 2)),
            "BadTopology: no node has the label rak, which bayplan.dev/slices names",
            id="unknown",
        ),
        pytest.param(
            slices(("zone", 2), required="rack"),
            "BadTopology: bayplan.dev/slices zone is not a level below "
            "bayplan.dev/required-topology rack",
            id="above",
        ),
        pytest.param(
            slices(("rack", 4), ("zone", 2)),
            "BadTopology: bayplan.dev/slices zone is not a level below bayplan.dev/slices rack",
            id="order",
        ),
        pytest.param(
            slices(("rack", 4)),
            "NoRoom: at most 0 of 4 fit with every 4 in one rack",
            id="no-room",
        ),
        pytest.param(
            slices(("rack", 2), required="zone") | {"bayplan.dev/slice-placement": "Balanced"},
            "NoDomain: no zone holds the group with every 2 in one rack: best is z0 with 2 of 4; "
            "next z1 with 2",
            id="no-domain",
        ),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_held(asked: Json, text: str) -> None:
    cluster = cluster_of(*racks(3, 1, 3, 0))
    cluster.add(pod_group("g", asked, minMember=4), *members("g", 4))
    cluster.settle()
    assert notes(cluster) == [text]
    assert cluster.bound == []
    assert cluster.nodes.requested("cpu").sum() == 0


@st.composite
def questions(draw: Any) -> Question:
    """Up to six racks in blocks and zones; slices at racks, and perhaps blocks and zones."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        block = draw(st.integers(0, 2))
        found.append(Rack(f"r{number}", (f"z{block % 2}", f"b{block}"), draw(st.integers(0, 5))))
    size, outer = draw(st.integers(1, 3)), dict[int, int]()
    within = draw(st.sampled_from([-1, -1, 0, 1]))
    each = size
    for position in (1, 0):
        ratio = draw(st.sampled_from([0, 1, 2]))
        if ratio and position >= within:
            each *= ratio
            outer[position] = each
    pods = each * draw(st.integers(1, max(9 // each, 1)))
    return Question(found, pods, size, outer, within, draw(st.booleans()))


@length(60)
@given(questions())
def test_slices_are_placed_wherever_they_fit_and_in_the_tightest_domains(asked: Question) -> None:
    cluster = cluster_of(*tree({"/".join((*r.path, r.name)): r.room for r in asked.racks}))
    layers = [(LEVELS[position], size) for position, size in sorted(asked.outer.items())]
    annotations = slices(*layers, ("rack", asked.size), placement="Balanced" if asked.even else "")
    annotations |= topology(LEVELS[asked.within] if asked.within >= 0 else "")
    cluster.add(pod_group("g", annotations, minMember=asked.pods), *members("g", asked.pods))
    cluster.run()
    wanted, bound = best(asked), racks_of(cluster)
    if wanted is None:
        assert cluster.bound == []
        assert cluster.nodes.requested("cpu").sum() == 0
    else:
        assert rank_of(asked, [bound.get(rack.name, 0) for rack in asked.racks]) == wanted
    assert cluster.is_at_rest()


def test_layouts_are_the_best_of_all_ways() -> None:
    """`python -m tests.judge_slices` looks at thousands."""
    assert 10 < sum(map(check, range(30))) < 30


@pytest.mark.parametrize(
    ("rooms", "placed"),
    [
        ([4, 4, 1], {"r0": 4}),
        ([4, 3, 1], {"r0": 4}),
        ([2, 2, 2], {"r0": 2, "r1": 2}),
        ([3, 1, 3, 9], {"r3": 4}),
    ],
)
def test_a_preferred_level_is_left_where_it_does_not_hold_the_slices(
    rooms: list[int], placed: dict[str, int]
) -> None:
    """Racks r0 and r1, r2 and r3 are in a zone each."""
    cluster = cluster_of(*racks(*rooms))
    asked = slices(("host", 1)) | topology("", "rack")
    cluster.add(pod_group("g", asked, minMember=4), *members("g", 4))
    cluster.settle()
    assert racks_of(cluster) == placed


def sliced_job(name: str, parallelism: int, size: int) -> Builder[Job]:
    """An indexed Job with slices in racks."""
    job = make_job(name, parallelism, completions=parallelism).uid(f"job-{name}")
    for annotation, value in slices(("rack", size)).items():
        job = job.annotation(annotation, value)
    return job


@pytest.mark.parametrize(("room", "placed"), [(8, {"r0": 6}), (7, {"r0": 4, "r1": 2})])
def test_the_last_slice_of_a_job_may_have_fewer_pods_and_takes_the_room_of_a_whole_one(
    room: int, placed: dict[str, int]
) -> None:
    cluster = cluster_of(*tree({"z/b/r0": room, "z/b/r1": 4}), inferGroups=["Job"])
    job = sliced_job("g", 6, 4)
    cluster.add(job, *pods_of_job(job, range(6)))
    cluster.settle()
    assert racks_of(cluster) == placed


def test_slices_of_a_job_that_has_begun_to_end_are_those_of_the_indexes_that_are_left() -> None:
    cluster = cluster_of(*tree({f"z/b/r{i}": 4 for i in range(3)}), inferGroups=["Job"])
    job = sliced_job("g", 8, 4).status(succeeded=2)
    cluster.add(job, *pods_of_job(job, [0, 2, 3, 5, 6, 7]))
    cluster.settle()
    at = {int(pod.split("-")[1]): node for pod, node in cluster.bound}
    assert at[0] == at[2] == at[3]
    assert at[5] == at[6] == at[7] != at[0]


@length(40)
@given(st.data())
def test_slices_are_whole_again_after_nodes_have_failed(data: Any) -> None:
    """Pods of random nodes are lost and made anew: each goes to its slice, or waits."""
    indexed = data.draw(st.booleans())
    cluster = cluster_of(*racks(4, 5, 6), inferGroups=["Job"])
    job = sliced_job("g", 8, 2)
    pods = pods_of_job(job, range(8)) if indexed else members("g", 8)
    cluster.add(job if indexed else pod_group("g", slices(("rack", 2)), minMember=8), *pods)
    cluster.settle()
    before = dict(cluster.bound)
    by_index = dict(enumerate(pods))
    for index, pod in by_index.items():
        by_index[index] = pod.node(before[pod.key.partition("/")[2]])
    cluster.add(*by_index.values())
    for turn in range(data.draw(st.integers(1, 3))):
        lost = data.draw(st.sets(st.integers(0, 7), min_size=1, max_size=3))
        cluster.remove(*(by_index[index] for index in lost))
        cluster.bound.clear()
        made = pods_of_job(job, range(8)) if indexed else members("g", 8, first=10 * turn + 10)
        fresh = {index: made[index].uid(f"{turn}-{index}") for index in lost}
        cluster.add(*fresh.values())
        cluster.settle(2)
        at = dict(cluster.bound)
        assert len(at) == len(lost)
        for index, pod in fresh.items():
            by_index[index] = pod.node(at[pod.key.partition("/")[2]])
        cluster.add(*by_index.values())
        where = {i: cluster.counted_on(pod).partition("n")[0] for i, pod in by_index.items()}
        assert all(number % 2 == 0 for number in Counter(where.values()).values())
        if indexed:
            assert all(where[i] == where[i + 1] for i in range(0, 8, 2))


# PodGroups of Kubernetes


def of_kubernetes(minimum: int, rack_size: int, required: str = "") -> Builder[KubernetesPodGroup]:
    """A gang of Kubernetes with slices in racks."""
    group = gang("g", minimum)
    for name, value in slices(("rack", rack_size)).items():
        group = group.annotation(name, value)
    if required:
        group = group.spec(schedulingConstraints={"topology": [{"key": required}]})
    return group


def workloads(*built: NodeBuilder) -> Cluster:
    """A cluster whose scheduler places PodGroups of Kubernetes in topology domains."""
    cluster = workload_cluster(gates=GATES)
    cluster.add(*built)
    return cluster


def test_a_gang_of_kubernetes_may_have_slices() -> None:
    rooms = {"z/b0/r0": 7, "z/b0/r1": 3, "z/b1/r2": 8, "z/b1/r3": 5}
    cluster = workloads(*tree(rooms))
    cluster.add(of_kubernetes(12, 4, "block"), *gang_members("g", 13))
    cluster.settle()
    assert racks_of(cluster) == {"r2": 8, "r3": 4}  # the last one would begin a slice
    assert ("g", "True", "Scheduled", "") in conditions(cluster)


def test_a_gang_of_kubernetes_whose_slices_do_not_fit_says_so_and_is_woken_by_room() -> None:
    cluster = workloads(*racks(3, 3))
    cluster.add(of_kubernetes(6, 2), *gang_members("g", 6))
    cluster.settle()
    assert cluster.bound == []
    message = "at most 4 of 6 fit with every 2 in one rack"
    assert message in conditions(cluster)[-1][3]
    cluster.add(*racks(0, 0, 2))
    cluster.settle(2)
    assert racks_of(cluster) == {"r0": 2, "r1": 2, "r2": 2}
    assert cluster.is_at_rest()


def test_what_a_gang_of_kubernetes_lost_goes_where_the_rest_of_its_slice_is() -> None:
    cluster = workloads(*racks(2, 3))
    cluster.add(of_kubernetes(4, 2))
    pods = gang_members("g", 4)
    homes = ["r0n0", "r0n1", "r1n0", "r1n1"]
    cluster.add(*(pod.node(node) for pod, node in zip(pods, homes, strict=True)))
    cluster.remove(pods[0])
    blocking = make_pod("other").req(cpu="1").node("r0n0")
    cluster.add(blocking, *gang_members("g", 1, first=4))
    cluster.settle()
    assert cluster.bound == []
    assert "were outside of the domain of the Pod's slice, rack r0" in cluster.verdict[1]
    cluster.remove(blocking)
    cluster.settle(2)
    assert racks_of(cluster) == {"r0": 1}


def test_a_fault_in_the_slices_of_a_gang_of_kubernetes_is_its_condition() -> None:
    cluster = workloads(*racks(4))
    cluster.add(of_kubernetes(4, 3), *gang_members("g", 4))
    cluster.settle()
    assert cluster.bound == []
    text = "bayplan.dev/slices: the size 3 does not divide the minimum, 4"
    assert text in conditions(cluster)[-1][3]
    cluster.add(of_kubernetes(4, 2))
    cluster.settle(2)
    assert racks_of(cluster) == {"r0": 4}


def test_a_gang_of_kubernetes_with_slices_is_woken_by_a_node_that_gets_the_label() -> None:
    bare = nodes(2, cpu="2")
    cluster = workloads(*bare, *racks(1))
    cluster.add(of_kubernetes(4, 2), *gang_members("g", 4))
    cluster.settle()
    assert cluster.bound == []
    cluster.add(*(node.label("rack", f"r{i + 7}") for i, node in enumerate(bare)))
    cluster.settle(2)
    assert sorted(node for _, node in cluster.bound) == ["n0", "n0", "n1", "n1"]


# Kueue's annotations


def asking(pods: list[PodBuilder], **annotations: str) -> list[PodBuilder]:
    """The Pods with annotations of Kueue, whose names are written with underlines."""
    return [
        pod.meta(
            annotations={
                f"kueue.x-k8s.io/{name.replace('_', '-')}": v for name, v in annotations.items()
            }
        )
        for pod in pods
    ]


IN_PAIRS = {
    "podset_required_topology": "block",
    "podset_slice_required_topology": "rack",
    "podset_slice_size": "2",
}
LAYERS = '[{"topology": "block", "size": 4}, {"topology": "rack", "size": 2}]'


@pytest.mark.parametrize(
    ("annotations", "placed"),
    [
        pytest.param(IN_PAIRS, {"r2": 2, "r3": 2}, id="slices"),
        pytest.param(
            {"podset_slice_required_topology_constraints": LAYERS}, {"r2": 2, "r3": 2}, id="layers"
        ),
        pytest.param({"podset_preferred_topology": "rack"}, {"r0": 4}, id="preferred"),
        pytest.param({**IN_PAIRS, "workload": "w"}, None, id="placed-by-kueue"),
    ],
)
def test_annotations_of_kueue_count_where_kueue_does_not_place(
    annotations: dict[str, str], placed: dict[str, int] | None
) -> None:
    """Without the annotations the names of nodes decide: r0 and a node of r1 are filled."""
    rooms = {"z/b0/r0": 3, "z/b0/r1": 1, "z/b1/r2": 3, "z/b1/r3": 2}
    if placed == {"r0": 4}:
        rooms["z/b0/r0"] = 4
    cluster = cluster_of(*tree(rooms))
    cluster.add(pod_group("g", minMember=4), *asking(members("g", 4), **annotations))
    cluster.settle()
    assert len(cluster.bound) == 4
    if placed is not None:
        assert racks_of(cluster) == placed
    else:
        assert "domain" not in notes(cluster)[-1]
        assert notes(cluster)[-1] == "Bound: 4 Pods, of which 4 are needed"


def test_a_pod_with_kueues_annotations_that_replaces_another_goes_to_its_slice() -> None:
    cluster = cluster_of(*racks(2, 2, 3))
    cluster.add(pod_group("g", minMember=4))
    wants = {"podset_slice_required_topology": "rack", "podset_slice_size": "2"}
    pods = asking(members("g", 4), **wants)
    homes = ["r0n0", "r0n1", "r1n0", "r1n1"]
    cluster.add(*(pod.node(node) for pod, node in zip(pods, homes, strict=True)))
    cluster.remove(pods[2])
    cluster.add(*asking(members("g", 1, first=4), **wants))
    cluster.settle()
    assert racks_of(cluster) == {"r1": 1}


def test_annotations_of_kueue_that_differ_among_the_pods_of_a_group_are_not_read() -> None:
    cluster = cluster_of(*racks(3, 3))
    first, *others = members("g", 4)
    cluster.add(pod_group("g", minMember=4), first)
    cluster.add(*asking(others, podset_required_topology="rack"))
    cluster.settle()
    assert notes(cluster)[-1] == "Bound: 4 Pods, of which 4 are needed"


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        (
            {"podset_slice_required_topology": "rack", "podset_slice_size": "two"},
            'kueue.x-k8s.io/podset-slice-size is "two"; it must be a number, at least 1',
        ),
        (
            {"podset_required_topology": "rak"},
            "no node has the label rak, which kueue.x-k8s.io/podset-required-topology names",
        ),
        (
            {**IN_PAIRS, "podset_slice_required_topology": "zone"},
            "kueue.x-k8s.io/podset-slice-required-topology zone is not a level below "
            "kueue.x-k8s.io/podset-required-topology block",
        ),
    ],
)
def test_a_fault_in_kueues_annotations_is_named(annotations: dict[str, str], text: str) -> None:
    cluster = cluster_of(*tree({"z/b/r0": 4}))
    cluster.add(pod_group("g", minMember=4), *asking(members("g", 4), **annotations))
    cluster.settle()
    assert notes(cluster) == [f"BadTopology: {text}"]
    assert cluster.bound == []


@pytest.mark.parametrize(
    ("annotations", "placed"),
    [
        pytest.param(IN_PAIRS, {"r2": 2, "r3": 2}, id="required-and-slices"),
        pytest.param({"podset_required_topology": "rack"}, {"r5": 4}, id="required"),
        pytest.param(
            {"podset_slice_required_topology_constraints": LAYERS}, {"r2": 2, "r3": 2}, id="layers"
        ),
        pytest.param({"podset_preferred_topology": "rack"}, {"r5": 4}, id="preferred"),
        pytest.param({**IN_PAIRS, "workload": "w"}, None, id="placed-by-kueue"),
    ],
)
def test_annotations_of_kueue_count_for_gangs_of_kubernetes(
    annotations: dict[str, str], placed: dict[str, int] | None
) -> None:
    """Rack r5 is in a block of its own, and is there only where the whole group is to be in it."""
    rooms = {"z/b0/r0": 3, "z/b0/r1": 1, "z/b1/r2": 3, "z/b1/r3": 2}
    if placed == {"r5": 4}:
        rooms["z/b5/r5"] = 4
    cluster = workloads(*tree(rooms))
    cluster.add(gang("g", 4), *asking(gang_members("g", 4), **annotations))
    cluster.settle()
    assert len(cluster.bound) == 4
    if placed is not None:
        assert racks_of(cluster) == placed
    assert cluster.is_at_rest()


def test_a_preferred_topology_of_kueue_is_given_up_for_as_few_domains_as_can_be() -> None:
    cluster = workloads(*tree({"z/b/r0": 3, "z/b/r1": 1, "z/b/r2": 3, "z/b/r3": 1}))
    wants = {"podset_preferred_topology": "rack"}
    cluster.add(gang("g", 6), *asking(gang_members("g", 6), **wants))
    cluster.settle()
    assert racks_of(cluster) == {"r0": 3, "r2": 3}


def test_each_group_of_a_tree_has_the_annotations_of_its_own_pods() -> None:
    cluster = workloads(*tree({"z/b/r0": 3, "z/b/r1": 2, "z/b/r2": 3}))
    cluster.add(composite("root", 2))
    cluster.add(below(gang("a", 4), "root"), below(gang("c", 2), "root"))
    wants = {"podset_slice_required_topology": "rack", "podset_slice_size": "2"}
    cluster.add(*asking(gang_members("a", 4), **wants))
    cluster.add(*asking(gang_members("c", 2), podset_required_topology="rack"))
    cluster.settle()
    assert sorted(racks_of(cluster, "a-").values()) == [2, 2]
    assert list(racks_of(cluster, "c-").values()) == [2]


def test_what_the_object_of_a_gang_of_kubernetes_asks_for_counts_before_its_pods() -> None:
    cluster = workloads(*tree({"z/b0/r0": 2, "z/b0/r1": 2}))
    group = gang("g", 4, schedulingConstraints={"topology": [{"key": "block"}]})
    cluster.add(group, *asking(gang_members("g", 4), podset_required_topology="rack"))
    cluster.settle()
    assert racks_of(cluster) == {"r0": 2, "r1": 2}


def test_a_gang_of_kubernetes_is_woken_by_a_node_that_gets_the_label_kueue_requires() -> None:
    bare = nodes(1)
    cluster = workloads(*bare, *racks(2))
    wants = {"podset_required_topology": "rack"}
    cluster.add(gang("g", 4), *asking(gang_members("g", 4), **wants))
    cluster.settle()
    assert cluster.bound == []
    cluster.add(*(node.label("rack", "r7") for node in bare))
    cluster.settle(2)
    assert len(cluster.bound) == 4


def test_what_a_gang_of_kubernetes_lost_goes_to_its_slice_by_kueues_annotations() -> None:
    cluster = workloads(*racks(2, 2, 3))
    wants = {"podset_slice_required_topology": "rack", "podset_slice_size": "2"}
    pods = asking(gang_members("g", 4), **wants)
    homes = ["r0n0", "r0n1", "r1n0", "r1n1"]
    cluster.add(gang("g", 4), *(pod.node(node) for pod, node in zip(pods, homes, strict=True)))
    cluster.remove(pods[2])
    cluster.add(*asking(gang_members("g", 1, first=4), **wants))
    cluster.settle()
    assert racks_of(cluster) == {"r1": 1}


def test_a_fault_in_kueues_annotations_of_a_gang_of_kubernetes_is_its_condition() -> None:
    cluster = workloads(*tree({"z/b/r0": 4}))
    wants = {"podset_slice_required_topology": "rack", "podset_slice_size": "two"}
    cluster.add(gang("g", 4), *asking(gang_members("g", 4), **wants))
    cluster.settle()
    assert cluster.bound == []
    text = 'kueue.x-k8s.io/podset-slice-size is "two"; it must be a number, at least 1'
    assert text in conditions(cluster)[-1][3]

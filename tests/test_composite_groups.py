"""CompositePodGroups: groups of groups, placed by one decision, as kube-scheduler does.

What holds for groups of every source is in `tests.test_groups_of_every_source`; what kube-scheduler
decides about random trees, `python -m e2e.conformance --composites` compares.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import (
    GATE,
    GATES,
    basic,
    below,
    composite,
    conditions,
    gang,
    gang_members,
    names_of,
    nodes,
    racks,
    racks_of,
    workload_cluster,
)
from tests.properties import length
from tests.scripted import scripted

from bayplan.framework import CycleState, Plugin, Pod, Status
from bayplan.queue.states import QueueState
from bayplan.testing import Builder, PodBuilder, make_pod

HELD = "failed to build hierarchy snapshot: "


def trees(*objects: Builder[object], **settings: Any) -> Cluster:
    """A cluster whose scheduler places trees of groups, with these objects."""
    cluster = workload_cluster(gates=GATES, **settings)
    cluster.add(*objects)
    return cluster


def messages(cluster: Cluster) -> dict[str, str]:
    """What the condition of each Pod said last."""
    return {name: condition.message for name, condition in cluster.recorder.conditions}


def why_gated(cluster: Cluster, pod: PodBuilder) -> str:
    """What the group of the Pod waits for; "" where it waits for nothing."""
    entry = cluster.queue.groups.entry_of_pod(pod.obj())
    assert entry is not None
    return entry.gating_reason


def two_gangs(minimum: int, size: int = 2, **spec: Any) -> list[Builder[Any]]:
    """The groups a and b below the tree t, of which so many are needed."""
    root = composite("t", minimum, **spec)
    return [root, below(gang("a", size), "t"), below(gang("b", size), "t")]


# Which Pods wait together


def test_the_pods_of_a_tree_wait_for_each_other() -> None:
    cluster = trees(*nodes(1), *two_gangs(2))
    early = gang_members("a", 2)
    cluster.add(*early)
    cluster.run()
    assert cluster.bound == []
    assert why_gated(cluster, early[0]) == 'waiting for composite pod group "t" tree to meet quorum'
    cluster.add(*gang_members("b", 2))
    cluster.run()
    assert names_of(cluster, "a") | names_of(cluster, "b") == {"a-0", "a-1", "b-0", "b-1"}
    assert sorted(conditions(cluster)) == [
        ("a", "True", "Scheduled", ""),
        ("b", "True", "Scheduled", ""),
    ]
    assert cluster.is_at_rest()


def test_a_group_is_not_waited_for_where_others_are_enough() -> None:
    cluster = trees(*nodes(1), *two_gangs(1), *gang_members("a", 2))
    cluster.run()
    assert names_of(cluster, "a") == {"a-0", "a-1"}


@pytest.mark.parametrize("gates", [GATE, GATE + ",TopologyAwareWorkloadScheduling=true"])
def test_without_the_gate_a_parent_means_nothing(gates: str) -> None:
    cluster = workload_cluster(gates=gates)
    cluster.add(*nodes(1), *two_gangs(2), *gang_members("a", 2))
    cluster.run()
    assert names_of(cluster, "a") == {"a-0", "a-1"}


def test_the_pods_wait_until_every_group_above_them_is_there() -> None:
    leaf, middle, root = below(gang("a", 2), "m"), composite("m", parent="t"), composite("t")
    cluster = trees(*nodes(1))
    pods = gang_members("a", 2)
    cluster.add(*pods)
    missing = "composite pod group object not found in state for compositepodgroup/default/"
    assert why_gated(cluster, pods[0]) == (
        f"{HELD}pod group object not found in state for podgroup/default/a"
    )
    cluster.add(leaf)
    assert why_gated(cluster, pods[0]) == f"{HELD}{missing}m"
    cluster.add(middle)
    assert why_gated(cluster, pods[0]) == f"{HELD}{missing}t"
    cluster.run()
    assert cluster.bound == []
    cluster.add(root)
    cluster.run()
    assert names_of(cluster, "a") == {"a-0", "a-1"}
    assert cluster.is_at_rest()


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_objects_of_a_tree_may_come_in_any_order(order: tuple[int, ...]) -> None:
    objects = two_gangs(2)
    cluster = trees(*nodes(1), *gang_members("a", 2), *gang_members("b", 2))
    for index in order:
        cluster.run()
        assert cluster.bound == []
        cluster.add(objects[index])
    cluster.run()
    assert len(cluster.bound) == 4
    assert cluster.is_at_rest()


def test_pods_of_a_tree_whose_root_has_gone_wait_again() -> None:
    root, a, b = two_gangs(2)
    cluster = trees(root, a, b, *gang_members("a", 2), *gang_members("b", 2))
    cluster.remove(root)
    cluster.add(*nodes(1))
    cluster.run()
    assert cluster.bound == []
    assert [entry.state for entry in cluster.queue.groups] == [QueueState.GATED] * 2
    cluster.add(root)
    cluster.run()
    assert len(cluster.bound) == 4


def test_a_gated_pod_holds_the_tree_it_comes_to_belong_to() -> None:
    root, a, b = two_gangs(1)
    cluster = trees(*nodes(1), a, b, *gang_members("a", 2))
    gated = gang_members("b", 1)[0].spec(schedulingGates=[{"name": "quota"}])
    cluster.add(gated, root)
    cluster.run()
    assert cluster.bound == []
    cluster.add(gated.spec(schedulingGates=[]))
    cluster.run()
    assert names_of(cluster, "a") == {"a-0", "a-1"}


@pytest.mark.parametrize(
    ("parents", "why"),
    [
        ("xyx", "cycle detected in composite pod group hierarchy: compositepodgroup/default/y"),
        ("wxyz", "exceeded maximum hierarchy depth at compositepodgroup/default/z"),
    ],
    ids=["cycle", "depth"],
)
def test_a_tree_that_cannot_be_one_is_not_tried(parents: str, why: str) -> None:
    pairs = zip(parents, [*parents[1:], ""], strict=True)
    above = [composite(name, parent=parent) for name, parent in pairs if parent or len(parents) > 3]
    cluster = trees(*nodes(1), *above, below(gang("a", 1), parents[0]))
    (pod,) = gang_members("a", 1)
    cluster.add(pod)
    cluster.run()
    assert cluster.bound == []
    assert why_gated(cluster, pod) == HELD + why


def test_four_levels_are_a_tree() -> None:
    above = [composite("x"), composite("y", parent="x"), composite("z", parent="y")]
    cluster = trees(*nodes(1), *above, below(basic("a"), "z"), *gang_members("a", 1))
    cluster.run()
    assert names_of(cluster, "a") == {"a-0"}


# What is decided


def test_nothing_is_placed_where_too_few_groups_fit() -> None:
    cluster = trees(*nodes(1, cpu="3"), *two_gangs(2), *gang_members("a", 2), *gang_members("b", 2))
    cluster.run()
    assert cluster.bound == []
    nobody = "pod group preemption: No preemption victims found for incoming preemptor"
    short = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    first = "pod group is unschedulable, 0/1 placements are available, first placement status: "
    # What a says is what the root says; b says itself why it does not fit.
    said = f"{first}{short}"
    assert sorted(conditions(cluster)) == [
        ("a", "False", "Unschedulable", f"{said}, {nobody}"),
        ("b", "False", "Unschedulable", f"{said}, {nobody}"),
    ]
    assert messages(cluster)["a-0"] == said
    assert messages(cluster)["b-0"] == f"pod group is unschedulable, {said}, {nobody}"
    assert messages(cluster)["b-1"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.is_at_rest()
    cluster.add(*nodes(1, cpu="1", prefix="m"))
    cluster.wait(11)
    cluster.run()
    assert len(cluster.bound) == 4


def test_groups_that_are_not_needed_come_along_or_wait() -> None:
    pods = [*gang_members("a", 2), *gang_members("b", 2)]
    cluster = trees(*nodes(1, cpu="3"), *two_gangs(1), *pods)
    cluster.run()
    assert names_of(cluster, "a") == {"a-0", "a-1"}
    assert names_of(cluster, "b") == set()
    assert conditions(cluster)[0] == ("a", "True", "Scheduled", "")
    assert conditions(cluster)[1][:2] == ("b", "False")
    cluster.add(*nodes(1, cpu="1", prefix="m"))
    cluster.wait(11)
    cluster.run()
    assert names_of(cluster, "b") == {"b-0", "b-1"}


def test_older_groups_are_tried_first_then_by_name() -> None:
    c = below(gang("c", 2), "t").meta(creationTimestamp="2026-01-01T00:00:00Z")
    b = below(gang("b", 2), "t").meta(creationTimestamp="2026-01-02T00:00:00Z")
    a = below(gang("a", 2), "t").meta(creationTimestamp="2026-01-02T00:00:00Z")
    pods = [pod for name in "abc" for pod in gang_members(name, 2)]
    cluster = trees(*nodes(1, cpu="4"), composite("t"), a, b, c, *pods)
    cluster.run()
    assert [len(names_of(cluster, name)) for name in "abc"] == [2, 0, 2]


def test_a_tree_goes_to_one_domain_and_its_groups_to_domains_within() -> None:
    zone, rack = ({"topology": [{"key": key}]} for key in ("zone", "rack"))
    root = composite("t", 2, schedulingConstraints=zone)
    a, b = (below(gang(name, 2, schedulingConstraints=rack), "t") for name in "ab")
    pods = [*gang_members("a", 2), *gang_members("b", 2)]
    # The zone z0 has room for four Pods, but in racks of three and one.
    cluster = trees(*racks(3, 1, 2, 2), root, a, b, *pods)
    cluster.run()
    assert [racks_of(cluster, name) for name in "ab"] in ([{"r2"}, {"r3"}], [{"r3"}, {"r2"}])


def test_a_late_group_goes_to_the_domain_of_its_tree() -> None:
    root, a, b = two_gangs(1, schedulingConstraints={"topology": [{"key": "rack"}]})
    cluster = trees(*racks(2, 4), root, a, b)
    cluster.add(*(pod.node("r0n0") for pod in gang_members("a", 1, cpu="1")))
    cluster.add(*gang_members("b", 2))
    cluster.run()
    assert cluster.bound == []
    cluster.add(*racks(4)[2:])
    cluster.wait(11)
    cluster.run()
    assert racks_of(cluster, "b") == {"r0"}


def test_an_attempt_that_breaks_ends_that_of_the_whole_tree() -> None:
    cluster = workload_cluster(scripted("Broken", filter=Status.error("no disk")), gates=GATES)
    cluster.add(*nodes(1), *two_gangs(2), *gang_members("a", 2), *gang_members("b", 2))
    cluster.run()
    text = (
        "composite pod group evaluation failed due to child error: "
        "failed to schedule other pod from a pod group: "
    )
    (a, b) = sorted(conditions(cluster))
    assert a[1:] == b[1:]
    assert a[1:3] == ("False", "SchedulerError")
    assert a[3].startswith(text)
    assert a[3].endswith("no disk")
    assert messages(cluster)["b-1"] == a[3]


def test_pods_of_another_priority_are_an_error_of_the_tree() -> None:
    pods = [*gang_members("a", 2), *(pod.priority(5) for pod in gang_members("b", 2))]
    cluster = trees(*nodes(1), *two_gangs(2), *pods)
    cluster.run()
    assert {reason for _, _, reason, _ in conditions(cluster)} == {"SchedulerError"}
    assert "same priority as the pod group's priority, got 5 and 0" in messages(cluster)["a-0"]


# Bindings


class Disks(Plugin):
    """Has no disk for the last Pod of b."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.error("no disk") if pod.name == "b-1" else None


@pytest.mark.parametrize(("minimum", "bound"), [(2, 0), (0, 2)], ids=["gang", "basic"])
def test_a_gang_of_groups_is_bound_at_once_or_not_at_all(minimum: int, bound: int) -> None:
    """Below a basic root each gang stands for itself."""
    cluster = workload_cluster(Disks, gates=GATES)
    pods = [*gang_members("a", 2), *gang_members("b", 2)]
    cluster.add(*nodes(1), *two_gangs(minimum), *pods)
    cluster.run()
    assert len(names_of(cluster, "b")) == 0
    assert len(names_of(cluster, "a")) == bound


class Strict(Plugin):
    """Refuses the last Pod of b."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.unschedulable("not now") if pod.name == "b-1" else None


@pytest.mark.parametrize(("minimum", "placed"), [(2, 0), (0, 2)], ids=["gang", "basic"])
def test_a_refusal_in_permit_is_one_of_the_whole_gang(minimum: int, placed: int) -> None:
    cluster = workload_cluster(Strict, gates=GATES)
    pods = [*gang_members("a", 2), *gang_members("b", 2)]
    cluster.add(*nodes(1), *two_gangs(minimum), *pods)
    cluster.run()
    assert len(names_of(cluster, "a")) == placed
    assert len(names_of(cluster, "b")) == 0
    assert "not now" in messages(cluster)["b-1"]
    assert cluster.is_at_rest()


def test_a_tree_whose_bindings_fail_comes_back_as_a_whole() -> None:
    cluster = trees(*nodes(1), *two_gangs(2))
    cluster.writer.outcome = RuntimeError("refused")
    cluster.add(*gang_members("a", 2), *gang_members("b", 2))
    cluster.run()
    cluster.writer.outcome = None
    cluster.wait(11)
    cluster.run()
    assert names_of(cluster, "a") | names_of(cluster, "b") == {"a-0", "a-1", "b-0", "b-1"}
    assert cluster.is_at_rest()


# Preemption


def test_a_tree_makes_room_for_all_of_its_groups() -> None:
    low = [make_pod(f"low-{i}").req(cpu="2").node(f"n{i}") for i in range(2)]
    root, a, b = two_gangs(2, priority=10)
    pods = [pod.priority(10) for name in "ab" for pod in gang_members(name, 2)]
    cluster = trees(*nodes(2, cpu="2"), *low, root, a, b, *pods)
    cluster.run()
    assert len(cluster.writer.deleted) == 2
    said = [message for _, _, _, message in conditions(cluster)]
    assert all("found a placement for podgroup, preempting 2 victims" in text for text in said[:2])
    for _ in range(3):
        cluster.wait(11)
        cluster.run()
    assert len(cluster.bound) == 4


@pytest.mark.parametrize(("mode", "gone"), [("all", 4), ("single", 1)])
def test_a_tree_goes_as_a_whole_where_it_says_so(mode: str, gone: int) -> None:
    root, a, b = two_gangs(2, disruptionMode={mode: {}})
    running = [*gang_members("a", 2), *gang_members("b", 2)]
    running = [pod.node(f"n{index // 2}") for index, pod in enumerate(running)]
    cluster = trees(*nodes(2, cpu="2"), root, a, b, *running)
    cluster.add(make_pod("high").req(cpu="1").priority(10))
    cluster.run()
    assert len(cluster.writer.deleted) == gone


def test_what_a_pod_is_worth_is_what_its_root_says() -> None:
    """Another priority than that of the Pods, which admission does not give."""
    root, a, b = two_gangs(1, priority=5)
    running = [pod.node("n0") for pod in gang_members("a", 2)]
    cluster = trees(*nodes(1, cpu="2"), root, a, b, *running, gang("h", 2, priority=3))
    cluster.add(*(pod.priority(3) for pod in gang_members("h", 2)))
    cluster.run()
    assert cluster.writer.deleted == []
    assert "No preemption victims found" in conditions(cluster)[-1][3]


def test_a_group_that_is_placed_already_counts_for_its_tree() -> None:
    root, a, b = two_gangs(2)
    cluster = trees(*nodes(1), root, a, b, *(pod.node("n0") for pod in gang_members("a", 2)))
    cluster.add(*gang_members("b", 2))
    cluster.run()
    assert names_of(cluster, "b") == {"b-0", "b-1"}
    assert {status for _, status, _, _ in conditions(cluster)} == {"True"}


FOREST = {
    "t": composite("t", 2),
    "m": composite("m", parent="t"),
    "a": below(gang("a", 2), "t"),
    "b": below(gang("b", 2), "m"),
    "c": gang("c", 2),
}
"""Two trees: a and b below t, c alone."""


@length(30)
@given(st.data())
def test_pods_wait_with_the_group_that_they_belong_to_whatever_comes_and_goes(data: Any) -> None:
    cluster = trees()
    first = [pod for group in "abc" for pod in gang_members(group, 1, first=80)]
    cluster.add(*first)
    shown, pods = set[str](), {pod.obj().name: pod for pod in first}
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["object", "object", "pod", "gate", "delete", "try"]))
        if action == "object":
            name = data.draw(st.sampled_from(sorted(FOREST)))
            (cluster.remove if name in shown else cluster.add)(FOREST[name].new_version())
            shown ^= {name}
        elif action == "pod":
            group = data.draw(st.sampled_from("abc"))
            (pod,) = gang_members(group, 1, first=len(pods))
            gates = data.draw(st.sampled_from([[], [], [{"name": "quota"}]]))
            pods[pod.obj().name] = pod.spec(schedulingGates=gates)
            cluster.add(pod)
        elif action == "gate" and pods:
            cluster.add(pods[data.draw(st.sampled_from(sorted(pods)))].spec(schedulingGates=[]))
        elif action == "delete" and pods:
            cluster.remove(pods.pop(data.draw(st.sampled_from(sorted(pods)))))
        elif action == "try":
            cluster.run()
            cluster.wait(11)
        for entry in cluster.queue.groups:
            keys = {cluster.queue.groups.group_of(m.pod)[1] for m in entry.members.values()}
            assert keys == {entry.key}
    cluster.add(*(FOREST[name] for name in FOREST.keys() - shown))
    cluster.add(*(pod.spec(schedulingGates=[]) for pod in pods.values()))
    more = [pod for group in "abc" for pod in gang_members(group, 2, first=90)]
    cluster.add(*more, *nodes(3, cpu="20"))
    for _ in range(3):
        cluster.run()
        cluster.wait(11)
    assert len(cluster.bound) == len(pods) + len(more)
    assert cluster.is_at_rest()

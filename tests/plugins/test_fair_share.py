"""FairShare: limits hold single Pods and groups back, say so, and let go when there is room."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import groups
from tests.core_harness import Cluster
from tests.groups import members, names_of, pod_group
from tests.properties import length
from tests.queues import name_space, pod, pods, queue, queue_cluster, queues_profile, used
from tests.scripted import scripted

from bayplan.queue.states import QueueState
from bayplan.testing import make_node


def cluster_with(*queues: object, plugins: tuple[str, ...] = ()) -> Cluster:
    """Two nodes of 8 CPUs."""
    cluster = queue_cluster(*plugins)
    for name in ("n1", "n2"):
        cluster.add(make_node(name).capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def test_a_pod_above_the_limit_waits_and_says_which_limit_holds_it() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 3}))
    first, second = pod("p", "x", "2"), pod("q", "x", "1500m")
    cluster.add(first, second)
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["p"]
    text = "limit of cpu of queue a is 3: 2 used, 1.5 requested"
    assert cluster.verdict == ("QueueLimit", text)
    assert cluster.notes[-1] == ("FailedScheduling", text)
    assert cluster.rejectors(second) == {"FairShare"}

    cluster.remove(first)
    cluster.wait(11)
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["p", "q"]


def test_pods_that_a_limit_holds_are_refused_alike_with_others_between() -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n").capacity(cpu=8, memory="64Gi", pods=110))
    cluster.add(queue("all", limit={"cpu": 4}))
    cluster.add(queue("a", "x", parent="all"), queue("c", "z", parent="all"))
    cluster.add(pod("c-0", "z", "4").node("n"))
    cluster.add(pod("a-0", "x", "2"), pod("a-1", "x", "3"), pod("a-2", "x", "2"))
    cluster.run()
    said = dict(cluster.recorder.conditions)
    assert {condition.reason for condition in said.values()} == {"QueueLimit"}
    assert said["a-0"].message == said["a-2"].message


def test_an_ancestors_limit_holds_as_well() -> None:
    cluster = cluster_with(
        queue("all", limit={"memory": "3Gi"}),
        queue("a", "x", parent="all"),
        queue("b", "y", parent="all"),
    )
    cluster.add(pod("p", "x").req(memory="2Gi"))
    cluster.run()
    cluster.add(pod("q", "y").req(memory="2Gi"))
    cluster.run()
    text = "limit of memory of queue all is 3Gi: 2Gi used, 2Gi requested"
    text += ". reclaim: would be undone by queue a"
    assert cluster.verdict == ("QueueLimit", text)


def test_pods_can_be_limited_in_number() -> None:
    cluster = cluster_with(queue("a", "x", limit={"pods": 2}))
    cluster.add(*pods("p", 3, "x"))
    cluster.run()
    assert len(cluster.bound) == 2
    assert cluster.verdict[1] == "limit of pods of queue a is 2: 2 used, 1 requested"


def test_a_pod_that_asks_for_nothing_of_what_is_exceeded_passes() -> None:
    cluster = cluster_with()
    cluster.add(pod("p", "x", "4"))
    cluster.run()
    cluster.add(queue("a", "x", limit={"cpu": 1}), pod("idle", "x", "0"))
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["p", "idle"]


@pytest.mark.parametrize("change", ["raised", "gone", "namespace moves"])
def test_a_held_pod_wakes_when_the_limit_is(change: str) -> None:
    held = queue("a", namespaceSelector={"matchLabels": {"team": "a"}}, limit={"cpu": 1})
    cluster = cluster_with(held)
    name_space(cluster, "x", team="a")
    waiting = pod("p", "x", "2")
    cluster.add(waiting)
    cluster.run()
    assert cluster.state(waiting) is QueueState.UNSCHEDULABLE
    if change == "raised":
        spec = {"matchLabels": {"team": "a"}}
        cluster.add(queue("a", namespaceSelector=spec, limit={"cpu": 2}))
    elif change == "gone":
        cluster.remove(held)
    else:
        name_space(cluster, "x", team="b")
    cluster.wait(11)
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["p"]


def test_room_in_another_queue_wakes_nobody() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 1}), queue("b", "y"))
    other, waiting = pod("other", "y"), pod("p", "x", "2")
    cluster.add(other, waiting)
    cluster.run()
    cluster.remove(other)
    assert cluster.state(waiting) is QueueState.UNSCHEDULABLE


def test_of_many_held_pods_as_many_are_woken_as_there_is_room_for() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 2}))
    made = pods("p", 30, "x")
    cluster.add(*made)
    cluster.run()
    for number in range(4):
        cluster.wait(11)
        cluster.run()
        written = len(cluster.recorder.conditions)
        cluster.remove(made[number])
        cluster.wait(11)
        cluster.run()
        assert len(cluster.bound) == number + 3
        assert len(cluster.recorder.conditions) == written


def test_a_woken_pod_that_fits_on_no_node_leaves_its_room_to_the_next() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 2}))
    first = pod("first", "x", "2")
    cluster.add(first)
    cluster.run()
    nowhere = [pod(f"nowhere-{i}", "x").spec(nodeSelector={"no": "node"}) for i in range(3)]
    cluster.add(*nowhere, pod("last", "x"))
    cluster.run()
    cluster.wait(60)
    cluster.remove(first)
    cluster.wait(11)
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["first", "last"]


def test_a_large_pod_that_fits_on_no_node_leaves_its_room_to_all_who_fit() -> None:
    root, sibling = queue("root", limit={"cpu": 3}), queue("b", "y", parent="root")
    cluster = cluster_with(root, queue("a", "x", parent="root"), sibling)
    first = pod("first", "x", "3")
    cluster.add(first)
    cluster.run()
    nowhere = pod("nowhere", "x", "3").spec(nodeSelector={"no": "node"})
    cluster.add(nowhere)
    cluster.run()
    cluster.add(pod("other", "y"), pod("last-0", "x"), pod("last-1", "x"))
    cluster.run()
    cluster.wait(60)
    cluster.remove(first)
    cluster.wait(11)
    cluster.run()
    assert sorted(name for name, _ in cluster.bound) == ["first", "last-0", "last-1", "other"]


@pytest.mark.parametrize("first", ["group", "pod"])
def test_room_within_a_limit_that_is_too_little_for_a_group_is_for_a_pod(first: str) -> None:
    cluster = cluster_with(queue("a", "default", limit={"cpu": 2}), plugins=("Coscheduling",))
    running = pods("r", 2, "default")
    cluster.add(*running)
    cluster.run()
    cluster.add(pod_group("g", minMember=2))
    waiting = {"group": members("g", 2), "pod": [pod("single", "default")]}
    for which in ("group", "pod") if first == "group" else ("pod", "group"):
        cluster.add(*waiting[which])
        cluster.run()
    cluster.wait(60)
    cluster.remove(running[0])
    cluster.wait(11)
    cluster.run()
    assert [name for name, _ in cluster.bound][2:] == ["single"]


def test_a_group_that_is_woken_and_fits_on_no_node_leaves_its_room_to_a_pod() -> None:
    cluster = cluster_with(queue("a", "default", limit={"cpu": 2}), plugins=("Coscheduling",))
    running = pod("r", "default", "2")
    cluster.add(running)
    cluster.run()
    cluster.add(pod_group("g", minMember=2))
    nowhere = [pod.spec(nodeSelector={"no": "node"}) for pod in members("g", 2)]
    cluster.add(*nowhere)
    cluster.run()
    cluster.add(pod("single", "default", "2"))
    cluster.run()
    cluster.wait(60)
    cluster.remove(running)
    cluster.wait(11)
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["r", "single"]


def test_a_group_above_the_limit_is_refused_before_nodes_are_sought() -> None:
    cluster = cluster_with(queue("a", "default", limit={"cpu": 3}), plugins=("Coscheduling",))
    cluster.add(pod_group("g", minMember=4), *members("g", 4))
    cluster.run()
    assert cluster.bound == []
    assert cluster.notes == [
        ("QueueLimit", "QueueLimit: limit of cpu of queue a is 3: 0 used, 4 requested")
    ]
    assert cluster.verdict == (
        "QueueLimit",
        "the group default/g would exceed the limit of cpu of queue a",
    )
    cluster.add(queue("a", "default", limit={"cpu": 4}))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 4


def test_a_pod_group_of_kubernetes_above_the_limit_is_refused_before_any_pod_is_tried() -> None:
    asked: list[str] = []
    counting = scripted("Counting", filter=lambda: asked.append(""))
    cluster = Cluster(
        counting, profiles=[queues_profile("Counting")], feature_gates="GenericWorkload=true"
    )
    cluster.add(make_node("n1").capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(queue("a", "default", limit={"cpu": 3}), groups.gang("g", 4))
    cluster.add(*groups.gang_members("g", 4))
    cluster.run()
    assert cluster.bound == []
    assert asked == []
    text = "QueueLimit: limit of cpu of queue a is 3: 0 used, 4 requested"
    assert text in groups.conditions(cluster)[-1][3]
    assert cluster.verdict == (
        "QueueLimit",
        "the group default/g would exceed the limit of cpu of queue a",
    )
    cluster.add(queue("a", "default", limit={"cpu": 4}))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 4


def test_members_beyond_the_minimum_come_along_as_far_as_the_limit_goes() -> None:
    cluster = cluster_with(queue("a", "default", limit={"cpu": 3}), plugins=("Coscheduling",))
    cluster.add(pod_group("g", minMember=2), *members("g", 4))
    cluster.run()
    assert len(names_of(cluster, "g")) == 3
    assert used(cluster, "a") == 3000


def test_a_class_of_pods_has_a_limit_of_its_own() -> None:
    batch = queue("batch", "x", parent="a", priorityClassNames=["batch"], limit={"cpu": 1})
    cluster = cluster_with(queue("a", "x", limit={"cpu": 3}), batch)
    cluster.add(*(pod(f"b{i}", "x").spec(priorityClassName="batch") for i in range(3)))
    cluster.run()
    assert cluster.verdict[1] == "limit of cpu of queue batch is 1: 1 used, 1 requested"
    cluster.add(*pods("p", 3, "x"))
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["b0", "p-0", "p-1"]
    assert cluster.verdict[1] == "limit of cpu of queue a is 3: 3 used, 1 requested"


def test_room_that_a_woken_pod_leaves_is_for_pods_of_its_queue() -> None:
    low = {"priorityClassName": "low"}
    cluster = cluster_with(
        queue("low", "x", priorityClassNames=["low"], limit={"cpu": 1}),
        queue("a", "x y", limit={"cpu": 1}),
    )
    running = pod("running", "x")
    cluster.add(running, pod("lowly", "x").spec(**low))
    cluster.run()
    cluster.add(*(pod(f"low-{i}", "x").spec(**low) for i in range(20)))
    cluster.add(pod("nowhere", "x").spec(nodeSelector={"no": "node"}), pod("last", "y"))
    cluster.run()
    cluster.wait(60)
    cluster.remove(running)
    cluster.wait(11)
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["running", "lowly", "last"]


@pytest.mark.parametrize(("held", "limit"), [("lead", 1), ("rest", 2), ("all", 3), ("", 4)])
def test_a_group_of_several_queues_keeps_to_the_limits_of_all(held: str, limit: int) -> None:
    limits: dict[str, Any] = {held: {"limit": {"cpu": limit}}}
    cluster = cluster_with(
        queue("all", **limits.get("all", {})),
        queue("lead", "default", parent="all", qosClasses=["Guaranteed"], **limits.get("lead", {})),
        queue("rest", "default", parent="all", **limits.get("rest", {})),
        plugins=("Coscheduling",),
    )
    cluster.add(pod_group("g", minMember=3))
    leader, *workers = members("g", 3)
    amounts = {"cpu": "2", "memory": "1Gi"}
    leader.spec(containers=[{"resources": {"requests": amounts, "limits": amounts}}])
    cluster.add(leader, *workers)
    cluster.run()
    assert len(cluster.bound) == (0 if held in ("lead", "all") else 3)
    if held in ("lead", "all"):
        assert f"limit of cpu of queue {held} is {limit}" in cluster.notes[0][1]


def test_a_group_of_several_queues_evicts_nobody() -> None:
    cluster = cluster_with(
        queue("lead", "default", qosClasses=["Guaranteed"], guaranteed={"cpu": 8}),
        queue("rest", "default", guaranteed={"cpu": 8}),
        queue("other", "y"),
        plugins=("Coscheduling",),
    )
    cluster.add(*pods("y", 16, "y"))
    cluster.run()
    cluster.add(pod_group("g", minMember=2))
    leader, worker = members("g", 2)
    amounts = {"cpu": "1", "memory": "1Gi"}
    leader.spec(containers=[{"resources": {"requests": amounts, "limits": amounts}}])
    cluster.add(leader, worker)
    cluster.run()
    assert cluster.writer.deleted == []
    assert "its Pods belong to several queues" in cluster.notes[-1][1]
    alone = pod("alone", "default")
    cluster.add(alone)
    cluster.run()
    assert len(cluster.writer.deleted) == 1


def test_without_queues_the_plugin_does_nothing() -> None:
    cluster = cluster_with()
    cluster.add(pod("p", "x"))
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["p"]


@length(50)
@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 4)), max_size=12),
    st.lists(st.integers(0, 11), max_size=6),
    st.integers(1, 8),
    st.integers(1, 10),
)
def test_a_limit_is_never_exceeded_not_even_while_binding(
    asked: list[tuple[str, int]], gone: list[int], limit: int, of_all: int
) -> None:
    cluster = cluster_with(
        queue("all", limit={"cpu": of_all}),
        queue("a", "x", parent="all", limit={"cpu": limit}),
        queue("b", "y", parent="all"),
    )
    made = [pod(f"p{i}", namespace, str(cpu)) for i, (namespace, cpu) in enumerate(asked)]
    cluster.add(*made)
    for index in gone:
        cluster.run()
        assert used(cluster, "a") <= limit * 1000
        assert used(cluster, "all") <= of_all * 1000
        if index < len(made):
            cluster.remove(made[index])
            cluster.wait(11)
    cluster.run()
    assert used(cluster, "a") <= limit * 1000
    assert used(cluster, "all") <= of_all * 1000

"""Pods that are never evicted: they yield to nobody, and get no more than what is guaranteed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import GATES, gang, gang_members
from tests.queues import pod, pods, queue, queues_profile, share

from bayplan.api.kinds import PRIORITY_CLASS
from bayplan.cache.queue_tree import PREEMPTIBLE
from bayplan.testing import PodBuilder, make_node, make_object

MARKS = ["the Pod", "its class", "its queue", "the parent of its queue"]


def cluster_with(*queues: object, cpu: str = "4", nodes: int = 1) -> Cluster:
    """Victims go at once, and what is bound is confirmed."""
    cluster = Cluster(profiles=[queues_profile("Coscheduling")], feature_gates=GATES)
    cluster.writer.on_bound = cluster._show_bound
    for i in range(nodes):
        cluster.add(make_node(f"n{i}").capacity(cpu=cpu, memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def never(name: str, namespace: str, cpu: str = "1", priority: int = 0) -> PodBuilder:
    """A Pod with the label."""
    return pod(name, namespace, cpu, priority).label(PREEMPTIBLE, "false")


def run(cluster: Cluster, *some: PodBuilder) -> list[str]:
    """Who runs after these have come; they come one after the other."""
    for one in some:
        cluster.add(one)
        cluster.settle(6)
    return sorted(p.name for p in cluster.cache.pods())


@pytest.mark.parametrize("mark", MARKS)
def test_it_yields_to_no_priority_of_its_own_queue_nor_to_pods_without_one(mark: str) -> None:
    spec: dict[str, Any] = {"preemptible": False}
    of_parent = spec if mark == MARKS[3] else {}
    of_queue = spec if mark == MARKS[2] else {}
    cluster = cluster_with(
        queue("all", guaranteed={"cpu": 4}, **of_parent),
        queue("a", "x", parent="all", guaranteed={"cpu": 4}, **of_queue),
        cpu="2",
    )
    label = {PREEMPTIBLE: "false"} if mark == MARKS[1] else {}
    cluster.add(make_object(PRIORITY_CLASS, "steady").labels(label))
    some = [p.spec(priorityClassName="steady", priority=0) for p in pods("p", 2, "x")]
    if mark == MARKS[0]:
        some = [p.label(PREEMPTIBLE, "false") for p in some]
    assert run(cluster, *some) == ["p-0", "p-1"]
    others = pod("high", "x", "1", priority=9), pod("system", "kube-system", "1", priority=99)
    assert run(cluster, *others) == ["p-0", "p-1"]
    assert cluster.writer.deleted == []


def test_others_of_its_queue_go_before_it_whatever_their_priority() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}), queue("b", "y"))
    run(cluster, never("a-0", "x"), *pods("a-more", 3, "x"))
    now = run(cluster, pod("high", "x", priority=9))
    assert {"a-0", "high"} <= {*now}
    assert len(cluster.writer.deleted) == 1


def test_a_preempting_group_of_kubernetes_and_one_pod_take_others_instead() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}), cpu="3")
    run(cluster, never("a-0", "x"), *pods("other", 2, "x"))
    assert "a-0" in run(cluster, pod("system", "kube-system", "2", priority=99))
    assert sorted(cluster.writer.deleted) == ["other-0", "other-1"]
    cluster.add(gang("g", 2), *(one.spec(priority=200) for one in gang_members("g", 2)))
    cluster.settle(6)
    assert "a-0" not in cluster.writer.deleted


@pytest.mark.parametrize("at", ["its own", "above"])
def test_more_than_the_guarantee_of_such_pods_waits_and_says_so(at: str) -> None:
    top = {"cpu": 2} if at == "above" else {}
    cluster = cluster_with(
        queue("all", guaranteed=top),
        queue("a", "x", parent="all", guaranteed={"cpu": 2 if at == "its own" else 4}),
    )
    assert run(cluster, *(never(f"a-{i}", "x") for i in range(3))) == ["a-0", "a-1"]
    who = "a" if at == "its own" else "all"
    text = f"guarantee of cpu of queue {who} is 2: 2 used by Pods that are never evicted"
    assert cluster.verdict == ("QueueLimit", f"{text}, 1 requested")
    # Others of the queue may take what is left, and nobody goes for who waits.
    assert len(run(cluster, *pods("other", 2, "x"))) == 4
    assert cluster.writer.deleted == []


def test_it_takes_nothing_that_is_not_guaranteed() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}))
    assert run(cluster, never("a-0", "x").req(memory="1Gi")) == []
    text = "guarantee of memory of queue a is 0: 0 used by Pods that are never evicted"
    assert cluster.verdict[1] == f"{text}, 1Gi requested"


def test_when_such_a_pod_ends_the_next_one_gets_its_place() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}))
    first = never("a-0", "x")
    assert run(cluster, first, never("a-1", "x")) == ["a-0"]
    cluster.remove(first)
    cluster.settle(6)
    assert run(cluster) == ["a-1"]


def test_what_such_pods_want_beyond_the_guarantee_is_no_demand() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}), queue("b", "y"))
    cluster.add(*(never(f"a-{i}", "x") for i in range(4)), *pods("b", 4, "y"))
    cluster.settle(6)
    assert (share(cluster, "a"), share(cluster, "b")) == (1000, 3000)


def test_it_claims_what_is_guaranteed_before_others_of_its_queue() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}), queue("b", "y"))
    run(cluster, *pods("a", 2, "x"), *pods("b", 2, "y"))
    assert {"a-0", "a-1", "a-never"} < {*run(cluster, never("a-never", "x"))}


def test_a_mark_protects_no_more_than_the_guarantee() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}), queue("b", "y"))
    times = (f"2026-01-01T00:00:0{i}Z" for i in range(4))
    running = [p.node("n0").start_time(next(times)) for p in pods("a", 4, "x")]
    cluster.add(*running)
    cluster.settle(2)
    cluster.add(*(p.label(PREEMPTIBLE, "false") for p in running))
    cluster.settle(2)
    now = run(cluster, *pods("b", 4, "y"))
    assert (len(now), now[:2]) == (4, ["a-0", "a-1"])
    assert sorted(cluster.writer.deleted) == ["a-2", "a-3"]
    cluster.add(pod("system", "kube-system", priority=99))
    cluster.settle(6)
    assert {"a-0", "a-1"}.isdisjoint(cluster.writer.deleted)


def test_without_a_queue_the_mark_does_not_count() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}))
    run(cluster, *(never(f"p-{i}", "default") for i in range(4)))
    assert "system" in run(cluster, pod("system", "default", priority=9))


def test_own_pods_of_a_parent_have_what_its_children_are_not_guaranteed() -> None:
    cluster = cluster_with(
        queue("all", "z", guaranteed={"cpu": 3}),
        queue("a", "x", parent="all", guaranteed={"cpu": 2}),
    )
    own = [never(f"own-{i}", "z") for i in range(2)]
    assert run(cluster, *own, never("a-0", "x"), never("a-1", "x")) == ["a-0", "a-1", "own-0"]


def test_a_queue_without_a_guarantee_admits_no_pod_and_says_so() -> None:
    cluster = cluster_with(queue("a", "x", preemptible=False))
    assert run(cluster, pod("p", "x")) == []
    reasons = {fault.reason for fault in cluster.world.queues.faults()}
    assert reasons == {"NothingGuaranteed"}


def test_sums_of_such_pods_equal_a_count_from_scratch() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}))
    run(cluster, never("a-0", "x"), never("a-1", "x"), pod("p", "x"))
    assert cluster.world.queues.recount() == {}


def test_a_label_that_means_nothing_is_told_to_the_class_and_the_first_pod_of_a_shape() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}))
    cluster.add(make_object(PRIORITY_CLASS, "steady").labels({PREEMPTIBLE: "no"}))
    cluster.add(*(p.label(PREEMPTIBLE, "False") for p in pods("p", 3, "x")))
    cluster.add(pod("other", "x").label(PREEMPTIBLE, "true"))
    told = [(e.pod, e.note) for e in cluster.events if e.reason == "InvalidLabel"]
    assert told == []
    cluster.settle(3)
    wrong = f"metadata.labels.{PREEMPTIBLE}: {{}} means nothing, 'true' and 'false' do"
    told = [(e.pod, e.note) for e in cluster.events if e.reason == "InvalidLabel"]
    assert told == [("steady", wrong.format("'no'")), ("p-0", wrong.format("'False'"))]
    # Nothing of it is a guarantee, and mended labels are wrong no more.
    assert len(list(cluster.cache.pods())) == 4
    cluster.add(make_object(PRIORITY_CLASS, "steady").labels({PREEMPTIBLE: "false"}))
    cluster.add(queue("a", "x", guaranteed={"cpu": 2}))
    cluster.settle(3)
    assert [f.regarding.name for f in cluster.world.queues.known_faults] == ["p-0"]

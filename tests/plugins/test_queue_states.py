"""Queues that are draining or closed, and those that take from lower priorities only."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.queues import demand, pod, pods, queue, queue_cluster, share

from bayplan.queue.states import QueueState
from bayplan.testing import make_node


def cluster_with(*queues: object, cpu: str = "4") -> Cluster:
    """One node; victims go at once, and what is bound is confirmed."""
    cluster = queue_cluster("Coscheduling")
    cluster.writer.on_bound = cluster._show_bound
    cluster.add(make_node("n0").capacity(cpu=cpu, memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def running(cluster: Cluster) -> list[str]:
    """Who runs, when nobody moves any more."""
    cluster.settle(6)
    return sorted(p.name for p in cluster.cache.pods())


@pytest.mark.parametrize("at", ["a", "all"])
@pytest.mark.parametrize("state", ["Closed", "Draining"])
def test_a_queue_that_is_not_open_takes_no_pods_and_keeps_what_runs(state: str, at: str) -> None:
    spec: dict[str, dict[str, Any]] = {"a": {"parent": "all"}, "all": {}}
    cluster = cluster_with(queue("all"), queue("a", "x", parent="all"))
    cluster.add(pod("first", "x"))
    assert running(cluster) == ["first"]
    namespaces = "x" if at == "a" else ""
    cluster.add(queue(at, namespaces, **spec[at], state=state))
    waiting = pod("second", "x")
    cluster.add(waiting)
    assert running(cluster) == ["first"]
    rest = ": it takes only Pods of groups that run in part" if state == "Draining" else ""
    assert cluster.verdict == ("QueueClosed", f"queue {at} is {state}{rest}")
    assert cluster.rejectors(waiting) == {"FairShare"}
    cluster.add(queue(at, namespaces, **spec[at]))
    assert running(cluster) == ["first", "second"]
    assert cluster.writer.deleted == []


def test_a_queue_that_opens_wakes_its_pods_alone() -> None:
    cluster = cluster_with(
        queue("a", "x", state="Closed"),
        queue("b", "y", state="Closed"),
        queue("c", "z", limit={"cpu": 0}),
    )
    waiting = {name: pod(name, name) for name in "xyz"}
    cluster.add(*waiting.values())
    assert running(cluster) == []
    cluster.wait(11)
    cluster.add(queue("a", "x"))
    states = {name: cluster.state(one) for name, one in waiting.items()}
    unschedulable = QueueState.UNSCHEDULABLE
    assert states == {"x": QueueState.ACTIVE, "y": unschedulable, "z": unschedulable}


def test_pods_that_end_wake_none_of_a_closed_queue() -> None:
    cluster = cluster_with(queue("a", "x"), cpu="1")
    first, waiting = pods("p", 2, "x")
    cluster.add(first, waiting)
    assert running(cluster) == ["p-0"]
    cluster.add(queue("a", "x", state="Closed"))
    cluster.settle(6)
    cluster.remove(first)
    cluster.take_in()
    assert cluster.state(waiting) is QueueState.UNSCHEDULABLE


def test_a_draining_queue_completes_the_groups_that_run() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(pod_group("g", minMember=2).namespace("x"))
    some = [one.namespace("x") for one in members("g", 3)]
    cluster.add(*some[:2])
    assert len(running(cluster)) == 2
    cluster.add(queue("a", "x", state="Draining"))
    cluster.add(pod_group("new", minMember=2).namespace("x"))
    cluster.add(*(one.namespace("x") for one in members("new", 2)))
    cluster.add(some[2], pod("alone", "x"))
    assert running(cluster) == sorted(one.json["metadata"]["name"] for one in some)
    text = "the group x/new is not taken: queue a is Draining"
    assert any(message.startswith(text) for message in cluster.messages.values())
    assert any(note.startswith("QueueClosed: queue a is Draining") for _, note in cluster.notes)


def test_what_waits_in_a_closed_queue_is_no_demand_and_nobodys_guarantee() -> None:
    closed = queue("a", "x", guaranteed={"cpu": 4}, state="Closed")
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 4}), queue("b", "y"))
    cluster.add(pod("a-0", "x"))
    cluster.settle(6)
    cluster.add(closed, *pods("a-more", 3, "x"), *pods("b", 4, "y"))
    assert running(cluster) == ["a-0", "b-0", "b-1", "b-2"]
    assert (demand(cluster, "a"), share(cluster, "a"), share(cluster, "b")) == (1000, 1000, 3000)
    cluster.add(queue("a", "x", guaranteed={"cpu": 4}))
    assert running(cluster) == ["a-0", "a-more-0", "a-more-1", "a-more-2"]


def test_what_completes_a_group_of_a_draining_queue_is_demand_and_claims() -> None:
    """Nothing else is, and that no longer once the group has no Pods on nodes."""
    spec: dict[str, Any] = {"guaranteed": {"cpu": 3}}
    cluster = cluster_with(queue("a", "x", **spec), queue("b", "y"))
    cluster.add(pod_group("g", minMember=1).namespace("x"))
    first, second, third = (one.namespace("x") for one in members("g", 3))
    cluster.add(first)
    assert running(cluster) == ["g-0"]
    cluster.add(queue("a", "x", **spec, state="Draining"), *pods("b", 3, "y"))
    cluster.settle(6)
    assert demand(cluster, "a") == 1000
    cluster.add(second, pod("alone", "x"))
    assert demand(cluster, "a") == 2000
    assert running(cluster)[2:] == ["g-0", "g-1"]
    assert cluster.world.queues.recount() == {}
    cluster.add(third.gate("wait"), third.spec(schedulingGates=[]))
    assert demand(cluster, "a") == 3000
    for one in (first, second):
        cluster.remove(one)
    assert demand(cluster, "a") == 0
    assert cluster.world.queues.recount() == {}


@pytest.mark.parametrize(
    ("reclaim_from", "priority", "victims"),
    [("Any", 0, 2), ("Any", 5, 2), ("LowerPriority", 0, 0), ("LowerPriority", 5, 2)],
)
@pytest.mark.parametrize("guaranteed", [{}, {"cpu": 2}])
def test_a_queue_may_take_from_lower_priorities_only(
    reclaim_from: str, priority: int, victims: int, guaranteed: dict[str, int]
) -> None:
    cluster = cluster_with(
        queue("a", "x", guaranteed=guaranteed, reclaimFrom=reclaim_from), queue("b", "y")
    )
    cluster.add(*pods("b", 4, "y"))
    cluster.settle(6)
    cluster.add(*(pod(f"a-{i}", "x", priority=priority) for i in range(2)))
    cluster.settle(6)
    assert len(cluster.writer.deleted) == victims
    if not victims:
        assert cluster.verdict[1].endswith("reclaim: no Pod of queue b has a lower priority")


def test_within_the_queue_it_is_a_matter_of_priority_as_always() -> None:
    cluster = cluster_with(queue("a", "x", reclaimFrom="LowerPriority"))
    cluster.add(*pods("low", 4, "x"))
    cluster.settle(6)
    cluster.add(pod("high", "x", priority=5))
    assert "high" in running(cluster)

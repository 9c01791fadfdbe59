"""Simulate takes tenants in turns, and says who would be evicted for whom."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.queues import pod, pods, queue, queue_cluster, used

from bayplan.simulation.simulate import simulate
from bayplan.testing import PodBuilder, make_node, make_pod


def results(cluster: Cluster, *pods: PodBuilder, evict: bool = False) -> dict[str, dict[str, Any]]:
    """What simulate says of ``pods``, which have come to the cluster, by name."""
    found = simulate(cluster.core, [one.obj() for one in pods], evict=evict)
    return {result["pod"].split("/")[1]: result for result in found}


def full_cluster(*plugins: str) -> Cluster:
    """Four CPUs, all of them used by the queue b."""
    cluster = queue_cluster(*plugins)
    cluster.add(make_node("n0").capacity(cpu="4", memory="64Gi", pods=110))
    cluster.add(queue("a", "x default", guaranteed={"cpu": 2}), queue("b", "y"))
    cluster.add(*(one.node("n0") for one in pods("b", 4, "y")))
    return cluster


def test_tenants_take_turns() -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="6", memory="64Gi", pods=110))
    cluster.add(queue("a", "x"), queue("b", "y"))
    first, second = pods("a", 9, "x"), pods("b", 9, "y")
    cluster.add(*first, *second)
    placed = [name for name, r in results(cluster, *first, *second).items() if r["node"]]
    assert sorted(name[0] for name in placed) == ["a", "a", "a", "b", "b", "b"]


def test_without_queues_the_order_is_that_of_queue_sort() -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="2", memory="64Gi", pods=110))
    low, high = pods("low", 2, "x"), [pod("high", "y", priority=5)]
    cluster.add(*low, *high)
    assert list(results(cluster, *low, *high)) == ["high", "low-0", "low-1"]


def test_who_would_be_evicted_is_asked_of_each_pod_alone() -> None:
    cluster = full_cluster()
    asking = pods("a", 3, "x")
    cluster.add(*asking)
    found = results(cluster, *asking)
    assert [result["node"] for result in found.values()] == [None] * 3
    assert [len(result["victims"]) for result in found.values()] == [1] * 3
    assert len({victim for result in found.values() for victim in result["victims"]}) == 1
    assert len(list(cluster.cache.pods())) == 4


def test_with_evict_all_evictions_together_are_those_that_all_pods_cause() -> None:
    cluster = full_cluster()
    asking = pods("a", 4, "x")
    cluster.add(*asking)
    found = results(cluster, *asking, evict=True)
    # Two CPUs are what it is guaranteed, and one is its share of the other two.
    assert [result["node"] for result in found.values()] == ["n0", "n0", "n0", None]
    victims = [victim for result in found.values() for victim in result.get("victims", ())]
    assert len(victims) == len(set(victims)) == 3
    assert "victims" not in found["a-3"]


def test_of_a_pod_that_a_limit_holds_back_it_is_said_whose_place_it_takes() -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(queue("a", "x", limit={"cpu": 2}))
    cluster.add(*(one.node("n0") for one in pods("low", 2, "x")))
    asking = [pod(f"high-{i}", "x", priority=5) for i in range(3)]
    cluster.add(*asking)
    found = results(cluster, *asking)
    assert [len(result["victims"]) for result in found.values()] == [1] * 3
    assert "limit of cpu of queue a is 2" in found["high-0"]["message"]
    assert "1 Pods of lower priority are evicted" in found["high-0"]["message"]

    found = results(cluster, *asking, evict=True)
    assert [result["node"] for result in found.values()] == ["n0", "n0", None]
    assert "victims" not in found["high-2"]
    assert used(cluster, "a") == 2000


def test_with_evict_a_group_gets_the_room_that_others_leave() -> None:
    cluster = full_cluster("Coscheduling")
    cluster.add(pod_group("g", minMember=2))
    asking = members("g", 2)
    cluster.add(*asking)
    found = results(cluster, *asking)
    assert [result["node"] for result in found.values()] == [None, None]
    assert all(len(result["victims"]) == 2 for result in found.values())

    found = results(cluster, *asking, evict=True)
    assert [result["node"] for result in found.values()] == ["n0", "n0"]
    assert all(len(result["victims"]) == 2 for result in found.values())
    assert len(list(cluster.cache.pods())) == 4


def test_with_evict_a_higher_priority_takes_the_place_of_a_lower_one() -> None:
    cluster = Cluster()
    cluster.add(make_node("n0").capacity(cpu="4", memory="64Gi", pods=110))
    low = make_pod("low").req(cpu="3").node("n0")
    first = make_pod("first").req(cpu="3").spec(priority=2)
    second = make_pod("second").req(cpu="3").spec(priority=1)
    cluster.add(low, first, second)
    found = results(cluster, first, second, evict=True)
    assert (found["first"]["node"], found["first"]["victims"]) == ("n0", ["default/low"])
    assert found["second"]["node"] is None
    assert "victims" not in found["second"]


def test_with_evict_a_pod_that_was_placed_and_is_evicted_has_no_node() -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="4", memory="64Gi", pods=110))
    cluster.add(queue("b", "y", guaranteed={"cpu": 4}))
    guaranteed = pod("b", "y")
    critical = make_pod("critical").namespace("x").req(cpu="4").spec(priority=10)
    cluster.add(guaranteed, critical)
    found = results(cluster, guaranteed, critical, evict=True)
    assert (found["critical"]["node"], found["critical"]["victims"]) == ("n0", ["y/b"])
    assert found["b"]["node"] is None
    assert found["b"]["message"] == "evicted from n0 for x/critical"

"""What waits, the oldest first, and what is under way, from the scheduler's own tables."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.queues import queue_cluster
from tests.scripted import scripted

from bayplan.explain import status
from bayplan.framework import WAIT
from bayplan.testing import PodBuilder, make_node, make_pod

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""


def waiting(cluster: Cluster, only: str = "") -> dict[str, Any]:
    return status.waiting(cluster.core.world, cluster.core.records, NOON, only)


def made(name: str, minutes: int, namespace: str = "default") -> PodBuilder:
    """A Pod that was made so many minutes before noon."""
    at = f"2026-01-01T11:{60 - minutes:02d}:00Z"
    return make_pod(name).namespace(namespace).meta(creationTimestamp=at)


def small_cluster(cluster: Cluster | None = None) -> Cluster:
    cluster = cluster or Cluster()
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=20))
    return cluster


def test_the_oldest_come_first_with_their_causes_and_causes_are_counted() -> None:
    cluster = small_cluster()
    cluster.add(made("young", 1).req(cpu="5"), made("old", 50).req(cpu="5"))
    cluster.add(made("gated", 9).gate("example.com/later"))
    cluster.run()
    cluster.add(made("new", 2))
    seen = waiting(cluster)
    assert [one["pod"] for one in seen["oldest"]] == [
        "default/old",
        "default/gated",
        "default/new",
        "default/young",
    ]
    old, gated, new, _ = seen["oldest"]
    assert old["seconds"] == 50 * 60
    assert (old["cause"], old["attempts"], old["state"]) == ("NodeResourcesFit", 1, "unschedulable")
    assert "1 Insufficient cpu" in old["message"]
    assert (gated["cause"], gated["state"]) == ("SchedulingGates", "gated")
    assert "example.com/later" in gated["message"]
    assert (new["cause"], new["attempts"]) == ("its turn", 0)
    assert (seen["entries"], seen["pods"]) == (4, 4)
    assert seen["by"][0] == {"cause": "NodeResourcesFit", "entries": 2}


def test_ten_are_named_and_all_are_counted() -> None:
    cluster = small_cluster()
    cluster.add(*(made(f"p{minutes}", minutes).req(cpu="5") for minutes in range(1, 31)))
    cluster.run()
    seen = waiting(cluster)
    assert [one["pod"] for one in seen["oldest"]] == [f"default/p{n}" for n in range(30, 20, -1)]
    assert (seen["pods"], seen["by"]) == (30, [{"cause": "NodeResourcesFit", "entries": 30}])


def test_a_group_is_one_entry_of_several_pods_and_says_what_it_lacks() -> None:
    cluster = small_cluster(queue_cluster("Coscheduling"))
    cluster.add(pod_group("g", minMember=3), *members("g", 2))
    cluster.run()
    seen = waiting(cluster)
    assert (seen["entries"], seen["pods"]) == (1, 2)
    (group,) = seen["oldest"]
    assert (group["group"], group["pods"], group["cause"]) == ("default/g", 2, "Coscheduling")
    assert "WaitingForMembers" in group["message"]


def test_after_an_error_it_is_said_that_there_was_one() -> None:
    cluster = small_cluster(Cluster(scripted("Broken", filter=RuntimeError("broken"))))
    cluster.add(made("p", 1))
    cluster.cycle()
    assert waiting(cluster)["by"] == [{"cause": "error", "entries": 1}]


def test_of_one_namespace_only_its_own_entries_are_named() -> None:
    cluster = small_cluster()
    cluster.add(made("mine", 1, "shop").req(cpu="5").nominated("n1"))
    cluster.add(made("theirs", 50, "bank").req(cpu="5"))
    cluster.run()
    seen = waiting(cluster, "shop")
    assert [one["pod"] for one in seen["oldest"]] == ["shop/mine"]
    assert seen["pods"] == 2
    assert "bank" not in str(seen)


def test_what_is_in_flight_is_counted() -> None:
    cluster = small_cluster(Cluster(scripted("Hold", permit=(WAIT, 60.0))))
    cluster.add(make_pod("victim").req(cpu="4").node("n1"))
    cluster.writer.on_deleted = None  # the victim takes its time
    cluster.add(make_pod("high").req(cpu="4").priority(9), make_pod("small"))
    cluster.run()
    world, bindings = cluster.core.world, cluster.core.scheduler.in_flight
    (running,) = world.evictions.running()
    assert running.since is not None
    now = running.since.timestamp() + 75
    assert status.in_flight(world, bindings, now) == {
        "bindings": 1,
        "permit": {"Hold": 1},
        "preBind": 0,
        "groups": 0,
        "plans": [],
        "evictions": 1,
        "leaving": 1,
        "leavingFor": [{"for": "default/high", "pods": 1, "seconds": 75}],
    }
    assert status.in_flight(world, bindings, now, "other")["leavingFor"] == []

"""Limits that were lowered: what is above goes after a while, no more than that, and in order."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.queues import pod, pods, queue, queue_cluster

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.cache.queue_tree import PREEMPTIBLE
from bayplan.scheduler import CHORE_SECONDS
from bayplan.testing import PodBuilder, make_node, make_object

SECONDS = 60
EVICTS: dict[str, Any] = {"evictOverLimitAfterSeconds": SECONDS}


def cluster_of(*some: PodBuilder) -> Cluster:
    """These Pods run, the first started first."""
    cluster = queue_cluster("Coscheduling")
    cluster.add(make_node("n0").capacity(cpu="32", memory="64Gi", pods=110))
    cluster.add(queue("all"), queue("a", "x", parent="all"), queue("b", "y", parent="all"))
    for index, one in enumerate(some):
        cluster.add(one.node("n0").start_time(f"2026-01-01T00:00:{index:02}Z").phase("Running"))
    cluster.settle(1)
    return cluster


def lower(cluster: Cluster, name: str = "a", namespace: str = "x", **spec: Any) -> None:
    """The Queue, which evicts, is another one from now on, and the scheduler has looked."""
    above = {} if name == "all" else {"parent": "all"}
    cluster.add(queue(name, namespace, **{**EVICTS, **above, **spec}))
    cluster.wait(CHORE_SECONDS)


def look(cluster: Cluster, seconds: float = SECONDS) -> list[str]:
    """Who was evicted so far, so much later."""
    cluster.wait(seconds)
    return sorted(cluster.writer.deleted)


def test_what_is_above_goes_when_the_time_is_over_the_youngest_first() -> None:
    cluster = cluster_of(*pods("a", 6, "x"))
    lower(cluster, limit={"cpu": 4})
    assert look(cluster, SECONDS - 10) == []
    text = "limit of cpu of queue a is 4: 6 used"
    assert cluster.notes[-1] == ("AboveLimit", f"{text}; Pods above that are evicted in 60s")
    assert look(cluster, 10) == ["a-4", "a-5"]
    assert cluster.notes[-1] == ("EvictedAboveLimit", f"{text}; 2 Pods are evicted")
    assert look(cluster, 600) == ["a-4", "a-5"]


def test_without_the_field_nobody_goes() -> None:
    cluster = cluster_of(*pods("a", 6, "x"))
    cluster.add(queue("a", "x", parent="all", limit={"cpu": 4}))
    assert look(cluster, 600) == []


def test_pods_that_take_long_to_leave_are_not_replaced_by_others() -> None:
    cluster = cluster_of(*pods("a", 6, "x"))
    cluster.writer.on_deleted = None
    lower(cluster, limit={"cpu": 4})
    for _ in range(5):
        assert look(cluster) in ([], ["a-4", "a-5"])
    lower(cluster, limit={"cpu": 3})
    assert look(cluster) == ["a-3", "a-4", "a-5"]


def test_those_that_have_left_in_time_are_enough() -> None:
    some = pods("a", 6, "x")
    cluster = cluster_of(*some)
    lower(cluster, limit={"cpu": 4})
    look(cluster, SECONDS / 2)
    cluster.remove(some[0])
    assert look(cluster) == ["a-5"]


def test_within_the_limit_again_the_time_begins_anew() -> None:
    cluster = cluster_of(*pods("a", 6, "x"))
    lower(cluster, limit={"cpu": 4})
    look(cluster, SECONDS / 2)
    lower(cluster, limit={"cpu": 6})
    look(cluster, 10)
    lower(cluster, limit={"cpu": 4})
    assert look(cluster, SECONDS / 2) == []
    assert look(cluster, SECONDS / 2) == ["a-4", "a-5"]


def test_priority_and_budgets_come_before_age_and_nobody_goes_who_need_not() -> None:
    cluster = cluster_of(
        pod("a-old", "x", "1"),
        pod("a-large", "x", "4"),
        pod("a-high", "x", "1", priority=5),
        pod("a-guarded", "x", "1").label("app", "guarded"),
        pod("a-young", "x", "1"),
    )
    budget = make_object(POD_DISRUPTION_BUDGET, "guarded").namespace("x")
    budget.spec(selector={"matchLabels": {"app": "guarded"}})
    cluster.add(budget.status(disruptionsAllowed=0))
    lower(cluster, limit={"cpu": 7})
    assert look(cluster) == ["a-young"]
    # 4 more: a-large suffices, so a-old stays
    lower(cluster, limit={"cpu": 3})
    assert look(cluster) == ["a-large", "a-young"]


def test_a_pod_that_asks_for_nothing_of_what_is_above_stays() -> None:
    cluster = cluster_of(pod("a-0", "x", "2"), pod("a-1", "x", "0").req(memory="1Gi"))
    lower(cluster, limit={"cpu": 1})
    assert look(cluster) == ["a-0"]


def test_of_a_group_the_surplus_goes_first_and_what_is_left_goes_together() -> None:
    some = [one.namespace("x") for one in members("g", 3)]
    cluster = cluster_of(*some, pod("a-old", "x"))
    cluster.add(pod_group("g", minMember=2).namespace("x"))
    lower(cluster, limit={"cpu": 3})
    assert look(cluster) == ["g-2"]
    lower(cluster, limit={"cpu": 2})
    assert look(cluster) == ["a-old", "g-2"]
    lower(cluster, limit={"cpu": 1})
    assert look(cluster) == ["a-old", "g-0", "g-1", "g-2"]


def test_a_parent_takes_first_from_whom_no_guarantee_covers() -> None:
    cluster = cluster_of(*pods("b", 4, "y"), *pods("a", 4, "x"))
    cluster.add(queue("a", "x", parent="all", guaranteed={"cpu": 3}))
    lower(cluster, "all", "", limit={"cpu": 5})
    assert look(cluster) == ["a-3", "b-2", "b-3"]


def test_who_is_never_evicted_stays() -> None:
    some = [one.label(PREEMPTIBLE, "false") for one in pods("a-never", 2, "x")]
    cluster = cluster_of(*pods("a", 2, "x"), *some)
    lower(cluster, limit={"cpu": 2}, guaranteed={"cpu": 2})
    assert look(cluster) == ["a-0", "a-1"]
    lower(cluster, guaranteed={"cpu": 2}, state="Closed")
    assert look(cluster) == ["a-0", "a-1"]


@pytest.mark.parametrize("at", ["a", "all"])
def test_a_closed_queue_may_use_nothing_and_a_draining_one_runs_out(at: str) -> None:
    cluster = cluster_of(*pods("a", 2, "x"), pod("a-nothing", "x", "0"), pod("b", "y"))
    lower(cluster, state="Draining")
    assert look(cluster) == []
    lower(cluster)
    if at == "a":
        lower(cluster, state="Closed")
    else:
        cluster.add(queue("all", state="Closed"))
        cluster.wait(CHORE_SECONDS)
    assert look(cluster, SECONDS - 10) == []
    assert look(cluster, 10) == ["a-0", "a-1", "a-nothing"]
    assert cluster.notes[-1][1] == "queue a is Closed; 3 Pods are evicted"


def test_evictions_have_a_reason_and_are_counted() -> None:
    cluster = cluster_of(*pods("a", 2, "x"))
    cluster.writer.on_deleted = None
    lower(cluster, limit={"cpu": 1})
    assert look(cluster) == ["a-1"]
    assert cluster.metric("bayplan_queue_evictions_total", queue="a", rule="limit") == 1
    conditions = [c for p in cluster.cache.pods() if p.name == "a-1" for c in p.status.conditions]
    assert [(c.type, c.reason, c.message) for c in conditions] == [
        ("DisruptionTarget", "QueueLimit", "bayplan: limit of cpu of queue a is 1: 2 used")
    ]

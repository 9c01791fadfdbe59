"""What was lent is taken back: who yields, who does not, and never in a circle."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import members, names_of, pod_group
from tests.properties import length
from tests.queues import pod, pods, queue, queues_profile, used

from bayplan.inbox.messages import ActivatePods
from bayplan.plugins.fair_share import FairShare
from bayplan.plugins.fair_share.reclaim import ReclaimRule
from bayplan.preemption import shortest_prefix
from bayplan.testing import PodBuilder, make_node


def cluster_with(*queues: object, nodes: int = 2, cpu: str = "4", **plugin: str) -> Cluster:
    """Some nodes; what is bound is confirmed, and victims go at once."""
    profile = queues_profile(*plugin.values())
    cluster = Cluster(profiles=[profile])
    cluster.writer.on_bound = cluster._show_bound
    for i in range(nodes):
        cluster.add(make_node(f"n{i}").capacity(cpu=cpu, memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def fill(cluster: Cluster, prefix: str, number: int, namespace: str, cpu: str = "1") -> None:
    """These Pods run."""
    cluster.add(*pods(prefix, number, namespace, cpu))
    cluster.settle(6)


def victims(cluster: Cluster) -> Counter[str]:
    """How many Pods of each tenant were deleted."""
    return Counter(name.partition("-")[0] for name in cluster.writer.deleted)


def test_a_queue_takes_back_what_it_is_guaranteed() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 3}), queue("b", "y"))
    fill(cluster, "b", 8, "y")
    fill(cluster, "a", 5, "x")
    assert victims(cluster) == {"b": 5}  # 3 guaranteed, and 2 of the 2.5 that each may borrow
    assert (used(cluster, "a"), used(cluster, "b")) == (5000, 3000)


def test_all_are_looked_at_where_those_that_yield_first_have_no_room_to_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that yield first are of b, far above its share, and on a node that will not do."""
    for name in ("_MANY", "_MANY_FOR_EACH"):
        monkeypatch.setattr(shortest_prefix, name, 0)
    cluster = cluster_with(
        queue("a", "x", guaranteed={"cpu": 8}), queue("b", "y"), queue("c", "z"), nodes=1, cpu="8"
    )
    cluster.add(
        make_node("elsewhere").capacity(cpu="2", memory="64Gi", pods=9).label("zone", "elsewhere")
    )
    cluster.add(*(p.node("n0") for p in pods("b", 6, "y")))
    cluster.add(*(p.node("elsewhere") for p in pods("c", 2, "z")))
    cluster.add(*(p.node("n0") for p in pods("a-runs", 2, "x")))
    cluster.add(pod("a", "x", "2").node_selector({"zone": "elsewhere"}))
    cluster.settle(4)
    assert victims(cluster) == {"c": 2}


def test_shares_are_evened_out_by_weight_and_then_all_is_quiet() -> None:
    cluster = cluster_with(queue("a", "x", weight=3), queue("b", "y", weight=1))
    fill(cluster, "b", 8, "y")
    fill(cluster, "a", 8, "x")
    assert (used(cluster, "a"), used(cluster, "b")) == (6000, 2000)
    before = len(cluster.writer.deleted)
    fill(cluster, "b-again", 6, "y")
    assert len(cluster.writer.deleted) == before


def test_pods_that_are_evicted_already_are_not_evicted_for_the_next_pod() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    fill(cluster, "b", 8, "y")
    cluster.writer.on_deleted = None
    cluster.add(*pods("a", 8, "x"))
    cluster.settle(6)
    assert len(cluster.writer.deleted) == len(set(cluster.writer.deleted)) == 4


def test_what_is_refused_to_pods_like_it_does_not_take_a_pod_its_room() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"), nodes=1)
    running = pods("b", 4, "y")
    cluster.add(*(one.node("n0") for one in running))
    cluster.writer.on_deleted = None
    first, second = pods("a", 2, "x", "2")
    cluster.add(first)
    cluster.run()
    assert victims(cluster) == {"b": 2}
    cluster.terminating(running)
    cluster.add(second)
    cluster.run()
    assert "evicting others would not make room" in cluster.message(second)

    waiting = cluster.world.handlers.pods[pod_named("a-0", "x")]
    cluster.tell(ActivatePods((waiting,)))
    cluster.run()
    assert "others are leaving already" in cluster.message(first)
    assert cluster.world.nominator.nominated_node(waiting.uid) == "n0"


@pytest.mark.parametrize("cpu", [pytest.param(3, id="some"), pytest.param(5, id="all")])
def test_pods_of_one_node_yield_where_the_youngest_are_on_several(cpu: int) -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"), cpu="5")
    for number in range(10):
        started = f"1970-01-01T00:00:0{number}Z"
        cluster.add(pod(f"b-{number}", "y").node(f"n{number % 2}").status(startTime=started))
    fill(cluster, "a", 1, "x", str(cpu))
    assert cluster.node_of(pod_named("a-0", "x"))
    nodes = {int(name.partition("-")[2]) % 2 for name in cluster.writer.deleted}
    assert len(cluster.writer.deleted) == cpu
    assert len(nodes) == 1


def test_pods_that_would_be_more_than_a_queue_may_give_together_stay() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"), cpu="6")
    cluster.add(*(pod(f"b-{i}", "y", "2").node(f"n{i % 2}") for i in range(6)))
    cluster.add(taker := pod("a", "x", "3"))
    cluster.settle(6)
    assert victims(cluster) == {}  # two of them are four CPUs, and b has three above its share
    assert "would be undone by queue b" in cluster.message(taker)


@pytest.mark.parametrize(
    ("cpu", "said"),
    [
        pytest.param("4", "within what is guaranteed to it", id="a queue may not give that much"),
        pytest.param("6", "evicting others would not make room", id="who yields is too little"),
    ],
)
def test_where_no_queue_may_give_enough_on_any_node_nobody_is_sought(
    monkeypatch: pytest.MonkeyPatch, cpu: str, said: str
) -> None:
    cluster = cluster_with(
        queue("a", "x", guaranteed={"cpu": 6}),
        queue("b", "y", guaranteed={"cpu": 8}),
        queue("c", "z", reclaimable=False),
        nodes=3,
        cpu="6",
    )
    for row in range(3):
        cluster.add(*(pod(f"b-{row}{i}", "y").node(f"n{row}") for i in range(4 if row else 3)))
        cluster.add(*(pod(f"c-{row}{i}", "z").node(f"n{row}") for i in range(2 if row else 3)))
    monkeypatch.setattr(ReclaimRule, "_yielding", lambda *_: pytest.fail("a search"))
    cluster.add(taker := pod("a", "x", cpu))
    cluster.settle(1)
    assert victims(cluster) == {}
    assert said in cluster.message(taker)


def test_within_its_guaranteed_amount_nobody_yields() -> None:
    cluster = cluster_with(
        queue("a", "x", guaranteed={"cpu": 4}), queue("b", "y", guaranteed={"cpu": 8})
    )
    fill(cluster, "b", 8, "y")
    fill(cluster, "a", 2, "x")
    assert used(cluster, "b") >= 5000  # 8 of 12 that are guaranteed: both are cut in proportion


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"reclaimable": False}, id="not reclaimable"),
        pytest.param({"minRuntimeSeconds": 3600}, id="has not run for long"),
    ],
)
def test_protected_pods_do_not_yield(spec: dict[str, Any]) -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 8}), queue("b", "y", **spec))
    fill(cluster, "b", 8, "y")
    fill(cluster, "a", 2, "x")
    assert victims(cluster) == {}


def test_a_pod_that_has_run_long_enough_yields() -> None:
    cluster = cluster_with(
        queue("a", "x", guaranteed={"cpu": 8}), queue("b", "y", minRuntimeSeconds=60), nodes=1
    )
    cluster.clock.time = 1000.0
    old = pod("b-old", "y", "2").node("n0").status(startTime="1970-01-01T00:10:00Z")
    young = pod("b-young", "y", "2").node("n0").status(startTime="1970-01-01T00:16:30Z")
    cluster.add(old, young)
    fill(cluster, "a", 1, "x", "2")
    assert cluster.writer.deleted == ["b-old"]


def test_the_youngest_of_the_lowest_priority_yields_first() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}), queue("b", "y"), nodes=1)
    for name, priority, second in (("b-low", 0, 1), ("b-new", 1, 9), ("b-old", 1, 2)):
        started = f"1970-01-01T00:00:0{second}Z"
        cluster.add(pod(name, "y", "1", priority).node("n0").status(startTime=started))
    cluster.add(pod("b-late", "y").node("n0").status(startTime="1970-01-01T00:00:05Z"))
    fill(cluster, "a", 1, "x")
    assert cluster.writer.deleted == ["b-late"]


def test_within_a_queue_a_higher_priority_takes_from_a_lower_one() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    fill(cluster, "b", 4, "y")
    fill(cluster, "a", 4, "x")
    cluster.add(pod("high", "x", "1", priority=10))
    cluster.settle(6)
    assert victims(cluster) == {"a": 1}
    assert cluster.node_of(pod_named("high", "x"))


@pytest.mark.parametrize("at", [pytest.param("a", id="its own"), pytest.param("all", id="above")])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_group_that_a_limit_holds_back_evicts_lower_priorities_of_its_queue(
    number: int, at: str
) -> None:
    limits = {at: {"cpu": 3}}
    cluster = cluster_with(
        queue("all", limit=limits.get("all", {})),
        queue("a", "default", parent="all", limit=limits.get("a", {})),
        plugin="Coscheduling",
    )
    cluster.add(*(pod(f"low-{i}", "default").node("n0") for i in range(number)))
    cluster.add(pod_group("g", minMember=3), *(one.priority(5) for one in members("g", 3)))
    cluster.settle(6)
    assert victims(cluster) == {"low": number}
    assert len(names_of(cluster, "g")) == 3


def test_a_group_that_a_limit_holds_back_evicts_no_more_than_it_has_to() -> None:
    cluster = cluster_with(queue("a", "default", limit={"cpu": 6}), plugin="Coscheduling")
    cluster.add(*(pod(f"low-{i}", "default").node(f"n{i % 2}") for i in range(6)))
    cluster.add(pod_group("g", minMember=2), *(one.priority(5) for one in members("g", 2)))
    cluster.settle(6)
    assert victims(cluster) == {"low": 2}


def test_a_group_that_a_limit_holds_back_whoever_goes_evicts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may be above their share, but their Pods are not what stands in the way."""
    cluster = cluster_with(
        queue("a", "default", limit={"cpu": 2}), queue("b", "y"), plugin="Coscheduling"
    )
    cluster.add(pod("low", "default").node("n0"), pod("high", "default", "1", 9).node("n0"))
    cluster.add(*(pod(f"b-{i}", "y").node(f"n{int(i > 1)}") for i in range(6)))
    monkeypatch.setattr(ReclaimRule, "_yielding", lambda *_: pytest.fail("a search"))
    cluster.add(pod_group("g", minMember=2), *(one.priority(5) for one in members("g", 2)))
    cluster.settle(1)
    assert victims(cluster) == {}
    assert cluster.verdict[0] == "QueueLimit"


def pod_named(name: str, namespace: str) -> str:
    """How the cluster calls it."""
    return f"{namespace}/{name}"


def test_a_higher_priority_does_not_reach_into_other_queues() -> None:
    cluster = cluster_with(
        queue("a", "x", guaranteed={"cpu": 4}), queue("b", "y", guaranteed={"cpu": 4})
    )
    fill(cluster, "b", 4, "y")
    fill(cluster, "a", 4, "x")
    cluster.add(pod("high", "y", "1", priority=10))
    cluster.settle(6)
    assert victims(cluster) == {"b": 1}


def test_pods_without_a_queue_take_room_by_priority_from_whoever_has_less() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 8}))
    fill(cluster, "a", 8, "x")
    cluster.add(pod("critical", "kube-system", "1", priority=100))
    cluster.settle(6)
    assert victims(cluster) == {"a": 1}
    assert cluster.node_of(pod_named("critical", "kube-system"))


def test_pods_of_a_queue_take_nothing_from_pods_without_one() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 8}))
    fill(cluster, "system", 8, "kube-system")
    cluster.add(pod("a-high", "x", "1", priority=100))
    cluster.settle(6)
    assert victims(cluster) == {}


def test_queues_are_compared_where_they_part() -> None:
    cluster = cluster_with(
        queue("left", weight=1),
        queue("right", weight=1),
        queue("a", "x", parent="left"),
        queue("b", "y", parent="left"),
        queue("c", "z", parent="right"),
    )
    fill(cluster, "c", 4, "z")
    fill(cluster, "b", 4, "y")
    fill(cluster, "a", 4, "x")
    assert victims(cluster) == {"b": 2}


def test_a_group_takes_room_for_all_of_its_minimum_from_several_tenants() -> None:
    cluster = cluster_with(
        queue("a", "default", guaranteed={"cpu": 6}),
        queue("b", "y"),
        queue("c", "z"),
        queue("d", "w"),
        nodes=3,
        plugin="Coscheduling",
    )
    for name, namespace in zip("bcd", "yzw", strict=True):
        fill(cluster, name, 4, namespace)
    cluster.add(pod_group("g", minMember=6), *members("g", 6))
    cluster.settle(6)
    assert len(names_of(cluster, "g")) == 6
    assert victims(cluster) == {"b": 2, "c": 2, "d": 2}


def test_a_refusal_names_the_queue_that_would_take_it_back() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"), nodes=1)
    fill(cluster, "b", 3, "y")
    cluster.add(pod("a-big", "x", "4"))
    cluster.settle(6)
    assert victims(cluster) == {}
    assert "would be undone by queue b" in cluster.verdict[1]


def test_a_pod_with_preemption_policy_never_takes_nothing() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 4}), queue("b", "y"))
    fill(cluster, "b", 8, "y")
    cluster.add(pod("a", "x").spec(preemptionPolicy="Never"))
    cluster.settle(6)
    assert victims(cluster) == {}


def test_an_explanation_names_who_would_have_to_leave_and_evicts_nobody() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}), queue("b", "y"), nodes=1)
    fill(cluster, "b", 4, "y")
    cluster.add(taker := pod("a", "x"))
    told = cluster.explain(taker)["postFilter"]
    assert told["nominatedNode"] == "n0"
    assert [name.partition("-")[0] for name in told["victims"]] == ["y/b"]
    assert victims(cluster) == {}


def test_who_was_refused_and_waits_no_more_is_forgotten() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y", guaranteed={"cpu": 8}))
    fill(cluster, "b", 8, "y")
    waiting = pods("a", 50, "x")
    cluster.add(*waiting)
    cluster.run()
    refused = cluster.plugin(FairShare)._refusals._refused
    assert sum(map(len, refused.values())) == 50
    cluster.remove(*waiting)
    fill(cluster, "late", 1, "x")
    assert [one.name for pods_of in refused.values() for one in pods_of.values()] == ["late-0"]


def test_evictions_are_counted_by_rule() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 1}), queue("b", "y"))
    fill(cluster, "b", 8, "y")
    fill(cluster, "a", 1, "x")
    metric = "bayplan_queue_evictions_total"
    assert cluster.metric(metric, queue="b", rule="guaranteed") == 1


@length(40)
@given(
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.lists(st.integers(0, 6), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 1)), max_size=14),
)
def test_for_a_fixed_demand_evictions_end_and_every_one_helps(
    weights: list[int], guaranteed: list[int], asked: list[tuple[int, int, int]]
) -> None:
    cluster = cluster_with(
        *(
            queue(name, namespace, weight=w, guaranteed={"cpu": g})
            for name, namespace, w, g in zip("abc", "xyz", weights, guaranteed, strict=True)
        )
    )
    by_name: dict[str, PodBuilder] = {}
    for number, (tenant, cpu, priority) in enumerate(asked):
        builder = pod(f"{'abc'[tenant]}-{number}", "xyz"[tenant], str(cpu), priority)
        by_name[f"{'abc'[tenant]}-{number}"] = builder
        cluster.add(builder)
        cluster.settle(2)
    made = len(asked)
    for _ in range(12):  # Controllers make victims anew.
        gone, cluster.writer.deleted[:] = list(cluster.writer.deleted), []
        if not gone:
            break
        for name in gone:
            made += 1
            old = by_name.pop(name).json
            cpu = old["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            again = f"{name[0]}-{made}"
            namespace = old["metadata"]["namespace"]
            by_name[again] = pod(again, namespace, cpu, old["spec"].get("priority", 0))
            cluster.add(by_name[again])
        cluster.settle(3)
    assert cluster.writer.deleted == []


def test_who_is_beyond_the_minimum_of_a_group_is_covered_only_with_the_minimum() -> None:
    a, b = queue("a", "default", guaranteed={"cpu": 1}), queue("b", "y", guaranteed={"cpu": 2})
    cluster = cluster_with(a, b, nodes=1, group="Coscheduling")
    cluster.add(pod_group("g", minMember=2))
    for second, member in enumerate(members("g", 4)):
        cluster.add(member.node("n0").start_time(f"2026-01-01T00:00:0{second}Z"))
    fill(cluster, "b", 2, "y")
    assert sorted(cluster.writer.deleted) == ["g-2", "g-3"]  # no guarantee of 1 covers 2 at once

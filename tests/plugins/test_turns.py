"""Queues take turns: by what they have of their share, by weight over attempts, fair within."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.properties import length
from tests.queues import name_space, pod, pods, queue, queue_cluster, share, used

from bayplan.cache.queue_tree import QueueTree
from bayplan.plugins.fair_share.turns import LOOK_SECONDS
from bayplan.testing import PodBuilder, make_node


def cluster_with(*queues: object, cpu: str = "100", **args: object) -> Cluster:
    """One node."""
    cluster = queue_cluster(**args)
    cluster.add(make_node("n").capacity(cpu=cpu, memory="64Gi", pods=1000))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def tried(cluster: Cluster, number: int) -> list[str]:
    """The Pods whose turn it is, one after the other."""
    names = []
    for _ in range(number):
        queued = cluster.queue.pop()
        if queued is None:
            break
        names.append(queued.pod.name)
        cluster.queue.add_unschedulable_if_not_present(queued, {"NodeResourcesFit"})
    return names


def by_prefix(names: list[str]) -> Counter[str]:
    """How many of each tenant."""
    return Counter(name.partition("-")[0] for name in names)


def test_a_tenant_with_ten_thousand_pods_does_not_take_the_attention() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.add(*pods("many", 3000, "x"), *pods("few", 20, "y"))
    assert by_prefix(tried(cluster, 40)) == {"many": 20, "few": 20}


def test_attempts_are_divided_by_weight() -> None:
    cluster = cluster_with(queue("a", "x", weight=3), queue("b", "y", weight=1))
    cluster.add(*pods("a", 100, "x"), *pods("b", 100, "y"))
    assert by_prefix(tried(cluster, 40)) == {"a": 30, "b": 10}


def test_turns_are_taken_at_every_level_of_the_tree() -> None:
    cluster = cluster_with(
        queue("all"), queue("a", "x", parent="all"), queue("b", "y", parent="all"), queue("c", "z")
    )
    cluster.add(*(p for name, n in zip("abc", "xyz", strict=True) for p in pods(name, 50, n)))
    assert by_prefix(tried(cluster, 40)) == {"a": 10, "b": 10, "c": 20}


@length(10)
@given(
    weights=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    arrivals=st.lists(st.sampled_from("abcd"), min_size=1, max_size=12),
)
def test_who_has_the_first_place_is_tried_next(weights: list[int], arrivals: list[str]) -> None:
    """As told before each attempt, by attempts alone; whoever asks moves no turn."""
    specs: dict[str, dict[str, Any]] = {
        name: {"parent": "all" if name in "ab" else "", "weight": weight}
        for name, weight in zip("abcd", weights, strict=True)
    }
    asked, other = (
        cluster_with(queue("all"), *(queue(n, n, **s) for n, s in specs.items()), cpu="999")
        for _ in range(2)
    )
    for number, name in enumerate(arrivals):
        for cluster in (asked, other):
            cluster.add(*pods(f"{name}-{number}", 24, name))  # more than are tried
        for _ in range(2):
            turns = asked.core.profiles.policy.turns
            assert turns is not None
            first = {queue for queue, place in turns.places().items() if place.turn == 1}
            [tried_next] = tried(asked, 1)
            assert tried_next.partition("-")[0] in first
            assert [tried_next] == tried(other, 1)


def test_the_queue_that_has_least_of_its_share_comes_first() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.add(*pods("a", 60, "x"))
    cluster.run()
    cluster.add(*pods("a-more", 60, "x"), *pods("b", 60, "y"))
    assert by_prefix(tried(cluster, 50)) == {"b": 50}


def test_a_queue_that_comes_late_does_not_catch_up_on_attempts() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.add(*pods("a", 500, "x"))
    tried(cluster, 300)
    cluster.add(*pods("b", 200, "y"))
    assert by_prefix(tried(cluster, 40)) == {"a": 20, "b": 20}


def test_a_group_counts_as_many_attempts_as_it_has_pods() -> None:
    cluster = queue_cluster("Coscheduling")
    cluster.add(queue("a", "default"), queue("b", "y"))
    cluster.add(pod_group("g", minMember=10), pod_group("h", minMember=10))
    cluster.add(*members("g", 10), *members("h", 10), *pods("b", 30, "y"))
    order = []
    while (queued := cluster.queue.pop()) is not None:
        order.append(queued.uid.startswith("group "))
    first, second = (index for index, is_group in enumerate(order) if is_group)
    assert first <= 1
    assert 10 <= second - first - 1 <= 11


def test_pods_without_a_queue_are_one_more_tenant_in_the_order_of_queue_sort() -> None:
    cluster = cluster_with(queue("a", "x"))
    high = pod("none-high", "z", priority=9)
    cluster.add(*pods("a", 20, "x"), *pods("none-w", 3, "w"), *pods("none-z", 3, "z"), high)
    names = tried(cluster, 14)
    assert by_prefix(names) == {"a": 7, "none": 7}
    others = [name for name in names if name.startswith("none")]
    assert others == [
        "none-high",
        *(f"none-w-{i}" for i in range(3)),
        *(f"none-z-{i}" for i in range(3)),
    ]


# Within a queue


def test_within_a_queue_a_higher_priority_comes_first() -> None:
    cluster = cluster_with(queue("a", "x y"))
    cluster.add(pod("low", "x"), pod("high", "x", priority=9), pod("mid", "y", priority=5))
    assert tried(cluster, 3) == ["high", "mid", "low"]


def test_namespaces_of_a_fair_queue_take_turns() -> None:
    cluster = cluster_with(queue("a", "x y"))
    cluster.add(*pods("many", 10, "x"), *pods("few", 2, "y"))
    assert tried(cluster, 5) == ["many-0", "few-0", "many-1", "few-1", "many-2"]


def at(builder: PodBuilder, second: int) -> PodBuilder:
    """Created so late."""
    return builder.created(f"2026-01-01T00:00:{second:02d}Z")


def test_of_a_fifo_queue_the_oldest_pod_comes_first_whenever_it_failed() -> None:
    cluster = cluster_with(queue("a", "x y", order="Fifo"))
    old, new = at(pod("old", "x"), 1), at(pod("new", "y"), 2)
    cluster.add(new, old)
    assert tried(cluster, 1) == ["old"]
    cluster.queue.activate([old.obj()])
    assert tried(cluster, 2) == ["old", "new"]


def test_a_pod_that_has_waited_rises_by_one_priority_and_no_more() -> None:
    cluster = cluster_with(queue("a", "x"), ageing="60s")
    old = at(pod("old", "x", priority=1), 0)
    young = [pod(f"p{p}", "x", priority=p).created("2040-01-01T00:00:00Z") for p in (1, 5, 9)]
    cluster.add(old, *young)
    cluster.clock.time = datetime(2026, 1, 1, 0, 1, tzinfo=UTC).timestamp()
    assert tried(cluster, 4) == ["p9", "old", "p5", "p1"]


# Targets for waiting


def crowded(*of_b: PodBuilder, **spec: Any) -> Cluster:
    """Both queues have 4 of 10 CPUs, b with a target of 60 seconds; it is 00:01:01."""
    target = {"waitingTargetSeconds": 60}
    cluster = cluster_with(queue("a", "x"), queue("b", "y", **(target | spec)), cpu="10")
    cluster.add(*pods("a-runs", 4, "x"), *(p.node("n") for p in pods("b-runs", 4, "y")))
    cluster.run()
    cluster.clock.time = datetime(2026, 1, 1, 0, 1, 1, tzinfo=UTC).timestamp()
    young = "2026-01-01T00:00:50Z"
    cluster.add(*(p.created(young) for p in pods("a", 90, "x")), *of_b)
    return cluster


def test_a_queue_whose_oldest_pod_waits_longer_than_its_target_comes_earlier() -> None:
    cluster = crowded(*(at(p, 0) for p in pods("b", 200, "y")))
    assert by_prefix(tried(cluster, 50)) == {"b": 50}
    assert by_prefix(tried(cluster, 50)) == {"a": 25, "b": 25}


@pytest.mark.parametrize(
    ("of_b", "spec"),
    [
        pytest.param([at(p, 2) for p in pods("b", 60, "y")], {}, id="not so long yet"),
        pytest.param([at(p, 0) for p in pods("b", 60, "y", "2")], {}, id="above the share"),
        pytest.param(
            [at(pod("b-large", "y", "9"), 0), *(at(p, 9) for p in pods("b", 60, "y"))],
            {"limit": {"cpu": 6}},
            id="can never run",
        ),
        pytest.param(
            [at(pod("b-held", "y", "3"), 0), *(at(p, 9) for p in pods("b", 60, "y"))],
            {"limit": {"cpu": 6}},
            id="held by a limit",
        ),
        pytest.param(
            [at(p, 0) for p in pods("b", 60, "y")], {"waitingTargetSeconds": 0}, id="no target"
        ),
    ],
)
def test_a_queue_is_not_late(of_b: list[PodBuilder], spec: dict[str, Any]) -> None:
    cluster = crowded(*of_b, **spec)
    assert by_prefix(tried(cluster, 50))["a"] >= 25


def test_a_queue_is_late_as_time_goes_by_and_no_more_when_its_pods_are_placed() -> None:
    cluster = crowded(*(at(p, 30) for p in pods("b", 600, "y")))
    assert by_prefix(tried(cluster, 20)) == {"a": 10, "b": 10}
    cluster.clock.time += 60
    assert by_prefix(tried(cluster, 60))["b"] > 40


@pytest.mark.parametrize("asks", [False, True])
def test_who_asks_about_rivals_does_not_put_off_the_look_at_who_is_late(asks: bool) -> None:
    cluster = crowded(*(at(p, 2) for p in pods("b", 200, "y")))
    turns = cluster.core.profiles.policy.turns
    assert turns is not None
    cluster.clock.time += 0.9 * LOOK_SECONDS
    if asks:
        turns.rivalry(pod("asked", "x").obj())
    cluster.clock.time += 0.5 * LOOK_SECONDS
    assert by_prefix(tried(cluster, 50)) == {"b": 50}


def test_a_target_raises_a_queue_among_its_siblings_alone() -> None:
    cluster = cluster_with(
        queue("all"),
        queue("b", "y", parent="all", waitingTargetSeconds=60),
        queue("c", "z", parent="all"),
        queue("a", "x"),
    )
    cluster.clock.time = datetime(2026, 1, 1, 0, 2, tzinfo=UTC).timestamp()
    cluster.add(*(at(p, 0) for n, ns in zip("abc", "xyz", strict=True) for p in pods(n, 40, ns)))
    assert by_prefix(tried(cluster, 40)) == {"a": 20, "b": 20}


def test_nobody_is_evicted_for_a_target_and_shares_stay() -> None:
    cluster = crowded(*(at(p, 0) for p in pods("b", 60, "y")))
    before = [share(cluster, name) for name in "ab"]
    cluster.settle(6)
    assert [share(cluster, name) for name in "ab"] == before
    assert cluster.writer.deleted == []
    assert used(cluster, "a") == used(cluster, "b") == 5000


def test_without_targets_nobody_looks_at_the_pods_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(QueueTree, "waiting", lambda _: pytest.fail("looked"))
    cluster = crowded(*(at(p, 0) for p in pods("b", 60, "y")), waitingTargetSeconds=0)
    assert len(tried(cluster, 50)) == 50


# Changes


def test_pods_are_arranged_anew_when_queues_and_namespaces_change() -> None:
    cluster = cluster_with(made := queue("a", "x"))
    cluster.add(*pods("p", 3, "x"), pod("high", "x", priority=5))
    name_space(cluster, "x", team="t")
    cluster.add(queue("b", namespaceSelector={"matchLabels": {"team": "t"}}))
    cluster.remove(made)
    assert len(cluster.queue.pending_pods()) == 6
    assert tried(cluster, 9) == ["high", "p-0", "p-1", "p-2"]


def test_without_queues_the_order_is_that_of_queue_sort() -> None:
    cluster = cluster_with()
    cluster.add(*pods("x", 3, "x"), *pods("y", 3, "y"), pod("z", "z", priority=1))
    names = ["z", *(f"x-{i}" for i in range(3)), *(f"y-{i}" for i in range(3))]
    assert tried(cluster, 9) == names


def test_rivals_know_guarantees_while_one_tenant_waits_alone() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": "2"}))
    covered, uncovered = pod("covered", "x").obj(), pod("uncovered", "x", "3").obj()
    cluster.add(*pods("waits", 4, "x"))
    tried(cluster, 1)
    turns = cluster.framework.services.turns
    assert turns is not None
    assert turns.are_rivals(covered, uncovered)
    cluster.add(queue("a", "x", guaranteed={"cpu": "4"}), queue("b", "y"))
    assert not turns.are_rivals(covered, uncovered)
    cluster.remove(queue("b", "y"))
    assert not turns.are_rivals(covered, uncovered)

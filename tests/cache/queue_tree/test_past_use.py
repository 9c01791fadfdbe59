"""Past use lowers weights: by how much, when, and what it leaves as it is."""

from __future__ import annotations

from datetime import UTC, datetime
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.properties import length
from tests.queues import pods, queue, queue_cluster, queues_profile, share, used

from bayplan.api.queues import Queue
from bayplan.cache.queue_tree.past_use import Past, PastUse, factors
from bayplan.cache.queue_tree.report import reports
from bayplan.cache.queue_tree.structure import Structure
from bayplan.config import ConfigError
from bayplan.testing import Builder, PodBuilder, make_node

HOUR = 3600.0
PAST = {"halfLife": "1h", "interval": "10m"}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def cluster_with(*queues: object, past: dict[str, str] | None = PAST, cpu: str = "8") -> Cluster:
    """One node."""
    cluster = queue_cluster(**({"pastUse": past} if past else {}))
    cluster.writer.on_deleted = None
    cluster.clock.time = BEGIN
    cluster.add(make_node("n").capacity(cpu=cpu, memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def running(prefix: str, number: int, namespace: str, start: str = "") -> list[PodBuilder]:
    """Pods that run on the node."""
    made = [one.node("n") for one in pods(prefix, number, namespace)]
    return [one.start_time(start) for one in made] if start else made


def let_pass(cluster: Cluster, seconds: float, step: float = 60.0) -> None:
    """Time goes by, and queues are looked at."""
    for _ in range(int(seconds / step)):
        cluster.clock.time += step
        cluster.world.queues.refresh_shares()


def past_of(cluster: Cluster, name: str) -> Past:
    """What is shown of the queue's CPU."""
    past_use = cluster.world.queues.past_use
    assert past_use is not None
    return past_use.shown[name, "cpu"]


# How much


def test_use_counts_half_after_a_half_life() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    made = running("a", 8, "x")
    cluster.add(*made)
    cluster.world.queues.refresh_shares()
    let_pass(cluster, HOUR)
    assert past_of(cluster, "a").use == pytest.approx(4000, rel=0.01)
    cluster.remove(*made)
    let_pass(cluster, 2 * HOUR)
    assert past_of(cluster, "a").use == pytest.approx(1000, rel=0.03)


def test_who_had_all_for_long_gets_a_third_until_others_have_had_theirs() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    made = running("a", 8, "x")
    cluster.add(*made)
    cluster.world.queues.refresh_shares()
    let_pass(cluster, 30 * HOUR)
    assert past_of(cluster, "a").weight == 0.5
    cluster.add(*pods("a-more", 8, "x"), *pods("b", 8, "y"))
    assert [share(cluster, name) for name in "ab"] == [2667, 5333]

    cluster.remove(*made)
    of_b = running("b-now", 5, "y")
    cluster.add(*running("a-now", 3, "x"), *of_b)
    let_pass(cluster, HOUR)
    assert past_of(cluster, "a").weight > 0.7
    let_pass(cluster, 30 * HOUR)
    assert past_of(cluster, "a").weight > past_of(cluster, "b").weight
    cluster.remove(of_b[0])
    cluster.add(*running("a-last", 1, "x"))
    let_pass(cluster, 30 * HOUR)
    assert share(cluster, "a") == share(cluster, "b") == 4000


def test_what_is_guaranteed_is_no_past_use_and_stays() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 6}), queue("b", "y"))
    cluster.add(*running("a", 6, "x"))
    let_pass(cluster, 30 * HOUR)
    assert past_of(cluster, "a") == Past(6000, 1.0)
    cluster.add(*running("a-more", 2, "x"))
    let_pass(cluster, 30 * HOUR)
    assert past_of(cluster, "a").weight == 0.5
    cluster.add(*pods("b", 20, "y"), *pods("a-waits", 20, "x"))
    assert 6000 < share(cluster, "a") < 7000


def test_who_used_little_of_an_idle_cluster_keeps_its_weight() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.add(*running("a", 3, "x"))
    let_pass(cluster, 30 * HOUR)
    assert past_of(cluster, "a") == Past(3000, 1.0)


# When


def test_weights_change_at_each_interval_only() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.add(*running("a", 8, "x"), *pods("a-more", 8, "x"), *pods("b", 8, "y"))
    cluster.world.queues.refresh_shares()
    shares: list[int] = []
    for _ in range(600):
        cluster.clock.time += 60
        shares.append(share(cluster, "a"))
    changes = [minute for minute in range(1, 600) if shares[minute] != shares[minute - 1]]
    assert len(changes) >= 3
    assert all((minute - changes[0]) % 10 == 0 for minute in changes)


def test_evictions_end_between_two_steps_and_over_time() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.writer.on_bound = cluster._show_bound
    cluster.writer.on_deleted = cluster._show_deleted
    cluster.add(*pods("a", 30, "x"))
    cluster.run()
    let_pass(cluster, 30 * HOUR)
    cluster.add(*pods("b", 40, "y"))
    cluster.settle(10)
    evicted = len(cluster.writer.deleted)
    assert used(cluster, "a") in (2000, 3000)
    cluster.settle(20)  # 220 seconds
    assert len(cluster.writer.deleted) == evicted
    for _ in range(60):
        let_pass(cluster, HOUR)
        cluster.settle(2)
    assert used(cluster, "a") == used(cluster, "b") == 4000
    assert len(cluster.writer.deleted) <= evicted + 4


# What is forgotten


def test_a_restart_forgets_only_what_pods_used_that_are_gone() -> None:
    cluster = cluster_with()
    cluster.clock.time = BEGIN + 3 * HOUR
    cluster.add(*running("a", 8, "x", "2026-01-01T00:00:00Z"), *running("late", 2, "x"))
    cluster.add(queue("top"), queue("a", "x", parent="top"), queue("b", "y"))
    cluster.world.queues.refresh_shares()
    assert past_of(cluster, "a").use == past_of(cluster, "top").use == 7000
    assert past_of(cluster, "top").weight == 0.595


def test_a_reload_and_changed_queues_forget_nothing() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    cluster.add(*running("a", 8, "x"))
    let_pass(cluster, 30 * HOUR)
    cluster.reload(profiles=[queues_profile(pastUse={"halfLife": "2h"})])
    cluster.add(queue("0", "z"), queue("c", "w", limit={"nvidia.com/gpu": 1}))
    cluster.remove(queue("b"))
    cluster.world.queues.refresh_shares()
    assert past_of(cluster, "a").use == pytest.approx(8000, rel=0.01)
    cluster.reload(profiles=[queues_profile()])
    cluster.world.queues.refresh_shares()
    assert cluster.world.queues.past_use is None


# What is shown


def test_reports_have_past_use_and_weight() -> None:
    cluster = cluster_with(queue("a", "x", weight=6), queue("b", "y", weight=6))
    cluster.add(*running("a", 8, "x"))
    let_pass(cluster, 30 * HOUR)
    of_a, of_b = (state.past["cpu"] for state in reports(cluster.world.queues, BEGIN))
    assert (of_a.weight, of_b) == (3.0, Past(0, 6.0))


def test_without_the_argument_weights_are_those_of_the_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PastUse, "weights", lambda *_: pytest.fail("looked"))
    cluster = cluster_with(queue("a", "x"), queue("b", "y"), past=None)
    cluster.add(*running("a", 8, "x"), *pods("b", 8, "y"))
    let_pass(cluster, HOUR)
    assert share(cluster, "a") == share(cluster, "b") == 4000
    assert [state.past for state in reports(cluster.world.queues, BEGIN)] == [{}, {}]


@pytest.mark.parametrize(
    ("past", "error"),
    [
        ({"interval": "0s"}, "pastUse.interval: must be greater than 0"),
        ({"halfLife": "1m"}, "pastUse.halfLife: must not be less than interval"),
        ({"halfLife": "long"}, "pastUse.halfLife"),
        ({"window": "1h"}, "pastUse.window"),
    ],
)
def test_times_that_make_no_sense_are_refused(past: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        queue_cluster(pastUse=past)


# Compared with a slow program


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Builder[Queue]], int]:
    number = draw(st.integers(1, 6))
    queues = []
    for i in range(number):
        parent = draw(st.sampled_from(["", *(f"q{k}" for k in range(i))]))
        weight, guaranteed = draw(st.integers(0, 4)), {"cpu": draw(st.integers(0, 3))}
        queues.append(queue(f"q{i}", parent=parent, weight=weight, guaranteed=guaranteed))
    return queues, draw(st.integers(0, 12))


@length(60)
@given(worlds(), st.lists(st.integers(0, 9000), min_size=6, max_size=6))
def test_factors_are_those_of_a_slow_program(
    world: tuple[list[Builder[Queue]], int], uses: list[int]
) -> None:
    queues, cores = world
    structure = Structure(one.obj() for one in queues)
    n, cpu = len(structure), structure.resources.index("cpu")
    past = np.zeros((n, len(structure.resources)))
    past[:, cpu] = uses[:n]
    capacity = np.zeros(len(structure.resources), np.int64)
    capacity[cpu] = cores * 1000
    expected: dict[int, float] = {}

    def divide(parent: int, room: float) -> None:
        children = [row for row in range(n) if structure.parent[row] == parent]
        guaranteed = {row: int(structure.guaranteed[row, cpu]) for row in children}
        weight = {row: int(structure.weight[row]) for row in children}
        borrowed = {row: max(uses[row] - guaranteed[row], 0) for row in children}
        lent = max(room - sum(guaranteed.values()), 0)
        for row in children:
            part = weight[row] / max(sum(weight.values()), 1)
            due = part * max(lent, sum(borrowed.values()))
            steps = round(4 * log2(max(borrowed[row] / due, 1))) if due else 0
            expected[row] = 0.5 ** (steps / 4)
            divide(row, guaranteed[row] + part * lent)

    divide(-1, cores * 1000)
    found = factors(structure, capacity, past)[:, cpu]
    assert found.tolist() == pytest.approx([expected[row] for row in range(n)])

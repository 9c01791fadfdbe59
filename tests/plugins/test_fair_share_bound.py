"""What each node could get at most: the bound that saves a search for victims."""

from __future__ import annotations

import numpy as np
from tests.core_harness import Cluster
from tests.queues import pod

from bayplan.plugins.fair_share.bound import Bound
from bayplan.preemption.member_fit import MemberFit, MemberNeed, amounts_of
from bayplan.preemption.running_pods import RunningPods
from bayplan.testing import PodBuilder, make_node

A, B, C = range(3)


def bound(
    running: list[tuple[PodBuilder, int]],
    most: dict[int, int],
    yields: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
) -> Bound:
    """For a Pod of 3 CPUs on nodes of 4: these Pods, and their queues, which may give so much."""
    cluster = Cluster()
    cluster.add(*(make_node(name).capacity(cpu="4", memory="64Gi", pods=110) for name in NODES))
    cluster.add(*(builder for builder, _ in running))
    taker = pod("taker", "x", "3").obj()
    need = MemberNeed(taker, 1, amounts_of(taker), np.ones(len(cluster.nodes), np.bool_))
    fit = MemberFit(cluster.nodes, [need], 1, np.zeros(len(cluster.nodes), np.int64), ())
    pods = RunningPods(cluster.nodes)
    of = {builder.obj().name: queue for builder, queue in running}
    by_spec = [int(one.spec.containers[0].resources.requests["cpu"]) * 1000 for one in pods.pods]
    return Bound(
        fit,
        pods,
        np.array([of[one.name] for one in pods.pods]),
        {"cpu": np.array(by_spec)},
        np.array([one.name in yields for one in pods.pods]),
        np.array([one.name in kept for one in pods.pods]),
        {"cpu": np.array([most.get(queue, -1) for queue in (A, B, C)])},
    )


NODES = ("n1", "n2")
EXAMPLE = [
    (pod("a-1", "x", "2").node("n1"), A),
    (pod("a-2", "x", "2").node("n1"), A),
    (pod("a-3", "x").node("n2"), A),
    (pod("b", "y").node("n2"), B),
    (pod("c", "z").node("n2"), C),
]


def test_from_each_queue_comes_what_it_has_there_or_may_give() -> None:
    told = bound(EXAMPLE, {A: 2000, B: 1000, C: 1000})
    assert told.bounded["cpu"][:2].tolist() == [2000, 4000]
    assert told.whole["cpu"][:2].tolist() == [4000, 4000]
    assert told.in_the_way() == {A}


def test_pods_that_are_larger_than_what_their_queue_may_give_do_not_count() -> None:
    told = bound(EXAMPLE, {A: 1999, B: 1000, C: 1000})
    assert told.bounded["cpu"][:2].tolist() == [0, 4000]


def test_pods_that_their_queue_keeps_do_not_count_however_much_it_may_give() -> None:
    found = bound(EXAMPLE, {A: 9000, B: 1000, C: 1000}, kept=("a-2", "c"))
    assert found.bounded["cpu"][:2].tolist() == [2000, 3000]
    assert found.whole["cpu"][:2].tolist() == [4000, 4000]
    assert found.in_the_way() == {A}


def test_queues_that_give_nothing_keep_what_they_have() -> None:
    told = bound(EXAMPLE, {A: 2000, C: 1000})
    assert told.whole["cpu"][:2].tolist() == [4000, 3000]


def test_who_yields_in_any_case_is_not_bounded() -> None:
    told = bound(EXAMPLE, {A: 2000}, yields=("a-1",))
    assert told.bounded["cpu"][:2].tolist() == [4000, 2000]


def test_what_no_queue_counts_is_not_bounded() -> None:
    assert bound(EXAMPLE, {}).bounded["pods"][:2].tolist() == [110, 110]


def test_a_node_with_a_pod_that_takes_something_else_than_it_asks_for_is_not_bounded() -> None:
    resized = pod("a-4", "x").node("n1")
    name = resized.json["spec"]["containers"][0]["name"]
    state = {"name": name, "allocatedResources": {"cpu": "3"}}
    told = bound([(resized.status(containerStatuses=[state]), A), EXAMPLE[2]], {})
    assert told.bounded["cpu"][:2].tolist() == [4000, 3000]

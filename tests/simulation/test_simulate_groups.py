"""Simulate places groups as the scheduler does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, nodes, pod_group, racks, sub_groups
from tests.properties import length

from bayplan.simulation.simulate import simulate
from bayplan.testing import PodBuilder, make_pod


def simulated(cluster: Cluster, *pods: PodBuilder) -> list[dict[str, Any]]:
    """What simulate says of ``pods``, which wait in the cluster's queue."""
    return simulate(cluster.core, [pod.obj() for pod in pods])


def test_a_group_is_placed_as_a_whole_and_its_rest_singly() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    pods = members("g", 3, cpu="2")
    cluster.add(*nodes(1), *pods)
    *placed, left = simulated(cluster, *pods)
    assert placed == [
        {"pod": f"default/g-{i}", "group": "default/g", "node": "n0", "best": ["n0"], "message": ""}
        for i in range(2)
    ]
    assert left["pod"] == "default/g-2"
    assert left["node"] is None
    assert left["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_of_a_group_that_does_not_fit_nothing_is_placed() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("big", minMember=5))
    big, (small,) = members("big", 5), [make_pod("small").req(cpu="4")]
    cluster.add(*nodes(1), *big, small)
    *rejected, placed = sorted(simulated(cluster, *big, small), key=lambda r: r["node"] or "")
    assert placed["pod"] == "default/small"
    assert placed["node"] == "n0"
    assert {result["group"] for result in rejected} == {"default/big"}
    assert all(result["message"].startswith("NoRoom: at most 0 of 5 fit") for result in rejected)


def test_a_group_that_gathers_says_what_is_missing() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=3))
    pods = members("g", 2)
    cluster.add(*nodes(1), *pods)
    assert [result["message"] for result in simulated(cluster, *pods)] == [
        "WaitingForMembers 2/3",
        "WaitingForMembers 2/3",
    ]


def test_sub_groups_are_placed_together_and_what_goes_beyond_them_singly() -> None:
    cluster = group_cluster()
    cluster.add(*racks(2, 2))
    parts = [{"name": n, "minMember": 2, "requiredTopology": "rack"} for n in ("a", "b")]
    cluster.add(pod_group("g", sub_groups(*parts)))
    pods = [*members("g", 3, sub_group="a"), *members("g", 2, sub_group="b")]
    cluster.add(*pods)
    *placed, left = simulated(cluster, *pods)
    nodes_of = {result["pod"]: result["node"] for result in placed}
    assert {node[:2] for pod, node in nodes_of.items() if "-a-" in pod} == {"r0"}
    assert {node[:2] for pod, node in nodes_of.items() if "-b-" in pod} == {"r1"}
    assert left["node"] is None
    assert "were outside of the group's topology domain" in left["message"]


@length(25)
@given(st.data())
def test_what_simulate_says_is_what_the_scheduler_does(data: Any) -> None:
    """The same objects once through simulate, once through the scheduler."""
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    minima = [data.draw(st.integers(1, size + 1)) for size in sizes]
    room = data.draw(st.integers(1, 4))
    priorities = data.draw(st.lists(st.sampled_from([0, 10]), min_size=5, max_size=5))

    def filled() -> tuple[Cluster, list[PodBuilder]]:
        cluster = group_cluster()
        cluster.add(*nodes(room))
        pods = [
            pod.priority(priorities[i])
            for i, size in enumerate(sizes)
            for pod in members(f"g{i}", size)
        ]
        cluster.add(*(pod_group(f"g{i}", minMember=m) for i, m in enumerate(minima)), *pods)
        return cluster, pods

    cluster, pods = filled()
    said = {r["pod"]: r["node"] for r in simulated(cluster, *pods) if r["node"]}
    live, _ = filled()
    live.run()
    assert said == {f"default/{pod}": node for pod, node in live.bound}

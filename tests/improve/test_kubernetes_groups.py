"""Moves of PodGroups of Kubernetes: whole gangs and trees, and groups that get room."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.groups import GATES, basic, composite, gang
from tests.improve.applied import Applied
from tests.improve.brute_gangs import fewest, gangs, holds, planned
from tests.improve.test_improve import asked, moves, node, runs, waits

from bayplan.improve.goals import fitting
from bayplan.testing import Builder, Cluster, PodBuilder


def cluster(*objects: Builder[Any]) -> Cluster:
    """A cluster with these objects, where no Pod is tried."""
    made = Cluster(feature_gates=GATES)
    made.add(*objects)
    return made


def of(group: str, *pods: PodBuilder) -> list[PodBuilder]:
    """The Pods as members of a group."""
    return [pod.pod_group(group) for pod in pods]


def two_in_the_way(*groups: Builder[Any], of_second: str = "g") -> Cluster:
    """Pods of 1 CPU on n1, where 4 are wanted, and n2; room for both is on n3."""
    nodes = [node("n1"), node("n2", 1), node("n3", 2)]
    running = [*of("g", runs("g1", "n1")), *of(of_second, runs("g2", "n2"))]
    return cluster(*nodes, *groups, *running, waits())


def moved(made: Cluster) -> Sequence[str]:
    """The Pods that move."""
    return sorted(pod for pod, _, _ in moves(asked(made)))


def test_the_pods_of_a_gang_move_together() -> None:
    made = two_in_the_way(gang("g", 2))
    assert moved(made) == ["g1", "g2"]
    assert {move["step"] for move in asked(made)["moves"]} == {1}
    assert not asked(made, most=1)["reached"]


def test_the_pods_of_a_basic_group_move_one_by_one() -> None:
    assert moved(two_in_the_way(basic("g"))) == ["g1"]


def test_the_pods_of_a_group_that_is_disrupted_as_one_move_together() -> None:
    assert moved(two_in_the_way(basic("g", disruptionMode={"all": {}}))) == ["g1", "g2"]


def test_gangs_of_one_tree_move_together() -> None:
    trees = [composite("c", 2), gang("g", 1, parentCompositePodGroupName="c")]
    trees.append(gang("h", 1, parentCompositePodGroupName="c"))
    assert moved(two_in_the_way(*trees, of_second="h")) == ["g1", "g2"]
    assert moved(two_in_the_way(gang("g", 1), gang("h", 1), of_second="h")) == ["g1"]


def test_a_pod_whose_group_is_gone_stays() -> None:
    answer = asked(two_in_the_way())
    assert not answer["reached"]
    assert any("its group is gone" in line for line in answer["against"])


def racks(*groups: Builder[Any]) -> list[Builder[Any]]:
    """Two racks of two nodes, with groups."""
    return [*(node(f"n{i}", rack="aabb"[i - 1]) for i in range(1, 5)), *groups]


IN_ONE_RACK = {"topology": [{"key": "rack"}]}


def test_a_gang_of_one_rack_moves_to_one_rack() -> None:
    running = of("g", runs("g1", "n1", 2), runs("g2", "n2", 2))
    kept = [runs(f"x{i}", f"n{i}", 2, movable="") for i in (2, 3, 4)]
    group = gang("g", 2, schedulingConstraints=IN_ONE_RACK)
    answer = asked(cluster(*racks(group), *running, *kept, waits()))
    assert {to for _, _, to in moves(answer)} == {"n3", "n4"}


def test_room_for_a_gang_of_one_rack_is_in_one_rack() -> None:
    kept = [runs("x2", "n2", movable=""), runs("x3", "n3", 2, movable="")]
    waiting = of("g", waits("g1", 4), waits("g2", 3))
    group = gang("g", 2, schedulingConstraints=IN_ONE_RACK)
    answer = asked(cluster(*racks(group), runs("x1", "n1"), *kept, *waiting), "podgroup/g")
    [(pod, source, target)] = moves(answer)
    assert (pod, source) == ("x1", "n1")
    assert target in ("n3", "n4")
    assert answer["placed"] == {"default/g1": "n1", "default/g2": "n2"}


def test_room_is_made_for_a_whole_tree() -> None:
    trees = [composite("c", 2), gang("g", 1, parentCompositePodGroupName="c")]
    trees.append(gang("h", 1, parentCompositePodGroupName="c"))
    waiting = [*of("g", waits("g1", 4)), *of("h", waits("h1", 4))]
    nodes = [node("n1"), node("n2"), node("n3", 2)]
    made = cluster(*nodes, *trees, runs("a", "n1"), *waiting)
    answer = asked(made, "podgroup/default/CompositePodGroup/c")
    assert moves(answer) == [("a", "n1", "n3")]
    assert set(answer["placed"]) == {"default/g1", "default/h1"}


def test_all_waiting_pods_of_a_basic_group_have_to_fit() -> None:
    waiting = of("g", waits("g1", 3), waits("g2", 3))
    made = cluster(node("n1"), node("n2"), node("n3", 2), basic("g"), runs("a", "n1", 2), *waiting)
    answer = asked(made, "podgroup/g")
    assert moves(answer) == [("a", "n1", "n3")]
    assert set(answer["placed"].values()) == {"n1", "n2"}


def applied(*objects: Builder[Any], subject: str = "waits") -> Applied:
    """The plan for the subject is applied."""
    made = Applied(*objects, feature_gates=GATES)
    made.application(made.plan(fitting(made.cluster.core, subject, "default"))).run()
    assert not made.held
    return made


def test_a_gang_is_moved() -> None:
    pods = of("g", *(runs(f"g{i}", "n1") for i in range(2)))
    made = applied(node("n1"), node("n2", 2), gang("g", 2), *pods, waits())
    assert [made.cluster.node_of(f"g{i}-again") for i in range(2)] == ["n2", "n2"]
    assert made.cluster.node_of("waits") == "n1"


def test_a_pod_of_a_basic_group_is_moved_alone() -> None:
    pods = of("g", runs("a", "n1"), runs("b", "n2", 2))
    made = applied(node("n1"), node("n2", 3), basic("g"), *pods, waits())
    assert made.evicted == ["default/a"]
    assert made.cluster.node_of("a-again") == "n2"
    assert made.cluster.node_of("waits") == "n1"


def test_a_gang_gets_the_room() -> None:
    pods = of("g", *(waits(f"g{i}", 3) for i in range(2)))
    running = [runs("a", "n1", 2), runs("b", "n2", 1, movable="")]
    nodes = [node("n1"), node("n2"), node("n3", 2)]
    made = applied(*nodes, gang("g", 2), *pods, *running, subject="podgroup/g")
    assert sorted(made.cluster.node_of(f"g{i}") for i in range(2)) == ["n1", "n2"]


@pytest.mark.parametrize("seed", range(25))
def test_whenever_all_moves_of_gangs_find_a_plan_so_do_we(seed: int) -> None:
    made = gangs(random.Random(seed))
    best, found = fewest(made), planned(made)
    assert (found is None) is (best is None)
    if found is not None:
        assert len(found) == best
        assert holds(made, found)

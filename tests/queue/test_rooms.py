"""Rooms are kept for Pods that are about to move, and for nobody else."""

from __future__ import annotations

import pytest

from bayplan.testing import Cluster, PodBuilder, make_node, make_pod


def running(name: str, node: str, cpu: int = 1) -> PodBuilder:
    return make_pod(name).req(cpu=cpu).node(node).owner("StatefulSet", "web").label("app", "web")


@pytest.fixture
def cluster() -> Cluster:
    """Two nodes of 2 CPUs; a Pod on n1, and its room on n2."""
    made = Cluster()
    made.add(*(make_node(f"n{i}").capacity(cpu=2, pods=10) for i in (1, 2)), running("web-0", "n1"))
    hold(made, "web-0", "n2")
    return made


def hold(made: Cluster, name: str, node: str) -> None:
    made.world.rooms.hold([(made.world.handlers.pods[f"default/{name}"], node)])


def again(name: str = "web-0", **requests: int) -> PodBuilder:
    pod = make_pod(name).req(**(requests or {"cpu": 1})).owner("StatefulSet", "web")
    return pod.label("app", "web")


def leave(made: Cluster) -> None:
    made.remove(running("web-0", "n1").uid(made.world.handlers.pods["default/web-0"].uid))


def test_a_room_keeps_pods_off_that_are_not_more_important(cluster: Cluster) -> None:
    low, high = make_pod("low").req(cpu=2), make_pod("high").req(cpu=2).priority(1)
    cluster.add(low)
    cluster.run()
    assert not cluster.node_of(low)
    cluster.add(high)
    cluster.run()
    assert cluster.node_of(high) == "n2"


def test_a_pod_like_the_one_that_left_takes_the_room(cluster: Cluster) -> None:
    leave(cluster)
    cluster.add(again())
    assert cluster.world.rooms.made
    cluster.run()
    assert cluster.node_of("web-0") == "n2"
    assert list(cluster.world.rooms.placed.values()) == ["default/web-0"]
    assert not cluster.world.rooms.failure


def test_a_sibling_takes_no_room_while_the_pod_runs(cluster: Cluster) -> None:
    cluster.add(again("web-1"))
    assert not cluster.world.rooms.made


def test_a_pod_of_another_owner_takes_no_room(cluster: Cluster) -> None:
    leave(cluster)
    cluster.add(again("web-0").owner("StatefulSet", "other"))
    assert not cluster.world.rooms.made


def test_another_shape_under_the_same_owner_is_a_deviation(cluster: Cluster) -> None:
    leave(cluster)
    cluster.add(again("web-0", cpu=2))
    assert cluster.world.rooms.failure == (
        "default/web-0, made again for default/web-0, is not like that one"
    )


def test_a_sibling_with_another_label_is_none(cluster: Cluster) -> None:
    """StatefulSets give each Pod a label of its own."""
    leave(cluster)
    cluster.add(again("web-1").label("index", "1"))
    assert not cluster.world.rooms.made
    assert not cluster.world.rooms.failure


def test_freed_rooms_are_for_everybody(cluster: Cluster) -> None:
    low = make_pod("low").req(cpu=2)
    cluster.add(low)
    cluster.run()
    cluster.world.rooms.free()
    cluster.wait(11)
    cluster.run()
    assert cluster.node_of(low) == "n2"


def test_a_failed_attempt_does_not_end_the_right_to_the_room(cluster: Cluster) -> None:
    boss = make_pod("boss").req(cpu=2).priority(1).node_selector({"here": "yes"})
    cluster.add(make_node("n2").capacity(cpu=2, pods=10).label("here", "yes"), boss)
    cluster.add(make_node("n1").capacity(cpu=2, pods=10).unschedulable())
    cluster.run()
    leave(cluster)
    cluster.add(again())
    cluster.run()
    assert not cluster.node_of("web-0")
    cluster.remove(boss)
    cluster.wait(11)
    cluster.run()
    assert cluster.node_of("web-0") == "n2"


def test_a_pod_that_waits_gets_its_room_when_all_moves_are_made(cluster: Cluster) -> None:
    cluster.world.rooms.free()
    waits = make_pod("waits").req(cpu=2)
    cluster.add(make_node("n1").capacity(cpu=1, pods=10), waits)
    hold(cluster, "waits", "n2")
    cluster.run()
    assert not cluster.node_of(waits)
    cluster.world.rooms.turn_to_goal()
    cluster.run()
    assert cluster.node_of(waits) == "n2"


def test_pods_that_are_only_supposed_take_no_room(cluster: Cluster) -> None:
    leave(cluster)
    supposed = again().spec(schedulerName="bayplan")
    with cluster.world.handlers.supposing([(supposed.kind, supposed.obj())]):
        assert not cluster.world.rooms.made

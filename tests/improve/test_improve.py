"""Plans of moves: who may move, what is proven, what is said, and that nothing is changed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from tests.improve.brute import fewest, fragmented, holds, planned
from tests.queues import queue, queues_profile

from bayplan.api.kinds import NAMESPACE, POD_DISRUPTION_BUDGET, POD_GROUP
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.improve.goals import GoalError, empty, fitting
from bayplan.improve.movable import MOVABLE
from bayplan.improve.plan import improve
from bayplan.testing import Builder, Cluster, NodeBuilder, PodBuilder, make_node, make_object
from bayplan.testing import make_pod as pod_of

NOW = 1_800_000_000.0
GANGS = {
    "multiPoint": {
        "enabled": [{"name": "Coscheduling"}],
        "disabled": [{"name": "PrioritySort"}],
    }
}
GROUPS = {"profiles": [{"schedulerName": "bayplan", "plugins": GANGS}]}


def node(name: str, cpu: int = 4, **labels: str) -> NodeBuilder:
    """A node of so many CPUs."""
    return make_node(name).capacity(cpu=cpu, pods=10).labels(labels)


def runs(name: str, where: str, cpu: int = 1, *, movable: str = "true") -> PodBuilder:
    """A Pod of a ReplicaSet on a node."""
    pod = pod_of(name).req(cpu=cpu).node(where).owner("ReplicaSet", "rs")
    return pod.label(MOVABLE, movable) if movable else pod


def waits(name: str = "waits", cpu: int = 4) -> PodBuilder:
    """A Pod without a node."""
    return pod_of(name).req(cpu=cpu)


def cluster(*objects: Builder[Any], config: Any = None) -> Cluster:
    """A cluster with these objects, where no Pod is tried."""
    made = Cluster(config=config)
    made.add(*objects)
    return made


def two_nodes(*pods: Builder[Any]) -> Cluster:
    """Nodes of 4 CPUs, and a Pod of 4 that waits."""
    return cluster(node("n1"), node("n2"), *pods, waits())


def asked(made: Cluster, subject: str = "waits", most: int = 16) -> dict[str, Any]:
    """What has to move for a Pod or a group."""
    return improve(made.core, fitting(made.core, subject, "default"), NOW, most=most)


def moves(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Pod, from and to of each move."""
    found = answer.get("moves", ())
    return [(move["pod"].removeprefix("default/"), move["from"], move["to"]) for move in found]


def test_the_pod_in_the_way_moves_and_the_other_one_fits() -> None:
    answer = asked(two_nodes(runs("a", "n1"), runs("b", "n2", 2)))
    assert moves(answer) == [("a", "n1", "n2")]
    assert answer["placed"] == {"default/waits": "n1"}
    assert answer["sentence"] == "1 move, and Pod default/waits fits."


def test_a_pod_makes_room_for_the_one_that_moves_and_goes_first() -> None:
    made = cluster(
        *(node("big", 8), node("mid", 4), node("low", 2)),
        *(runs("a", "big", 4), runs("x", "big", 1, movable=""), runs("b", "mid", 1)),
        waits(cpu=7),
    )
    assert moves(asked(made)) == [("b", "mid", "low"), ("a", "big", "mid")]


def test_where_it_fits_already_nobody_moves() -> None:
    answer = asked(cluster(node("n1"), waits()))
    assert moves(answer) == []
    assert answer["sentence"] == "No move is needed: Pod default/waits fits now."


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (runs("a", "n1", movable=""), "nothing says bayplan.dev/movable=true"),
        (runs("a", "n1", movable="false"), "nothing says bayplan.dev/movable=true"),
        (pod_of("a").req(cpu=1).node("n1").label(MOVABLE, "true"), "no controller makes it again"),
        (runs("a", "n1").owner("DaemonSet", "ds"), "a DaemonSet has Pods on nodes that exist"),
        (runs("a", "n1").owner("Node", "n1", "v1"), "a static Pod ends with its node"),
        (runs("a", "n1").volume(emptyDir={}), "has files on its node (emptyDir, hostPath)"),
        (runs("a", "n1").volume(hostPath={"path": "/"}), "has files on its node"),
        (runs("a", "n1").spec(resourceClaims=[{"name": "c"}]), "has ResourceClaims that are not"),
        (runs("a", "n1").terminating(), "is being bound or deleted"),
    ],
)
def test_who_may_not_move_stays_and_it_is_said_why(pod: PodBuilder, why: str) -> None:
    answer = asked(two_nodes(pod, runs("b", "n2", 4, movable="")))
    assert not answer["reached"]
    assert any(why in line for line in answer["against"])


def test_memory_on_a_node_is_no_file() -> None:
    pod = runs("a", "n1").volume(emptyDir={"medium": "Memory"})
    assert moves(asked(two_nodes(pod))) == []
    assert asked(cluster(node("n1"), node("n2", 1), pod, waits()))["restarts"] == 1


@pytest.mark.parametrize("by", ["annotation", "namespace", "queue"])
def test_whose_word_counts(by: str) -> None:
    pod = runs("a", "n1", movable="")
    objects: list[Builder[Any]] = [node("n1"), node("n2", 1), waits()]
    if by == "annotation":
        pod.annotation(MOVABLE, "true")
    elif by == "namespace":
        objects.append(make_object(NAMESPACE, "default").label(MOVABLE, "true"))
    else:
        team = queue("team", parent="all").spec(namespaceSelector={})
        objects += [queue("all").annotation(MOVABLE, "true"), team]
    config = {"profiles": [queues_profile()]} if by == "queue" else None
    assert moves(asked(cluster(*objects, pod, config=config))) == [("a", "n1", "n2")]
    pod.label(MOVABLE, "false")
    assert not asked(cluster(*objects, pod, config=config))["reached"]


def test_a_queue_keeps_pods_that_have_just_started() -> None:
    team = queue("team", minRuntimeSeconds=60).spec(namespaceSelector={}).label(MOVABLE, "true")
    for start, reached in (("2027-01-15T07:59:30Z", False), ("2027-01-15T07:58:00Z", True)):
        pod = runs("a", "n1", movable="").start_time(start)
        config = {"profiles": [queues_profile()]}
        made = cluster(node("n1"), node("n2", 1), team, pod, waits(), config=config)
        assert asked(made)["reached"] is reached


def test_a_budget_has_to_have_room_for_the_whole_plan() -> None:
    for allowed, reached in ((1, False), (2, True)):
        labels = {"app": "web"}
        budget = make_object(POD_DISRUPTION_BUDGET, "web").namespace("default")
        budget.spec(selector={"matchLabels": labels}).status(disruptionsAllowed=allowed)
        web = [runs(f"w{i}", "n1").labels(labels) for i in range(2)]
        made = cluster(node("n1"), node("n2", 2), budget, *web, waits())
        assert asked(made)["reached"] is reached


def gang(name: str, minimum: int) -> Builder[Any]:
    """A PodGroup of the label."""
    return make_object(POD_GROUP, name).namespace("default").spec(minMember=minimum)


def members(name: str, pods: Iterable[PodBuilder]) -> list[PodBuilder]:
    """The same Pods, as members of a group."""
    return [pod.label(POD_GROUP_LABEL, name) for pod in pods]


def test_members_of_a_group_move_together() -> None:
    running = members("g", [runs("g1", "n1"), runs("g2", "n2")])
    nodes = [node("n1"), node("n2", 1), node("n3", 2)]
    made = cluster(*nodes, gang("g", 2), *running, waits(), config=GROUPS)
    answer = asked(made)
    assert sorted(pod for pod, _, _ in moves(answer)) == ["g1", "g2"]
    assert {move["step"] for move in answer["moves"]} == {1}
    assert not asked(made, most=1)["reached"]


def test_a_member_that_may_not_move_keeps_its_group() -> None:
    running = members("g", [runs("g1", "n1"), runs("g2", "n2", movable="")])
    nodes = [node("n1"), node("n2", 1), node("n3", 2)]
    made = cluster(*nodes, gang("g", 2), *running, waits(), config=GROUPS)
    assert not asked(made)["reached"]


def test_room_is_made_for_a_whole_group() -> None:
    waiting = members("g", [waits(f"g{i}", 3) for i in range(2)])
    pods = [runs("a", "n1", 2), runs("b", "n2", 2)]
    nodes = [node("n1"), node("n2"), node("n3")]
    made = cluster(*nodes, gang("g", 2), *pods, *waiting, config=GROUPS)
    answer = asked(made, "podgroup/g")
    assert len(moves(answer)) == 1
    assert len(answer["placed"]) == 2


def racks() -> list[Builder[Any]]:
    """Two racks of two nodes, and a PodGroup of two that wants to be in one."""
    group = gang("g", 2).annotation("bayplan.dev/required-topology", "rack")
    return [*(node(f"n{i}", rack="aabb"[i - 1]) for i in range(1, 5)), group]


def test_a_group_of_one_rack_moves_to_one_rack() -> None:
    running = members("g", [runs("g1", "n1", 2), runs("g2", "n2", 2)])
    kept = [runs(f"x{i}", f"n{i}", 2, movable="") for i in (2, 3, 4)]
    answer = asked(cluster(*racks(), *running, *kept, waits(), config=GROUPS))
    assert {to for _, _, to in moves(answer)} == {"n3", "n4"}


def test_room_for_a_group_of_one_rack_is_in_one_rack() -> None:
    kept = [runs(f"x{i}", f"n{i}", movable="") for i in (2, 3)]
    waiting = members("g", [waits("g1", 4), waits("g2", 3)])
    made = cluster(*racks(), runs("x1", "n1"), *kept, *waiting, config=GROUPS)
    assert set(asked(made, "podgroup/g")["placed"].values()) in ({"n1", "n2"}, {"n3", "n4"})


def test_a_node_and_a_zone_are_emptied() -> None:
    daemon = runs("d", "n1", movable="").owner("DaemonSet", "ds")
    nodes = [node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b")]
    made = cluster(*nodes, runs("a", "n1"), runs("b", "n2"), daemon)
    assert moves(improve(made.core, empty(made.core, "n1"), NOW)) in (
        [("a", "n1", "n2")],
        [("a", "n1", "n3")],
    )
    answer = improve(made.core, empty(made.core, "zone=a"), NOW)
    assert sorted(moves(answer)) == [("a", "n1", "n3"), ("b", "n2", "n3")]


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("nowhere", "there is no node nowhere"),
        ("zone=x", "no node has the label zone=x"),
        ("n1", "Pods stay, such as default/a: 1: nothing says"),
        ("n2", "2 Pods have to move, at most 1 may"),
    ],
)
def test_nodes_that_cannot_be_emptied(where: str, why: str) -> None:
    made = cluster(
        *(node("n1"), node("n2"), node("n3")),
        *(runs("a", "n1", movable=""), runs("b", "n2"), runs("c", "n2")),
    )
    with pytest.raises(GoalError, match=why):
        improve(made.core, empty(made.core, where), NOW, most=1)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("nobody", "there is no Pod default/nobody"),
        ("default/a", "Pod default/a has a node already: n1"),
        ("gated", "held back by SchedulingGates"),
        ("podgroup/g", "no group default/g waits"),
    ],
)
def test_what_is_not_to_be_placed(subject: str, why: str) -> None:
    made = cluster(node("n1"), runs("a", "n1"), waits("gated").gate("g"))
    with pytest.raises(GoalError, match=why):
        fitting(made.core, subject, "default")


def test_what_stands_against_a_goal_is_said() -> None:
    answer = asked(two_nodes(runs("a", "n1", 3), runs("b", "n2", 3)), most=2)
    assert answer["sentence"] == "Up to 2 moves do not help."
    assert answer["against"][0].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert answer["against"][-1] == "Pods that may move: 2, at most 2 of them in one plan"


def test_the_token_changes_with_any_object_of_the_plan() -> None:
    made = two_nodes(a := runs("a", "n1"), runs("b", "n2", 2))
    before = asked(made)["token"]
    assert asked(made)["token"] == before
    made.add(a.annotation("x", "y"))
    assert asked(made)["token"] != before


def test_a_plan_changes_nothing() -> None:
    made = two_nodes(runs("a", "n1"), runs("b", "n2", 2))
    nodes = made.world.cache.nodes
    before = nodes.requested("cpu").tolist(), [list(pods) for pods in nodes.pods]
    assert asked(made)["reached"]
    assert (nodes.requested("cpu").tolist(), [list(pods) for pods in nodes.pods]) == before
    assert not made.writer.deleted
    assert "default/waits" in {pod.key for pod in made.world.queue.waiting_pods()}


@pytest.mark.parametrize("seed", range(25))
def test_whenever_all_sequences_of_moves_find_a_plan_so_do_we(seed: int) -> None:
    fragments = fragmented(random.Random(seed))
    best, found = fewest(fragments), planned(fragments)
    assert (found is None) is (best is None)
    if found is not None:
        assert len(found) == best
        assert holds(fragments, found)

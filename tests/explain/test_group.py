"""Explain of a group: its plan or why there is none; nothing changes by asking."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster
from tests.groups import (
    group_cluster,
    members,
    nodes,
    pod_group,
    racks,
    slices,
    sub_groups,
    topology,
)

from bayplan.explain.group import GroupExplainer
from bayplan.testing import PodBuilder, make_pod


def explainer(cluster: Cluster) -> GroupExplainer:
    """One that sees the groups of the cluster."""
    return GroupExplainer(cluster.core.profiles, cluster.world, cluster.core.placers)


def explained(cluster: Cluster, *pods: PodBuilder, group: str = "g") -> Any:
    """What is said of a group."""
    return explainer(cluster).of_group(f"default/{group}", [pod.obj() for pod in pods])


def test_the_plan_of_a_group_that_fits_is_shown_and_holds_nothing() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    pods = members("g", 3, cpu="2")
    cluster.add(*nodes(1), *pods)
    assert explained(cluster, *pods) == {
        "group": "default/g",
        "minimum": 2,
        "members": ["default/g-0", "default/g-1", "default/g-2"],
        "plan": {"default/g-0": "n0", "default/g-1": "n0"},
        "left": ["default/g-2"],
    }
    assert cluster.nodes.pod_count.sum() == 0
    cluster.run()
    assert cluster.bound == [("g-0", "n0"), ("g-1", "n0")]


def test_the_domain_of_each_sub_group_is_shown() -> None:
    cluster = group_cluster()
    asked = sub_groups({"name": "a", "requiredTopology": "rack"}, {"name": "b"})
    cluster.add(pod_group("g", topology("zone") | asked))
    pods = [*members("g", 1, sub_group="a"), *members("g", 1, sub_group="b")]
    cluster.add(*racks(2), *pods)
    verdict = explained(cluster, *pods)
    assert verdict["minimum"] == 2
    assert verdict["domain"] == {"level": "zone", "value": "z0"}
    assert verdict["subGroups"] == {"a": {"level": "rack", "value": "r0"}}
    assert cluster.nodes.requested("cpu").sum() == 0


def test_the_domains_of_slices_are_shown() -> None:
    cluster = group_cluster()
    asked = slices(("rack", 2), required="zone")
    cluster.add(*racks(4, 3), pod_group("g", asked, minMember=6), *members("g", 6))
    verdict = explained(cluster, *members("g", 6))
    assert verdict["domain"] == {"level": "zone", "value": "z0"}
    assert verdict["slices"] == [
        {"level": "rack", "value": "r0", "pods": 4},
        {"level": "rack", "value": "r1", "pods": 2},
    ]
    workers = {"name": "w", "minMember": 2, "slices": [{"topology": "rack", "size": 2}]}
    cluster.add(pod_group("h", sub_groups(workers)))
    pods = members("h", 2, sub_group="w")
    cluster.add(*pods)
    shares = explained(cluster, *pods, group="h")["subGroups"]["w"]
    assert shares == {"slices": [{"level": "rack", "value": "r1", "pods": 2}]}


def test_what_stands_against_the_others_is_named_node_by_node() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=6))
    pods = members("g", 6, cpu="2")
    full, *tainted = nodes(3)
    cluster.add(full, *(node.taint("team", "a", "NoSchedule") for node in tainted), *pods)
    verdict = explained(cluster, *pods)
    said = "NoRoom: at most 2 of 6 fit, short by cpu; nodes closed: 2 by TaintToleration"
    assert verdict["message"].startswith(said)
    outcomes = verdict["against"]["default/g-0"]
    assert {name: status.get("plugin") for name, status in outcomes.items()} == {
        "n0": None,
        "n1": "TaintToleration",
        "n2": "TaintToleration",
    }
    assert list(verdict["against"]) == ["default/g-0"]


def test_nodes_that_are_closed_have_no_room_for_a_group() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=3))
    pods = members("g", 3, cpu="2")
    cluster.add(*nodes(1), nodes(2)[1].unschedulable(), *pods)
    said = "NoRoom: at most 2 of 3 fit, short by cpu; nodes closed: 1 by NodeUnschedulable"
    assert explained(cluster, *pods)["message"].startswith(said)


def test_why_a_group_does_not_fit_is_what_its_event_says() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=5))
    pods = members("g", 5)
    cluster.add(*nodes(1), *pods)
    verdict = explained(cluster, *pods)
    assert verdict["message"].startswith("NoRoom: at most 4 of 5 fit, short by cpu")
    cluster.run()
    assert verdict["message"] == cluster.notes[-1][1]


def test_who_would_be_evicted_is_shown_and_nobody_is() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    pods = [pod.priority(10) for pod in members("g", 2)]
    cluster.add(*nodes(1), make_pod("low").req(cpu="3").node("n0"), *pods)
    verdict = explained(cluster, *pods)
    assert verdict["victims"] == ["default/low"]
    assert verdict["nominated"] == {"default/g-0": "n0", "default/g-1": "n0"}
    assert "MakingRoom: 1 Pods of lower priority" in verdict["message"]
    assert cluster.writer.deleted == []
    assert len(cluster.world.nominator) == 0


def test_who_is_missing_and_why_is_told() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=3))
    pods = members("g", 3)
    pods[1].gate("example.com/later")
    pods[2].spec(schedulerName="other")
    cluster.add(*nodes(1), *pods)
    assert explained(cluster, *pods) == {
        "group": "default/g",
        "minimum": 3,
        "members": ["default/g-0"],
        "held": {
            "default/g-1": "held back by SchedulingGates: waiting for scheduling gates: "
            "[example.com/later]",
            "default/g-2": "there is no profile other",
        },
        "message": "WaitingForMembers 1/3",
    }


def test_a_group_that_has_begun_is_said_to_have() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=1))
    first, second = members("g", 2)
    cluster.add(*nodes(1), first.node("n0"), second)
    assert explained(cluster, first, second) == {
        "group": "default/g",
        "running": {"default/g-0": "n0"},
        "members": ["default/g-1"],
        "message": "the group has begun; a Pod of it that waits goes singly",
    }


def test_a_group_without_pods_is_none() -> None:
    assert explained(group_cluster(), group="nobody") is None


def test_without_coscheduling_that_is_what_is_said() -> None:
    cluster = Cluster()
    pods = members("g", 1)
    cluster.add(*pods)
    text = "the profile bayplan does not place groups (Coscheduling)"
    assert explained(cluster, *pods) == {"group": "default/g", "message": text}


def test_a_pod_is_told_what_becomes_of_it_with_its_group() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    pods = members("g", 3, cpu="2")
    alone, *_ = members("alone", 1)
    alone.json["metadata"]["labels"].clear()
    cluster.add(*nodes(1), *pods, alone)
    groups = explainer(cluster)
    assert groups.of_pod(pods[0].obj()) == {"name": "default/g", "node": "n0"}
    assert groups.of_pod(pods[2].obj()) == {"name": "default/g"}
    assert groups.of_pod(alone.obj()) == {}


def test_nominated_pods_of_a_group_stay_nominated() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    first, second = members("g", 2, cpu="2")
    cluster.add(*nodes(1), second, first.nominated("n0"))
    assert len(explained(cluster, first, second)["plan"]) == 2
    assert cluster.nominated(first) == ["n0"]

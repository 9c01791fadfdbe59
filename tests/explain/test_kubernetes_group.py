"""Explain of PodGroups of Kubernetes: what an attempt would come to; nothing changes by asking."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import (
    GATES,
    basic,
    below,
    composite,
    conditions,
    gang,
    gang_members,
    nodes,
    racks,
    workload_cluster,
)

from bayplan.explain.group import GroupExplainer
from bayplan.testing import PodBuilder, make_pod


def explained(cluster: Cluster, *pods: PodBuilder, group: str = "g") -> Any:
    """What is said of a group."""
    explainer = GroupExplainer(cluster.core.profiles, cluster.world, cluster.core.placers)
    return explainer.of_group(f"default/{group}", [pod.obj() for pod in pods])


def test_the_nodes_of_a_gang_that_fits_are_shown_and_nothing_is_held() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    pods = gang_members("g", 2)
    cluster.add(*nodes(1), *pods)
    assert explained(cluster, *pods) == {
        "group": "default/g",
        "minimum": 2,
        "members": ["default/g-0", "default/g-1"],
        "plan": {"default/g-0": "n0", "default/g-1": "n0"},
    }
    assert cluster.nodes.pod_count.sum() == 0
    cluster.run()
    assert cluster.bound == [("g-0", "n0"), ("g-1", "n0")]


def test_why_a_gang_does_not_fit_is_what_its_condition_says() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 6))
    pods = gang_members("g", 6)
    cluster.add(*nodes(1), *pods)
    verdict = explained(cluster, *pods)
    assert cluster.nodes.pod_count.sum() == 0
    cluster.run()
    ((_, status, reason, message),) = conditions(cluster)
    assert verdict["message"] == f"{status} {reason}: {message}"
    assert verdict["rejected"]["default/g-4"].startswith("0/1 nodes are available: 1 Insufficient")
    assert len(verdict["rejected"]) == 6
    assert "plan" not in verdict


def test_the_domain_of_a_group_that_asks_for_one_is_named() -> None:
    gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
    cluster = workload_cluster(gates=gates)
    cluster.add(gang("g", 3, schedulingConstraints={"topology": [{"key": "rack"}]}))
    pods = gang_members("g", 3)
    cluster.add(*racks(2, 3), *pods)
    verdict = explained(cluster, *pods)
    assert verdict["domain"] == {"level": "rack", "value": "r1"}
    assert len(verdict["plan"]) == 3


def test_of_a_basic_group_some_pods_may_fail_alone() -> None:
    cluster = workload_cluster()
    cluster.add(basic("g"))
    pods = gang_members("g", 6)
    cluster.add(*nodes(1), *pods)
    verdict = explained(cluster, *pods)
    assert len(verdict["plan"]) == 4
    assert len(verdict["rejected"]) == 2
    assert "message" not in verdict


def test_who_would_be_evicted_for_a_gang_is_shown_and_nobody_is() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2, priority=9))
    low = [make_pod(f"low-{i}").req(cpu="1").node("n0") for i in range(4)]
    pods = [pod.priority(9) for pod in gang_members("g", 2)]
    cluster.add(*nodes(1), *low, *pods)
    verdict = explained(cluster, *low, *pods)
    assert len(verdict["victims"]) == 2
    assert verdict["nominated"] == {"default/g-0": "n0", "default/g-1": "n0"}
    assert cluster.writer.deleted == []


def test_a_gang_that_gathers_says_what_it_waits_for() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 3))
    pods = gang_members("g", 2)
    cluster.add(*nodes(1), *pods)
    verdict = explained(cluster, *pods)
    assert (
        verdict["message"] == "waiting for minCount pods from a gang to appear in scheduling queue"
    )


def test_a_gated_pod_is_shown_as_what_holds_its_group() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    pods = gang_members("g", 2)
    pods[0].gate("example.com/wait")
    cluster.add(*nodes(1), *pods)
    verdict = explained(cluster, *pods)
    assert set(verdict["held"]) == {"default/g-0"}
    assert "plan" not in verdict


def test_a_group_of_which_all_pods_are_being_deleted_is_not_tried() -> None:
    cluster = workload_cluster()
    (leaving,) = gang_members("g", 1)
    (gone,) = gang_members("g", 1, first=1)
    cluster.add(*nodes(1), leaving.terminating(), gone.node("n0"), basic("g"))
    verdict = explained(cluster, leaving, gone)
    assert verdict["message"] == "none of its Pods can be placed"
    assert list(verdict["held"]) == ["default/g-0"]


def test_without_the_feature_gate_it_is_said_that_nothing_places_the_group() -> None:
    cluster = Cluster()
    (pod,) = gang_members("g", 1)
    cluster.add(*nodes(1), pod)
    assert "GenericWorkload" in explained(cluster, pod)["message"]


def test_a_pod_is_explained_together_with_its_group() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 5))
    pods = gang_members("g", 5)
    cluster.add(*nodes(1), *pods)
    explainer = GroupExplainer(cluster.core.profiles, cluster.world, cluster.core.placers)
    first, last = (explainer.of_pod(pods[i].obj()) for i in (0, 4))
    assert first["name"] == "default/g"
    assert "minCount (5) cannot be satisfied" in first["message"]
    assert last["message"].startswith("0/1 nodes are available: 1 Insufficient cpu")


def test_nominated_pods_of_a_gang_stay_nominated() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    first, second = gang_members("g", 2)
    cluster.add(*nodes(1), second, first.nominated("n0"))
    assert len(explained(cluster, first, second)["plan"]) == 2
    assert cluster.nominated(first) == ["n0"]


@pytest.mark.parametrize("name", ["t", "a"])
def test_a_tree_is_explained_by_the_name_of_its_root_or_of_a_group(name: str) -> None:
    zone, rack = ({"topology": [{"key": key}]} for key in ("zone", "rack"))
    cluster = workload_cluster(gates=GATES)
    cluster.add(composite("t", 2, schedulingConstraints=zone), *racks(1, 2, 2, 2))
    cluster.add(*(below(gang(n, 2, schedulingConstraints=rack), "t") for n in "ab"))
    pods = [*gang_members("a", 2), *gang_members("b", 2)]
    cluster.add(*pods)
    verdict = explained(cluster, *pods, group=name)
    assert len(verdict["plan"]) == 4
    assert verdict["domain"] == {"level": "zone", "value": "z1"}
    racks_of = [verdict["subGroups"][f"default/{n}"]["value"] for n in "ab"]
    assert sorted(racks_of) == ["r2", "r3"]
    assert cluster.nodes.pod_count.sum() == 0

"""Pods get their nodes, and what stands in the way is said: the scheduler as deploy/ has it."""

from __future__ import annotations

import pytest

from e2e.cluster import SOON, Cluster, pod
from e2e.provider import NodeSpec, Taint, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("deployed")]

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def test_a_pod_is_placed_where_there_is_room_and_says_so(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("small", cpu="1"), NodeSpec("large", cpu="8"))
    cluster.create(pod("web", cpu="4"))
    assert cluster.wait_bound("web") == {"web": "large"}
    cluster.wait_event("web", "Scheduled", "Successfully assigned bayplan-e2e/web to large")
    wait_until(lambda: cluster.condition("web")["status"] == "True", SOON, "PodScheduled")


def test_a_node_selector_is_obeyed(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("hdd"), NodeSpec("ssd", labels={"disk": "ssd"}))
    cluster.create(pod("db", nodeSelector={"disk": "ssd"}))
    assert cluster.wait_bound("db") == {"db": "ssd"}


def test_only_a_pod_that_tolerates_the_taint_gets_the_tainted_node(cluster: Cluster) -> None:
    taint = Taint("team", "ml")
    cluster.nodes(NodeSpec("mine", taints=(taint,)))
    cluster.create(pod("other"))
    cluster.wait_condition(
        "other", text="0/1 nodes are available: 1 node(s) had untolerated taint(s). "
    )
    tolerations = [{"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}]
    cluster.create(pod("ours", tolerations=tolerations))
    assert cluster.wait_bound("ours") == {"ours": "mine"}
    assert cluster.node_of("other") == ""


def test_a_pod_that_fits_nowhere_says_why_in_event_and_condition(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("full", cpu="1"), NodeSpec("cordoned", unschedulable=True))
    cluster.create(pod("big", cpu="2"))
    message = cluster.wait_condition(
        "big",
        text=(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
            "preemption: 0/2 nodes are available: "
            f"2 {NOT_HELPFUL}."
        ),
    )
    cluster.wait_event("big", "FailedScheduling", message)


def test_a_waiting_pod_is_woken_by_a_new_node(cluster: Cluster) -> None:
    cluster.create(pod("early"))
    cluster.wait_condition("early", text="no nodes available to schedule pods")
    cluster.nodes(NodeSpec("late"))
    assert cluster.wait_bound("early") == {"early": "late"}


def test_a_waiting_pod_is_woken_when_its_node_is_uncordoned(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("only", unschedulable=True))
    cluster.create(pod("patient"))
    cluster.wait_condition("patient", text="1 node(s) were unschedulable")
    cluster.patch_node("only", unschedulable=None)
    cluster.wait_bound("patient")


def test_a_waiting_pod_is_woken_when_another_ends(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("only", cpu="1"))
    cluster.create(pod("first", cpu="1"))
    cluster.wait_bound("first")
    cluster.create(pod("second", cpu="1"))
    cluster.wait_condition("second", text="1 Insufficient cpu")
    cluster.delete("first")
    cluster.wait_bound("second")


def test_a_waiting_pod_is_woken_when_its_own_toleration_comes(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("tainted", taints=(Taint("a"),)))
    cluster.create(pod("p"))
    cluster.wait_condition("p", text="untolerated taint")
    tolerations = [*cluster.pod("p")["spec"]["tolerations"], {"key": "a", "operator": "Exists"}]
    cluster.patch("p", tolerations=tolerations)
    cluster.wait_bound("p")


def test_a_gated_pod_waits_until_its_gate_is_removed(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("free"))
    cluster.create(pod("gated", schedulingGates=[{"name": "example.com/quota"}]))
    cluster.create(pod("later"))
    cluster.wait_bound("later")
    assert cluster.condition("gated")["reason"] == "SchedulingGated"
    assert cluster.node_of("gated") == ""
    cluster.patch("gated", schedulingGates=None)
    cluster.wait_bound("gated")


def test_a_pod_of_another_scheduler_is_left_alone(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("free"))
    cluster.create(pod("foreign", scheduler="somebody-else"))
    cluster.create(pod("own"))
    cluster.wait_bound("own")
    assert cluster.node_of("foreign") == ""
    assert cluster.condition("foreign") == {}


def test_a_pod_with_the_name_of_a_deleted_one_is_another_pod(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("only", cpu="1"))
    cluster.create(pod("web", cpu="1"))
    cluster.wait_bound("web")
    cluster.delete("web")
    cluster.create(pod("web", cpu="1"))
    assert cluster.wait_bound("web") == {"web": "only"}
    assert cluster.overcommitted() == {}


def test_pods_on_a_node_that_is_removed_free_nothing_elsewhere(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", cpu="1"))
    cluster.create(pod("one", cpu="1"), pod("two", cpu="1"))
    nodes = cluster.wait_bound("one", "two")
    cluster.create(pod("three", cpu="1"))
    cluster.wait_condition("three", text="2 Insufficient cpu")
    cluster.api.delete_node(nodes["one"], _preload_content=False)
    cluster.create(pod("four", cpu="1"))
    cluster.wait_condition("four", text="1 Insufficient cpu")
    assert cluster.node_of("three") == ""


def test_nothing_is_overcommitted_by_three_hundred_pods_on_thirty_nodes(cluster: Cluster) -> None:
    """Room for 10 Pods of this size a node, so for exactly all of them."""
    cluster.nodes(*(NodeSpec(f"n{i}", cpu="4", memory="8Gi", zone="abc"[i % 3]) for i in range(30)))
    names = cluster.create(*(pod(f"p{i}", cpu="400m", memory="500Mi") for i in range(300)))
    nodes = cluster.wait_bound(*names)
    assert len(nodes) == 300
    assert cluster.overcommitted() == {}
    cluster.create(pod("one-too-many", cpu="400m"))
    cluster.wait_condition("one-too-many", text="0/30 nodes are available: 30 Insufficient cpu")

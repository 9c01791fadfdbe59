"""Pods of high priority take the place of lower ones, as PodDisruptionBudgets allow."""

from __future__ import annotations

import pytest

from e2e.cluster import SOON, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("deployed", "priorities")]


def low(name, **more):
    return pod(name, priorityClassName="e2e-low", **more)


def high(name, **more):
    return pod(name, priorityClassName="e2e-high", **more)


def test_a_pod_takes_the_place_of_one_of_lower_priority(cluster):
    cluster.nodes(NodeSpec("only", cpu="2"))
    cluster.create(low("victim", cpu="2"))
    cluster.wait_bound("victim")
    cluster.create(high("urgent", cpu="1"))
    assert cluster.wait_bound("urgent") == {"urgent": "only"}
    wait_until(lambda: "victim" not in cluster.pods(), SOON, "the end of the victim")
    notes = dict(cluster.events("urgent"))
    assert notes["FailedScheduling"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_the_victim_is_told_why_and_the_preemptor_is_nominated_while_it_ends(cluster):
    """A finalizer keeps the victim visible: it has been told to end, but has not."""
    cluster.nodes(NodeSpec("only", cpu="2"))
    victim = low("victim", cpu="2")
    victim["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(victim)
    cluster.wait_bound("victim")
    cluster.create(high("urgent", cpu="1"))
    wait_until(
        lambda: cluster.pod("victim")["metadata"].get("deletionTimestamp"), SOON, "its deletion"
    )
    conditions = {c["type"]: c for c in cluster.pod("victim")["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    wait_until(
        lambda: cluster.pod("urgent")["status"].get("nominatedNodeName") == "only",
        SOON,
        "its nomination",
    )
    cluster.wait_event("victim", "Preempted", "Preempted by pod")
    cluster.api.patch_namespaced_pod(
        "victim", cluster.namespace, {"metadata": {"finalizers": None}}, _preload_content=False
    )
    cluster.wait_bound("urgent")


def test_a_disruption_budget_protects_its_pods_as_long_as_others_will_do(cluster):
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    from kubernetes import client  # noqa: PLC0415

    policy = client.PolicyV1Api(cluster.api.api_client)
    policy.create_namespaced_pod_disruption_budget(
        cluster.namespace, {"metadata": {"name": "guard"}, "spec": budget}, _preload_content=False
    )
    cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", cpu="1"))
    cluster.create(low("guarded", labels={"app": "guarded"}, cpu="1"))
    cluster.wait_bound("guarded")
    cluster.create(low("free", cpu="1"))
    cluster.wait_bound("free")
    cluster.create(high("urgent", cpu="1"))
    cluster.wait_bound("urgent")
    assert {"guarded", "urgent"} == cluster.pods().keys()
    policy.delete_namespaced_pod_disruption_budget(
        "guard", cluster.namespace, _preload_content=False
    )


def test_a_pod_that_is_never_to_preempt_waits(cluster):
    cluster.nodes(NodeSpec("only", cpu="1"))
    cluster.create(low("lucky", cpu="1"))
    cluster.wait_bound("lucky")
    cluster.create(pod("polite", priorityClassName="e2e-polite", cpu="1"))
    message = cluster.wait_condition("polite", text="1 Insufficient cpu")
    assert "not eligible due to preemptionPolicy=Never" in message
    assert cluster.node_of("lucky") == "only"

"""Preemption on the real API server: budgets, conditions, events, nominations, deletions.

Each scenario runs under bayplan and under kube-scheduler: what is expected holds for both. Pods
have priority 0 unless they are given another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import NAME, SOON, Bayplan, Cluster, Json, pod
from e2e.messages import as_if_alone
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

HOLD = "example.com/hold"
HOST = "kubernetes.io/hostname"
NO_VICTIMS = "No preemption victims found for incoming pod"


@pytest.fixture
def new(scheduler: str) -> Callable[..., Json]:
    """A Pod for the scheduler in question: ``new(name, level, node, ...)``."""

    def made(name: str, level: Any = "", on: Any = "", **more: Any) -> Any:
        if level:
            more["priorityClassName"] = f"e2e-{level}"
        if on:
            more["nodeSelector"] = {HOST: on}
        return pod(name, scheduler, **more)

    return made


@pytest.fixture
def held(cluster: Cluster) -> Iterator[Callable[..., Any]]:
    """Make a Pod stay, once it has been told to end, until ``let_go``."""

    def holding(victim: Json) -> Any:
        victim["metadata"]["finalizers"] = [HOLD]
        return victim

    yield holding
    for name, left in cluster.pods().items():
        if HOLD in left["metadata"].get("finalizers", ()):
            let_go(cluster, name)


def let_go(cluster: Cluster, name: str) -> None:
    body = {"metadata": {"finalizers": None}}
    cluster.api.patch_namespaced_pod(name, cluster.namespace, body, _preload_content=False)


@pytest.fixture
def guard(cluster: Cluster) -> Iterator[Callable[..., Any]]:
    """A PodDisruptionBudget that lets no Pod labelled app=guarded go; see `in_force`."""
    from kubernetes import client  # noqa: PLC0415

    api: Any = client.PolicyV1Api(cluster.api.api_client)
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}}

    def made(pods: Any) -> None:
        body = {"metadata": {"name": "guard"}, "spec": spec}
        api.create_namespaced_pod_disruption_budget(cluster.namespace, body, _preload_content=False)
        wait_until(lambda: healthy() == pods, SOON, "the budget in force")

    def healthy() -> Any:
        found = api.read_namespaced_pod_disruption_budget("guard", cluster.namespace)
        return found.status.current_healthy

    yield made
    api.delete_namespaced_pod_disruption_budget("guard", cluster.namespace, _preload_content=False)


def events_about(cluster: Cluster, uid: str, reason: str) -> Any:
    found = json.loads(cluster.kubectl("get", "events", "-o=json", namespace=cluster.namespace))
    about = (e for e in found["items"] if e["involvedObject"].get("uid") == uid)
    return [e for e in about if e["reason"] == reason]


def wait_preempted(cluster: Cluster, victim: Json, preemptor: Any, node: str) -> None:
    """Wait for the event that tells the victim who took its place."""
    uid = victim["metadata"]["uid"]
    (event,) = wait_until(lambda: events_about(cluster, uid, "Preempted"), SOON, "event Preempted")
    assert event["message"] == f"Preempted by pod {preemptor['metadata']['uid']} on node {node}"
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    by = preemptor["spec"]["schedulerName"]
    assert event["reportingComponent"] == by
    if by == NAME:  # kube-scheduler means to say so, too, but its recorder does not know the type
        assert event["related"]["uid"] == preemptor["metadata"]["uid"]


def wait_ending(cluster: Cluster, name: str) -> None:
    wait_until(lambda: "deletionTimestamp" in cluster.pod(name)["metadata"], SOON, f"end of {name}")


def evicting(node: str) -> Any:
    """What a Pod's message ends with when its preemption has found one victim on `node`."""
    return f"preemption: found a potential placement for pod on node {node}, preempting 1 victims"


def wait_nominated(cluster: Cluster, name: str, node: str) -> None:
    wait_until(
        lambda: cluster.pod(name)["status"].get("nominatedNodeName", "") == node,
        SOON,
        f"{name} nominated for {node!r}",
    )


def test_a_victim_that_no_budget_protects_is_chosen_though_it_matters_more(
    cluster: Cluster, new: Callable[..., Json], guard: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a", cpu="2"), NodeSpec("b", cpu="2"))
    cluster.create(
        new("guarded", on="a", cpu="2", labels={"app": "guarded"}),
        new("free", "mid", on="b", cpu="2"),
    )
    cluster.wait_bound("guarded", "free")
    guard(1)
    free = cluster.pod("free")
    cluster.create(new("vip", "vip", cpu="2"))
    assert cluster.wait_bound("vip") == {"vip": "b"}
    assert sorted(cluster.pods()) == ["guarded", "vip"], "the victim is really gone"
    vip = cluster.pod("vip")
    wait_preempted(cluster, free, vip, "b")
    (event,) = events_about(cluster, vip["metadata"]["uid"], "FailedScheduling")
    message = f"0/2 nodes are available: 2 Insufficient cpu. {evicting('b')}"
    assert as_if_alone(event["message"], message, cluster.others) == message
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    cluster.wait_event("vip", "Scheduled", f"assigned {cluster.namespace}/vip to b")


def test_a_budget_does_not_protect_where_nobody_else_will_do(
    cluster: Cluster, new: Callable[..., Json], guard: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("only", cpu="2"))
    cluster.create(new("guarded", cpu="2", labels={"app": "guarded"}))
    cluster.wait_bound("guarded")
    guard(1)
    cluster.create(new("vip", "vip", cpu="2"))
    cluster.wait_bound("vip")
    assert sorted(cluster.pods()) == ["vip"]


def test_the_preemptor_keeps_its_nomination_and_its_place_while_the_victim_ends(
    cluster: Cluster, new: Callable[..., Json], held: Callable[..., Any], scheduler: str
) -> None:
    cluster.nodes(NodeSpec("a", cpu="3"))
    cluster.create(held(new("slow", cpu="2")))
    cluster.wait_bound("slow")
    cluster.create(new("vip", "vip", cpu="3"))
    wait_ending(cluster, "slow")
    slow = cluster.pod("slow")
    condition = next(c for c in slow["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == f"{scheduler}: preempting to accommodate a higher priority pod"
    wait_nominated(cluster, "vip", "a")
    wait_preempted(cluster, slow, cluster.pod("vip"), "a")
    message = f"0/1 nodes are available: 1 Insufficient cpu. {evicting('a')}"
    cluster.wait_condition("vip", text=message)

    # One CPU is free, but it is promised: a Pod of lower priority does not get it.
    cluster.create(new("thief", "mid", cpu="1"))
    cluster.wait_condition(
        "thief",
        text=(
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: 0/1 nodes are available: 1 Insufficient cpu."
        ),
    )
    assert cluster.pod("vip")["status"]["nominatedNodeName"] == "a"
    assert cluster.node_of("vip") == ""

    let_go(cluster, "slow")
    assert cluster.wait_bound("vip") == {"vip": "a"}
    assert sorted(cluster.pods()) == ["thief", "vip"]
    assert cluster.node_of("thief") == ""


def test_a_nominated_pod_takes_room_that_comes_up_elsewhere(
    cluster: Cluster, new: Callable[..., Json], held: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", cpu="1"))
    cluster.create(held(new("slow", on="a", cpu="1")), new("peer", "vip", on="b", cpu="1"))
    cluster.wait_bound("slow", "peer")
    cluster.create(new("vip", "vip", cpu="1"))
    wait_nominated(cluster, "vip", "a")
    wait_ending(cluster, "slow")  # until then it is not tried, whatever happens
    cluster.delete("peer")
    assert cluster.wait_bound("vip") == {"vip": "b"}


def test_a_pod_of_higher_priority_takes_over_the_nominated_node(
    cluster: Cluster, new: Callable[..., Json], held: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("only", cpu="2"))
    cluster.create(held(new("v1", cpu="1")), held(new("v2", "mid", cpu="1")))
    cluster.wait_bound("v1", "v2")
    cluster.create(new("middle", "mid", cpu="1"))
    wait_nominated(cluster, "middle", "only")
    cluster.create(new("vip", "vip", cpu="2"))
    wait_nominated(cluster, "vip", "only")
    wait_nominated(cluster, "middle", "")
    wait_ending(cluster, "v2")
    let_go(cluster, "v1")
    let_go(cluster, "v2")
    cluster.wait_bound("vip")
    assert cluster.node_of("middle") == ""


def test_a_pod_that_evicts_nobody_waits_for_room(
    cluster: Cluster, new: Callable[..., Json]
) -> None:
    cluster.nodes(NodeSpec("a", cpu="1"))
    cluster.create(new("first", cpu="1"))
    cluster.wait_bound("first")
    cluster.create(new("meek", "meek", cpu="1"))
    cluster.wait_condition(
        "meek",
        text=(
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: not eligible due to preemptionPolicy=Never."
        ),
    )
    assert sorted(cluster.pods()) == ["first", "meek"]
    cluster.delete("first")
    assert cluster.wait_bound("meek") == {"meek": "a"}


def test_nobody_is_evicted_for_a_pod_of_the_same_priority(
    cluster: Cluster, new: Callable[..., Json]
) -> None:
    cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", unschedulable=True))
    cluster.create(new("first", "vip", cpu="1"))
    cluster.wait_bound("first")
    cluster.create(new("second", "vip", cpu="1"))
    cluster.wait_condition(
        "second",
        text=(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
            "preemption: 0/2 nodes are available: "
            f"1 {NO_VICTIMS}, 1 Preemption is not helpful for scheduling."
        ),
    )


def test_only_those_in_the_way_are_evicted_and_the_least_important_of_them(
    cluster: Cluster, new: Callable[..., Json]
) -> None:
    cluster.nodes(NodeSpec("only", cpu="4"))
    cluster.create(new("mid", "mid", cpu="1"), new("idle"), new("big", cpu="2"), new("x", cpu="1"))
    cluster.wait_bound("mid", "idle", "big", "x")
    cluster.create(new("vip", "vip", cpu="2"))
    cluster.wait_bound("vip")
    assert sorted(cluster.pods()) == ["idle", "mid", "vip", "x"]


def test_who_must_not_be_near_is_evicted(cluster: Cluster, new: Callable[..., Json]) -> None:
    cluster.nodes(NodeSpec("only"))
    cluster.create(new("noisy", labels={"app": "noisy"}), new("neighbour"))
    cluster.wait_bound("noisy", "neighbour")
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.create(new("vip", "vip", affinity=apart))
    cluster.wait_bound("vip")
    assert sorted(cluster.pods()) == ["neighbour", "vip"]


def test_many_preemptors_evict_no_more_than_they_need(
    cluster: Cluster, new: Callable[..., Json]
) -> None:
    names = [f"n{i}" for i in range(8)]
    cluster.nodes(*(NodeSpec(name, cpu="4") for name in names))
    cluster.wait_bound(*cluster.create(*(new(f"low-{i}", cpu="1") for i in range(32))))
    high = cluster.create(*(new(f"high-{i}", "vip", cpu="3") for i in range(8)))
    assert sorted(cluster.wait_bound(*high).values()) == names
    assert len([name for name in cluster.pods() if name.startswith("low-")]) == 8
    assert cluster.overcommitted() == {}


def test_a_victim_that_still_waits_in_permit_only_loses_its_place(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    """For bayplan alone: kube-scheduler comes with no plugin that makes a Pod wait."""
    holding = ROOT / "e2e" / "hold"
    start(holding / "config.yaml", holding)
    cluster.nodes(NodeSpec("only", cpu="1"))
    cluster.create(pod("waits", "hold", {"hold": "waits"}, cpu="1"))
    wait_nominated(cluster, "waits", "only")
    waits = cluster.pod("waits")
    cluster.create(pod("vip", "hold", priorityClassName="e2e-vip", cpu="1"))
    assert cluster.wait_bound("vip") == {"vip": "only"}
    note = f"Preempted by pod {cluster.pod('vip')['metadata']['uid']} on node only"
    cluster.wait_event("waits", "Preempted", f"{note} (in kube-scheduler memory).")
    now = cluster.pod("waits")
    assert now["metadata"]["uid"] == waits["metadata"]["uid"]
    assert "deletionTimestamp" not in now["metadata"]
    assert now["spec"].get("nodeName", "") == ""
    cluster.wait_condition("waits", text="1 Insufficient cpu")

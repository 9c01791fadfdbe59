"""Preemption on the real API server: budgets, conditions, events, nominations, deletions."""

from __future__ import annotations

import json

import pytest

from e2e.cluster import SOON, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("deployed", "classes")]

HOLD = "example.com/hold"


def object_of(kind, name, version="v1", **fields):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}} | fields


@pytest.fixture(scope="module")
def apply(shared, tmp_path_factory):
    """Apply objects in the namespace of the Pods."""
    folder = tmp_path_factory.mktemp("objects")

    def applied(*objects):
        path = folder / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        shared.apply(path)

    return applied


@pytest.fixture(scope="module")
def classes(shared, apply):
    version = "scheduling.k8s.io/v1"
    apply(
        object_of("PriorityClass", "e2e-low", version, value=1),
        object_of("PriorityClass", "e2e-high", version, value=1000),
        object_of("PriorityClass", "e2e-polite", version, value=1000, preemptionPolicy="Never"),
    )
    yield
    shared.kubectl("delete", "priorityclass", "e2e-low", "e2e-high", "e2e-polite")


def with_priority(name, level, **more):
    return pod(name, priorityClassName=f"e2e-{level}", **more)


def on(node):
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def held(victim):
    """The Pod, which stays until the test lets it go."""
    victim["metadata"]["finalizers"] = [HOLD]
    return victim


def let_go(cluster, name):
    body = {"metadata": {"finalizers": None}}
    cluster.api.patch_namespaced_pod(name, cluster.namespace, body, _preload_content=False)


def events_about(cluster, uid):
    found = json.loads(cluster.kubectl("get", "events", "-o=json", namespace=cluster.namespace))
    return [e for e in found["items"] if e["involvedObject"].get("uid") == uid]


def wait_preempted(cluster, victim, preemptor, node):
    note = f"Preempted by pod {preemptor['metadata']['uid']} on node {node}"

    def told():
        events = events_about(cluster, victim["metadata"]["uid"])
        return [e for e in events if (e["reason"], e["message"]) == ("Preempted", note)]

    (event,) = wait_until(told, SOON, f"event Preempted of {victim['metadata']['name']}")
    assert event["type"] == "Normal"
    assert event["action"] == "Preempting"
    assert event["related"]["name"] == preemptor["metadata"]["name"]
    assert event["reportingComponent"] == "bayplan"


def test_a_victim_that_no_budget_protects_is_chosen_and_deleted(cluster, apply):
    cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", cpu="1"))
    cluster.create(
        with_priority("guarded", "low", cpu="1", labels={"app": "guarded"}, **on("a")),
        with_priority("free", "low", cpu="1", **on("b")),
    )
    cluster.wait_bound("guarded", "free")
    apply(
        object_of(
            "PodDisruptionBudget",
            "guard",
            "policy/v1",
            spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        )
    )

    def in_force():
        args = ("get", "pdb", "guard", "-o=jsonpath={.status.currentHealthy}")
        return cluster.kubectl(*args, namespace=cluster.namespace) == "1"

    wait_until(in_force, SOON, "the budget")
    free = cluster.pod("free")
    cluster.create(with_priority("vip", "high", cpu="1"))
    assert cluster.wait_bound("vip") == {"vip": "b"}
    assert sorted(cluster.pods()) == ["guarded", "vip"]
    wait_preempted(cluster, free, cluster.pod("vip"), "b")
    cluster.kubectl("delete", "pdb", "guard", namespace=cluster.namespace)


def test_a_preemptor_waits_on_its_nominated_node_until_its_victim_is_gone(cluster):
    cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", cpu="1"))
    cluster.create(held(with_priority("slow", "low", cpu="1", **on("a"))))
    cluster.create(with_priority("peer", "high", cpu="1", **on("b")))
    cluster.wait_bound("slow", "peer")
    cluster.create(with_priority("vip", "high", cpu="1"))

    wait_until(lambda: "deletionTimestamp" in cluster.pod("slow")["metadata"], SOON, "deletion")
    condition = next(
        c for c in cluster.pod("slow")["status"]["conditions"] if c["type"] == "DisruptionTarget"
    )
    assert condition["status"] == "True"
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["message"] == "bayplan: preempting to accommodate a higher priority pod"

    def nominated():
        return cluster.pod("vip")["status"].get("nominatedNodeName")

    wait_until(lambda: nominated() == "a", SOON, "the nomination")
    message = cluster.wait_condition("vip")
    assert message == "0/2 nodes are available: 2 Insufficient cpu.", "success adds nothing"

    # While it waits, neither a Pod of lower priority nor another victim can come between.
    cluster.create(with_priority("late", "low", cpu="1"))
    cluster.wait_condition("late")
    cluster.delete("peer")
    assert cluster.wait_bound("vip") == {"vip": "b"}, "room elsewhere is taken as well"
    let_go(cluster, "slow")
    assert cluster.wait_bound("late") == {"late": "a"}


def test_a_pod_that_must_not_preempt_waits_for_room(cluster):
    cluster.nodes(NodeSpec("a", cpu="1"))
    cluster.create(with_priority("first", "low", cpu="1"))
    cluster.wait_bound("first")
    cluster.create(with_priority("polite", "polite", cpu="1"))
    message = cluster.wait_condition("polite")
    assert message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
    assert sorted(cluster.pods()) == ["first", "polite"]
    cluster.delete("first")
    assert cluster.wait_bound("polite") == {"polite": "a"}


def test_many_preemptors_evict_no_more_than_they_need(cluster):
    names = [f"n{i}" for i in range(8)]
    cluster.nodes(*(NodeSpec(name, cpu="4") for name in names))
    low = [with_priority(f"low-{i}", "low", cpu="1") for i in range(32)]
    cluster.wait_bound(*cluster.create(*low))
    high = [with_priority(f"high-{i}", "high", cpu="3") for i in range(8)]
    placed = cluster.wait_bound(*cluster.create(*high), timeout=60)
    assert sorted(placed.values()) == names
    left = [name for name in cluster.pods() if name.startswith("low-")]
    assert len(left) == 8
    assert cluster.overcommitted() == {}

"""Devices: a Pod goes where its claims get theirs, and nobody gets one twice.

The claim controller is the real one, in kube-controller-manager; slices and conditions are the
test's, for no node has a driver. Most scenarios run under bayplan and under kube-scheduler: what is
expected holds for both.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from e2e.cluster import NAME, SOON, Bayplan, Cluster, pod
from e2e.devices import Devices, exactly, pod_using, selected
from e2e.provider import NodeSpec, wait_until
from e2e.test_faults import says_no_traceback

pytestmark = pytest.mark.e2e


def test_a_pod_goes_where_its_claim_gets_a_device(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    devices.gpus("n2", 2)
    devices.claim("mine")
    cluster.create(pod_using("a", scheduler, "mine"))
    assert cluster.wait_bound("a") == {"a": "n2"}
    assert devices.held("mine") == ["n2/gpu-000"]
    claim = devices.claims()["mine"]
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["a"]
    assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]


def test_pods_share_a_claim_and_follow_its_devices(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    devices.gpus("n1", 1)
    devices.claim("shared")
    cluster.create(*(pod_using(name, scheduler, "shared") for name in ("a", "b", "c")))
    assert set(cluster.wait_bound("a", "b", "c").values()) == {"n1"}
    users = devices.claims()["shared"]["status"]["reservedFor"]
    assert {user["name"] for user in users} == {"a", "b", "c"}


def test_a_template_gives_every_pod_devices_of_its_own(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    devices.gpus("n1", 2)
    devices.gpus("n2", 2)
    devices.template("one")
    names = [f"p{n}" for n in range(4)]
    cluster.create(*(pod_using(name, scheduler, template="one") for name in names))
    assert Counter(cluster.wait_bound(*names).values()) == {"n1": 2, "n2": 2}
    assert not devices.taken_twice()
    cluster.create(pod_using("late", scheduler, template="one"))
    cluster.wait_condition("late", text="0/2 nodes are available: 2 cannot allocate all claims. ")
    cluster.delete("p0")
    cluster.wait_bound("late")
    assert not devices.taken_twice()


def test_a_pod_waits_for_its_class(cluster: Cluster, devices: Devices, scheduler: str) -> None:
    cluster.nodes(NodeSpec("n1"))
    devices.gpus("n1", 1)
    devices.claim("mine", {"name": "r", "exactly": {"deviceClassName": "later"}})
    cluster.create(pod_using("a", scheduler, "mine"))
    text = "request r: device class later does not exist"
    cluster.wait_condition("a", text=text)
    devices.device_class("later")
    assert cluster.wait_bound("a") == {"a": "n1"}


def test_a_selector_that_fails_keeps_the_pod_waiting(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    devices.gpus("n1", 1)
    failing = selected('device.attributes["no.example.com"].x == 1')
    devices.claim("mine", exactly(selectors=failing))
    cluster.create(pod_using("a", scheduler, "mine"))
    message = cluster.wait_condition("a", "SchedulerError")
    assert (
        "selector #0 on device gpu.example.com/n1/gpu-000: CEL runtime error: no such key: x"
        in (message)
    )


def test_the_first_alternative_that_can_be_had_is_taken_and_preferred(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    devices.gpus("n1", 1)
    devices.gpus("n2", 2)
    subs = [{"name": f"s{n}", "deviceClassName": "gpu", "count": 2 - n} for n in range(2)]
    devices.template("best", {"name": "r", "firstAvailable": subs})
    cluster.create(pod_using("a", scheduler, template="best"))
    assert cluster.wait_bound("a") == {"a": "n2"}
    cluster.create(pod_using("b", scheduler, template="best"))
    assert cluster.wait_bound("b") == {"b": "n1"}


def test_partitions_share_the_counters_of_their_device(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]

    def partition(name: str, memory: str) -> Any:
        draw = {"counterSet": "card", "counters": {"memory": {"value": memory}}}
        return {"name": name, "consumesCounters": [draw]}

    parts = [partition("whole", "40Gi"), partition("half-1", "20Gi"), partition("half-2", "20Gi")]
    devices.slice("n1", name="sets", count=2, sharedCounters=counters)
    devices.slice("n1", *parts, name="parts", count=2)
    devices.claim("two", exactly(count=2))
    cluster.create(pod_using("a", scheduler, "two"))
    cluster.wait_bound("a")
    assert devices.held("two") == ["n1/half-1", "n1/half-2"]
    devices.claim("three")
    cluster.create(pod_using("b", scheduler, "three"))
    cluster.wait_condition("b", text="1 cannot allocate all claims")


def test_claims_share_the_capacity_of_a_device(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    memory = {"value": "4Gi", "requestPolicy": policy}
    devices.gpus("n1", 1, allowMultipleAllocations=True, capacity={"memory": memory})
    devices.template("part", exactly(capacity={"requests": {"memory": "1500Mi"}}))
    cluster.create(*(pod_using(name, scheduler, template="part") for name in ("a", "b")))
    cluster.wait_bound("a", "b")
    results = [
        result
        for claim in devices.claims().values()
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert [r["consumedCapacity"] for r in results] == [{"memory": "2Gi"}] * 2
    assert len({r["shareID"] for r in results}) == 2
    cluster.create(pod_using("late", scheduler, template="part"))
    cluster.wait_condition("late", text="1 cannot allocate all claims")


def test_a_taint_rule_keeps_pods_off_devices_unless_they_tolerate_it(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    # First of all: nothing says when the scheduler has seen a rule, and the node takes a while.
    taint = {"key": "broken", "effect": "NoSchedule"}
    devices.make("devicetaintrules", "rule", {"deviceSelector": {"pool": "n1"}, "taint": taint})
    cluster.nodes(NodeSpec("n1"))
    devices.gpus("n1", 1)
    devices.claim("mine")
    cluster.create(pod_using("a", scheduler, "mine"))
    cluster.wait_condition("a", text="1 cannot allocate all claims")
    tolerant = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    devices.claim("other", tolerant)
    cluster.create(pod_using("b", scheduler, "other"))
    assert cluster.wait_bound("b") == {"b": "n1"}


CONDITIONAL = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def test_a_pod_is_bound_once_its_devices_are_ready(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    devices.gpus("n1", 1, **CONDITIONAL)
    devices.claim("mine")
    cluster.create(pod_using("a", scheduler, "mine"))
    wait_until(lambda: devices.held("mine"), SOON, "the allocation")
    cluster.wait_event("a", "BindingConditionsPending", "device on node n1")
    assert not cluster.node_of("a")
    devices.report("mine", "ready")
    assert cluster.wait_bound("a") == {"a": "n1"}


def test_a_device_that_fails_is_given_up_for_another(
    cluster: Cluster, devices: Devices, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    devices.slice("n1", {"name": "good"}, pool="sound")
    devices.slice("n1", {"name": "bad", **CONDITIONAL}, pool="faulty")
    devices.claim("mine", exactly(selectors=selected("true")), exactly("r2"))
    cluster.create(pod_using("a", scheduler, "mine"))
    wait_until(lambda: devices.held("mine"), SOON, "the allocation")
    assert devices.held("mine") == ["sound/good", "faulty/bad"]
    devices.slice("n1", {"name": "spare"}, pool="spare")
    devices.report("mine", "broken")
    assert cluster.wait_bound("a", timeout=3 * SOON) == {"a": "n1"}
    assert devices.held("mine") == ["sound/good", "spare/spare"]


@pytest.mark.parametrize("implicit", [False, True], ids=["named by the class", "by its name"])
def test_a_pod_that_asks_for_a_resource_gets_devices_of_the_class_behind_it(
    cluster: Cluster, devices: Devices, scheduler: str, implicit: bool
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    devices.gpus("n2", 1)
    devices.device_class("behind", extendedResourceName="example.com/gpu")
    resource = "deviceclass.resource.kubernetes.io/behind" if implicit else "example.com/gpu"
    amounts = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    for name in ("a", "b"):
        asking = pod(name, scheduler)
        asking["spec"]["containers"][0]["resources"] = amounts
        cluster.create(asking)
        if name == "a":
            assert cluster.wait_bound("a") == {"a": "n2"}
    (claim,) = devices.claims().values()
    assert claim["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    named = cluster.pod("a")["status"]["extendedResourceClaimStatus"]
    assert named["resourceClaimName"] == claim["metadata"]["name"]
    cluster.wait_condition("b", text="2 cannot allocate all claims")
    cluster.delete("a")
    assert cluster.wait_bound("b") == {"b": "n2"}


@pytest.mark.usefixtures("deployed")
def test_all_devices_of_all_nodes_are_used_and_none_twice(
    cluster: Cluster, devices: Devices
) -> None:
    nodes = [f"n{n}" for n in range(8)]
    cluster.nodes(*(NodeSpec(name) for name in nodes))
    for name in nodes:
        devices.gpus(name, 25)
    devices.template("one")
    pods = [f"p{n:03}" for n in range(200)]
    cluster.create(*(pod_using(name, NAME, template="one") for name in pods))
    assert Counter(cluster.wait_bound(*pods, timeout=6 * SOON).values()) == dict.fromkeys(nodes, 25)
    assert not devices.taken_twice()


def test_a_device_that_another_scheduler_gave_away_too_is_given_back(
    cluster: Cluster, devices: Devices, deployed: Bayplan
) -> None:
    cluster.nodes(NodeSpec("n1"))
    devices.slice("n1", {"name": "wanted", **CONDITIONAL}, pool="first")
    devices.claim("mine")
    cluster.create(pod_using("a", NAME, "mine"))
    wait_until(lambda: devices.held("mine"), SOON, "the allocation")
    devices.claim("foreign")
    cluster.create(pod_using("theirs", "nobody", "foreign"))
    devices.allocate_as("foreign", "mine", cluster.pod("theirs"))
    wait_until(lambda: not devices.held("mine"), SOON, "the end of the allocation")
    assert deployed.lines("A device is allocated to several claims")
    labels = {"plugin": "DynamicResources", "name": "device_in_two_claims"}
    assert deployed.metric("bayplan_plugin_events_total", **labels) >= 1
    devices.slice("n1", {"name": "other"}, pool="second")
    assert cluster.wait_bound("a") == {"a": "n1"}
    assert devices.held("mine") == ["second/other"]


def test_no_device_is_given_twice_though_the_api_server_is_killed_meanwhile(own: Cluster) -> None:
    devices = Devices(own)
    devices.device_class()
    nodes = [f"n{n}" for n in range(8)]
    own.nodes(*(NodeSpec(name) for name in nodes))
    for name in nodes:
        devices.gpus(name, 10)
    devices.template("one")
    # Slow enough for the fault to come in the middle.
    bayplan = own.bayplan(own.config(clientConnection={"qps": 40, "burst": 1}))
    bayplan.start()
    pods = [f"p{n:03}" for n in range(80)]
    try:
        own.create(*(pod_using(name, NAME, template="one") for name in pods))
        wait_until(lambda: sum(map(bool, map(own.node_of, pods))) >= 8, SOON, "the first bindings")
        api_server = own.plane.parts["kube-apiserver"]
        api_server.kill()
        api_server.start()
        placed = Counter(own.wait_bound(*pods, timeout=6 * SOON).values())
        assert placed == dict.fromkeys(nodes, 10)
        assert not devices.taken_twice()
        # A claim made twice by the claim controller, when its server was killed, has nothing.
        claims = {n: one["status"] for n, one in devices.claims().items() if one.get("status")}
        assert len(claims) == len(pods)
        for name, status in claims.items():
            users = [user["name"] for user in status["reservedFor"]]
            assert len(users) == 1, name
            assert devices.held(name)[0].startswith(f"{own.node_of(users[0])}/")
        assert says_no_traceback(bayplan)
    finally:
        bayplan.kill()
        own.clear()
        devices.clear()

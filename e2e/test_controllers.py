"""The controllers on a real API server, with the permissions that deploy/ gives them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import OTHER, SOON, SYSTEM, Bayplan, Cluster, Json, pod
from e2e.controllers import ACCOUNT, Controllers, install
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

LABEL = "scheduling.x-k8s.io/pod-group"
MEMBERS = 3


@pytest.fixture
def two(cluster: Cluster) -> Iterator[list[Controllers]]:
    """Two processes, started before there are CRDs where no other test has made them."""
    install(cluster, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    running = [Controllers(cluster, number).start() for number in range(2)]
    install(cluster, "CustomResourceDefinition")
    for plural in ("podgroups.scheduling.x-k8s.io", "elasticquotas.scheduling.x-k8s.io"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{plural}", "--timeout=300s")
    cluster.kubectl("wait", "--for=condition=Established", "crd/queues.bayplan.dev")
    yield running
    for one in running:
        one.stop()
    cluster.kubectl("delete", "podgroups,elasticquotas", "--all", namespace=cluster.namespace)
    cluster.kubectl("delete", "queues", "--all")
    cluster.kubectl("delete", "lease", ACCOUNT, "--ignore-not-found", namespace=SYSTEM)


def create(cluster: Cluster, kind: str, name: str, **spec: object) -> None:
    """Create an object of a CRD."""
    version = "bayplan.dev/v1alpha1" if kind == "Queue" else "scheduling.x-k8s.io/v1alpha1"
    metadata = {"name": name}
    document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    cluster.put(document)


def wait_status(cluster: Cluster, kind: str, name: str, **wanted: object) -> Json:
    """Wait until these fields of the status are so, and return the status."""

    def status() -> Json | None:
        text = cluster.kubectl("get", kind, name, "-o=json", namespace=cluster.namespace)
        found: Json = json.loads(text).get("status", {})
        return found if {field: found.get(field) for field in wanted} == wanted else None

    return wait_until(status, SOON, f"{kind} {name} with {wanted}")


def test_sigterm_ends_them_and_the_lease_is_given_up(
    cluster: Cluster, two: list[Controllers]
) -> None:
    def holder() -> str:
        arguments = ("get", "lease", ACCOUNT, "--ignore-not-found", "-o=json")
        lease = cluster.kubectl(*arguments, namespace=SYSTEM)
        return str(json.loads(lease)["spec"]["holderIdentity"]) if lease else ""

    wait_until(holder, SOON, "one that leads")
    for one in two:
        one.signal(signal.SIGTERM)
    wait_until(lambda: not any(one.running for one in two), SOON, "the end of both")
    assert holder() == ""


def test_statuses_follow_the_pods_whoever_leads(cluster: Cluster, two: list[Controllers]) -> None:
    cluster.nodes(NodeSpec("c1", cpu="8"))
    create(cluster, "PodGroup", "gang", minMember=MEMBERS)
    create(cluster, "ElasticQuota", "quota", min={"cpu": "1"}, max={"cpu": "8"})
    names = {"kubernetes.io/metadata.name": cluster.namespace}
    create(cluster, "Queue", "team", namespaceSelector={"matchLabels": names}, limit={"cpu": "8"})
    wait_status(cluster, "podgroup", "gang", phase="Pending")

    pods = [pod(f"gang-{i}", OTHER, {LABEL: "gang"}, cpu="1") for i in range(MEMBERS)]
    cluster.create(*pods)
    wait_status(cluster, "podgroup", "gang", phase="Scheduling", running=0)
    wait_status(cluster, "queue", "team", pending=MEMBERS, used={})

    two[0].kill()  # whether it led or not, one that works is left
    for i in range(MEMBERS):
        cluster.bind(f"gang-{i}", "c1")
    wait_status(cluster, "podgroup", "gang", phase="Running", running=MEMBERS)
    wait_status(cluster, "elasticquota", "quota", used={"cpu": str(MEMBERS)})
    status = wait_status(cluster, "queue", "team", pending=0)
    assert status["used"]["cpu"] == str(MEMBERS)
    assert status["conditions"][0]["status"] == "True"

    cluster.delete("gang-0")
    wait_status(cluster, "podgroup", "gang", phase="Pending")
    wait_status(cluster, "elasticquota", "quota", used={"cpu": str(MEMBERS - 1)})
    finalizers = cluster.kubectl(
        "get", "podgroup", "gang", "-o=jsonpath={.metadata.finalizers}", namespace=cluster.namespace
    )
    assert not finalizers

    statuses: list[Json] = []

    def is_idle() -> bool:
        text = cluster.kubectl("get", "queue", "team", "-o=json")
        statuses.append(json.loads(text)["status"])
        return bool(statuses[-1]["used"] == {})

    cluster.clear()
    wait_until(is_idle, SOON, "the queue unused")
    assert all(isinstance(status["used"], dict) for status in statuses), "never null"


@pytest.mark.usefixtures("two")
def test_queues_say_while_a_node_is_lost_that_guarantees_exceed_the_room(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    first = {"enabled": [{"name": "FairShare"}]}
    plugins = {"multiPoint": first, "postFilter": first, "podGroupPostFilter": first}
    start(cluster.config(profiles=[{"schedulerName": OTHER, "plugins": plugins}]))
    lost = NodeSpec("c2", gpus=6)
    cluster.nodes(NodeSpec("c1", gpus=4), lost)
    names = {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}
    create(cluster, "Queue", "a", guaranteed={"nvidia.com/gpu": 8}, namespaceSelector=names)
    create(cluster, "Queue", "b", guaranteed={"nvidia.com/gpu": 2})
    create(cluster, "Queue", "c")
    holds = pod("holds", OTHER, nodeSelector={"kubernetes.io/hostname": "c1"})
    holds["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    cluster.create(holds)
    cluster.wait_bound("holds")

    def above(name: str) -> list[str]:
        status = json.loads(cluster.kubectl("get", "queue", name, "-o=json")).get("status", {})
        conditions = status.get("conditions", ())
        return [c["message"] for c in conditions if c["type"] == "GuaranteedAboveRoom"]

    def told() -> set[str]:
        fields = "involvedObject.kind=Queue,reason=GuaranteedAboveRoom"
        found = cluster.kubectl("get", "events", f"--field-selector={fields}", "-o=json")
        return {event["involvedObject"]["name"] for event in json.loads(found)["items"]}

    text = "spec.guaranteed.nvidia.com/gpu: guaranteed to all: 10, there is: 4. "
    wait_until(lambda: not above("a") and not above("b"), SOON, "nothing above the room")
    cluster.api.delete_node("c2")
    wait_until(lambda: above("a") and above("b"), SOON, "the condition on both")
    assert all(above(name)[0].startswith(text) for name in "ab")
    assert above("c") == []
    wait_until(lambda: told() == {"a", "b"}, SOON, "events on both")
    cluster.nodes(lost)
    wait_until(lambda: not above("a") and not above("b"), SOON, "the end of the condition")
    assert cluster.node_of("holds")

"""PodGroups of Kubernetes on a real API server that has the gate GenericWorkload."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import yaml

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.programs import OTHER_KUBE_SCHEDULER, is_reference

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not is_reference(), reason=OTHER_KUBE_SCHEDULER),
]

GATE = "--feature-gates=GenericWorkload=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true"


@pytest.fixture(scope="module")
def workload_cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A control plane that serves PodGroups."""
    with ExitStack() as stack:
        yield new_cluster(stack, GATE, SERVED)


@pytest.fixture
def bayplan(workload_cluster: Cluster) -> Iterator[Bayplan]:
    """A scheduler with the gate; no Pod is left behind."""
    cluster = workload_cluster
    running = cluster.bayplan(cluster.config(OTHER), flags=[GATE])
    running.start()
    yield running
    running.stop(grace=15)
    cluster.clear()


def create_gang(cluster: Cluster, name: str, minimum: int) -> None:
    """Make a PodGroup with the policy gang."""
    path = cluster.plane.folder / f"gang-{name}.yaml"
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }
    path.write_text(yaml.safe_dump(group))
    cluster.apply(path)


def members(group: str, number: int) -> list[Json]:
    """Pods of a group, of one CPU each."""
    made = [pod(f"{group}-{i}", OTHER, cpu="1") for i in range(number)]
    for each in made:
        each["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def condition(cluster: Cluster, group: str) -> tuple[str, str, str]:
    """Status, reason and message of PodGroupInitiallyScheduled; empty for none."""
    kind = "podgroups.v1beta1.scheduling.k8s.io"
    found = json.loads(cluster.kubectl("get", kind, group, "-o=json", namespace=cluster.namespace))
    for said in found.get("status", {}).get("conditions", []):
        if said["type"] == "PodGroupInitiallyScheduled":
            return said["status"], said["reason"], said["message"]
    return "", "", ""


def beginnings(cluster: Cluster, group: str, texts: list[str]) -> list[str]:
    """Which of ``texts`` the conditions of a group's Pods contain, each Pod the first one."""
    pods = (name for name in cluster.pods() if name.startswith(f"{group}-"))
    messages = [cluster.condition(name).get("message", "") for name in pods]
    order = ("pod group is unschedulable", *texts)
    return sorted(next((t for t in order if t in message), "") for message in messages)


def test_a_gang_is_bound_as_a_whole_and_one_that_does_not_fit_is_told_why(
    workload_cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster = workload_cluster
    cluster.nodes(NodeSpec("g1", cpu="4"), NodeSpec("g2", cpu="4"))
    create_gang(cluster, "fits", 5)
    create_gang(cluster, "big", 5)
    fits, big = members("fits", 5), members("big", 5)
    cluster.create(*fits)
    cluster.wait_bound(*(each["metadata"]["name"] for each in fits))
    wait_until(lambda: condition(cluster, "fits")[:2] == ("True", "Scheduled"), SOON, "condition")

    cluster.create(*big)
    text = "minCount (5) cannot be satisfied: 3 scheduled"
    wait_until(lambda: text in condition(cluster, "big")[2], SOON, "condition")
    assert condition(cluster, "big")[:2] == ("False", "Unschedulable")
    # Three fit, the fourth does not, and the fifth is not tried any more.
    said = ["Insufficient cpu", "minCount (5)", *["pod group is unschedulable"] * 3]
    wait_until(lambda: beginnings(cluster, "big", said) == said, SOON, "conditions of the Pods")
    assert not any(cluster.node_of(each["metadata"]["name"]) for each in big)

    for each in fits:
        cluster.delete(each["metadata"]["name"])
    cluster.wait_bound(*(each["metadata"]["name"] for each in big))
    wait_until(lambda: condition(cluster, "big")[:2] == ("True", "Scheduled"), SOON, "condition")
    assert bayplan.holds_what_the_api_server_has()

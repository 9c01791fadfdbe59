"""Pods as Kueue holds and releases them, on a real API server; Kueue itself does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.messages import as_if_alone
from e2e.provider import NodeSpec, wait_until
from e2e.test_groups import LABEL, create_group
from e2e.test_tenants import CRDS, PROFILE

pytestmark = pytest.mark.e2e

MANAGED = {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "users"}
GATES = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
TOPOLOGIES: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "topologies.kueue.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
    },
    "spec": {
        "group": "kueue.x-k8s.io",
        "scope": "Cluster",
        "names": {"kind": "Topology", "plural": "topologies", "singular": "topology"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""As far as bayplan reads it."""


@pytest.fixture
def bayplan(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Bayplan]:
    """A scheduler with groups and Queues; a Queue for all namespaces that lets nothing in."""
    cluster.put(TOPOLOGIES)
    name = f"crd/{TOPOLOGIES['metadata']['name']}"
    cluster.kubectl("apply", *CRDS)
    cluster.kubectl("wait", "--for=condition=Established", *CRDS, "--timeout=300s")
    cluster.kubectl("wait", "--for=condition=Established", name, "--timeout=300s")
    spec = {"namespaceSelector": {}, "limit": {"cpu": 0}}
    meta = {"name": "none"}
    document = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "Queue", "metadata": meta}
    cluster.put({**document, "spec": spec})
    yield start(cluster.config(profiles=[PROFILE]))
    cluster.kubectl("delete", "podgroups", "--all", namespace=cluster.namespace)
    cluster.kubectl("delete", "queues", "--all")
    cluster.kubectl("delete", name)


def condition(cluster: Cluster, name: str) -> tuple[str, str]:
    """Reason and message of PodScheduled."""
    found = cluster.pod(name)["status"].get("conditions", ())
    return next(
        ((c.get("reason", ""), c.get("message", "")) for c in found if c["type"] == "PodScheduled"),
        ("", ""),
    )


def release(cluster: Cluster, *names: str, **node_selector: str) -> None:
    """Inject a flavor's selector and take the gates away, in one update as Kueue does."""
    for name in names:
        cluster.patch(name, schedulingGates=None, nodeSelector=node_selector)


def test_pods_are_placed_by_the_selectors_that_they_are_released_with(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(
        NodeSpec("spot", cpu="4", labels={"flavor": "spot"}),
        NodeSpec("other", cpu="4", labels={"flavor": "other"}),
    )
    names = [f"p-{i}" for i in range(3)]
    cluster.create(*(pod(n, OTHER, MANAGED, cpu="1", schedulingGates=GATES) for n in names))
    cluster.create(pod("of-a-tenant", OTHER, cpu="1"))
    held = "QueueLimit", "limit of cpu of queue none is 0: 0 used, 1 requested"
    wait_until(lambda: condition(cluster, "of-a-tenant") == held, SOON, "the Queue to hold a Pod")
    assert {condition(cluster, name)[0] for name in names} == {"SchedulingGated"}

    # One gate of two left: still held.
    cluster.patch("p-2", schedulingGates=[{"$patch": "delete", "name": GATES[0]["name"]}])
    release(cluster, "p-0", "p-1", flavor="spot")
    assert cluster.wait_bound("p-0", "p-1") == {"p-0": "spot", "p-1": "spot"}
    assert cluster.node_of("p-2") == ""
    release(cluster, "p-2", flavor="other")
    assert cluster.wait_bound("p-2") == {"p-2": "other"}

    # What Kueue admits is not in a Queue's sums.
    assert bayplan.metric("bayplan_queue_used", queue="none", resource="cpu") == 0
    assert condition(cluster, "of-a-tenant") == held


@pytest.mark.usefixtures("bayplan")
def test_a_pod_that_is_released_and_does_not_fit_says_so_as_for_kube_scheduler(
    cluster: Cluster,
) -> None:
    cluster.nodes(NodeSpec("small", cpu="1", labels={"flavor": "spot"}))
    cluster.create(pod("large", OTHER, MANAGED, cpu="2", schedulingGates=GATES))
    release(cluster, "large", flavor="spot")
    wait_until(lambda: condition(cluster, "large")[0] == "Unschedulable", SOON, "a verdict")
    expected = "0/1 nodes are available: 1 Insufficient cpu."
    message = condition(cluster, "large")[1]
    assert as_if_alone(message, expected, cluster.others).startswith(expected), message


@pytest.mark.usefixtures("bayplan")
def test_a_gang_that_is_admitted_starts_together_in_a_domain_of_a_topology(
    cluster: Cluster,
) -> None:
    levels = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]
    meta = {"name": "e2e"}
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": meta}
    cluster.put({**topology, "spec": {"levels": levels}})
    rooms = {"b1-r1": 2, "b1-r2": 1, "b2-r3": 1, "b2-r4": 1}
    for rack, size in rooms.items():
        labels = {"block": rack[:2], "rack": rack}
        cluster.nodes(*(NodeSpec(f"{rack}-{i}", cpu="1", labels=labels) for i in range(size)))
    create_group(cluster, "g", 3, preferred_topology="rack")
    names = [f"g-{i}" for i in range(3)]
    labels = {**MANAGED, LABEL: "g"}
    cluster.create(*(pod(n, OTHER, labels, cpu="1", schedulingGates=GATES) for n in names))

    # Two of three: nothing starts.
    release(cluster, *names[:2])
    create_group(cluster, "single", 1)
    cluster.create(pod("single-0", OTHER, {**MANAGED, LABEL: "single"}, cpu="1"))
    cluster.wait_bound("single-0")
    assert [cluster.node_of(name) for name in names] == ["", "", ""]
    cluster.delete("single-0")

    # No rack holds it, so it gets a block, the level above.
    release(cluster, names[2])
    nodes = cluster.wait_bound(*names)
    assert {node[:2] for node in nodes.values()} == {"b1"}

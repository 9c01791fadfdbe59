"""Two schedulers on one node: Pods that the kubelet rejects. Here the test is the kubelet."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

METRIC = "bayplan_pods_rejected_by_node_total"


@pytest.fixture
def own_kubelet(cluster: Cluster) -> Iterator[None]:
    """Pods get no status from kwok: the nodes are Ready, and then it sleeps."""
    if "kwok" not in cluster.plane.parts:
        pytest.skip("the kubelets of somebody else are not to be stopped")
    cluster.nodes(NodeSpec("n1", cpu="4"), NodeSpec("n2", cpu="2"))
    kwok = cluster.plane.parts["kwok"]
    kwok.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        kwok.signal(signal.SIGCONT)


def reject(cluster: Cluster, name: str, reason: str) -> None:
    """What a kubelet writes for a Pod that it does not admit."""
    message = "Pod was rejected: said by a test"
    status = {"phase": "Failed", "reason": reason, "message": message}
    cluster.api.patch_namespaced_pod_status(
        name, cluster.namespace, {"status": status}, _preload_content=False
    )


@pytest.mark.usefixtures("own_kubelet")
def test_of_two_pods_for_one_place_the_rejected_one_is_explained(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    scheduler = start(cluster.config(OTHER))
    cluster.create(pod("ours", OTHER, cpu="3"), pod("theirs", "nobody", cpu="3"))
    assert cluster.wait_bound("ours") == {"ours": "n1"}
    cluster.bind("theirs", "n1")

    def overcommit() -> float:
        return scheduler.metric("bayplan_node_overcommit", node="n1", resource="cpu")

    wait_until(lambda: overcommit() == 2, SOON, "the overcommitted node on /metrics")
    reject(cluster, "ours", "OutOfcpu")
    note = 'Node n1 rejected the Pod (OutOfcpu). A Pod of scheduler "nobody" took the room'
    cluster.wait_event("ours", "RejectedByNode", note)
    assert scheduler.metric(METRIC, reason="OutOfcpu", scheduler=OTHER, taken_by="nobody") == 1
    wait_until(lambda: overcommit() == 0, SOON, "its end")
    assert scheduler.lines("Node is overcommitted")
    assert scheduler.lines("Node is no longer overcommitted")


@pytest.mark.usefixtures("own_kubelet")
def test_the_replacement_of_a_rejected_pod_goes_to_another_node(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    start(cluster.config(OTHER))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("", OTHER, cpu="1")["spec"]}
    owner = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"app": "web"}, "template": template},
    }
    api, namespace = cluster.api, cluster.namespace
    api.create_namespaced_replication_controller(namespace, owner, _preload_content=False)
    try:
        [first] = wait_until(lambda: list(cluster.pods()), SOON, "its Pod")
        assert cluster.wait_bound(first) == {first: "n1"}
        reject(cluster, first, "TopologyAffinityError")
        wait_until(lambda: len(cluster.pods()) == 2, SOON, "its replacement")
        [second] = cluster.pods().keys() - {first}
        assert cluster.wait_bound(second) == {second: "n2"}
    finally:
        api.delete_namespaced_replication_controller("web", namespace, _preload_content=False)

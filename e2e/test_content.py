"""Objects with surprising content are handled as kube-scheduler handles them."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.belongings import OURS
from e2e.cluster import Cluster, Json, pod
from e2e.provider import NodeSpec, Taint

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("deployed")]


def container(name: str, **requests: Any) -> Any:
    image = "registry.k8s.io/pause:3.10"
    return {"name": name, "image": image, "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("resource", "notations"),
    [
        pytest.param("cpu", ["500m", "0.5", ".5", "5e-1", "0.5000", "+0.5", "500000u", "5E-1"],
                     id="half a CPU"),
        pytest.param("memory", ["1Gi", "1024Mi", "1048576Ki", "1073741824", "1.073741824G",
                                "1073741824000m", "1073.741824e6", "1.0Gi"], id="one GiB"),
    ],
)  # fmt: skip
def test_every_notation_of_a_quantity_is_the_same_amount(
    cluster: Cluster, resource: str, notations: list[str]
) -> None:
    """Eight Pods that ask for the same amount fill the node exactly."""

    def asking(name: str, amount: str) -> Json:
        more: dict[str, Any] = {resource: amount}
        return pod(name, **more)

    cluster.nodes(NodeSpec("n", cpu="4", memory="8Gi"))
    names = cluster.create(*(asking(f"p{i}", n) for i, n in enumerate(notations)))
    cluster.wait_bound(*names)
    assert len(names) == 8
    cluster.create(asking("one-too-many", "1m" if resource == "cpu" else "1"))
    cluster.wait_condition("one-too-many", text=f"1 Insufficient {resource}")


def test_a_pod_of_two_hundred_containers_needs_what_they_need_together(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("small", cpu="1999m"), NodeSpec("large", cpu="2"))
    containers = [container(f"c{i}", cpu="10m") for i in range(200)]
    cluster.create(pod("many", containers=containers))
    assert cluster.wait_bound("many") == {"many": "large"}


def test_init_containers_count_only_as_far_as_they_need_more(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("small", cpu="2"), NodeSpec("large", cpu="3"))
    init = [container("i1", cpu="3"), container("i2", cpu="1")]
    cluster.create(pod("p", cpu="1", initContainers=init))
    assert cluster.wait_bound("p") == {"p": "large"}


def test_a_toleration_without_a_key_tolerates_everything(cluster: Cluster) -> None:
    taints = Taint("a", "b"), Taint("c", effect="NoExecute")
    cluster.nodes(NodeSpec("tainted", taints=taints))
    everything = [{"operator": "Exists"}]  # that a node of others is cordoned, too
    cluster.create(pod("hardy", tolerations=everything, nodeSelector={OURS: ""}))
    assert cluster.wait_bound("hardy") == {"hardy": "tainted"}


def test_a_node_without_a_status_takes_no_pods_and_disturbs_nothing(cluster: Cluster) -> None:
    cluster.api.create_node(
        {"metadata": {"name": "bare", "labels": {OURS: "", "bare": ""}}}, _preload_content=False
    )
    cluster.nodes(NodeSpec("full", cpu="1"))
    anywhere = [{"operator": "Exists"}]
    cluster.create(pod("p", cpu="1", tolerations=anywhere, nodeSelector={OURS: ""}))
    assert cluster.wait_bound("p") == {"p": "full"}
    cluster.create(pod("q", nodeSelector={"bare": ""}, tolerations=anywhere))
    cluster.wait_condition("q", text="1 Too many pods")


def test_a_pod_that_asks_for_nothing_still_takes_one_of_the_node_s_places(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("n", pods=1))
    cluster.create(pod("first"))
    cluster.wait_bound("first")
    cluster.create(pod("second"))
    cluster.wait_condition("second", text="1 Too many pods")


def test_a_pod_bound_to_a_node_that_does_not_exist_takes_no_room(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("n", cpu="1"))
    cluster.create(pod("lost", scheduler="nobody", cpu="1", nodeName="no-such-node"))
    cluster.create(pod("p", cpu="1"))
    cluster.wait_bound("p")


def test_strange_annotations_do_no_harm(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("n"))
    strange = pod("strange")
    values = {"example.com/json": '{"a": "\\u0000\\"', "example.com/text": "\u2603 \n\t \U0001f6a2"}
    strange["metadata"]["annotations"] = values | {"example.com/long": "x" * 200_000}
    cluster.create(strange)
    cluster.wait_bound("strange")


def test_a_pod_that_is_terminating_is_not_placed(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("n", unschedulable=True))
    stuck = pod("stuck")
    stuck["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(stuck)
    cluster.wait_condition("stuck")
    cluster.delete("stuck")
    cluster.patch_node("n", unschedulable=None)
    cluster.create(pod("other"))
    cluster.wait_bound("other")
    assert cluster.node_of("stuck") == ""
    cluster.api.patch_namespaced_pod(
        "stuck", cluster.namespace, {"metadata": {"finalizers": None}}, _preload_content=False
    )

"""Scores by measured load and by prices in a real process, beside the real sources of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import DEPLOY, OTHER, SOON, SYSTEM, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.sources import exporter, metrics_server, prometheus, series, usage_of

pytestmark = pytest.mark.e2e

PLUGIN = "TargetLoadPacking"
LOADS = {"load-busy": 0.9, "load-idle": 0.01, "load-packed": 0.2}
PRICES = {"load-busy": "0.9", "load-idle": "NaN", "load-packed": "0.1", "load-gone": "0.01"}
RULES = {
    "instance:node_cpu:ratio": "test_cpu_used / test_cpu",
    "instance:node_memory_utilisation:ratio": "test_memory",
}
"""As the rules of node-exporter's mixin: what people have are series of these names."""


def measured(_path: str) -> str:
    """What an exporter of all nodes says."""
    return (
        series("test_cpu_used", "instance", {name: load * 10 for name, load in LOADS.items()})
        + series("test_cpu", "instance", dict.fromkeys(LOADS, 10))
        + series("test_memory", "instance", dict.fromkeys(LOADS, 0.5))
        + series("node_total_hourly_cost", "node", PRICES)
    )


@pytest.fixture
def source(tmp_path: Path) -> Iterator[str]:
    """The URL of a Prometheus that knows load and prices."""
    with exporter(measured) as target, prometheus(tmp_path, target, RULES) as url:
        yield url


def scored_by(plugin: str, **args: Any) -> Json:
    enabled = {"multiPoint": {"enabled": [{"name": plugin, "weight": 20}]}}
    configured = [{"name": plugin, "args": args}]
    return {"schedulerName": OTHER, "plugins": enabled, "pluginConfig": configured}


def knows(bayplan: Bayplan, source: str, nodes: int) -> None:
    wait_until(
        lambda: bayplan.metric("bayplan_load_nodes", source=source) == nodes,
        SOON,
        f"what {source} says of {nodes} nodes",
    )


def test_a_prometheus_says_the_load_and_a_node_of_its_own_has_none(
    cluster: Cluster, start: Callable[..., Bayplan], source: str
) -> None:
    cluster.nodes(*(NodeSpec(name, cpu="10") for name in LOADS))
    provider = {"type": "Prometheus", "address": source}
    bayplan = start(cluster.config(profiles=[scored_by(PLUGIN, metricProvider=provider)]))
    knows(bayplan, source, len(LOADS))
    cluster.create(pod("web", OTHER, cpu="1"))
    assert cluster.wait_bound("web") == {"web": "load-packed"}
    assert bayplan.metric("bayplan_load_polls_total", source=source, result="failure") == 0


def test_a_prometheus_says_the_prices(
    cluster: Cluster, start: Callable[..., Bayplan], source: str
) -> None:
    cluster.nodes(*(NodeSpec(name, cpu="10") for name in LOADS))
    price = {"promql": {"address": source}}
    bayplan = start(cluster.config(profiles=[scored_by("DomainCost", price=price)]))
    name = f"prices of {source}"
    knows(bayplan, name, 2)
    lies = {
        what: bayplan.metric("bayplan_load_samples_total", source=name, result=what)
        for what in ("invalid", "unknown node")
    }
    assert all(lies.values()), lies
    cluster.create(pod("web", OTHER, cpu="1"))
    assert cluster.wait_bound("web") == {"web": "load-packed"}


def test_a_query_that_prometheus_refuses_is_a_failure_with_its_words(
    cluster: Cluster, start: Callable[..., Bayplan], source: str
) -> None:
    cluster.nodes(NodeSpec("load-packed", cpu="10"))
    price = {"promql": {"address": source, "query": "max by (node ("}}
    bayplan = start(cluster.config(profiles=[scored_by("DomainCost", price=price)]))
    text = "Prices of nodes cannot be read"
    (line,) = wait_until(lambda: bayplan.lines(text), SOON, "a line in the log")
    assert "parse error" in line["error"]
    cluster.create(pod("web", OTHER, cpu="1"))
    cluster.wait_bound("web")


@pytest.fixture
def metrics_api(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    """A metrics-server behind the aggregator; what stands for kubelets is ours."""
    plane = cluster.plane
    if not plane.owns_parts:
        pytest.skip("takes an API server on this machine")

    def kubelet(path: str) -> str:
        return usage_of(LOADS[path.split("/")[2]] * 10, 5 << 30)

    with ExitStack() as stack:
        kubelets = stack.enter_context(exporter(kubelet, plane._serving))
        server = stack.enter_context(metrics_server(tmp_path, plane.kubeconfig, kubelets))
        rights = str(DEPLOY / "components" / "node-metrics" / "rbac.yaml")
        cluster.kubectl("apply", "-f", rights)
        stack.callback(cluster.kubectl, "delete", "-f", rights)
        outside = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": server}]}
        name = "metrics-server"
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
        cluster.put({**service, "spec": outside}, namespace=SYSTEM)
        stack.callback(cluster.kubectl, "delete", "service", name, namespace=SYSTEM)
        spec = {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"name": name, "namespace": SYSTEM, "port": server},
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
        }
        api = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
        cluster.put({**api, "metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec})
        stack.callback(cluster.kubectl, "delete", "apiservice", "v1beta1.metrics.k8s.io")
        yield


def has_kubelet(cluster: Cluster, node: str) -> None:
    """Where the metrics of the node are: a path for each node, as kwok has them."""
    path = f"metrics.k8s.io/resource-metrics-path=/nodes/{node}/metrics/resource"
    cluster.kubectl("annotate", "node", node, path)
    status = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}
    patch = f"--patch={json.dumps(status)}"
    cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", patch)


@pytest.mark.usefixtures("metrics_api")
def test_a_metrics_server_says_the_load_through_the_api_server(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    cluster.nodes(*(NodeSpec(name, cpu="10") for name in LOADS))
    for name in LOADS:
        has_kubelet(cluster, name)

    def used() -> list[str]:
        listed = cluster.kubectl("get", "--raw=/apis/metrics.k8s.io/v1beta1/nodes")
        return sorted(item["metadata"]["name"] for item in json.loads(listed)["items"])

    cluster.kubectl(
        "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=300s"
    )
    wait_until(lambda: used() == sorted(LOADS), SOON, "two samples of each node")
    bayplan = start(cluster.config(profiles=[scored_by(PLUGIN)]))
    knows(bayplan, "metrics.k8s.io", len(LOADS))
    cluster.create(pod("web", OTHER, cpu="1"))
    assert cluster.wait_bound("web") == {"web": "load-packed"}


def test_pods_are_placed_where_no_metrics_api_is(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    cluster.nodes(*(NodeSpec(name, cpu="10") for name in LOADS))
    bayplan = start(cluster.config(profiles=[scored_by(PLUGIN)]))
    cluster.create(pod("web", OTHER, cpu="1"))
    cluster.wait_bound("web")
    labels = {"source": "metrics.k8s.io", "result": "failure"}
    wait_until(lambda: bayplan.metric("bayplan_load_polls_total", **labels) > 0, SOON, "a failure")
    (line,) = bayplan.lines("Load of nodes cannot be read")
    assert line["source"] == "metrics.k8s.io"

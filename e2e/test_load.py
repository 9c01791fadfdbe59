"""Scores by measured load in a real process; what stands for Prometheus is a server of the test."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

PLUGIN = "TargetLoadPacking"
LOADS = {"load-busy": 0.9, "load-idle": 0.01, "load-packed": 0.2}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        mean = "memory" not in self.path and "stddev" not in self.path
        result = [
            {"metric": {"instance": name}, "value": [time.time(), str(load if mean else 0.0)]}
            for name, load in LOADS.items()
        ]
        data = {"resultType": "vector", "result": result}
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def by_load(**args: Any) -> dict[str, Any]:
    enabled = {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": 20}]}}
    configured = [{"name": PLUGIN, "args": args}]
    return {"schedulerName": OTHER, "plugins": enabled, "pluginConfig": configured}


def test_pods_go_where_the_load_is_nearest_to_the_target(
    cluster: Cluster, start: Callable[..., Bayplan], prometheus: str
) -> None:
    cluster.nodes(*(NodeSpec(name, cpu="10") for name in LOADS))
    provider = {"type": "Prometheus", "address": prometheus}
    bayplan = start(cluster.config(profiles=[by_load(metricProvider=provider)]))
    wait_until(
        lambda: bayplan.metric("bayplan_load_nodes", source=prometheus) == len(LOADS),
        SOON,
        "the load of all nodes",
    )
    cluster.create(pod("web", OTHER, cpu="1"))
    assert cluster.wait_bound("web") == {"web": "load-packed"}


def test_pods_are_placed_where_no_metrics_api_is(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    cluster.nodes(*(NodeSpec(name, cpu="10") for name in LOADS))
    bayplan = start(cluster.config(profiles=[by_load()]))
    cluster.create(pod("web", OTHER, cpu="1"))
    cluster.wait_bound("web")
    labels = {"source": "metrics.k8s.io", "result": "failure"}
    wait_until(lambda: bayplan.metric("bayplan_load_polls_total", **labels) > 0, SOON, "a failure")
    (line,) = bayplan.lines("Load of nodes cannot be read")
    assert line["source"] == "metrics.k8s.io"

"""Sources of load and prices: a real Prometheus, a real metrics-server, and whom they ask."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from e2e.cluster import SOON
from e2e.provider.pki import KeyPair
from e2e.provider.process import Endpoint, Part, free_port, unverified
from e2e.provider.programs import METRICS_SERVER, PROMETHEUS

Says = Callable[[str], str]
"""The metrics at a path, in the text format."""


class _Server(ThreadingHTTPServer):
    says: Says


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        body = self.server.says(self.path).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def exporter(says: Says, pair: KeyPair | None = None) -> Iterator[int]:
    """A server that says these metrics, by HTTPS with ``pair``; its port."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.says = says
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def series(metric: str, label: str, values: Mapping[str, object]) -> str:
    """A gauge, one line for each value of a label."""
    lines = [f'{metric}{{{label}="{name}"}} {value}' for name, value in values.items()]
    return "\n".join([f"# TYPE {metric} gauge", *lines, ""])


@contextmanager
def prometheus(folder: Path, target: int, rules: Mapping[str, str]) -> Iterator[str]:
    """A Prometheus that asks the exporter every second; its URL.

    Args:
        folder: for its data.
        target: the exporter's port.
        rules: by name of a recorded series, its PromQL.
    """
    recorded = [{"record": name, "expr": query} for name, query in rules.items()]
    rule_file = folder / "rules.yaml"
    rule_file.write_text(yaml.safe_dump({"groups": [{"name": "nodes", "rules": recorded}]}))
    job = {
        "job_name": "nodes",
        "honor_labels": True,
        "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
    }
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rule_file)],
        "scrape_configs": [job],
    }
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(settings))
    port = free_port()
    argv = [
        str(PROMETHEUS.binary()),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    endpoint = Endpoint(f"http://127.0.0.1:{port}", unverified())
    part = Part("prometheus", argv, folder / "prometheus.log", endpoint, "/-/ready")
    part.start(SOON)
    try:
        yield endpoint.url
    finally:
        part.stop()


def usage_of(cpus: float, memory: int) -> str:
    """What a kubelet says of its node at /metrics/resource: so many CPUs are always busy."""
    now = time.time()
    at = int(now * 1000)
    return "\n".join(
        [
            "# TYPE node_cpu_usage_seconds_total counter",
            f"node_cpu_usage_seconds_total {cpus * (now - 1.7e9):.6f} {at}",
            "# TYPE node_memory_working_set_bytes gauge",
            f"node_memory_working_set_bytes {memory} {at}",
            "",
        ]
    )


@contextmanager
def metrics_server(folder: Path, kubeconfig: Path, kubelets: int) -> Iterator[int]:
    """A metrics-server that asks the kubelets, all at one port, every ten seconds; its port."""
    port = free_port()
    argv = [
        str(METRICS_SERVER.binary()),
        *(f"--{what}kubeconfig={kubeconfig}" for what in ("", "authentication-", "authorization-")),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--kubelet-port={kubelets}",
        "--kubelet-insecure-tls",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-request-timeout=5s",
        "--metric-resolution=10s",
    ]
    endpoint = Endpoint(f"https://127.0.0.1:{port}", unverified())
    part = Part("metrics-server", argv, folder / "metrics-server.log", endpoint, "/livez")
    part.start(SOON)
    try:
        yield port
    finally:
        part.stop()

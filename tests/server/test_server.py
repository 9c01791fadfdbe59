"""Probes and metrics on one port."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from bayplan.server.server import HealthServer, PortError


class Process:
    """What the probes are about."""

    def __init__(self) -> None:
        self.dead: list[str] = []
        self.busy: list[str] = ["Pod: not listed yet", "Node: forbidden"]
        self.server = HealthServer(
            0, lambda: self.dead, lambda: self.busy, lambda: b"up 1\n", "127.0.0.1"
        )

    def get(self, path: str) -> tuple[int, str, str]:
        """(status, content type, body)."""
        url = f"http://127.0.0.1:{self.server.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    made.server.start()
    yield made
    made.server.stop()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/livez?verbose"])
def test_a_live_process_says_ok_or_what_is_wrong(process: Process, path: str) -> None:
    assert process.get(path) == (200, "text/plain", "ok")
    process.dead = ["the sending thread is stuck"]
    assert process.get(path) == (503, "text/plain", "the sending thread is stuck")


def test_readiness_names_all_that_is_missing(process: Process) -> None:
    assert process.get("/readyz") == (503, "text/plain", "Pod: not listed yet\nNode: forbidden")
    process.busy = []
    assert process.get("/readyz")[0] == 200


def test_metrics_are_in_the_prometheus_format(process: Process) -> None:
    status, content_type, body = process.get("/metrics")
    assert (status, body) == (200, "up 1\n")
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_other_pages_do_not_exist(process: Process) -> None:
    assert process.get("/debug") == (404, "text/plain", "not found")


def test_a_port_that_is_taken_is_an_error(process: Process) -> None:
    with pytest.raises(PortError, match=rf"port {process.server.port} .* in use"):
        HealthServer(process.server.port, list, list, bytes, "127.0.0.1")

"""``bayplan simulate``: beside a running cluster, as a page, and what it says of devices."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.client.fault_server import Exchange, FaultServer, running_server
from tests.kubeconfig import write_kubeconfig
from tests.simulation.support import node, pod, write
from typer.testing import CliRunner, Result

from bayplan.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES.parent / "deploy" / "base" / "config.yaml"
Simulate = Callable[..., Result]
PLANNED: dict[str, Any] = {
    "sentence": "All 1 Pods can be placed now; nobody is evicted.",
    "pods": 1,
    "placed": 1,
    "evicted": 0,
    "token": "t",
    "on": [{"of": "default/p", "pods": 1, "node": "n1"}],
}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def simulate(server: FaultServer, tmp_path: Path) -> Iterator[Simulate]:
    kubeconfig = f"--kubeconfig={write_kubeconfig(tmp_path, server.url)}"
    yield lambda *args: CliRunner().invoke(app, ["simulate", kubeconfig, *map(str, args)])
    structlog.reset_defaults()


def test_whether_a_file_fits_in_the_running_cluster_is_one_command(
    server: FaultServer, simulate: Simulate, tmp_path: Path
) -> None:
    def script(exchange: Exchange) -> None:
        if exchange.bare_path == "/plan":
            (sent,) = json.loads(gzip.decompress(exchange.body))
            assert sent["metadata"]["name"] == "p"
            exchange.answer(200, PLANNED)
        else:
            exchange.answer(200, {"metadata": {}, "items": []})

    server.script = script
    file = write(tmp_path, pod("p"))
    run = simulate("-f", file, "--on-cluster", f"--server={server.url}")
    assert run.exit_code == 0, run.output
    assert "All 1 Pods can be placed now" in run.stdout
    refused = simulate("-f", file, "--on-cluster", f"--server={server.url}", "--evict")
    assert refused.exit_code == 2


def test_with_a_configuration_the_pods_come_to_be_beside_those_of_the_cluster(
    server: FaultServer, simulate: Simulate, tmp_path: Path
) -> None:
    def script(exchange: Exchange) -> None:
        items: list[Any] = []
        if exchange.bare_path == "/api/v1/nodes":
            items = [node("n1")]
        elif exchange.bare_path == "/api/v1/pods":
            four = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
            waits = pod("waits", containers=four, schedulerName="bayplan")
            waits["metadata"]["namespace"] = "default"
            items = [waits]
        exchange.answer(200, {"metadata": {}, "items": items})

    server.script = script
    two = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    file = write(tmp_path, pod("new", containers=two, schedulerName="bayplan"))
    run = simulate("-f", file, "--on-cluster", "--config", CONFIG, "-o", "json")
    placed = {one["pod"]: one["node"] for one in json.loads(run.stdout)}
    assert placed == {"default/waits": "n1", "default/new": None}
    assert "judged here" in run.stderr


def test_without_a_node_it_says_how_to_place_pods_in_a_cluster(
    simulate: Simulate, tmp_path: Path
) -> None:
    assert "--on-cluster" in simulate("-f", write(tmp_path, pod("p"))).stderr


def test_what_stands_against_devices_is_said_per_request(simulate: Simulate) -> None:
    run = simulate("-f", EXAMPLES / "devices.yaml")
    told = " ".join(run.stdout.split())
    assert "request gpus (2 of class gpu.example.com), 2 nodes:" in told
    assert not any(
        "details" in one
        for one in json.loads(simulate("-f", EXAMPLES / "devices.yaml", "-o", "json").stdout)
    )


def test_pods_that_are_not_placed_for_the_same_reason_are_one_line(
    simulate: Simulate, tmp_path: Path
) -> None:
    large = [{"name": "c", "resources": {"requests": {"cpu": "40"}}}]
    pods = [pod(f"p{number}", containers=large) for number in range(5)]
    text = simulate("-f", write(tmp_path, node("n1"), *pods)).stdout
    assert "default/p0 and 4 more" in text
    assert text.count("Insufficient cpu") == 1
    assert "0 placed, 5 not" in text


@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_a_page_is_one_file_that_loads_nothing_and_takes_no_name_as_markup(
    tmp_path: Path, command: str
) -> None:
    gate = {"name": "example.com/<script>x"}
    file = write(tmp_path, node("n1"), pod("p"), pod("gated", schedulingGates=[gate]))
    run = CliRunner().invoke(app, [command, "-f", str(file), "-o", "html"])
    structlog.reset_defaults()
    assert run.exit_code == 0, run.output
    page = run.stdout
    assert page.startswith("<!DOCTYPE html>")
    assert "default/p" in page
    assert "&lt;script&gt;" in page
    for loads in ("<script", "src=", "href=", "url(", "http"):
        assert loads not in page

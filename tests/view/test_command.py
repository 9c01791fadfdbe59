"""``bayplan view``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from bayplan.cli.app import app

Bayplan = Callable[..., Result]

NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: a, example.com/row: "7"}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: shop}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "5"}}}]}
status:
  conditions:
  - {type: PodScheduled, status: "False", reason: Unschedulable, message: 1 Insufficient cpu}
"""


@pytest.fixture
def bayplan() -> Iterator[Bayplan]:
    """Runs a command; logging, which it sets up, is as before afterwards."""
    yield lambda *args: CliRunner().invoke(app, ["view", *(str(arg) for arg in args)])
    structlog.reset_defaults()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODES)
    return path


def test_as_text_it_shows_nodes_and_what_waits_with_what_was_said(
    bayplan: Bayplan, file: Path
) -> None:
    run = bayplan("-f", file, "-o", "text")
    assert run.exit_code == 0, run.output
    lines = [line.split() for line in run.stdout.splitlines()]
    assert lines[0] == ["1", "nodes,", "1", "Pods", "on", "them,", "1", "wait"]
    assert ["n1", "a", "########..", "75%", "75%", "0%", "10%"] in lines
    assert ["shop/big", "0", "5", "cpu", "1", "Insufficient", "cpu"] in lines


def test_as_json_it_shows_the_columns_and_the_same_bytes_each_time(
    bayplan: Bayplan, file: Path
) -> None:
    run = bayplan("-f", file, "-o", "json", "--level", "example.com/row")
    bays = json.loads(run.stdout)
    assert bays["apiVersion"] == "view.bayplan.dev/v1alpha1"
    assert bays["nodes"]["requested/cpu"] == [3000]
    assert bays["texts"][bays["nodes"]["domain/example.com/row"][0]] == "7"
    again = bayplan("-f", file, "-o", "json", "--level", "example.com/row")
    assert again.stdout == run.stdout


def test_it_does_not_listen_where_others_could_look(bayplan: Bayplan, file: Path) -> None:
    for address in ("0.0.0.0", "::", "10.0.0.1", "example.com"):
        run = bayplan("-f", file, "--address", address)
        assert run.exit_code == 2
        assert f"--address {address} is no loopback address" in run.output


def test_a_file_without_nodes_and_pods_is_told(bayplan: Bayplan, tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    run = bayplan("-f", path, "-o", "json")
    assert run.exit_code == 2
    assert "there is neither a Node nor a Pod in it" in run.output


def test_of_a_pod_that_nobody_has_looked_at_the_text_says_what_stands_against_it(
    bayplan: Bayplan, file: Path
) -> None:
    file.write_text(NODES.partition("status:\n  conditions")[0])
    run = bayplan("-f", file, "-o", "json")
    bays = json.loads(run.stdout)
    message = bays["texts"][bays["pending"]["message"][0]]
    assert message.startswith("waits: 0/1 nodes are available: 1 Insufficient cpu.")
    assert message.endswith("Nearest: n1 has 1 cpu free of the 5 that it needs.")

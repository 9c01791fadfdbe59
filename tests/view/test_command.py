"""``bayplan view``: what it prints, and what it refuses."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest
import structlog
from tests.replay.worlds import START, Story, nodes
from typer.testing import CliRunner, Result

from bayplan.cli.app import app
from bayplan.recordings.file import RecordingReader, RecordingWriter
from bayplan.testing import make_pod

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


ZONES = NODES.replace("name: web", "name: web, ownerReferences: [OWNER]").replace(
    "OWNER", "{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}"
)
OTHER = """
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""


CONFIG_B = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}
"""


def test_what_a_page_of_files_says_of_other_nodes_is_what_simulate_says(
    bayplan: Bayplan, file: Path, tmp_path: Path
) -> None:
    file.write_text(ZONES + OTHER)
    other = tmp_path / "b.yaml"
    other.write_text(CONFIG_B)
    zone = {"label": "topology.kubernetes.io/zone", "value": "a"}
    command = [sys.executable, "-m", "bayplan"]
    lose = f"--lose={zone['label']}={zone['value']}"
    simulates = [*command, "simulate", "-f", str(file), "-o", "json"]
    said = subprocess.check_output([*simulates, lose])
    more = subprocess.check_output([*simulates, "--add=2", "--like=n1"])
    both = subprocess.check_output([*simulates, lose, "--add=2", "--like=n2"])
    with subprocess.Popen(
        [*command, "view", "-f", file, "--config-b", other], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = urlsplit(process.stdout.readline().strip())
            page = http.client.HTTPConnection(url.netloc, timeout=60)
            page.request("POST", "/session", url.fragment)
            answer = page.getresponse()
            answer.read()
            cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

            def ask(path: str = "/suppose", **query: object) -> tuple[int, str]:
                page.request("GET", f"{path}?{urlencode(query)}", headers=cookie)
                answer = page.getresponse()
                return answer.status, answer.read().decode()

            loss = json.loads(ask(**zone)[1])
            refused, why = ask(label="zone", value="a")
            growth = json.loads(ask(number=2, like="n1")[1])
            no_such, missing = ask(number=2, like="n7")
            together = json.loads(ask(**zone, number=2, like="n2")[1])
            by_b = json.loads(ask(other="yes")[1])
            plan = json.loads(ask("/plan")[1])
        finally:
            process.terminate()
    simulated = json.loads(said)
    placed = {one["pod"]: one["node"] for one in simulated["placements"] if "lost" in one}
    assert loss["back"] == placed == {"shop/web": "n2"}
    assert loss["lost"] == simulated["lost"]["nodes"] == ["n1"]
    assert loss["sentence"].startswith("1 node lost, 1 Pod with it: back on a node: 1")
    assert refused == 400
    assert "no Node has this label" in why
    assert {
        key: growth[key] for key in ("like", "nodes", "pods", "fits", "noLonger")
    } == json.loads(more)["added"]
    assert (no_such, "there is no such Node" in missing) == (400, True)
    simulated = json.loads(both)
    assert together["lost"] == simulated["lost"]["nodes"]
    assert together["nodes"] == simulated["added"]["nodes"] == ["n2-added-1", "n2-added-2"]
    assert by_b["fits"] == {"shop/big": "n1"}
    assert by_b["sentence"].startswith("by configuration B: placed in addition: 1")
    assert (plan["placed"], list(plan["waits"])) == ({}, ["shop/big"])


def _recording(folder: Path) -> Path:
    """web waits, is bound after ten seconds, and is gone at the end."""
    made = [node.label("topology.kubernetes.io/zone", "a") for node in nodes(2)]
    story, web = Story(folder / "day.zst", *made), make_pod("web").namespace("shop").uid("1")
    story.at(10).add(web.req(cpu="3"))
    story.at(20).add(web.node("n1"))
    story.at(30).remove(web)
    return story.end(40)


def _at(second: float) -> str:
    return datetime.fromtimestamp(START + second, UTC).isoformat()


def test_a_recording_is_shown_at_a_moment_or_else_as_it_ends(
    bayplan: Bayplan, tmp_path: Path
) -> None:
    path = _recording(tmp_path)
    first = {
        second: bayplan("-r", path, "--at", _at(second), "-o", "text").stdout.splitlines()[0]
        for second in (0, 10, 20)
    }
    assert first == {
        0: "2 nodes, 0 Pods on them, 0 wait; 1970-01-12T13:46:40Z",
        10: "2 nodes, 0 Pods on them, 1 wait; 1970-01-12T13:46:50Z",
        20: "2 nodes, 1 Pods on them, 0 wait; 1970-01-12T13:47:00Z",
    }
    bays = json.loads(bayplan("-r", path, "-o", "json").stdout)
    assert (bays["nodes"]["name"], bays["pods"]["node"]) == (["n1", "n2", "end"], [])
    assert bays["recorded"] == {"since": START, "until": START + 40}
    assert bays["at"] == START + 40
    assert [START + 10, 0, 1, 0] in bays["timeline"]
    assert [START + 20, 1, 0, 0] in bays["timeline"]


def test_a_moment_or_a_file_that_is_none_is_told(bayplan: Bayplan, tmp_path: Path) -> None:
    path, other = _recording(tmp_path), tmp_path / "cluster.yaml"
    other.write_text(NODES)
    newer = msgspec.structs.replace(RecordingReader(path).header, version=2)
    RecordingWriter.create(tmp_path / "newer.zst", newer).close()
    for args, why in (
        ([path, "--at", "yesterday"], "--at yesterday is no time such as 1970-01-12T13:47:20Z"),
        ([path, "--at", _at(0)[:19]], "is no time such as"),
        ([path, "--at", _at(41)], "is not in the recording, which is of 1970-01-12T13:46:40Z to"),
        ([other], f"{other}: is no bayplan-record: it is not compressed by zstd"),
        ([tmp_path / "newer.zst"], "is a bayplan-record of version 2"),
        ([tmp_path / "none.zst"], "none.zst: No such file"),
        ([path, "-f", other], "one of -f, --recording and --server"),
    ):
        run = bayplan("-o", "json", "-r", *args)
        assert (run.exit_code, why in run.output) == (2, True), run.output
    assert bayplan("-f", other, "--at", _at(0)).exit_code == 2

"""``bayplan queues``: of files, as a table and as data, and what is wrong with Queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from tests.queues import pod, queue
from typer.testing import CliRunner

from bayplan.api.kinds import NODE, POD, QUEUE, Kind
from bayplan.api.queues import Queue
from bayplan.cli.app import app
from bayplan.testing import Builder, Json, PodBuilder, make_node

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tenants"

ONE_NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
"""
WRONG = """
---
apiVersion: bayplan.dev/v1alpha1
kind: Queue
metadata: {name: a}
spec: {parent: nowhere}
"""


@pytest.fixture(autouse=True)
def logging() -> Iterator[None]:
    """The command sets logging up; it is as before afterwards."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def run(*arguments: str, exit_code: int = 0) -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, ["queues", *arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


@pytest.mark.parametrize("folder", [EXAMPLE, EXAMPLE / "kinds"], ids=["queues", "kinds"])
def test_the_table_is_the_one_in_the_documentation(folder: Path) -> None:
    lines = [line.rstrip() for line in run("-f", str(folder)).rstrip().split("\n")]
    assert "\n".join(lines) in (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")


def test_as_data_amounts_are_in_the_units_of_the_scheduler() -> None:
    batch, *_ = msgspec.json.decode(run("-f", str(EXAMPLE), "-o", "json"))
    assert batch["queue"] == "batch"
    gpus = {"guaranteed": 0, "limit": None, "used": 8, "demand": 8, "share": 6, "borrowed": 8}
    parts = {"covered": 0, "neverEvicted": 0}
    assert batch["resources"]["nvidia.com/gpu"] == {**gpus, **parts, "saturation": 1.3333}


def test_every_key_of_the_data_is_described() -> None:
    page = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
    table = page.split("### As data")[1].split("##")[0]
    batch, *_ = msgspec.json.decode(run("-f", str(EXAMPLE), "-o", "json"))
    keys = {*batch, *batch["resources"]["cpu"]}
    assert [key for key in sorted(keys) if f"`{key}`" not in table] == []


def test_no_line_of_the_example_is_longer_than_80_columns() -> None:
    assert max(map(len, run("-f", str(EXAMPLE)).splitlines())) <= 80


def shown(tmp_path: Path, *queues: Builder[Queue], **pods: PodBuilder) -> list[list[str]]:
    """The words of each line of the table, of one node of 4 CPUs."""
    path = tmp_path / "cluster.json"
    node = make_node("n").capacity(cpu="4", pods=110)
    kinds: list[tuple[Kind[Any], Iterable[Builder[Any]]]]
    kinds = [(NODE, [node]), (QUEUE, queues), (POD, pods.values())]
    items = [
        {"apiVersion": kind.api_version, "kind": kind.name, **builder.json}
        for kind, builders in kinds
        for builder in builders
    ]
    path.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))
    return [line.split() for line in run("-f", str(path)).splitlines()]


def test_columns_that_say_nothing_of_any_queue_are_left_out(tmp_path: Path) -> None:
    title, *_ = shown(tmp_path, queue("a", "x"), p=pod("p", "x"))
    assert title == ["demand", "share"]


def test_use_without_a_share_and_what_users_have_is_said(tmp_path: Path) -> None:
    limit: Json = {"userLimit": {"cpu": 2}, "userKey": "user"}
    lines = shown(
        tmp_path,
        queue("a", "x", priority=1, guaranteed={"cpu": 4}, **limit),
        queue("b", "y", weight=0),
        here=pod("here", "y").node("n"),
        ann=pod("ann", "x").node("n").label("user", "ann"),
        more=pod("more", "x", "2").label("user", "bob"),
        most=pod("most", "x", "2").label("user", "cid"),
    )
    assert lines == [
        ["guaranteed", "used", "demand", "share", "borrowed", "of", "share"],
        ["a:", "2", "waiting,", "turn", "1"],
        ["cpu", "4", "1", "5", "4", "0", "25%"],
        ["cpu", "of", "ann", "1"],
        ["b"],
        ["cpu", "0", "1", "1", "0", "1", "no", "share"],
    ]


def test_what_a_guarantee_covers_is_said_where_the_sums_do_not_tell(tmp_path: Path) -> None:
    lines = shown(
        tmp_path,
        queue("a", "x", guaranteed={"cpu": 2}),
        queue("b", "y", guaranteed={"cpu": 2}),
        large=pod("large", "x", "3").node("n"),
        small=pod("small", "y").node("n"),
    )
    assert lines[2:4] == [["cpu", "2", "3", "3", "3", "1"], ["covered", "0"]]
    assert [line[0] for line in lines[4:]] == ["b", "cpu"]


def test_what_pods_use_that_are_never_evicted_is_said(tmp_path: Path) -> None:
    lines = shown(
        tmp_path,
        queue("a", "x", guaranteed={"cpu": 2}),
        kept=pod("kept", "x").node("n").label("bayplan.dev/preemptible", "false"),
        other=pod("other", "x").node("n"),
    )
    assert lines[-1] == ["never", "evicted", "1"]


def test_a_queue_that_takes_no_pods_has_no_turn_and_says_so(tmp_path: Path) -> None:
    lines = shown(
        tmp_path,
        queue("a", state="Draining"),
        queue("b", "y", parent="a"),
        queue("c", "z"),
        waits=pod("waits", "y"),
        next=pod("next", "z"),
    )
    titles = [line for line in lines if line[0] not in ("cpu", "demand")]
    assert titles == [
        ["a", "(Draining):", "1", "waiting"],
        ["b", "(Draining):", "1", "waiting"],
        ["c:", "1", "waiting,", "turn", "1"],
    ]


def test_turns_go_to_what_is_guaranteed_before_what_is_lent(tmp_path: Path) -> None:
    lines = shown(
        tmp_path,
        queue("a", "x"),
        queue("b", "y", guaranteed={"cpu": 1}),
        lent=pod("lent", "x"),
        ours=pod("ours", "y"),
    )
    assert ["a:", "1", "waiting,", "turn", "2"] in lines
    assert ["b:", "1", "waiting,", "turn", "1"] in lines


def test_a_queue_whose_pod_waits_longer_than_its_target_is_late(tmp_path: Path) -> None:
    waits = pod("waits", "x").created("2020-01-01T00:00:00Z")
    lines = shown(tmp_path, queue("a", "x", waitingTargetSeconds=90), waits=waits)
    assert lines[1][-7:] == ["late:", "the", "target", "is", "1m30s,", "turn", "1"]


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_is_wrong_with_a_queue_is_said(tmp_path: Path, output: str) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text(ONE_NODE + WRONG, encoding="utf-8")
    text = run("-f", str(path), "-o", output)
    assert "UnknownParent" in text
    assert "there is no queue nowhere" in text


def test_without_queues_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(ONE_NODE, encoding="utf-8")
    assert "there are no Queues" in run("-f", str(path), exit_code=2)


def test_what_is_left_out_of_a_file_is_said(tmp_path: Path) -> None:
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 3}\n"
    path = tmp_path / "queue.yaml"
    path.write_text(ONE_NODE + WRONG + pod, encoding="utf-8")
    said = run("-f", str(path), exit_code=1)
    assert "Pod p: spec.containers: Expected `array`, got `int`; left out" in said
    assert "UnknownParent" in said


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: bayplan
    plugins:
      multiPoint: {enabled: [{name: FairShare}]}
      postFilter: {enabled: [{name: FairShare}]}
      podGroupPostFilter: {enabled: [{name: FairShare}]}
    pluginConfig:
      - name: FairShare
        args: {pastUse: {halfLife: 24h}}
"""
TENANTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
---
apiVersion: bayplan.dev/v1alpha1
kind: Queue
metadata: {name: a}
spec: {weight: 2, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: x}}}
---
apiVersion: bayplan.dev/v1alpha1
kind: Queue
metadata: {name: b}
spec: {weight: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: x}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: "8"}}}]}
status: {phase: Running, startTime: "2020-01-01T00:00:00Z"}
"""


def test_with_a_configuration_past_use_is_estimated(tmp_path: Path) -> None:
    file, config = tmp_path / "tenants.yaml", tmp_path / "config.yaml"
    file.write_text(TENANTS, encoding="utf-8")
    config.write_text(CONFIG, encoding="utf-8")
    a, b = msgspec.json.decode(run("-f", str(file), "--config", str(config), "-o", "json"))
    past = [(q["resources"]["cpu"]["pastUse"], q["resources"]["cpu"]["weight"]) for q in (a, b)]
    assert past == [(8000, 1.0), (0, 2.0)]
    head, _, of_a, *_ = run("-f", str(file), "--config", str(config)).splitlines()
    assert head.split()[-3:] == ["past", "use", "weight"]
    assert of_a.split()[-2:] == ["8", "1"]
    assert "past use" not in run("-f", str(file))

"""``bayplan queues``: of files, as a table and as data, and what is wrong with Queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import structlog
from typer.testing import CliRunner

from bayplan.cli.app import app

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tenants"

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
"""
QUEUE = """
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


def test_the_table_is_the_one_in_the_documentation() -> None:
    lines = [line.rstrip() for line in run("-f", str(EXAMPLE)).rstrip().split("\n")]
    assert "\n".join(lines) in (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")


def test_as_data_amounts_are_in_the_units_of_the_scheduler() -> None:
    batch, *_ = msgspec.json.decode(run("-f", str(EXAMPLE), "-o", "json"))
    assert batch["queue"] == "batch"
    gpus = {"guaranteed": 0, "limit": None, "used": 8, "demand": 8, "share": 6, "borrowed": 8}
    assert batch["resources"]["nvidia.com/gpu"] == gpus


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_is_wrong_with_a_queue_is_said(tmp_path: Path, output: str) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text(NODE + QUEUE, encoding="utf-8")
    text = run("-f", str(path), "-o", output)
    assert "UnknownParent" in text
    assert "there is no queue nowhere" in text


def test_without_queues_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(NODE, encoding="utf-8")
    assert "there are no Queues" in run("-f", str(path), exit_code=2)


def test_what_is_left_out_of_a_file_is_said(tmp_path: Path) -> None:
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 3}\n"
    path = tmp_path / "queue.yaml"
    path.write_text(NODE + QUEUE + pod, encoding="utf-8")
    said = run("-f", str(path), exit_code=1)
    assert "Pod p: spec.containers: Expected `array`, got `int`; left out" in said
    assert "UnknownParent" in said

"""Measured load without a scheduler: NodeMetrics in files, and the example of the documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from bayplan.cli.app import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "placement"


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def explained(file: Path, config: Path = EXAMPLE / "load-config.yaml") -> tuple[Any, str]:
    """The verdict on the one Pod, and what is on stderr."""
    args = ["explain", "-f", str(file), "--config", str(config), "-o", "json"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    (verdict,) = json.loads(result.stdout)
    return verdict, result.stderr


def scores(verdict: Any) -> dict[str, int]:
    return {name: node["TargetLoadPacking"] for name, node in verdict["scores"].items()}


def test_the_example_goes_where_the_document_says() -> None:
    verdict, notes = explained(EXAMPLE / "load.yaml")
    assert notes == ""
    assert scores(verdict) == {"packed": 465, "idle": 345, "silent": 345, "busy": 0}


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("usage: {cpu: 2,", "usage: {cpu: -2,", "NodeMetrics of packed: invalid"),
        ("metadata: {name: packed}\ntimestamp", "metadata: {name: x}\ntimestamp", "of x: unknown"),
        ("usage: {cpu: 2,", "usage: {cpu: many,", "NodeMetrics of packed: invalid"),
    ],
)
def test_samples_that_are_not_used_are_noted(tmp_path: Path, old: str, new: str, note: str) -> None:
    text = (EXAMPLE / "load.yaml").read_text()
    assert old in text
    file = tmp_path / "cluster.yaml"
    file.write_text(text.replace(old, new))
    verdict, notes = explained(file)
    assert note in notes
    assert scores(verdict) == {"packed": 0, "idle": 345, "silent": 0, "busy": 0}


def test_without_samples_all_nodes_are_equal_and_that_is_noted(tmp_path: Path) -> None:
    parts = (EXAMPLE / "load.yaml").read_text().split("---\n")
    file = tmp_path / "cluster.yaml"
    file.write_text("---\n".join(part for part in parts if "NodeMetrics" not in part))
    verdict, notes = explained(file)
    assert "there are no NodeMetrics: the load of nodes is not known" in notes
    assert set(scores(verdict).values()) == {0}

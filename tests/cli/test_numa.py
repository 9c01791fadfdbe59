"""Zones without a scheduler: NodeResourceTopologies in files, and the example of the documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from bayplan.cli.app import app

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "placement"


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def explained(file: Path) -> list[str]:
    args = ["explain", "-f", str(file), "--config", str(EXAMPLE / "numa-config.yaml")]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_the_document_quotes_the_example() -> None:
    lines = explained(EXAMPLE / "numa.yaml")
    text = (ROOT / "docs" / "placement.md").read_text()
    (block,) = (b for b in text.split("```\n") if b.startswith("default/solver"))
    first, dots, *quoted = block.splitlines()
    assert (lines[0], dots) == (first, "...")
    assert [line for line in lines if line.startswith("  ") and ": " in line] == quoted
    assert len(quoted) == 5


def test_a_pod_too_large_for_any_zone_says_what_each_zone_has(tmp_path: Path) -> None:
    text = (EXAMPLE / "numa.yaml").read_text()
    assert text.count('cpu: "6", memory: 24Gi}, limits') == 2
    head, tail = text.rsplit("name: solver", 1)
    file = tmp_path / "cluster.yaml"
    larger = tail.replace('cpu: "6"', 'cpu: "9"')
    file.write_text(f"{head}name: solver{larger}")
    lines = explained(file)
    assert any("empty: no zone has cpu 9" in line for line in lines), lines

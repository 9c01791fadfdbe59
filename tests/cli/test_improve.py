"""``bayplan improve``: text, data, exit codes, and what its page says of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import structlog
from typer.testing import CliRunner

from bayplan.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "improve.md").read_text(encoding="utf-8")
EXAMPLE = ("-f", str(ROOT / "examples" / "improve"))


@pytest.fixture(autouse=True)
def logging() -> Iterator[None]:
    """The command sets logging up; it is as before afterwards."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def run(*arguments: str, exit_code: int = 0) -> str:
    """What the command prints, without blanks at the ends of lines."""
    result = CliRunner().invoke(app, ["improve", *arguments, *EXAMPLE])
    assert result.exit_code == exit_code, result.output
    return "\n".join(line.rstrip() for line in result.output.rstrip().splitlines())


def test_without_a_plan_the_page_shows_what_stands_against_the_goal() -> None:
    assert run("for", "research/train-8", exit_code=1) in PAGE


def test_a_pod_that_stays_keeps_its_node() -> None:
    assert run("empty", "gpu-2", exit_code=2) in PAGE


def test_with_fewer_moves_than_needed_there_is_no_plan() -> None:
    said = run("for", "train", "-n", "research", "--moves", "0", exit_code=1)
    assert said.startswith("Without a move it does not fit.\n")


def test_with_no_time_it_says_so() -> None:
    said = run("for", "research/train", "--seconds", "0", exit_code=1)
    assert said.startswith("No plan was found, when the time was over.\n")


def test_every_key_of_the_data_is_described() -> None:
    table = PAGE.split("## As data")[1].split("\n## ")[0]
    plan = msgspec.json.decode(run("for", "research/train", "-o", "json"))
    none = msgspec.json.decode(run("for", "research/train-8", "-o", "json", exit_code=1))
    assert plan["kind"] == none["kind"] == "ImprovePlan"
    keys = {*plan, *none, *plan["moves"][0]} - {"apiVersion", "kind"}
    assert [key for key in sorted(keys) if f"`{key}`" not in table] == []


GOALS = ROOT / "examples" / "improve-goals"


@pytest.mark.parametrize(
    ("goal", "exit_code"), [("survive", 0), ("cost 1.5", 0), ("packing 0.8", 0), ("cost 3", 1)]
)
def test_the_page_shows_a_plan_for_each_goal(goal: str, exit_code: int) -> None:
    files = ["-f", str(GOALS / "cluster.yaml"), "--config", str(GOALS / "config.yaml")]
    result = CliRunner().invoke(app, ["improve", *goal.split(), *files])
    assert result.exit_code == exit_code, result.output
    assert "\n".join(line.rstrip() for line in result.output.rstrip().splitlines()) in PAGE


def test_the_data_of_a_measure_is_described() -> None:
    files = ["-f", str(GOALS / "cluster.yaml"), "--config", str(GOALS / "config.yaml")]
    result = CliRunner().invoke(app, ["improve", "cost", "1.5", *files, "-o", "json"])
    table = PAGE.split("## As data")[1].split("\n## ")[0]
    keys = {*msgspec.json.decode(result.output)} - {"apiVersion", "kind"}
    assert [key for key in sorted(keys) if f"`{key}`" not in table] == []


def test_no_plan_is_applied_that_is_none() -> None:
    result = CliRunner().invoke(app, ["improve", "--apply", str(GOALS / "config.yaml")])
    assert result.exit_code == 2
    assert "nothing was touched: this is no plan of bayplan improve" in result.output
    result = CliRunner().invoke(app, ["improve", "--apply", "plan.json", "survive"])
    assert result.exit_code == 2
    assert "--apply is about a plan that was made before: give no command with it" in result.output

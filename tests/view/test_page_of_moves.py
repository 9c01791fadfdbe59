"""The page with a plan of ``bayplan improve`` in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from e2e import chromium
from typer.testing import CliRunner

from bayplan.cli.app import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "improve"
COMMAND = [sys.executable, "-m", "bayplan"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """serve-1 goes from gpu-1 to gpu-2, so that train fits on gpu-1."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    improves = [*COMMAND, "improve", "for", "research/train", "-f", str(EXAMPLE), "-o", "json"]
    path.write_bytes(subprocess.check_output(improves))
    return path


def _shown(plan: Path, folder: Path) -> tuple[Any, Any, str]:
    """How many Pods come and leave by node, as the page draws it, and the answer as text."""
    command = [*COMMAND, "view", "-f", str(EXAMPLE), "--plan", str(plan)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with chromium.opened(folder) as tab:
                tab.open(process.stdout.readline().strip())
                tab.wait("document.body.dataset.generation > 0 && bayplan.picture.painted")
                tab.press("m")
                tab.wait("document.querySelector('#answer table') !== null")
                drawn = "Object.fromEntries(bayplan.picture.{})"
                found = tab.run(drawn.format("ghosts")), tab.run(drawn.format("leaving"))
                text = tab.text("#answer")
                assert tab.faults == []
        finally:
            process.terminate()
    return *found, text


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_the_moves_of_a_plan_are_drawn_where_pods_leave_and_come(
    plan: Path, tmp_path: Path
) -> None:
    come, leave, text = _shown(plan, tmp_path)
    assert (come, leave) == ({"gpu-1": 1, "gpu-2": 1}, {"gpu-1": 1})
    assert "1 move, and Pod research/train fits." in text
    assert "1\tresearch/serve-1\tgpu-1\tgpu-2" in text
    assert "research/train\tgpu-1" in text


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_a_pod_that_is_not_where_the_plan_says_is_not_drawn_and_said(
    plan: Path, tmp_path: Path
) -> None:
    old = json.loads(plan.read_text())
    old["moves"][0]["from"] = "gpu-3"
    other = tmp_path / "old.json"
    other.write_text(json.dumps(old))
    come, leave, text = _shown(other, tmp_path / "chromium")
    assert (come, leave) == ({"gpu-1": 1}, {})
    assert "Pods that are not on the node that it says: 1" in text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{kind: Pod, goal: a, reached: true, sentence: b}", "but of kind Pod"),
        ("kind: ImprovePlan", "this is no plan of bayplan improve: Object missing required field"),
        ("{kind: ImprovePlan, goal: a, reached: false, sentence: No.}", "nothing to show: No."),
        ("{", "plan.json: while parsing"),
    ],
)
def test_a_file_without_a_plan_is_told(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    run = CliRunner().invoke(app, ["view", "-f", str(EXAMPLE), "--plan", str(path)])
    assert (run.exit_code, why in run.output) == (2, True), run.output
    assert str(path) in run.output

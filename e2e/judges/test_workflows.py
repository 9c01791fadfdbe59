"""The workflows of .github, judged by actionlint: nobody has run them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from e2e.provider.golang import ROOT
from e2e.provider.programs import ACTIONLINT

pytestmark = pytest.mark.e2e

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


def actionlint(path: Path) -> subprocess.CompletedProcess[str]:
    """Judge a workflow.

    Not the scripts in it, for which other programs would have to be there, and not the inputs of
    actions, which it knows by tag: ours are pinned by commit.
    """
    command: list[str | Path] = [ACTIONLINT.binary(), "-shellcheck=", "-pyflakes=", "-no-color"]
    return subprocess.run([*command, path], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_it_is_a_workflow(path: Path) -> None:
    run = actionlint(path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("needs: try", "needs: tried", '"pypi" needs job "tried" which does not exist'),
        ("matrix.python }}", "matrix.pythn }}", 'property "pythn" is not defined'),
        ("steps.push.outputs", "steps.pull.outputs", 'property "pull" is not defined'),
        ("runs-on: ubuntu-24.04", "runs-on: ubuntu-24", 'label "ubuntu-24" is unknown'),
        ("id-token: write", "id-token: wrote", '"wrote" is invalid as permission'),
    ],
)
def test_it_tells_a_workflow_that_is_wrong(
    tmp_path: Path, right: str, wrong: str, why: str
) -> None:
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    assert right in text
    path = tmp_path / "release.yaml"
    path.write_text(text.replace(right, wrong))
    run = actionlint(path)
    assert run.returncode == 1
    assert why in run.stdout

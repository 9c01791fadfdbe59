from pathlib import Path

import pytest
from tests.config.cases import HEADER
from typer.testing import CliRunner

from bayplan.cli.config import app
from bayplan.config import IN_TREE, parse_config


def test_check_says_ok(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(HEADER)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{file}: ok\n", "")


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_wrong_file_ends_with_2_and_every_error_on_stderr(tmp_path: Path, command: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"{HEADER}parallelism: 0\npodMaxBackoffSeconds: 0\n")
    result = CliRunner().invoke(app, [command, str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"{file}: parallelism: must be greater than 0",
        f"{file}: podMaxBackoffSeconds: must not be less than podInitialBackoffSeconds",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parallelism: " + "9" * 5001, "line 3: parallelism: a number of 5001 digits"),
        ("profiles: " + "[" * 3000, "is nested deeper than 200 levels"),
    ],
    ids=["number", "brackets"],
)
def test_a_hostile_file_ends_with_2_and_one_line(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"{HEADER}{text}\n")
    result = CliRunner().invoke(app, ["check", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{file}: ")
    assert result.stderr.endswith(f"{problem}\n")


def test_warnings_go_to_stderr(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(f"{HEADER}profiles: [{{pluginConfig: [{{name: Foo}}]}}]\n")
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0
    assert result.stderr == (
        f'{file}: warning: profiles[0].pluginConfig[0].name: unknown plugin "Foo"\n'
    )


def test_show_prints_the_effective_configuration(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(f"{HEADER}parallelism: 3\n")
    shown = parse_config(CliRunner().invoke(app, ["show", str(file)]).stdout, IN_TREE)
    assert shown.settings.parallelism == 3
    assert shown.profiles[0].plugins == parse_config(HEADER, IN_TREE).profiles[0].plugins


def test_show_without_a_file_prints_the_defaults() -> None:
    shown = parse_config(CliRunner().invoke(app, ["show"]).stdout, IN_TREE)
    assert [profile.scheduler_name for profile in shown.profiles] == ["bayplan"]


PLUGIN = """
from bayplan.framework import Plugin

class Own(Plugin):
    def filter(self, state, pod, node): ...
"""


@pytest.mark.parametrize("command", ["check", "show"])
def test_plugins_of_ones_own_are_known_when_their_folder_is_given(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "own.py").write_text(PLUGIN)
    file = tmp_path / "own.yaml"
    enabled = "{multiPoint: {enabled: [{name: Own}]}}"
    file.write_text(f"{HEADER}profiles: [{{schedulerName: s, plugins: {enabled}}}]\n")
    asked = [command, str(file)]
    assert CliRunner().invoke(app, asked).exit_code == 2
    assert CliRunner().invoke(app, [*asked, f"--plugin-dir={tmp_path}"]).exit_code == 0

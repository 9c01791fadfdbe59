"""Comparisons: nothing where nothing differs, and every planted difference with its plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import FACTOR
from tests.replay.worlds import Story, nodes
from tests.simulation.support import write
from typer.testing import CliRunner

from bayplan.cli.app import app
from bayplan.testing import Builder, PodBuilder, make_pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "compare"
PACKING = EXAMPLE / "packing.yaml"
PLANTED = '''
from bayplan.framework import NodeInfo, Plugin, Status


class Planted(Plugin):
    """Keeps Pods called planted-* off n1."""

    name = "Planted"

    def filter(self, state, pod, node: NodeInfo):
        if pod.name.startswith("planted") and node.node.name == "n1":
            return Status.unschedulable("planted")
        return None
'''
WITH_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: Planted}]}}
"""


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets up logging for its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The second configuration, with a plugin of its own."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "config.yaml").write_text(WITH_PLUGIN)
    (folder / "plugins").mkdir()
    (folder / "plugins" / "planted.py").write_text(PLANTED)
    return [str(folder / "config.yaml"), "--plugin-dir-b", str(folder / "plugins")]


def _pod(name: str, cpu: int = 1, **more: int) -> PodBuilder:
    pod = make_pod(name).req(cpu=str(cpu)).uid(f"u-{name}")
    pod.spec(schedulerName="default-scheduler", **more)
    return pod


def _file(folder: Path, *objects: Builder[object]) -> Path:
    return write(folder, *({"kind": o.kind.name, "apiVersion": "v1", **o.json} for o in objects))


def _compared(*arguments: object) -> tuple[int, Any]:
    ran = CliRunner().invoke(app, ["compare", *map(str, arguments), "-o", "json"])
    assert ran.exit_code < 2, ran.output
    return ran.exit_code, msgspec.json.decode(ran.stdout)


_PODS = st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=8)


@settings(max_examples=25 * FACTOR)
@given(pods=_PODS)
def test_a_configuration_does_not_differ_from_itself(
    pods: list[tuple[bool, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = [_pod(f"p{i}", cpu, priority=int(high)) for i, (high, cpu) in enumerate(pods)]
    file = _file(tmp_path_factory.mktemp("same"), *nodes(2), *made)
    code, found = _compared(PACKING, PACKING, "-f", file)
    assert (code, found["differences"]) == (0, [])
    assert found["a"] == found["b"]


@settings(max_examples=25 * FACTOR)
@given(pods=_PODS)
def test_every_planted_difference_is_found_with_its_plugin(
    pods: list[tuple[bool, int]], planted: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The first Pod that is kept off its node differs by the plugin; none before it differs."""
    names = [f"{'planted' if kept else 'free'}-{i}" for i, (kept, _) in enumerate(pods)]
    made = [_pod(name, cpu) for name, (_, cpu) in zip(names, pods, strict=True)]
    file = _file(tmp_path_factory.mktemp("planted"), *nodes(2), *made)
    alone = CliRunner().invoke(app, ["simulate", "-f", str(file), "-o", "json"])
    results = msgspec.json.decode(alone.stdout)
    code, found = _compared("default", *planted, "-f", file)
    differ = {one["pod"]: one for one in found["differences"]}
    first = next(
        (
            number
            for number, one in enumerate(results)
            if one["pod"].startswith("default/planted") and one["node"] == "n1"
        ),
        None,
    )
    moved = results if first is None else results[:first]
    waiting = {one["pod"] for one in moved if one["node"] is None}
    # One that waits with both may wait for another reason.
    assert not (differ.keys() - waiting) & {one["pod"] for one in moved}
    if first is not None:
        one = differ[results[first]["pod"]]
        assert one["plugin"] == "Planted"
        assert one["change"] in ("elsewhere", "pendingInB")
        assert code == 1


def test_what_follows_from_an_earlier_difference_is_told_apart(
    planted: list[str], tmp_path: Path
) -> None:
    file = _file(tmp_path, *nodes(2), _pod("planted-a", 4), _pod("b", 4))
    _, found = _compared("default", *planted, "-f", file)
    first, second = sorted(found["differences"], key=lambda one: one["pod"], reverse=True)
    assert (first["pod"], first["plugin"]) == ("default/planted-a", "Planted")
    assert second["follows"] is True
    assert found["plugins"] == {"Planted": 1}


def test_the_score_that_makes_the_difference_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ["default", PACKING, "-f", EXAMPLE / "cluster.yaml", "--html", page]
    code, found = _compared(*arguments)
    assert code == 1
    [moved] = [one for one in found["differences"] if one["change"] == "elsewhere"]
    assert (moved["plugin"], moved["points"]) == ("NodeResourcesFit", 9)
    text = page.read_text()
    assert "NodeResourcesFit: B rates its own node 9 higher" in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_who_would_be_evicted_with_one_only_is_said(planted: list[str], tmp_path: Path) -> None:
    low = [_pod(f"low-{i}", 4).node(f"n{i}") for i in (1, 2)]
    file = _file(tmp_path, *nodes(2), *low, _pod("planted-high", 4, priority=9))
    ran = CliRunner().invoke(app, ["compare", "default", *planted, "-f", str(file)])
    assert ran.exit_code == 1, ran.output
    assert "default/low-1  A" in ran.stdout
    assert "default/low-2  B" in ran.stdout


def test_all_pods_that_run_may_be_compared(tmp_path: Path) -> None:
    running = [_pod(f"p{i}").node("n1").owner("ReplicaSet", "web") for i in range(3)]
    file = _file(tmp_path, *nodes(3), *running)
    assert _compared("default", PACKING, "-f", file)[0] == 0
    code, found = _compared("default", PACKING, "-f", file, "--replan")
    assert code == 1
    assert found["b"]["dominant"]["deviation"] > found["a"]["dominant"]["deviation"]


def _recording(folder: Path, node: str) -> Path:
    story = Story(folder / f"{node}.zst", *nodes(2))
    for number in range(4):
        pod = _pod(f"p{number}")
        story.at(number * 10).add(pod)
        where = ("n1", "n2", "n1", "n2")[number] if node == "best" else node
        story.at(number * 10 + 1).add(pod.node(where))
    return story.end(120)


def test_replays_of_one_recording_are_compared(tmp_path: Path) -> None:
    file = _recording(tmp_path, "best")
    page = tmp_path / "page.html"
    code, found = _compared("default", "default", "-r", file)
    assert (code, found["a"]) == (0, found["b"])
    code, found = _compared("default", PACKING, "-r", file, "--html", page)
    assert code == 1
    means = [found[side]["summary"]["means"]["dominant share, deviation"] for side in "ab"]
    assert means[0] < means[1]
    assert "polyline" in page.read_text()


def test_recorded_decisions_are_judged_on_the_state_that_they_had(tmp_path: Path) -> None:
    code, found = _compared("recorded", "default", "-r", _recording(tmp_path, "best"))
    assert (code, found["compared"], found["agreed"]) == (0, 4, 4)
    code, found = _compared("recorded", "default", "-r", _recording(tmp_path, "n1"))
    assert (code, found["compared"], found["agreed"]) == (1, 4, 1)
    assert found["plugins"].keys() >= {"NodeResourcesFit"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["default", "default"], "needs either -f or --recording"),
        (["recorded", "default", "-f", "x"], "needs --recording"),
        (["default", "missing.yaml", "-f", "x"], "missing.yaml"),
        (["default", "default", "-f", "missing"], "No such file"),
        (["default", "default", "-r", "missing"], "No such file"),
    ],
)
def test_what_cannot_be_compared_ends_with_2(arguments: list[str], why: str) -> None:
    ran = CliRunner().invoke(app, ["compare", *arguments])
    assert ran.exit_code == 2
    assert why in ran.output

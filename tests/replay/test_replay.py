"""Replays of small recordings: who is placed when, who waits, leaves and is evicted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.worlds import Story, nodes
from typer.testing import CliRunner

from bayplan.api.kinds import POD_GROUP
from bayplan.app.sources import Sources
from bayplan.cli.app import app
from bayplan.replay.run import Options, Outcome, Recording, replay
from bayplan.testing import (
    PodBuilder,
    make_node,
    make_object,
    make_pod,
    make_pvc,
    make_storage_class,
)

Line = dict[str, Any]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets up logging for its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def _pod(name: str, cpu: int = 1, *, owner: str = "", priority: int = 0) -> PodBuilder:
    pod = make_pod(name).req(cpu=str(cpu)).uid(f"u-{name}").priority(priority)
    pod.spec(schedulerName="default-scheduler")
    return pod.owner("ReplicaSet", owner) if owner else pod


def _replayed(path: Path, config: Path | None = None) -> tuple[Outcome, list[Line]]:
    registry, effective = Sources(config, (), "default-scheduler").read()
    result = path.with_name("result.zst")
    options = Options(adopts=None if config else "default-scheduler", result=result)
    outcome = replay(Recording([path]), effective, registry, options)
    return outcome, _lines(result)


def _lines(path: Path) -> list[Line]:
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    return [msgspec.json.decode(line) for line in text.splitlines()]


def _bound(lines: list[Line]) -> dict[str, tuple[float, str]]:
    """When each Pod was bound, and where."""
    return {line["bound"]: (line["at"], line["node"]) for line in lines if "bound" in line}


def test_a_pod_is_placed_anew_wherever_it_was(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(2))
    pod = _pod("a")
    story.at(5).add(pod).at(6).add(pod.node("n2"))
    outcome, lines = _replayed(story.end(10))
    assert _bound(lines) == {"default/a": (5.0, "n1")}
    assert (outcome.summary.arrived, outcome.summary.bound) == (1, 1)


def test_a_pod_that_ended_by_itself_runs_as_long_from_its_binding(tmp_path: Path) -> None:
    """Bound after 5 s as recorded it ran for 20; here there is no room until it is 30."""
    story = Story(tmp_path / "day.zst", make_node("n1").capacity(cpu="1", pods="9"))
    first, second, third = (_pod(name) for name in "abc")
    story.at(0).add(first, second).at(5).add(second.node("nowhere")).at(25).remove(second)
    story.at(30).remove(first).at(31).add(third)
    outcome, lines = _replayed(story.end(100))
    bound = _bound(lines)
    assert bound["default/a"] == (0.0, "n1")
    assert bound["default/b"][0] == pytest.approx(30, abs=1)
    assert bound["default/c"][0] == pytest.approx(bound["default/b"][0] + 20, abs=1)
    assert outcome.summary.waits.longest == pytest.approx(30, abs=1)


def test_a_pod_that_was_deleted_leaves_at_the_same_time(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", make_node("n1").capacity(cpu="1", pods="9"))
    first, waiting, second = (_pod(name) for name in "abc")
    story.at(0).add(first, waiting).at(10).add(first.node("n9"))
    story.at(20).add(waiting.terminating()).remove(waiting)
    story.at(40).add(first.terminating()).at(50).remove(first).at(60).add(second)
    outcome, lines = _replayed(story.end(100))
    assert _bound(lines) == {"default/a": (0.0, "n1"), "default/c": (60.0, "n1")}
    assert outcome.summary.ended == 1


def test_a_pod_waits_until_a_node_comes(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(1, cpu=1))
    story.at(1).add(_pod("big", 4)).at(100).add(make_node("n2").capacity(cpu="8", pods="9"))
    outcome, lines = _replayed(story.end(200))
    assert _bound(lines) == {"default/big": (100.0, "n2")}
    assert outcome.summary.waits.longest == 99


def test_who_waits_at_the_end_is_said_with_the_message(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(1, cpu=1))
    outcome, lines = _replayed(story.at(1).add(_pod("big", 4)).end(20))
    assert list(outcome.pending) == ["default/big"]
    assert "Insufficient cpu" in outcome.pending["default/big"]
    assert lines[-2] == {"pending": "default/big", "message": outcome.pending["default/big"]}
    assert outcome.summary.attempts == 1


def test_an_evicted_pod_that_a_controller_makes_again_arrives_again(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(1, cpu=1))
    low, bare, high = _pod("low", owner="web"), _pod("bare"), _pod("high", priority=9)
    del bare
    story.at(1).add(low).at(2).add(low.node("n9"))
    story.at(10).add(high).at(12).add(high.node("n9")).at(20).remove(high)
    outcome, lines = _replayed(story.end(60))
    assert {"at": 10.0, "evicted": "default/low", "node": "n1"} in lines
    bound = _bound(lines)
    assert bound["default/high"][0] == pytest.approx(10, abs=1.1)
    assert bound["default/low~1"][0] == pytest.approx(bound["default/high"][0] + 8, abs=1.1)
    assert outcome.summary.evicted == 1


def test_pods_of_others_are_where_they_were(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: ours}]\n"
    )
    story = Story(tmp_path / "day.zst", *nodes(2, cpu=1))
    other, ours = _pod("other"), _pod("ours").spec(schedulerName="ours")
    story.at(1).add(other).at(2).add(other.node("n1")).at(3).add(ours)
    story.at(10).remove(other).at(11).add(_pod("more").spec(schedulerName="ours"))
    outcome, lines = _replayed(story.end(20), config)
    assert _bound(lines) == {"default/ours": (3.0, "n2"), "default/more": (11.0, "n1")}
    assert outcome.summary.arrived == 2


def test_a_group_is_placed_when_its_minimum_is_there(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: default-scheduler\n  plugins:\n    multiPoint:\n"
        "      enabled: [{name: Coscheduling}]\n"
        "    queueSort: {disabled: [{name: PrioritySort}]}\n"
    )
    group = make_object(POD_GROUP, "g").namespace("default").spec(minMember=2)
    story = Story(tmp_path / "day.zst", *nodes(2), group)
    label = "scheduling.x-k8s.io/pod-group"
    story.at(1).add(_pod("a").label(label, "g")).at(30).add(_pod("b").label(label, "g"))
    _, lines = _replayed(story.end(60), config)
    assert {name: at for name, (at, _) in _bound(lines).items()} == {
        "default/a": 30.0,
        "default/b": 30.0,
    }


def test_a_volume_is_made_where_the_pod_goes(tmp_path: Path) -> None:
    slow = make_storage_class("slow").top(
        provisioner="x.example.com", volumeBindingMode="WaitForFirstConsumer"
    )
    claim = make_pvc("data").spec(storageClassName="slow", accessModes=["ReadWriteOnce"])
    claim.spec(resources={"requests": {"storage": "1Gi"}})
    story = Story(tmp_path / "day.zst", *nodes(1), slow, claim)
    story.at(1).add(_pod("a").pvc("data"))
    _, lines = _replayed(story.end(60))
    assert _bound(lines) == {"default/a": (1.0, "n1")}


def test_samples_come_at_regular_times(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(2))
    outcome, _ = _replayed(story.at(1).add(_pod("a", 4)).end(300))
    assert [sample.at for sample in outcome.samples] == [60, 120, 180, 240, 300, 300]
    assert outcome.samples[0].measures.dominant.mean == pytest.approx(0.5)


def test_kinds_that_are_not_recorded_are_said(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", kinds=("Node", "Pod", "Namespace"))
    outcome, _ = _replayed(story.end(1))
    assert "PersistentVolumeClaim" in outcome.notes[0]


def _arrivals() -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """When a Pod comes, its CPUs, how long it runs."""
    return st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 4), st.integers(1, 60)), max_size=12
    )


@given(arrivals=_arrivals())
def test_no_node_ever_has_more_pods_than_fit_and_all_run_as_long_as_recorded(
    arrivals: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A Pod that was not bound when it came found no node with room at that moment."""
    story = Story(tmp_path_factory.mktemp("r") / "day.zst", *nodes(2))
    pods = {
        f"p{i}": (_pod(f"p{i}", cpu), at, cpu, runs) for i, (at, cpu, runs) in enumerate(arrivals)
    }
    events = [(at, 1, name) for name, (_, at, _, _) in pods.items()]
    events += [(at + runs, 0, name) for name, (_, at, _, runs) in pods.items()]
    for at, comes, name in sorted(events):
        (story.at(at).add if comes else story.at(at).remove)(pods[name][0])
    _, lines = _replayed(story.end(2_000))
    bound = {name.partition("/")[2]: where for name, where in _bound(lines).items()}
    assert bound.keys() == pods.keys()

    def used(node: str, moment: float, but: str = "") -> int:
        return sum(
            pods[name][2]
            for name, (at, where) in bound.items()
            if where == node and name != but and at <= moment < at + pods[name][3]
        )

    for name, (when, node) in bound.items():
        assert used(node, when) <= 4
        _, came, cpu, _ = pods[name]
        if when > came:
            assert all(used(other, came, name) + cpu > 4 for other in ("n1", "n2"))


def test_the_same_seed_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(9))
    for number in range(60):
        story.at(number).add(_pod(f"p{number}", owner=f"o{number % 3}", priority=number % 2))
    path = story.end(100)

    def result(name: str, hash_seed: str, seed: str) -> bytes:
        target = tmp_path / name
        command = [sys.executable, "-m", "bayplan", "replay", str(path)]
        command += ["--seed", seed, "--result", str(target)]
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run(command, env=env, check=True, capture_output=True)
        return target.read_bytes()

    first = result("a", "1", "7")
    assert result("b", "2", "7") == first
    assert result("c", "1", "8") != first


def test_the_command_prints_what_came_of_it(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(2))
    path = story.at(1).add(_pod("a"), _pod("big", 9)).end(300)
    ran = CliRunner().invoke(app, ["replay", str(path)])
    assert ran.exit_code == 0, ran.output
    assert "waits at the end" in ran.stdout
    ran = CliRunner().invoke(app, ["replay", str(path), "-o", "json"])
    assert msgspec.json.decode(ran.stdout)["summary"]["bound"] == 1


def test_what_is_no_recording_ends_with_2(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("apiVersion: v1")
    ran = CliRunner().invoke(app, ["replay", str(path)])
    assert ran.exit_code == 2
    assert "is no bayplan-record" in ran.stderr

"""What there was at a moment of a recording, and the time line of all of it."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.replay.worlds import START, Story, nodes

from bayplan.api.kinds import NAMESPACE, NODE, POD
from bayplan.recordings.file import RecordingError, RecordingReader, RecordingWriter, lines_of
from bayplan.recordings.lines import Type
from bayplan.recordings.moments import Moment, Moments
from bayplan.recordings.recorder import Recorder, header_of
from bayplan.recordings.stripped import stripping
from bayplan.testing import PodBuilder, make_pod
from bayplan.view.timeline import MOMENTS


def _pods(moment: Moment) -> dict[str, str]:
    """The nodes of Pods by name; "" for those that wait."""
    pods = (json.loads(bytes(data)) for _, data in moment.objects((POD,)))
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


def _evicted(pod: PodBuilder) -> PodBuilder:
    pod.json["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return pod


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("comes", "is bound", "is evicted", "goes")),
        st.integers(0, 3),
        st.floats(0.01, 5),
    ),
    max_size=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=STEPS, part=st.floats(0, 1))
def test_a_moment_has_what_there_was_and_the_time_line_every_binding_and_eviction(
    tmp_path: Path, steps: list[tuple[str, int, float]], part: float
) -> None:
    path = tmp_path / "day.zst"
    path.unlink(missing_ok=True)
    story, now = Story(path, *nodes(1)), 0.0
    there: dict[str, str] = {}
    states: list[tuple[float, dict[str, str]]] = [(0.0, {})]
    lives: Counter[str] = Counter()
    bound = evicted = 0
    for number, (what, which, seconds) in enumerate(steps):
        now = round(now + seconds, 3)
        name = f"p{which}"
        lives[name] += what == "comes" and name not in there
        pod = make_pod(name).uid(f"{name}-{lives[name]}")
        if what == "comes" and name not in there:
            story.at(now).add(pod.label("step", str(number)))
            there[name] = ""
        elif what == "is bound" and there.get(name) == "":
            story.at(now).add(pod.node("n1"))
            there[name], bound = "n1", bound + 1
        elif what == "is evicted" and there.get(name) == "n1":
            story.at(now).add(_evicted(pod.node("n1")))
            there[name], evicted = "leaves", evicted + 1
        elif what == "goes" and name in there:
            story.at(now).remove(pod)
            del there[name]
        states.append((now, dict(there)))
    moments = Moments([story.end(now + 1)])
    looked = round(part * now, 3)
    expected = [state for at, state in states if at <= looked][-1]
    nodes_of = {name: "n1" if node == "leaves" else node for name, node in expected.items()}
    assert _pods(moments.at(START + looked)) == nodes_of
    line = moments.history.moments
    assert (sum(one[1] for one in line), sum(one[3] for one in line)) == (bound, evicted)
    assert line[-1][2] == sum(not node for node in there.values())
    assert all(before[0] < after[0] for before, after in pairwise(line))


def test_the_time_line_of_a_long_recording_has_sums(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(1), make_pod("old").node("n1"))
    for number in range(2000):
        story.at(number * 43).add(make_pod(f"p{number}").node("n1"))
    history = Moments([story.end(86_400)]).history
    assert (history.since, history.until) == (START, START + 86_400)
    assert len(history.moments) <= MOMENTS
    assert sum(one[1] for one in history.moments) == 2000


def test_a_pod_that_is_made_again_with_the_name_counts_again(tmp_path: Path) -> None:
    story = Story(tmp_path / "day.zst", *nodes(1))
    story.at(1).add(make_pod("web-0").uid("1").node("n1"))
    story.at(2).add(make_pod("web-0").uid("2"))
    moments = Moments([story.end(3)])
    assert _pods(moments.at(START + 1)) == {"web-0": "n1"}
    assert _pods(moments.at(START + 2)) == {"web-0": ""}
    assert moments.history.moments[-1][2] == 1


def test_a_kind_that_is_not_recorded_is_noted_once(tmp_path: Path) -> None:
    moments = Moments([Story(tmp_path / "day.zst", *nodes(1), kinds=("Node", "Pod")).end(1)])
    for _ in range(2):
        assert list(moments.at(START).objects((NAMESPACE,))) == []
    assert len(list(moments.at(START).objects((NODE,)))) == 1
    assert moments.notes == ["the recording has no Namespace: there are none in the picture"]


def test_a_recording_that_was_cut_in_its_list_has_no_moment(tmp_path: Path) -> None:
    path = tmp_path / "day.zst"
    RecordingWriter.create(path, header_of((NODE, POD), START)).close()
    with pytest.raises(RecordingError, match="ends before its list is complete"):
        Moments([path])


def test_a_recording_that_was_cut_later_shows_all_that_is_whole(tmp_path: Path) -> None:
    header = header_of((NODE, POD), START)
    path, now = tmp_path / "day.zst", [START]
    recorder = Recorder(path, header, lambda: now[0])
    recorder.ready()
    for number in range(50):
        now[0] += 1
        body = msgspec.json.encode(make_pod(f"p{number}").json)
        recorder.set("Pod", stripping(POD).decode(body))
        recorder.flush()
    recorder.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    moments = Moments([path])
    whole = sum(line.type is Type.ADDED for line in lines_of([RecordingReader(path)]))
    assert 0 < whole < 50
    assert len(_pods(moments.at(moments.history.until))) == whole
    assert moments.history.until == START + whole

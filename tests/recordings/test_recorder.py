"""What a recorder writes of what informers send, and how it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.kinds import NAMESPACE, NODE, POD
from bayplan.inbox.messages import Changed, Removed, Replaced, WatchMessage
from bayplan.recordings import file as files
from bayplan.recordings.file import RecordingError, RecordingReader, lines_of
from bayplan.recordings.recorder import Recorder, header_of, part_path, take
from bayplan.recordings.stripped import Stripped, stripping

KIND = stripping(POD)


class Time:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _pod(name: str, *, label: str = "", node: str = "", uid: str = "", **status: Any) -> Stripped:
    meta = {"name": name, "namespace": "a", "uid": uid or name, "labels": {"x": label}}
    body = {"metadata": meta, "spec": {"nodeName": node}, "status": status}
    return KIND.decode(json.dumps(body).encode())


def _recorder(folder: Path, part_bytes: int = 0, keep: int = 0) -> tuple[Recorder, Time]:
    time, header = Time(), header_of((NODE, POD), 100.0)
    return Recorder(folder / "day.zst", header, time, part_bytes, keep), time


def _lines(*paths: Path) -> list[tuple[float, str, str]]:
    lines = lines_of([RecordingReader(path) for path in paths])
    return [(line.at, str(line.type), _name(bytes(line.object))) for line in lines]


def _name(body: bytes) -> str:
    return json.loads(body)["metadata"]["name"] if body else ""


def test_a_list_then_events_with_their_time(tmp_path: Path) -> None:
    recorder, time = _recorder(tmp_path)
    recorder.apply(Replaced(KIND, [_pod("a"), _pod("b")]))
    recorder.ready()
    time.now = 101.5
    recorder.apply(Changed(KIND, _pod("c")))
    recorder.apply(Changed(KIND, _pod("a", node="n1")))
    recorder.apply(Removed(KIND, _pod("b")))
    recorder.close()
    assert _lines(tmp_path / "day.zst") == [
        (100.0, "LISTED", "a"),
        (100.0, "LISTED", "b"),
        (100.0, "READY", ""),
        (101.5, "ADDED", "c"),
        (101.5, "MODIFIED", "a"),
        (101.5, "DELETED", "b"),
    ]


def test_a_change_of_what_is_not_recorded_makes_no_line(tmp_path: Path) -> None:
    recorder, _ = _recorder(tmp_path)
    recorder.ready()
    recorder.apply(Changed(KIND, _pod("a")))
    recorder.apply(Changed(KIND, _pod("a", podIP="10.0.0.1")))
    recorder.close()
    assert [line[1] for line in _lines(tmp_path / "day.zst")] == ["READY", "ADDED"]


def test_a_list_after_an_interruption_makes_lines_of_the_differences(tmp_path: Path) -> None:
    recorder, _ = _recorder(tmp_path)
    recorder.apply(Replaced(KIND, [_pod("a"), _pod("b"), _pod("c", uid="1")]))
    recorder.ready()
    recorder.apply(Replaced(KIND, [_pod("a"), _pod("c", uid="2"), _pod("d")]))
    recorder.close()
    assert [line[1:] for line in _lines(tmp_path / "day.zst")][4:] == [
        ("DELETED", "b"),
        ("DELETED", "c"),
        ("ADDED", "c"),
        ("ADDED", "d"),
    ]


def test_a_pod_that_has_ended_is_gone(tmp_path: Path) -> None:
    recorder, _ = _recorder(tmp_path)
    recorder.ready()
    recorder.apply(Changed(KIND, _pod("a", node="n")))
    recorder.apply(Changed(KIND, _pod("a", node="n", phase="Succeeded")))
    recorder.apply(Changed(KIND, _pod("z", phase="Failed")))
    recorder.close()
    assert [line[1:] for line in _lines(tmp_path / "day.zst")][1:] == [
        ("ADDED", "a"),
        ("DELETED", "a"),
    ]


def test_a_clock_that_goes_back_does_not_in_the_recording(tmp_path: Path) -> None:
    recorder, time = _recorder(tmp_path)
    recorder.ready()
    time.now = 90.0
    recorder.apply(Changed(KIND, _pod("a")))
    recorder.close()
    assert [line[0] for line in _lines(tmp_path / "day.zst")] == [100.0, 100.0]


def test_parts_begin_with_the_whole_list_and_old_ones_are_deleted(tmp_path: Path) -> None:
    recorder, _ = _recorder(tmp_path, part_bytes=1, keep=2)
    recorder.apply(Replaced(KIND, [_pod("a")]))
    recorder.ready()
    for name in "bc":
        recorder.apply(Changed(KIND, _pod(name)))
        recorder.flush()
    recorder.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["day.2.zst", "day.3.zst"]
    third = [line[1:] for line in _lines(tmp_path / "day.3.zst")]
    assert third == [("LISTED", "a"), ("LISTED", "b"), ("LISTED", "c"), ("READY", "")]


def test_what_exists_is_not_written_over(tmp_path: Path) -> None:
    _recorder(tmp_path)[0].close()
    with pytest.raises(FileExistsError):
        _recorder(tmp_path)


def test_a_recording_without_its_whole_list_is_not_resumed(tmp_path: Path) -> None:
    recorder, time = _recorder(tmp_path)
    recorder.apply(Replaced(KIND, [_pod("a")]))
    recorder.close()
    with pytest.raises(RecordingError, match="before its list is complete"):
        Recorder.resume(tmp_path / "day.zst", (NODE, POD), time)


def test_a_recording_of_other_kinds_is_not_resumed(tmp_path: Path) -> None:
    recorder, time = _recorder(tmp_path)
    recorder.ready()
    recorder.close()
    with pytest.raises(RecordingError, match="is without Namespace: begin anew"):
        Recorder.resume(tmp_path / "day.zst", (NODE, POD, NAMESPACE), time)


_MESSAGES = st.lists(
    st.one_of(
        st.builds(
            lambda name, label: Changed(KIND, _pod(name, label=label)),
            st.sampled_from("abc"),
            st.sampled_from("xy"),
        ),
        st.builds(lambda name: Removed(KIND, _pod(name)), st.sampled_from("abc")),
    ),
    max_size=12,
)


@given(
    messages=_MESSAGES,
    later=_MESSAGES,
    part_bytes=st.sampled_from([0, 1]),
    permille=st.integers(0, 1000),
)
def test_a_recording_that_was_cut_and_resumed_ends_with_what_there_is(
    messages: list[WatchMessage],
    later: list[WatchMessage],
    part_bytes: int,
    permille: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """After a resume comes a list of what there is: the objects of all messages."""
    folder = tmp_path_factory.mktemp("resume")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "FRAME_BYTES", 500)
        recorder, time = _recorder(folder, part_bytes=part_bytes)
        recorder.apply(Replaced(KIND, [_pod("a")]))
        recorder.ready()
        ready = recorder.size[0]
        for message in messages:
            recorder.apply(message)
            recorder.flush()
        newest = recorder._header.part
        path = part_path(folder / "day.zst", newest)
        content = path.read_bytes()
        least = ready if newest == 1 else len(content)
        path.write_bytes(content[: least + (len(content) - least) * permille // 1000])
        truth = dict(recorder.known["Pod"])
        again = Recorder.resume(folder / "day.zst", (NODE, POD), time, part_bytes)
        for message in [Replaced(KIND, list(truth.values())), *later]:
            again.apply(message)
            again.flush()
        again.close()
        parts = [
            RecordingReader(part_path(folder / "day.zst", n))
            for n in range(1, 100)
            if part_path(folder / "day.zst", n).exists()
        ]
        known: dict[str, dict[str, Stripped]] = {"Node": {}, "Pod": {}}
        for line in lines_of(parts):
            take(known, line)
        bodies = {key: obj.body for key, obj in known["Pod"].items()}
        assert bodies == {key: obj.body for key, obj in again.known["Pod"].items()}

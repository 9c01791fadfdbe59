"""Files of recordings: cut, foreign, newer and damaged ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.kinds import NODE, POD
from bayplan.recordings import file as files
from bayplan.recordings.file import RecordingError, RecordingReader, RecordingWriter, lines_of
from bayplan.recordings.lines import NOTHING, Line, Type, encode
from bayplan.recordings.recorder import header_of

HEADER = header_of((NODE, POD), 100.0)


def _line(number: int, at: float | None = None) -> bytes:
    body = encode({"metadata": {"name": f"p{number}", "namespace": "a", "uid": str(number)}})
    when = 100.0 + number if at is None else at
    return encode(Line(when, Type.ADDED, "Pod", msgspec.Raw(body)))


def _written(path: Path, lines: int, *, close: bool = True) -> Path:
    writer = RecordingWriter.create(path, HEADER)
    for number in range(lines):
        writer.write(_line(number))
        writer.flush()
    if close:
        writer.close()
    return path


def _times(path: Path) -> list[float]:
    return [line.at for line in RecordingReader(path).lines()]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = _written(tmp_path / "day.zst", 3)
    reader = RecordingReader(path)
    assert reader.header == HEADER
    assert [bytes(line.object)[:26] for line in reader.lines()] == [
        b'{"metadata":{"name":"p%d","' % number for number in range(3)
    ]
    assert reader.notes == []


def test_a_line_without_an_object_has_no_object() -> None:
    assert encode(Line(1.0, Type.READY, "", NOTHING)) == b'{"at":1.0,"type":"READY"}'


def test_zstdcat_reads_it(tmp_path: Path) -> None:
    path = _written(tmp_path / "day.zst", 2)
    try:
        ran = subprocess.run(["zstdcat", str(path)], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("there is no zstdcat")
    assert ran.stdout.splitlines() == [encode(HEADER), _line(0), _line(1)]


@given(data=st.data())
def test_a_recording_cut_anywhere_is_read_to_the_cut_and_resumed(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "FRAME_BYTES", data.draw(st.sampled_from([1, 300, 1 << 20])))
        first = _written(folder / "empty.zst", 0, close=False).stat().st_size
        path = _written(folder / "day.zst", 6, close=data.draw(st.booleans()))
        whole = _times(path)
        content = path.read_bytes()
        cut = data.draw(st.integers(1, len(content)))
        path.write_bytes(content[:cut])
        try:
            read = _times(path)
        except RecordingError:
            assert cut <= first
            return
        assert read == whole[: len(read)]
        writer = RecordingWriter.append(path)
        writer.write(_line(50))
        writer.close()
        assert _times(path) == [*read, 150.0]


def test_every_flushed_line_is_in_the_file(tmp_path: Path) -> None:
    assert _times(_written(tmp_path / "day.zst", 5, close=False)) == [100.0, 101, 102, 103, 104]


def test_a_line_that_is_not_whole_is_said(tmp_path: Path) -> None:
    path = tmp_path / "day.zst"
    text = encode(HEADER) + b"\n" + _line(0) + b"\n" + _line(1)[:-10]
    path.write_bytes(zstandard.compress(text))
    reader = RecordingReader(path)
    assert len(list(reader.lines())) == 1
    assert "its last line is not whole" in reader.notes[0]


def test_a_clock_that_goes_back_is_held(tmp_path: Path) -> None:
    path = tmp_path / "day.zst"
    writer = RecordingWriter.create(path, HEADER)
    for number, at in enumerate((101.0, 99.5, 102.0)):
        writer.write(_line(number, at))
    writer.close()
    reader = RecordingReader(path)
    assert [line.at for line in reader.lines()] == [101.0, 101.0, 102.0]
    assert reader.notes == [f"{path}: the clock goes back in 1 lines, by up to 1.500 s; held"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not compressed by zstd"),
        (b"apiVersion: v1", "is not compressed by zstd"),
        (zstandard.compress(b'{"kind":"List"}\n'), "the first line does not say so"),
        (zstandard.compress(b"nonsense\n"), "the first line does not say so"),
        (zstandard.compress(b'{"record":"bayplan-record"'), "there is no complete line in it"),
        (
            zstandard.compress(b'{"record":"bayplan-record","version":2}\n'),
            "of version 2; this bayplan reads version 1",
        ),
        (zstandard.compress(b'{"record":"bayplan-record","version":1}\n'), "line 1: "),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=why):
        RecordingReader(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        RecordingReader(tmp_path / "none")


def test_a_damaged_recording_is_neither_read_on_nor_resumed(tmp_path: Path) -> None:
    path = _written(tmp_path / "day.zst", 5)
    content = bytearray(path.read_bytes())
    content[-30] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="is damaged"):
        _times(path)
    with pytest.raises(RecordingError, match="is damaged"):
        RecordingWriter.append(path)
    assert path.read_bytes() == content


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "day.zst"
    path.write_bytes(zstandard.compress(encode(HEADER) + b'\n{"at":"noon"}\n'))
    with pytest.raises(RecordingError, match=r"line 2: Expected `float`"):
        _times(path)


def test_parts_are_read_as_one(tmp_path: Path) -> None:
    first = _written(tmp_path / "day.zst", 2)
    second = tmp_path / "day.2.zst"
    writer = RecordingWriter.create(second, msgspec.structs.replace(HEADER, part=2))
    writer.write(encode(Line(102.0, Type.LISTED, "Pod", msgspec.Raw(b"{}"))))
    writer.write(encode(Line(102.0, Type.READY)))
    writer.write(_line(9))
    writer.close()
    parts = [RecordingReader(path) for path in (first, second)]
    assert [line.at for line in lines_of(parts)] == [100.0, 101.0, 109.0]
    with pytest.raises(RecordingError, match="is not the part after"):
        list(lines_of(reversed(parts)))

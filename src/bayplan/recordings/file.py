"""Files of recordings: lines in frames of zstd, written to be cut at any place.

A frame is closed after `FRAME_BYTES` of text; within it, `RecordingWriter.flush` brings every line
into the file that was written. So all lines up to the last flush can be read, wherever the file
ends, and writing goes on after the last frame that is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec
import zstandard

from bayplan.recordings.lines import FORMAT, VERSION, Header, Line, decode_line, encode

MAGIC = b"\x28\xb5\x2f\xfd"
FRAME_BYTES = 4 << 20
LEVEL = 9
_CHUNK = 1 << 20
_decode_header = msgspec.json.Decoder(Header).decode


class RecordingError(Exception):
    """A file is no recording, or cannot be read; the message names the file."""


class RecordingWriter:
    """Writes lines. `flush` and `close` may raise OSError, and so may all that writes.

    Attributes:
        size: bytes of the file.
        text: bytes of the lines that were written, before compression.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdCompressionObj | None = None
        self._in_frame = 0
        self.size = file.tell()
        self.text = 0

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """A new file that begins with ``header``.

        Raises:
            OSError: it cannot be made, or exists.
        """
        writer = cls(path.open("xb"))
        writer.write(encode(header))
        writer.flush()
        return writer

    @classmethod
    def append(cls, path: Path) -> Self:
        """Write on after the last line of the file that is whole.

        Raises:
            RecordingError: it is no recording, or damaged before its end.
            OSError: it cannot be read or written.
        """
        complete, rest = 0, b""
        for end, text, whole in _frames(path):
            if whole:
                complete = end
            else:
                rest = text[: text.rfind(b"\n") + 1]
        file = path.open("r+b")
        file.truncate(complete)
        file.seek(complete)
        writer = cls(file)
        if rest:
            writer.write(rest.removesuffix(b"\n"))
            writer.flush()
        return writer

    def write(self, line: bytes) -> None:
        """One line, without its end."""
        if self._frame is None:
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            self._frame = compressor.compressobj()
        self._put(self._frame.compress(line + b"\n"))
        self.text += len(line) + 1
        self._in_frame += len(line) + 1
        if self._in_frame >= FRAME_BYTES:
            self._end_frame()

    def flush(self) -> None:
        """Bring everything that was written into the file."""
        if self._frame is not None:
            self._put(self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._file.flush()

    def close(self) -> None:
        """End the file, on the disk."""
        self._end_frame()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _end_frame(self) -> None:
        if self._frame is not None:
            self._put(self._frame.flush())
        self._frame, self._in_frame = None, 0

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)


class RecordingReader:
    """Reads the lines of one file; a clock that goes back is held.

    Attributes:
        header: the first line.
        notes: what is wrong with the file, after its lines were read.

    Raises:
        RecordingError: it is no recording, of a newer version, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        first = next(self._texts(), None)
        if first is None:
            raise RecordingError(f"{path}: is no {FORMAT}: there is no complete line in it")
        self.header = _header(path, first)

    def lines(self) -> Iterator[Line]:
        """The lines after the header, in order.

        A file that was cut ends with its last complete line, which `notes` says.

        Raises:
            RecordingError: a line is none.
        """
        self.notes.clear()
        texts = self._texts()
        next(texts)
        last, turns, furthest = self.header.time, 0, 0.0
        for number, text in enumerate(texts, start=2):
            try:
                line = decode_line(text)
            except msgspec.DecodeError as error:
                raise RecordingError(f"{self.path}: line {number}: {error}") from None
            if line.at < last:
                turns, furthest = turns + 1, max(furthest, last - line.at)
                line.at = last
            last = line.at
            yield line
        if turns:
            what = f"the clock goes back in {turns} lines, by up to {furthest:.3f} s; held"
            self.notes.append(f"{self.path}: {what}")

    def _texts(self) -> Iterator[bytes]:
        rest = b""
        for _, text, _ in _frames(self.path):
            *lines, rest = (rest + text).split(b"\n")
            yield from lines
        if rest:
            self.notes.append(f"{self.path}: was cut: its last line is not whole and is left out")


def _header(path: Path, text: bytes) -> Header:
    try:
        fields = msgspec.json.decode(text)
    except msgspec.DecodeError:
        fields = None
    if not isinstance(fields, dict) or fields.get("record") != FORMAT:
        raise RecordingError(f"{path}: is no {FORMAT}: the first line does not say so")
    version = fields.get("version")
    if version != VERSION:
        raise RecordingError(
            f"{path}: is a {FORMAT} of version {version}; this bayplan reads version {VERSION}"
        )
    try:
        return _decode_header(text)
    except msgspec.DecodeError as error:
        raise RecordingError(f"{path}: line 1: {error}") from None


def _frames(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """The frames of a file: where each ends, the text, and whether all of it is there.

    The text of one frame comes as a whole, so that only the last one can be incomplete.

    Raises:
        RecordingError: it is not compressed by zstd, damaged, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(len(MAGIC))
            if data != MAGIC[: len(data)] or not data:
                raise RecordingError(f"{path}: is no {FORMAT}: it is not compressed by zstd")
            position = len(data)
            while data:
                frame = zstandard.ZstdDecompressor().decompressobj()
                parts = []
                while not frame.eof and data:
                    parts.append(frame.decompress(data))
                    data = b"" if frame.eof else file.read(_CHUNK)
                    position += len(data)
                data = frame.unused_data
                yield position - len(data), b"".join(parts), frame.eof
                if frame.eof and not data:
                    data = file.read(_CHUNK)
                    position += len(data)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    except zstandard.ZstdError as error:
        raise RecordingError(f"{path}: is damaged: {error}") from None


def lines_of(readers: Iterable[RecordingReader]) -> Iterator[Line]:
    """The lines of the parts of one recording, each list but the first left out.

    Raises:
        RecordingError: a part does not follow the one before, or see `RecordingReader.lines`.
    """
    before: RecordingReader | None = None
    for reader in readers:
        listing = before is not None
        if before is not None and _part(reader) != (before.header.id, before.header.part + 1):
            raise RecordingError(f"{reader.path}: is not the part after {before.path}")
        for line in reader.lines():
            if listing:
                listing = line.type != "READY"
                continue
            yield line
        before = reader


def _part(reader: RecordingReader) -> tuple[str, int]:
    return reader.header.id, reader.header.part

"""Recorder: makes lines of what informers send, and divides a recording into parts.

It knows every object as it was recorded last. So a change of something that is not recorded, such
as a heartbeat, makes no line, a list after an interruption makes lines of what has changed
meanwhile, and each part begins with the whole list.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from bayplan import __version__
from bayplan.api.kinds import Kind
from bayplan.inbox.messages import Changed, Removed, Replaced, WatchMessage
from bayplan.recordings.file import RecordingError, RecordingReader, RecordingWriter, lines_of
from bayplan.recordings.lines import (
    FORMAT,
    NOTHING,
    VERSION,
    Header,
    Line,
    Type,
    encode,
    kind_id,
    recorded,
)
from bayplan.recordings.stripped import Stripped

Known = dict[str, dict[str, Stripped]]
"""Objects by the id of their kind and by namespace/name."""


class Meta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a line DELETED says of its object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: Meta


_decode_named = msgspec.json.Decoder(_Named).decode


def meta_of(body: bytes | msgspec.Raw) -> Meta:
    """What the object with this JSON is called."""
    return _decode_named(body).metadata


def header_of(
    kinds: Iterable[Kind[object]],
    time: float,
    config: str = "",
    unreadable: Mapping[str, str] | None = None,
) -> Header:
    """The header of a new recording; ``unreadable``: why kinds, by name, are not in it."""
    why = unreadable or {}
    all_kinds = tuple(recorded(kind, why.get(kind.name, "")) for kind in kinds)
    return Header(FORMAT, VERSION, time, __version__, secrets.token_hex(8), 1, all_kinds, config)


class Recorder:
    """Writes a recording, in one file or in parts.

    Args:
        path: the first part; `part_path` names the others.
        header: its first line.
        now: seconds since the epoch.
        part_bytes: a part with so many bytes of events is followed by the next; 0 for never.
        keep: of so many parts, older ones are deleted; 0 for all.

    Attributes:
        known: the objects as they are recorded.
        counts: how many lines of each type were written.

    Raises:
        OSError: from every method: the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        now: Callable[[], float],
        part_bytes: int = 0,
        keep: int = 0,
        writer: RecordingWriter | None = None,
    ) -> None:
        self.known: Known = {kind.id: {} for kind in header.kinds}
        self.counts = dict.fromkeys(Type, 0)
        self._path, self._header, self._now = path, header, now
        self._part_bytes, self._keep = part_bytes, keep
        self._ready = False
        self._last = header.time
        self._done_bytes = self._done_text = 0
        self._list_bytes = 0
        self._writer = writer or RecordingWriter.create(part_path(path, header.part), header)

    @classmethod
    def resume(
        cls,
        path: Path,
        kinds: Iterable[Kind[object]],
        now: Callable[[], float],
        part_bytes: int = 0,
        keep: int = 0,
    ) -> Recorder:
        """Go on with the recording whose first part is ``path``.

        Raises:
            RecordingError: it is no recording, damaged, or has none of one of ``kinds``.
            OSError: it cannot be written.
        """
        newest = max(_parts(path), default=1)
        reader = RecordingReader(part_path(path, newest))
        known: Known = {kind.id: {} for kind in reader.header.kinds}
        if others := sorted({kind_id(kind) for kind in kinds} - known.keys()):
            raise RecordingError(f"{reader.path}: is without {', '.join(others)}: begin anew")
        last, ready = reader.header.time, False
        for line in lines_of([reader]):
            last, ready = line.at, ready or line.type is Type.READY
            take(known, line)
        if not ready:
            raise RecordingError(f"{reader.path}: ends before its list is complete: begin anew")
        writer = RecordingWriter.append(reader.path)
        recorder = cls(path, reader.header, now, part_bytes, keep, writer)
        recorder.known, recorder._last, recorder._ready = known, last, True
        recorder._write(Type.GAP)
        return recorder

    @property
    def size(self) -> tuple[int, int]:
        """Bytes that this process has written, compressed and before."""
        return self._done_bytes + self._writer.size, self._done_text + self._writer.text

    def apply(self, message: WatchMessage) -> None:
        """Write what a message of an informer says; its objects are `Stripped`."""
        kind = kind_id(message.kind)
        match message:
            case Replaced(objects=objects):
                self._replace(kind, objects)
            case Changed(object=obj):
                self.set(kind, obj)
            case Removed(object=obj):
                self.remove(kind, obj)

    def ready(self) -> None:
        """The list is complete: what comes now are events."""
        self._ready = True
        self._write(Type.READY)
        self._writer.flush()
        self._list_bytes = self._writer.size

    def flush(self) -> None:
        """Bring all lines into the file, and begin the next part where it is time."""
        self._writer.flush()
        events = self._writer.size - self._list_bytes
        if self._part_bytes and self._ready and events > self._part_bytes:
            self._next_part()

    def close(self) -> None:
        """End the file."""
        self._writer.close()

    def set(self, kind: str, obj: Stripped, by: str = "") -> None:
        """An object is there, new or changed."""
        known = self.known[kind]
        before = known.get(obj.key)
        if obj.ended:
            if before is not None:
                self._drop(kind, before)
            return
        if before is not None and before.uid != obj.uid:
            self._drop(kind, before)
            before = None
        if before is not None and before.body == obj.body:
            return
        known[obj.key] = obj
        listed = Type.ADDED if self._ready else Type.LISTED
        self._write(listed if before is None else Type.MODIFIED, kind, obj.body, by)

    def remove(self, kind: str, obj: Stripped) -> None:
        """An object is gone, in its last version."""
        before = self.known[kind].get(obj.key)
        if before is not None and before.uid == obj.uid:
            self._drop(kind, obj)

    def bound(self, kind: str, meta: Meta, by: str) -> None:
        """A Pod was bound; see `Type.BOUND`."""
        self._write(Type.BOUND, kind, encode(_Named(meta)), by)

    def _replace(self, kind: str, objects: list[Stripped]) -> None:
        for key in self.known[kind].keys() - {obj.key for obj in objects}:
            self._drop(kind, self.known[kind][key])
        for obj in objects:
            self.set(kind, obj)

    def _drop(self, kind: str, obj: Stripped) -> None:
        del self.known[kind][obj.key]
        meta = meta_of(obj.body)
        if self._ready:
            self._write(Type.DELETED, kind, encode(_Named(meta)))

    def _write(self, type_: Type, kind: str = "", body: bytes = b"", by: str = "") -> None:
        self._last = max(self._now(), self._last)
        raw = msgspec.Raw(body) if body else NOTHING
        self._writer.write(encode(Line(round(self._last, 3), type_, kind, raw, by)))
        self.counts[type_] += 1

    def _next_part(self) -> None:
        self._writer.close()
        self._done_bytes += self._writer.size
        self._done_text += self._writer.text
        part = self._header.part + 1
        self._header = msgspec.structs.replace(self._header, part=part, time=self._last)
        self._writer = RecordingWriter.create(part_path(self._path, part), self._header)
        self._ready = False
        for kind, objects in self.known.items():
            for obj in objects.values():
                self._write(Type.LISTED, kind, obj.body)
        self.ready()
        if self._keep:
            for old in _parts(self._path):
                if old <= part - self._keep:
                    with suppress(FileNotFoundError):
                        part_path(self._path, old).unlink()


def take(known: Known, line: Line) -> None:
    """Note in ``known`` what a line says of its object."""
    if line.type in (Type.READY, Type.GAP, Type.BOUND):
        return
    body = bytes(line.object)
    meta = meta_of(body)
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    if line.type is Type.DELETED:
        known[line.kind].pop(key, None)
    else:
        known[line.kind][key] = Stripped(key, meta.uid, body, deleted=meta.deletion_timestamp)


def part_path(path: Path, part: int) -> Path:
    """The file of a part: ``day.zst``, ``day.2.zst``, ``day.3.zst``."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def _parts(path: Path) -> Iterator[int]:
    """The numbers of the parts that there are."""
    if path.exists():
        yield 1
    for other in path.parent.glob(f"{path.stem}.*{path.suffix}"):
        number = other.name[len(path.stem) + 1 : len(other.name) - len(path.suffix)]
        if number.isdecimal():
            yield int(number)

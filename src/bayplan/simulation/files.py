"""Cluster files: from YAML documents or JSON to the objects in them, in the order of the file.

A document is one object or a list of them (``List``, ``PodList``, ..., lists within lists too).
Scalars are read as Kubernetes reads them, and null counts as left out. A document that cannot be
read is reported and skipped; the others are read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.config import ConfigError, source

Json = dict[str, Any]

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_TEXT_MAPS = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})
_SHOWN_PLACES = 5
_INDEX = re.compile(r"\[\d+\]")
_DEEP = 200
_BRACKET = re.compile(r"[\[\]{}]")
_MANY_LEVELS = re.compile(rf"(?:[-?:] ){{{_DEEP}}}|^ {{{_DEEP * 4}}}", re.MULTILINE)


class ClusterFileError(Exception):
    """There is nothing in the file to judge; the message names the file, and why."""


@dataclass
class Notes:
    """What is left out or doubtful, one line each.

    Attributes:
        file: the file that is being read; notes begin with it.
        left_out: how many Pods, Nodes and workloads are left out of the answer.
    """

    file: str = ""
    left_out: int = 0
    _lines: list[str] = field(default_factory=list)
    _kinds: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    _fields: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, text: str, where: str = "") -> None:
        """Note ``text`` about the place ``where``, a text that begins with the file's name."""
        self._lines.append(": ".join(part for part in (where or self.file, text) if part))

    def unknown_kind(self, kind: str, where: str) -> None:
        """An object of a kind that scheduling does not read; these are counted."""
        self._kinds[self.file, kind].append(where.removeprefix(f"{self.file}: "))

    def unknown_field(self, kind: str, text: str, title: str) -> None:
        """A field that ``kind`` does not have; many objects with the same one are counted."""
        self._fields[kind, _INDEX.sub("[]", text)].append(title + ": " + text)

    def lines(self) -> list[str]:
        """All notes, kinds last."""
        return [*self._lines, *self._field_lines(), *self._kind_lines()]

    def _field_lines(self) -> Iterator[str]:
        for (kind, text), places in self._fields.items():
            yield from places[:_SHOWN_PLACES]
            if (more := len(places) - _SHOWN_PLACES) > 0:
                yield f"{more} more of kind {kind}: {text}"

    def _kind_lines(self) -> Iterator[str]:
        for (file, kind), places in sorted(self._kinds.items()):
            shown = "; ".join(places[:_SHOWN_PLACES])
            more = "; ..." if len(places) > _SHOWN_PLACES else ""
            yield f"{file}: kind {kind} is not read, {len(places)} left out ({shown}{more})"


@dataclass
class Entry:
    """One object of a file.

    Attributes:
        data: the object as JSON, without nulls.
        where: its place in the file, as notes name it; empty for what no file names.
    """

    kind: Kind[object]
    data: Json
    where: str = ""

    @property
    def meta(self) -> Json:
        """The object's metadata, made where there is none."""
        return self.data.setdefault("metadata", {})  # type: ignore[no-any-return]

    @property
    def spec(self) -> Json:
        """The object's spec, made where there is none."""
        return self.data.setdefault("spec", {})  # type: ignore[no-any-return]

    @property
    def status(self) -> Json:
        """The object's status, made where there is none."""
        return self.data.setdefault("status", {})  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The object's metadata.name."""
        return self.meta.get("name", "")  # type: ignore[no-any-return]

    @property
    def namespace(self) -> str:
        """The object's metadata.namespace, empty for cluster-wide kinds."""
        return self.meta.get("namespace", "")  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-wide object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind.name} {self.key}"


class Readable:
    """The supported kinds, by name and version as written in files."""

    def __init__(self, kinds: Iterable[Kind[object]]) -> None:
        self._kinds: dict[str, dict[str, Kind[object]]] = defaultdict(dict)
        for kind in kinds:
            self._kinds[kind.name][kind.api_version] = kind

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def kind(self, name: str, api_version: str | None) -> Kind[object] | None:
        """The kind of that version; of any version where a file names none."""
        versions = self._kinds[name]
        return next(iter(versions.values())) if api_version is None else versions.get(api_version)


def read_entries(text: str, readable: Readable, notes: Notes) -> Iterator[Entry]:
    """The ``readable`` objects in ``text``, in their order; the rest goes to ``notes``."""
    for number, (line, document) in enumerate(_documents(text), start=1):
        where = f"{notes.file}: document {number} (line {line})"
        try:
            data = _parse(document, line, where, notes)
        except (ConfigError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
            notes.add(f"{why}; the document is left out", where)
            continue
        if data is not None:
            yield from _objects(data, where, "", readable, notes)


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents that are not blank, with the line where each begins."""
    text = text.removeprefix("\ufeff")
    start, line, counted = 0, 1, 0
    ends = [match.start() for match in _SEPARATOR.finditer(text)]
    for end in (*ends, len(text)):
        body = text[start:end]
        if body.strip():
            begin = start + len(body) - len(body.lstrip())
            line, counted = line + text.count("\n", counted, begin), begin
            yield line, body.lstrip("\r\n")
        start = end + 3


def _parse(text: str, line: int, where: str, notes: Notes) -> Any:
    is_json = text.lstrip().startswith("{")
    try:
        document = source.parse(text, large=is_json or not _is_deep(text))
    except ConfigError:
        # Once more, in the words and with the line of a message for people.
        document = source.parse(text, first_line=line)
    for double in document.duplicates:
        notes.add(f"{double.path}: the field is given twice, the last one counts", where)
    if not is_json or "null" in text:
        _drop_nulls(document.data)
    return document.data


def _is_deep(text: str) -> bool:
    """Whether ``text`` may be nested so deeply that libyaml would exhaust the stack."""
    if _MANY_LEVELS.search(text):
        return True
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEEP:
            return True
    return False


def _drop_nulls(value: Any) -> None:
    """Take null for left out, in place; in a map of texts Go reads it as an empty one."""
    if isinstance(value, list):
        value[:] = [item for item in value if item is not None]
        for item in value:
            _drop_nulls(item)
    elif isinstance(value, dict):
        nulls = []
        for key, item in value.items():
            if item is None:
                nulls.append(key)
            elif key in _TEXT_MAPS and isinstance(item, dict):
                item.update((name, "") for name, text in item.items() if text is None)
            elif isinstance(item, dict | list):
                _drop_nulls(item)
        for key in nulls:
            del value[key]


def _objects(
    data: Any, where: str, implied: str, readable: Readable, notes: Notes
) -> Iterator[Entry]:
    """``data`` itself, or what it lists; ``implied`` is the kind of a typed list's items."""
    if not isinstance(data, dict):
        notes.add("is no object; left out", where)
        return
    name, version = data.get("kind", implied), data.get("apiVersion")
    if not isinstance(name, str) or not name:
        notes.add("kind: is missing; the object is left out", where)
    elif name in readable:
        kind = readable.kind(name, version)
        if kind is not None:
            yield Entry(kind, data, where)
        else:
            notes.add(f"apiVersion: {name} of {version} is not read; left out", where)
    elif name.endswith("List"):
        implied = name.removesuffix("List")
        yield from _items(data.get("items", []), where, implied, readable, notes)
    else:
        notes.unknown_kind(name, where)


def _items(
    items: Any, where: str, implied: str, readable: Readable, notes: Notes
) -> Iterator[Entry]:
    if not isinstance(items, list):
        notes.add("items: is no list; left out", where)
        return
    for index, item in enumerate(items):
        yield from _objects(item, f"{where}, items[{index}]", implied, readable, notes)

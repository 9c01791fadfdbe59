"""Checks: what of a file's objects can be used, before anything is made of them.

Every object is decoded once as if the API server had sent it, so that whatever comes after can rely
on the types of all fields that scheduling reads. What does not pass is left out and noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bayplan.api import quantity
from bayplan.api.kinds import KINDS
from bayplan.api.meta import ObjectMeta
from bayplan.api.pod_spec import Resources, Toleration
from bayplan.api.workloads import PriorityClass
from bayplan.simulation.files import NAMESPACED, Entry, Notes

_AMOUNTS = frozenset(
    {"requests", "limits", "overhead", "podFixed", "allocatable", "capacity", "allocatedResources"}
)

_TIMES = frozenset({"creationTimestamp", "deletionTimestamp", "startTime", "lastTransitionTime"})
_ZONED = re.compile(r".*(?:[Zz]|[+-]\d\d:\d\d)")
_MAX = 2**63 - 1


class UnusableError(Exception):
    """A field that cannot be read; the text begins with its path."""


class _Struct(msgspec.Struct, rename="camel"):
    """Fields that admission reads beside those of `bayplan.api`."""


class _RuntimeScheduling(_Struct):
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class _RuntimeOverhead(_Struct):
    pod_fixed: Resources = {}


class _RuntimeClass(_Struct):
    metadata: ObjectMeta = ObjectMeta()
    overhead: _RuntimeOverhead | None = None
    scheduling: _RuntimeScheduling | None = None


class _PodSpec(_Struct):
    runtime_class_name: str = ""


class _Pod(_Struct):
    spec: _PodSpec | None = None


class _NodeStatus(_Struct):
    capacity: Resources = {}


class _Node(_Struct):
    status: _NodeStatus | None = None


class _Template(_Struct):
    metadata: ObjectMeta = ObjectMeta()


class _ControllerSpec(_Struct):
    template: _Template | None = None


class _Controller(_Struct):
    spec: _ControllerSpec | None = None


_MORE_FIELDS: dict[str, type] = {
    "Pod": _Pod,
    "Node": _Node,
    "ReplicationController": _Controller,
    "PriorityClass": PriorityClass,
    "RuntimeClass": _RuntimeClass,
}


def usable(entries: Iterable[Entry], notes: Notes) -> Iterator[Entry]:
    """The entries that can be used, each with its namespace and a uid of its own."""
    names: set[str] = set()
    uids: set[str] = set()
    for entry in entries:
        try:
            check_fields(entry)
        except UnusableError as problem:
            notes.add(f"{_title(entry)}: {problem}; left out", entry.where)
            continue
        _place(entry)
        if str(entry) in names:
            notes.add(f"second {entry}; left out", entry.where)
            continue
        names.add(str(entry))
        _identify(entry, uids, notes)
        yield entry


def check_fields(entry: Entry) -> None:
    """Raise UnusableError when a field has another type than the API gives it."""
    try:
        if more := _MORE_FIELDS.get(entry.kind):
            msgspec.convert(entry.data, more)
        decode(entry)
    except msgspec.ValidationError as error:
        raise UnusableError(_path_first(str(error))) from None
    except (OverflowError, UnicodeError, RecursionError) as error:
        raise UnusableError(f"is no JSON: {error}") from None
    if not entry.name:
        hint = " (generateName gives no name here)" if entry.meta.get("generateName") else ""
        raise UnusableError(f"metadata.name: is missing{hint}")
    _check_values(entry.data, "")


def decode(entry: Entry) -> Any:
    """The object as the scheduler sees it; None for a kind that only admission reads.

    Raises:
        msgspec.ValidationError: a field has another type than the API gives it.
    """
    kind = KINDS.get(entry.kind)
    return kind.decode(msgspec.json.encode(entry.data)) if kind else None


def _path_first(text: str) -> str:
    problem, _, path = text.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    return f"{path}: {problem}" if path else problem


def _check_values(value: Any, path: str) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_values(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            if key in _AMOUNTS or key == "maximumVolumeSize":
                _check_quantities(item, where)
            elif key in _TIMES and isinstance(item, str) and not _ZONED.fullmatch(item):
                raise UnusableError(f"{where}: {item!r} has no time zone")
            else:
                _check_values(item, where)
    elif isinstance(value, int) and abs(value) > _MAX:
        raise UnusableError(f"{path}: is beyond 64 bits")


def _check_quantities(value: Any, path: str) -> None:
    amounts = value.items() if isinstance(value, dict) else [("", value)]
    for name, amount in amounts:
        if isinstance(amount, str | int | float):
            try:
                quantity.parse(amount)
            except quantity.QuantityError as error:
                raise UnusableError(f"{path}.{name}: {error}".replace(".:", ":")) from None


def _title(entry: Entry) -> str:
    """Kind and name, for an object whose fields may be anything."""
    meta = entry.data.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    parts = (str(meta[part]) for part in ("namespace", "name") if meta.get(part))
    return f"{entry.kind} {'/'.join(parts)}".strip()


def _place(entry: Entry) -> None:
    if entry.kind in NAMESPACED:
        entry.meta["namespace"] = entry.namespace or "default"
    else:
        entry.meta.pop("namespace", None)


def _identify(entry: Entry, uids: set[str], notes: Notes) -> None:
    """A uid of its own: of copied objects, only the first keeps the one that is given."""
    meta = entry.meta
    if meta.get("uid") in uids:
        notes.add(f"{entry}: metadata.uid: is another object's; it gets a new one", entry.where)
        del meta["uid"]
    meta["uid"] = meta.get("uid") or f"{entry.kind}-{entry.key}"
    meta["resourceVersion"] = meta.get("resourceVersion") or "1"
    uids.add(meta["uid"])


def note_dangling(objects: dict[str, list[Entry]], notes: Notes) -> None:
    """Note references to objects that are not in the file and whose lack nobody else reports."""
    volumes = {entry.name for entry in objects.get("PersistentVolume", ())}
    for claim in objects.get("PersistentVolumeClaim", ()):
        name = claim.spec.get("volumeName")
        if name and name not in volumes:
            text = f"{claim}: spec.volumeName: there is no PersistentVolume {name}"
            notes.add(f"{text}, no Pod can use the claim", claim.where)
        elif not name and claim.status.get("phase") == "Bound":
            notes.add(f"{claim}: spec.volumeName: is missing in a bound claim", claim.where)
    nodes = {entry.name for entry in objects.get("Node", ())}
    for pod in objects.get("Pod", ()):
        name = pod.spec.get("nodeName")
        if name and name not in nodes:
            text = f"{pod}: spec.nodeName: there is no Node {name}"
            notes.add(f"{text}, the Pod counts nowhere", pod.where)

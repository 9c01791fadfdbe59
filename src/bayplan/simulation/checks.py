"""Checks: which objects of a file can be used.

Every object is checked against the API's schema, so that later steps can rely on the types of all
fields. Objects that the API server would refuse are left out and reported.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from bayplan.simulation.file_kinds import MAKE_PODS, READABLE
from bayplan.simulation.files import Entry, Notes
from bayplan.simulation.schema import UnusableError, schema

DEFAULT_NAMESPACE = "default"
OWN_PREFIX = "bayplan.dev/"
OWN_KEYS = (
    "bayplan.dev/expected-duration",
    "bayplan.dev/hourly-budget",
    "bayplan.dev/hourly-price",
    "bayplan.dev/movable",
    "bayplan.dev/preemptible",
    "bayplan.dev/preferred-topology",
    "bayplan.dev/required-topology",
    "bayplan.dev/slice-placement",
    "bayplan.dev/slices",
    "bayplan.dev/sub-group",
    "bayplan.dev/sub-groups",
    "bayplan.dev/survive",
    "bayplan.dev/talks-to",
    "bayplan.dev/user",
)
"""Labels and annotations that bayplan reads; what else has the prefix may be a typing error."""
_VALUES = {"bayplan.dev/preemptible": ("true", "false")}
"""The values of labels that mean nothing with any other value."""
_COUNTED = frozenset({POD, NODE, *MAKE_PODS})
"""Without one of these the answer is not for all Pods."""


def well_formed(entries: Iterable[Entry], notes: Notes) -> Iterator[Entry]:
    """The entries that the API server would take.

    It ends a generateName with five random letters; here Pods are numbered.
    """
    numbers: Counter[str] = Counter()
    for entry in entries:
        try:
            _name(entry, numbers)
            check_fields(entry, notes)
        except UnusableError as problem:
            leave_out(entry, problem, notes)
        else:
            yield entry


def leave_out(entry: Entry, problem: UnusableError, notes: Notes) -> None:
    """Note that ``entry`` cannot be used."""
    notes.add(f"{_title(entry)}: {problem}; left out", entry.where)
    notes.left_out += entry.kind in _COUNTED


def _name(entry: Entry, numbers: Counter[str]) -> None:
    meta = entry.data.get("metadata")
    prefix = meta.get("generateName") if isinstance(meta, dict) and not meta.get("name") else None
    if isinstance(prefix, str) and entry.kind is POD:
        entry.meta["name"] = f"{prefix}{numbers[prefix]}"
        numbers[prefix] += 1


def usable(
    entries: Iterable[Entry], notes: Notes, namespace: str = DEFAULT_NAMESPACE
) -> Iterator[Entry]:
    """``entries`` with namespaces and unique uids; the second of two equal names is left out.

    Args:
        entries: well-formed ones.
        notes: gets a line for each object that is left out.
        namespace: of those that name none.
    """
    keys: set[tuple[Kind[object], str]] = set()
    uids: set[str] = set()
    for entry in entries:
        _place(entry, namespace)
        if (entry.kind, entry.key) in keys:
            notes.add(f"second {entry}; left out", entry.where)
            notes.left_out += entry.kind in _COUNTED
            continue
        keys.add((entry.kind, entry.key))
        _identify(entry, uids, notes)
        yield entry


def check_fields(entry: Entry, notes: Notes) -> None:
    """Check the fields of ``entry``; fields that the kind does not have are noted.

    Raises:
        UnusableError: a field has another type or value than the API permits, or there is no name.
    """
    fields = schema()
    name = READABLE.get(entry.kind, "")
    if name in fields:
        for unknown in fields.check(name, entry.data):
            place = f"{entry.where or notes.file}: {_title(entry)}"
            notes.unknown_field(entry.kind.name, unknown, place)
    place = f"{entry.where or notes.file}: {_title(entry)}"
    for part in ("labels", "annotations"):
        for key, value in (entry.meta.get(part) or {}).items():
            if problem := _problem_of(part, key, value):
                notes.unknown_field(entry.kind.name, f"metadata.{part}.{key}: {problem}", place)
    if not entry.name:
        raise UnusableError("is missing", "metadata", "name")


def _problem_of(part: str, key: str, value: str) -> str:
    """Why bayplan reads nothing in such a label or annotation; "" if there is no reason."""
    if not key.startswith(OWN_PREFIX):
        return ""
    if key not in OWN_KEYS:
        close = difflib.get_close_matches(key, OWN_KEYS, 1)
        return "bayplan reads no such key" + (f', is "{close[0]}" meant?' if close else "")
    values = _VALUES.get(key) if part == "labels" else None
    if values is None or value in values:
        return ""
    return f"{value!r} means nothing, {' and '.join(map(repr, values))} do"


def decode(entry: Entry) -> Any:
    """The object as the scheduler sees it.

    Raises:
        UnusableError: a field cannot be decoded.
    """
    try:
        return entry.kind.decode(msgspec.json.encode(entry.data))
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").lstrip(".")
        raise UnusableError(problem, *([path] if path else [])) from None
    except (OverflowError, UnicodeError, RecursionError) as error:
        raise UnusableError(f"is no JSON: {error}") from None


def _title(entry: Entry) -> str:
    """Kind and name, for an object whose fields may be anything."""
    meta = entry.data.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    parts = (str(meta[part]) for part in ("namespace", "name") if meta.get(part))
    return f"{entry.kind.name} {'/'.join(parts)}".strip()


def _place(entry: Entry, namespace: str) -> None:
    if entry.kind.namespaced:
        entry.meta["namespace"] = entry.namespace or namespace
    else:
        entry.meta.pop("namespace", None)


def _identify(entry: Entry, uids: set[str], notes: Notes) -> None:
    """Ensure a unique uid: of copied objects, only the first keeps the given uid."""
    meta = entry.meta
    if meta.get("uid") in uids:
        notes.add(f"{entry}: metadata.uid: is another object's; it gets a new one", entry.where)
        del meta["uid"]
    meta["uid"] = meta.get("uid") or f"{entry.kind.name}-{entry.key}"
    meta["resourceVersion"] = meta.get("resourceVersion") or "1"
    uids.add(meta["uid"])


def note_dangling(objects: dict[Kind[object], list[Entry]], notes: Notes) -> None:
    """Report references to missing objects, if no plugin reports them."""
    volumes = {entry.name for entry in objects.get(PERSISTENT_VOLUME, ())}
    for claim in objects.get(PERSISTENT_VOLUME_CLAIM, ()):
        name = claim.spec.get("volumeName")
        if name and name not in volumes:
            text = f"{claim}: spec.volumeName: there is no PersistentVolume {name}"
            notes.add(f"{text}, no Pod can use the claim", claim.where)
        elif not name and claim.status.get("phase") == "Bound":
            notes.add(f"{claim}: spec.volumeName: is missing in a bound claim", claim.where)
    nodes = {entry.name for entry in objects.get(NODE, ())}
    for pod in objects.get(POD, ()):
        name = pod.spec.get("nodeName")
        if name and name not in nodes:
            text = f"{pod}: spec.nodeName: there is no Node {name}"
            notes.add(f"{text}, the Pod counts nowhere", pod.where)

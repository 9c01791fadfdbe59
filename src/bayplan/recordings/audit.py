"""Audit: a recording from the audit log of an API server (audit.k8s.io/v1, JSON lines).

Level RequestResponse has the objects: they are taken from the answers, and who bound a Pod from the
user of ``pods/binding``. Level Request has the node of a binding. Level Metadata says only when a
Pod was bound, and by whom (`Type.BOUND`). What was there before the log begins is not in it: it may
be given as a list.

A log has an entry for each stage of a request; those of its end count, in the order of their time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.kinds import POD, Kind
from bayplan.recordings.file import RecordingError
from bayplan.recordings.lines import kind_id
from bayplan.recordings.recorder import Meta, Recorder
from bayplan.recordings.stripped import Stripped, stripping

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_OF_OBJECTS = frozenset({"", "status", "resize", "ephemeralcontainers"})
"""Subresources whose answer is the object itself."""


class _User(msgspec.Struct):
    username: str = ""


class _Reference(msgspec.Struct, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""


class _Outcome(msgspec.Struct):
    code: int = 0


class AuditEvent(msgspec.Struct, rename="camel"):
    """What is read of an entry of the log."""

    kind: str = ""
    api_version: str = ""
    stage: str = ""
    verb: str = ""
    user: _User = msgspec.field(default_factory=_User)
    object_ref: _Reference = msgspec.field(default_factory=_Reference)
    response_status: _Outcome = msgspec.field(default_factory=_Outcome)
    request_object: msgspec.Raw = msgspec.Raw(b"")
    response_object: msgspec.Raw = msgspec.Raw(b"")
    request_received_timestamp: datetime | None = None
    stage_timestamp: datetime | None = None

    @property
    def time(self) -> float:
        """When it was answered, seconds since the epoch."""
        when = self.stage_timestamp or self.request_received_timestamp
        return 0.0 if when is None else when.timestamp()

    @property
    def counts(self) -> bool:
        """Whether this is the end of a write, and a good one."""
        ended = self.stage in ("", "ResponseComplete")
        return ended and self.verb in _WRITES and 200 <= self.response_status.code < 300


_decode = msgspec.json.Decoder(AuditEvent).decode
_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


def read_log(path: Path) -> list[AuditEvent]:
    """The writes that succeeded, in the order of their time.

    Raises:
        RecordingError: it cannot be read, or a line is no entry of an audit log.
    """
    events = []
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    events.append(_event(path, number, text))
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    return sorted((event for event in events if event.counts), key=lambda event: event.time)


def _event(path: Path, number: int, text: bytes) -> AuditEvent:
    try:
        event = _decode(text)
    except msgspec.DecodeError as error:
        raise RecordingError(f"{path}: line {number}: {error}") from None
    if (event.kind, event.api_version) != ("Event", "audit.k8s.io/v1"):
        given = f"{event.api_version} {event.kind}".strip() or "something else"
        raise RecordingError(f"{path}: line {number}: is {given}, no Event of audit.k8s.io/v1")
    return event


class AuditReader:
    """Gives the entries of a log to a `Recorder`, on the log's own clock.

    Args:
        kinds: what is recorded.
        annotations: as of `stripping`.

    Attributes:
        now: the time of the entry that was given last; the clock of the recorder.
    """

    def __init__(self, kinds: Iterable[Kind[Any]], annotations: Iterable[str] = ()) -> None:
        self.now = 0.0
        kept = tuple(annotations)
        self._kinds = {
            (kind.api_version, kind.plural): (kind, stripping(kind, kept)) for kind in kinds
        }
        self._without: Counter[str] = Counter()

    def feed(self, recorder: Recorder, events: Iterable[AuditEvent]) -> None:
        """Record what these entries say."""
        for event in events:
            ref = event.object_ref
            version = f"{ref.api_group}/{ref.api_version}" if ref.api_group else ref.api_version
            found = self._kinds.get((version, ref.resource))
            if found is None:
                continue
            self.now = event.time
            kind, stripped = found
            if kind is POD and ref.subresource == "binding":
                self._bind(recorder, event, stripped)
            elif ref.subresource in _OF_OBJECTS:
                self._write(recorder, event, kind, stripped)

    def notes(self) -> Iterator[str]:
        """What the log says too little of."""
        for what, count in sorted(self._without.items()):
            yield f"{count} times {what}: the log has no object (level RequestResponse has it)"

    def _write(
        self, recorder: Recorder, event: AuditEvent, kind: Kind[Any], stripped: Kind[Stripped]
    ) -> None:
        name = kind_id(kind)
        ref = event.object_ref
        if event.verb.startswith("delete"):
            for key in self._named(recorder, event, name):
                self._delete(recorder, event, name, key, stripped)
        elif not event.response_object or b'"kind"' not in bytes(event.response_object):
            self._without[f"{event.verb} {ref.resource}"] += 1
        else:
            recorder.set(name, stripped.decode(event.response_object))

    def _named(self, recorder: Recorder, event: AuditEvent, kind: str) -> list[str]:
        """The keys of what a request deletes."""
        ref = event.object_ref
        if ref.name:
            return [f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name]
        fields = _decode_fields(event.response_object) if event.response_object else {}
        if "items" not in fields:
            self._without[f"deletecollection {ref.resource}"] += 1
        metas = [item.get("metadata", {}) for item in fields.get("items") or ()]
        keys = ["/".join(filter(None, (m.get("namespace"), m.get("name")))) for m in metas]
        return [key for key in keys if key in recorder.known[kind]]

    def _delete(
        self,
        recorder: Recorder,
        event: AuditEvent,
        kind: str,
        key: str,
        stripped: Kind[Stripped],
    ) -> None:
        """Gone at once; but with a grace period a Pod is terminating until a kubelet deletes it."""
        known = recorder.known[kind].get(key)
        if known is None:
            return
        options = _decode_fields(event.request_object) if event.request_object else {}
        answer = _decode_fields(event.response_object) if event.response_object else {}
        meta = answer.get("metadata", {})
        at_once = 0 in (options.get("gracePeriodSeconds"), meta.get("deletionGracePeriodSeconds"))
        if event.object_ref.name and meta.get("deletionTimestamp") and not at_once:
            recorder.set(kind, stripped.decode(event.response_object))
        else:
            recorder.remove(kind, known)

    def _bind(self, recorder: Recorder, event: AuditEvent, stripped: Kind[Stripped]) -> None:
        ref, by = event.object_ref, event.user.username
        pods = recorder.known[kind_id(POD)]
        known = pods.get(f"{ref.namespace}/{ref.name}")
        request = _decode_fields(event.request_object) if event.request_object else {}
        node = request.get("target", {}).get("name", "")
        if known is None or not node:
            recorder.bound(kind_id(POD), Meta(ref.name, ref.namespace, ref.uid), by)
            return
        pod = _decode_fields(known.body)
        pod.setdefault("spec", {})["nodeName"] = node
        recorder.set(kind_id(POD), stripped.decode(msgspec.json.encode(pod)), by)

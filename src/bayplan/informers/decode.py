"""From bytes to objects: pages of a list, and the events of a watch.

Invariant: an object that cannot be decoded affects no other object. It is logged once and skipped.
Its resourceVersion counts all the same, so it is not fetched again and again.

The reasons: docs/decisions/0008-read-only-what-is-read.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import structlog

from bayplan.api.kinds import Kind
from bayplan.api.lists import ObjectList, PartialObject
from bayplan.client.errors import ServerError, from_status

log = structlog.get_logger(__name__)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
MAX_NAMED = 1000
"""Undecodable objects named in the log; later ones are only counted."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_partial = msgspec.json.Decoder(PartialObject).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_page = msgspec.json.Decoder(ObjectList[msgspec.Raw]).decode

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class ListPage(NamedTuple):
    """A part of a list; `continue_` is empty for the last one."""

    objects: list[Any]
    version: str
    continue_: str


class Event(NamedTuple):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK.

    `object` is None on bookmarks, and where it was not understood; `version` is the resource
    version to go on from; `initial_end` marks the bookmark after a WatchList's initial events.
    """

    type: str
    object: Any
    version: str
    initial_end: bool = False


class ObjectDecoder:
    """Decodes the objects of one kind and counts the failures.

    Attributes:
        undecodable: objects skipped so far.
    """

    def __init__(self, kind: Kind[object]) -> None:
        self._kind = kind.name
        self._decode = kind.decode
        self._named: set[str] = set()
        self.undecodable = 0

    def page(self, body: bytes) -> ListPage:
        """One page of a list.

        Raises:
            ServerError: this is no list.
        """
        try:
            page = _decode_page(body)
        except msgspec.DecodeError as error:
            raise ServerError(f"the list of {self._kind} cannot be read: {error}") from error
        decoded = (self._object(item) for item in page.items or ())
        objects = [o for o in decoded if o is not None]
        return ListPage(objects, page.metadata.resource_version, page.metadata.continue_)

    def event(self, line: bytes) -> Event:
        """One line of a watch.

        Raises:
            ApiError: the server sent an error, such as `Expired`, or no event at all.
        """
        try:
            event = _decode_event(line)
            if event.type in CHANGES:
                obj = self._object(event.object)
                return Event(event.type, obj, _version(obj, event.object))
            if event.type == "BOOKMARK":
                return _bookmark(event.object)
        except msgspec.DecodeError as error:
            raise ServerError(f"the watch of {self._kind} sent no event: {error}") from error
        if event.type == "ERROR":
            raise from_status(event.object)
        raise ServerError(f"the watch of {self._kind} sent an event of unknown type {event.type}")

    def _object(self, data: msgspec.Raw) -> Any:
        try:
            return self._decode(data)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is one object
            self.undecodable += 1
            self._name(data, error)
            return None

    def _name(self, data: msgspec.Raw, error: Exception) -> None:
        try:
            meta = _decode_partial(data).metadata
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        except msgspec.DecodeError:
            key = bytes(data)[:80].decode("utf-8", "replace")
        if key not in self._named and len(self._named) < MAX_NAMED:
            self._named.add(key)
            log.error("object skipped: not understood", kind=self._kind, object=key, why=str(error))


def _bookmark(data: msgspec.Raw) -> Event:
    meta = _decode_partial(data).metadata
    ends = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return Event("BOOKMARK", None, meta.resource_version, ends)


def _version(obj: Any, data: msgspec.Raw) -> str:
    if obj is not None:
        # A Pod is flat, everything else has its metadata.
        return str(getattr(obj, "metadata", obj).resource_version)
    try:
        return _decode_partial(data).metadata.resource_version
    except msgspec.DecodeError:
        return ""


class Lines:
    """Cuts a stream of chunks into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are complete with this chunk, empty ones left out."""
        if b"\n" not in chunk:
            self._parts.append(chunk)
            return iter(())
        self._parts.append(chunk)
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts = [rest] if rest else []
        return (line for line in lines if line)

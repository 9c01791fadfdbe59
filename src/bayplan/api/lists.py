"""Lists of objects, and objects of any kind by their metadata alone."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from bayplan.api.meta import Wire

T = TypeVar("T")


class PartialMetadata(Wire, frozen=True):
    """What a reader of any kind of object needs; the API server may send null for most of it."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class PartialObject(Wire, frozen=True):
    """An object of any kind: its metadata (PartialObjectMetadata of the API)."""

    metadata: PartialMetadata


class ListMeta(Wire, frozen=True):
    """Metadata of a list; ``continue_`` is empty for the last page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectList(Wire, Generic[T], frozen=True):
    """A list, or a page of a list."""

    metadata: ListMeta
    items: list[T] | None = None

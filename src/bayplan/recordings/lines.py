"""Lines: the format ``bayplan-record`` version 1, one JSON object a line.

The first line is the `Header`. The others are of these types; ``at`` is when the change was
received, in seconds since the epoch, and never goes back::

    LISTED    an object that was there at the beginning
    READY     the list is complete, events begin
    ADDED     an object is new
    MODIFIED  an object has changed in something that scheduling reads
    DELETED   an object is gone, or its Pod has ended; of the object only its metadata
    BOUND     a Pod was bound, and nothing else is known of it (from an audit log without objects)
    GAP       nothing is known of the time since the line before; what follows makes up for it

The reasons: docs/decisions/0035-recordings.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from bayplan.api.kinds import KINDS, Kind

FORMAT = "bayplan-record"
VERSION = 1
_BY_NAME = {(kind.api_version, kind.name): name for name, kind in KINDS.items()}


class Type(StrEnum):
    """What a line says."""

    LISTED = "LISTED"
    READY = "READY"
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOUND = "BOUND"
    GAP = "GAP"


class RecordedKind(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A kind of object.

    Attributes:
        id: how lines name it.
        unreadable: why it is not in the recording; "" where it is.
    """

    id: str
    api_version: str
    kind: str
    plural: str = ""
    namespaced: bool = False
    unreadable: str = ""


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line.

    Attributes:
        record: always `FORMAT`.
        version: of the format.
        time: when it began, seconds since the epoch.
        bayplan: the version of bayplan that wrote it.
        id: the same in all parts of one recording.
        part: 1 for the first file.
        kinds: what is recorded.
        config: the text of the scheduler's configuration, if it was given.
    """

    record: str
    version: int
    time: float
    bayplan: str
    id: str
    part: int
    kinds: tuple[RecordedKind, ...]
    config: str = ""


NOTHING = msgspec.Raw(b"")


class Line(msgspec.Struct, omit_defaults=True):
    """Every line but the first.

    Attributes:
        kind: the id of a `RecordedKind`.
        by: who bound the Pod, where an audit log says so.
    """

    at: float
    type: Type
    kind: str = ""
    object: msgspec.Raw = NOTHING
    by: str = ""


decode_line = msgspec.json.Decoder(Line).decode
encode = msgspec.json.Encoder().encode


def kind_id(kind: Kind[object]) -> str:
    """What lines call ``kind``: the name, with the group where bayplan has no type for it."""
    known = _BY_NAME.get((kind.api_version, kind.name))
    return known or (f"{kind.name}.{kind.group}" if kind.group else kind.name)


def recorded(kind: Kind[object], unreadable: str = "") -> RecordedKind:
    """``kind`` as the header has it."""
    return RecordedKind(
        kind_id(kind), kind.api_version, kind.name, kind.plural, kind.namespaced, unreadable
    )


def by_id(kinds: Iterable[Kind[object]]) -> dict[str, Kind[object]]:
    """The kinds by what lines call them."""
    return {kind_id(kind): kind for kind in kinds}

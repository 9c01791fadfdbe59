"""What reflectors put into the inbox; the scheduling thread applies it in the order of arrival."""

from __future__ import annotations

from typing import Any

import msgspec


class Replaced(msgspec.Struct, frozen=True):
    """All objects of a kind as of one moment; what is not among them is gone."""

    kind: str
    objects: list[Any]


class Changed(msgspec.Struct, frozen=True):
    """An object that is new or different; which of the two, the receiver knows."""

    kind: str
    object: Any


class Removed(msgspec.Struct, frozen=True):
    """An object that is gone, or no longer in our selection, as it was last."""

    kind: str
    object: Any


Message = Replaced | Changed | Removed

"""Object faults: errors in users' objects, found by plugins and reported to the users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from bayplan.api.meta import ObjectReference
from bayplan.framework.points import Named


class ObjectFault(NamedTuple):
    """What is wrong with an object: a reason in one word, and a sentence."""

    regarding: ObjectReference
    reason: str
    message: str


@runtime_checkable
class FindsFaults(Named, Protocol):
    """A plugin that finds contradictions between users' objects. In-tree only."""

    def faults(self) -> Sequence[ObjectFault]:
        """All faults there are; the same object as the last time while none comes or goes."""

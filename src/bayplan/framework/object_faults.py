"""Object faults: what plugins find wrong with objects that they read, told to whoever made them."""

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
    """A plugin that reads objects of users that may contradict each other. In-tree only."""

    def faults(self) -> Sequence[ObjectFault]:
        """All faults there are; the same object as the last time while none comes or goes."""

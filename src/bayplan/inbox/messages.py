"""All types of messages in the inbox; the scheduling thread applies messages in order.

A message is plain data with a name, never a function: printing the inbox says what waits.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from bayplan.api.kinds import Kind
from bayplan.api.pod import Pod
from bayplan.framework.status import Status

T = TypeVar("T")


class Replaced(msgspec.Struct, Generic[T], frozen=True):
    """All objects of a kind as of one moment; what is not among them is gone."""

    kind: Kind[T]
    objects: list[T]


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """An object that is new or different; the receiver knows the previous version."""

    kind: Kind[T]
    object: T


class Removed(msgspec.Struct, Generic[T], frozen=True):
    """An object that was deleted or left our selection, in the last version."""

    kind: Kind[T]
    object: T


class BindingEnded(msgspec.Struct, frozen=True):
    """The binding cycle of an assumed Pod is over, with success or not."""

    pod: Pod
    status: Status


class ActivatePods(msgspec.Struct, frozen=True):
    """These Pods are to be tried at once; mostly from a plugin."""

    pods: tuple[Pod, ...]


class EvictionFailed(msgspec.Struct, frozen=True):
    """A call to evict this Pod has failed: it stays."""

    pod: Pod


class Lead(msgspec.Struct, frozen=True):
    """This process leads from now on: it may schedule."""


class WakeUp(msgspec.Struct, frozen=True):
    """Nothing to apply; it only ends the wait of the scheduling thread."""


class Command:
    """What a room above the scheduler has done on the scheduling thread: a dump, a reload, ...

    The scheduler need not know these rooms. Subclasses are dataclasses, so they can be printed. No
    abstract class: whether a message is one of these is asked for each.
    """

    def run(self) -> None:
        """Do it. On the scheduling thread, between two Pods."""
        raise NotImplementedError


WatchMessage = Replaced[Any] | Changed[Any] | Removed[Any]
Message = WatchMessage | BindingEnded | ActivatePods | EvictionFailed | Lead | WakeUp | Command

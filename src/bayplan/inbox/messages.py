"""Every message that can wait in the inbox; the scheduling thread applies them in their order.

A message is plain data with a name, never a function: printing the inbox says what waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.pod import Pod
from bayplan.framework.status import Status


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


@dataclass(frozen=True, slots=True)
class Bound:
    """The binding cycle of an assumed Pod is over, with success or not."""

    pod: Pod
    status: Status


@dataclass(frozen=True, slots=True)
class Activate:
    """Somebody, mostly a plugin, wants these Pods to be tried at once."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class Lead:
    """This process leads from now on: it may schedule."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Nothing to apply; it only ends the wait of the scheduling thread."""


class Command(ABC):
    """What a room above the scheduler has done on the scheduling thread: a dump, a reload, ...

    The scheduler need not know these rooms. Subclasses are dataclasses, so they can be printed.
    """

    @abstractmethod
    def run(self) -> None:
        """Do it. On the scheduling thread, between two Pods."""


WatchMessage = Replaced | Changed | Removed
Message = WatchMessage | Bound | Activate | Lead | WakeUp | Command

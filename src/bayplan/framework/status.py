"""What a plugin answers: a `Status`, never an exception, for everything that is expected.

An exception from a plugin is a bug of the plugin; the runtime turns it into an Error status of the
Pod it happened to.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bayplan.support.text import text_of


class Code(enum.IntEnum):
    """The outcome of an extension point, as in kube-scheduler's framework."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    def __str__(self) -> str:
        """The name that kube-scheduler prints."""
        return _NAMES[self]


_NAMES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
QUEUE_LIMIT, QUEUE_CLOSED = "QueueLimit", "QueueClosed"
"""Reasons of the condition PodScheduled beside Unschedulable, for which autoscalers buy nodes."""
# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_SUCCESS = Code.SUCCESS
_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """An outcome, why, and which plugin says so (the runtime fills in the plugin).

    Plugins return None or `SUCCESS` where nothing stands in the way.

    ``held_by`` marks a rejection that more nodes would not change: see `Status.beyond_limit`.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    held_by: str = ""

    def __post_init__(self) -> None:
        """Reasons that are no proper text, such as exceptions, become such."""
        if self.reasons and not all(type(r) is str and r.isascii() for r in self.reasons):
            object.__setattr__(self, "reasons", tuple(map(text_of, self.reasons)))

    def __repr__(self) -> str:
        """Short: users read it where a plugin has answered with the wrong thing."""
        return f"Status({', '.join([str(self.code), *map(repr, self.reasons)])})"

    @classmethod
    def error(cls, *reasons: str) -> Status:
        """Something is broken: the attempt fails and is repeated after a backoff."""
        return cls(Code.ERROR, reasons)

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        """Does not fit now; preemption may help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        """Does not fit, and evicting Pods would not change that."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def beyond_limit(cls, *reasons: str, by: str = QUEUE_LIMIT) -> Status:
        """The Pod's tenant is at its limit, or closed.

        ``by`` is the reason of the Pod's condition, which autoscalers read.
        """
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, held_by=by)

    @classmethod
    def pending(cls, *reasons: str) -> Status:
        """Not to be scheduled before this plugin itself wakes the Pod."""
        return cls(Code.PENDING, reasons)

    @property
    def ok(self) -> bool:
        """Whether the outcome is Success."""
        return self.code is _SUCCESS

    @property
    def rejected(self) -> bool:
        """Whether a plugin turned the Pod down (as opposed to breaking)."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        """All reasons, joined by commas."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status with the plugin's name filled in, unless a name is there already."""
        return self if self.plugin else Status(self.code, self.reasons, plugin, self.held_by)


SUCCESS = Status()
SKIP = Status(Code.SKIP)
WAIT = Status(Code.WAIT)

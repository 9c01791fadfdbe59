"""Where a Pod can be, and every move between two states.

A Pod is in exactly one state: `QueuedPod.state` says which, and the part of the queue that stands
for it holds the Pod. A group of Pods that are placed at once has an entry of its own, which moves
like a Pod (gated means that it gathers), while its Pods are grouped. `MOVES` is the whole truth
about how a Pod gets on.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class QueueState(enum.StrEnum):
    """Where a Pod is."""

    OUTSIDE = "outside"
    """The queue does not know the Pod."""
    ACTIVE = "active"
    """Next to be tried, in the order of QueueSort."""
    BACKOFF = "backoff"
    """Waits for its backoff to complete."""
    UNSCHEDULABLE = "unschedulable"
    """Rejected; waits for an event that a plugin calls helpful, or for five minutes."""
    GATED = "gated"
    """Held by a PreEnqueue plugin; waits for an event that this plugin registered. Of a group: it
    waits for more members."""
    GROUPED = "grouped"
    """Waits with the other Pods of its group, whose entry is somewhere else."""
    IN_FLIGHT = "in flight"
    """Popped: being scheduled, waiting in Permit, or being bound."""

    @property
    def label(self) -> str:
        """The state's name in the metric queue_incoming_pods_total."""
        return "unschedulable" if self is QueueState.GATED else self.value


MOVES: Mapping[QueueState, Mapping[QueueState, str]] = {
    QueueState.OUTSIDE: {
        QueueState.ACTIVE: "added",
        QueueState.BACKOFF: "a group, of Pods whose bindings failed",
        QueueState.GATED: "added, held by a PreEnqueue plugin",
        QueueState.GROUPED: "added, waits with its group",
    },
    QueueState.ACTIVE: {
        QueueState.IN_FLIGHT: "popped",
        QueueState.GATED: "held since a reload, or for a plugin that did not return",
        QueueState.GROUPED: "waits with its group since a reload",
        QueueState.OUTSIDE: "deleted",
    },
    QueueState.BACKOFF: {
        QueueState.ACTIVE: "backoff completed, or activated",
        QueueState.IN_FLIGHT: "popped while no Pod is active",
        QueueState.GATED: "held since a reload, or for a plugin that did not return",
        QueueState.GROUPED: "waits with its group",
        QueueState.OUTSIDE: "deleted",
    },
    QueueState.UNSCHEDULABLE: {
        QueueState.ACTIVE: "woken, or activated",
        QueueState.BACKOFF: "woken before its backoff completed",
        QueueState.GATED: "woken, held by a PreEnqueue plugin",
        QueueState.GROUPED: "waits with its group",
        QueueState.OUTSIDE: "deleted",
    },
    QueueState.GATED: {
        QueueState.ACTIVE: "let go",
        QueueState.BACKOFF: "let go before its backoff completed",
        QueueState.GATED: "asked again, still held",
        QueueState.GROUPED: "let go, waits with its group",
        QueueState.OUTSIDE: "deleted",
    },
    QueueState.GROUPED: {
        QueueState.IN_FLIGHT: "popped with its group",
        QueueState.ACTIVE: "its group has begun, or there are no groups any more",
        QueueState.GATED: "held, since its group has begun or a plugin did not return",
        QueueState.GROUPED: "changed",
        QueueState.OUTSIDE: "deleted",
    },
    QueueState.IN_FLIGHT: {
        QueueState.UNSCHEDULABLE: "rejected",
        QueueState.BACKOFF: "failed by an error, or rejected and woken meanwhile",
        QueueState.ACTIVE: "rejected and woken meanwhile, no backoff left",
        QueueState.GATED: "came back, held by a PreEnqueue plugin",
        QueueState.GROUPED: "came back to its group",
        QueueState.OUTSIDE: "bound, or deleted meanwhile",
    },
}
"""From where, to where, and why; a move that is not here is a bug."""


class MemberEvent(enum.Enum):
    """What happens to one Pod of a group that waits."""

    CAME = "waits with the group from now on"
    WENT = "waits with it no longer, or has changed"
    GATED = "is held back, and the group with it"


class GroupMove(enum.Enum):
    """What becomes of the entry of the group by that."""

    STAY = "nothing"
    LET_IN = "asked for what it lacks; to the active Pods, or to backoff, if that is nothing"
    RETRY = "like a Pod that an event has woken, unless a Pod of that shape was rejected"
    ASK = "asked for what it lacks; gated if that is something"


GROUP_MOVES: Mapping[MemberEvent, Mapping[QueueState, GroupMove]] = {
    MemberEvent.CAME: {
        QueueState.OUTSIDE: GroupMove.LET_IN,
        QueueState.GATED: GroupMove.LET_IN,
        QueueState.UNSCHEDULABLE: GroupMove.RETRY,
        QueueState.ACTIVE: GroupMove.ASK,
        QueueState.BACKOFF: GroupMove.ASK,
        QueueState.IN_FLIGHT: GroupMove.STAY,
    },
    MemberEvent.WENT: {
        QueueState.GATED: GroupMove.LET_IN,
        QueueState.UNSCHEDULABLE: GroupMove.ASK,
        QueueState.ACTIVE: GroupMove.ASK,
        QueueState.BACKOFF: GroupMove.ASK,
        QueueState.IN_FLIGHT: GroupMove.STAY,
    },
    MemberEvent.GATED: {
        QueueState.GATED: GroupMove.STAY,
        QueueState.UNSCHEDULABLE: GroupMove.ASK,
        QueueState.ACTIVE: GroupMove.ASK,
        QueueState.BACKOFF: GroupMove.ASK,
        QueueState.IN_FLIGHT: GroupMove.STAY,
    },
}
"""By what happens to a Pod and the state of its group's entry; a pair that is not here is a bug.

An entry in flight comes back by `group_placed`, `group_rejected` or `group_ended` of the queue;
each of these looks at all Pods again.
"""

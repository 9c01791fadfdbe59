"""Where a Pod can be, and every move between two places.

A Pod is in exactly one place: `QueuedPod.place` says which, and the part of the queue that stands
for it holds the Pod. A group of Pods that are placed at once has an entry of its own, which moves
like a Pod (gated means that it gathers), while its Pods are grouped. `MOVES` is the whole truth
about how a Pod gets on.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Place(enum.StrEnum):
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
        """The place's name in the metric queue_incoming_pods_total."""
        return "unschedulable" if self is Place.GATED else self.value


MOVES: Mapping[Place, Mapping[Place, str]] = {
    Place.OUTSIDE: {
        Place.ACTIVE: "added",
        Place.BACKOFF: "a group, of Pods whose bindings failed",
        Place.GATED: "added, held by a PreEnqueue plugin",
        Place.GROUPED: "added, waits with its group",
    },
    Place.ACTIVE: {
        Place.IN_FLIGHT: "popped",
        Place.GATED: "held since a reload, or for a plugin that did not return",
        Place.GROUPED: "waits with its group since a reload",
        Place.OUTSIDE: "deleted",
    },
    Place.BACKOFF: {
        Place.ACTIVE: "backoff completed, or activated",
        Place.IN_FLIGHT: "popped while no Pod is active",
        Place.GATED: "held since a reload, or for a plugin that did not return",
        Place.GROUPED: "waits with its group",
        Place.OUTSIDE: "deleted",
    },
    Place.UNSCHEDULABLE: {
        Place.ACTIVE: "woken, or activated",
        Place.BACKOFF: "woken before its backoff completed",
        Place.GATED: "woken, held by a PreEnqueue plugin",
        Place.GROUPED: "waits with its group",
        Place.OUTSIDE: "deleted",
    },
    Place.GATED: {
        Place.ACTIVE: "let go",
        Place.BACKOFF: "let go before its backoff completed",
        Place.GATED: "asked again, still held",
        Place.GROUPED: "let go, waits with its group",
        Place.OUTSIDE: "deleted",
    },
    Place.GROUPED: {
        Place.IN_FLIGHT: "popped with its group",
        Place.ACTIVE: "its group has begun, or there are no groups any more",
        Place.GATED: "held, since its group has begun or a plugin did not return",
        Place.GROUPED: "changed",
        Place.OUTSIDE: "deleted",
    },
    Place.IN_FLIGHT: {
        Place.UNSCHEDULABLE: "rejected",
        Place.BACKOFF: "failed by an error, or rejected and woken meanwhile",
        Place.ACTIVE: "rejected and woken meanwhile, no backoff left",
        Place.GATED: "came back, held by a PreEnqueue plugin",
        Place.GROUPED: "came back to its group",
        Place.OUTSIDE: "bound, or deleted meanwhile",
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


GROUP_MOVES: Mapping[MemberEvent, Mapping[Place, GroupMove]] = {
    MemberEvent.CAME: {
        Place.OUTSIDE: GroupMove.LET_IN,
        Place.GATED: GroupMove.LET_IN,
        Place.UNSCHEDULABLE: GroupMove.RETRY,
        Place.ACTIVE: GroupMove.ASK,
        Place.BACKOFF: GroupMove.ASK,
        Place.IN_FLIGHT: GroupMove.STAY,
    },
    MemberEvent.WENT: {
        Place.GATED: GroupMove.LET_IN,
        Place.UNSCHEDULABLE: GroupMove.ASK,
        Place.ACTIVE: GroupMove.ASK,
        Place.BACKOFF: GroupMove.ASK,
        Place.IN_FLIGHT: GroupMove.STAY,
    },
    MemberEvent.GATED: {
        Place.GATED: GroupMove.STAY,
        Place.UNSCHEDULABLE: GroupMove.ASK,
        Place.ACTIVE: GroupMove.ASK,
        Place.BACKOFF: GroupMove.ASK,
        Place.IN_FLIGHT: GroupMove.STAY,
    },
}
"""By what happens to a Pod and the place of its group's entry; a pair that is not here is a bug.

An entry in flight comes back by `group_placed`, `group_rejected` or `group_ended` of the queue;
each of these looks at all Pods again.
"""

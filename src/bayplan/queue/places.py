"""Where a Pod can be, and every move between two places.

A Pod is in exactly one place: `QueuedPod.place` says which, and the part of the queue that stands
for it holds the Pod. `MOVES` is the whole truth about how it gets on; drawn from it::

    outside       --> active        : added
    outside       --> gated         : added, held by a PreEnqueue plugin
    active        --> in flight     : popped
    active        --> gated         : held by a PreEnqueue plugin that a reload brought
    active        --> outside       : deleted
    backoff       --> active        : backoff completed, or activated
    backoff       --> in flight     : popped while no Pod is active
    backoff       --> gated         : held by a PreEnqueue plugin that a reload brought
    backoff       --> outside       : deleted
    unschedulable --> active        : woken, or activated
    unschedulable --> backoff       : woken before its backoff completed
    unschedulable --> gated         : woken, held by a PreEnqueue plugin
    unschedulable --> outside       : deleted
    gated         --> active        : let go
    gated         --> backoff       : let go before its backoff completed
    gated         --> gated         : asked again, still held
    gated         --> outside       : deleted
    in flight     --> unschedulable : rejected
    in flight     --> backoff       : failed by an error, or rejected and woken meanwhile
    in flight     --> active        : rejected and woken meanwhile, no backoff left
    in flight     --> gated         : came back, held by a PreEnqueue plugin
    in flight     --> outside       : bound, or deleted meanwhile
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
    """Held by a PreEnqueue plugin; waits for an event that this plugin registered."""
    IN_FLIGHT = "in flight"
    """Popped: being scheduled, waiting in Permit, or being bound."""

    @property
    def label(self) -> str:
        """The place's name in the metric queue_incoming_pods_total."""
        return "unschedulable" if self is Place.GATED else self.value


MOVES: Mapping[Place, Mapping[Place, str]] = {
    Place.OUTSIDE: {
        Place.ACTIVE: "added",
        Place.GATED: "added, held by a PreEnqueue plugin",
    },
    Place.ACTIVE: {
        Place.IN_FLIGHT: "popped",
        Place.GATED: "held by a PreEnqueue plugin that a reload brought",
        Place.OUTSIDE: "deleted",
    },
    Place.BACKOFF: {
        Place.ACTIVE: "backoff completed, or activated",
        Place.IN_FLIGHT: "popped while no Pod is active",
        Place.GATED: "held by a PreEnqueue plugin that a reload brought",
        Place.OUTSIDE: "deleted",
    },
    Place.UNSCHEDULABLE: {
        Place.ACTIVE: "woken, or activated",
        Place.BACKOFF: "woken before its backoff completed",
        Place.GATED: "woken, held by a PreEnqueue plugin",
        Place.OUTSIDE: "deleted",
    },
    Place.GATED: {
        Place.ACTIVE: "let go",
        Place.BACKOFF: "let go before its backoff completed",
        Place.GATED: "asked again, still held",
        Place.OUTSIDE: "deleted",
    },
    Place.IN_FLIGHT: {
        Place.UNSCHEDULABLE: "rejected",
        Place.BACKOFF: "failed by an error, or rejected and woken meanwhile",
        Place.ACTIVE: "rejected and woken meanwhile, no backoff left",
        Place.GATED: "came back, held by a PreEnqueue plugin",
        Place.OUTSIDE: "bound, or deleted meanwhile",
    },
}
"""From where, to where, and why; a move that is not here is a bug."""

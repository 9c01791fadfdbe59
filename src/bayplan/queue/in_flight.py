"""InFlightPods: Pods that were popped, and the events since then.

An event that would wake a Pod may arrive while the Pod is being scheduled or bound. So events are
stored from the pop of the oldest Pod in flight. When a Pod returns rejected, the events since its
own pop are replayed. Memory is bounded: beyond `MAX_EVENTS` the oldest are dropped, and a Pod that
may have missed one of them counts as woken.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import ClusterEvent
from bayplan.queue.queued_pod import QueuedPod

MAX_EVENTS = 50_000
"""Only a Pod that waits in Permit for minutes, while thousands are bound, sees that many."""


class SeenEvent(NamedTuple):
    """An event and its object before (None: added) and after (None: deleted)."""

    event: ClusterEvent
    old: Any
    new: Any


@dataclass(slots=True)
class Flight:
    """A Pod in flight.

    Attributes:
        queued: the Pod as it was popped.
        since: number of the first event that came after the pop.
        latest: the newest version of the Pod; None if it was deleted or bound by another scheduler.
        own: events that concern this Pod alone.
    """

    queued: QueuedPod
    since: int
    latest: Pod | None
    own: list[SeenEvent] = field(default_factory=list)


class InFlightPods:
    """Pods that were popped and have not come back, oldest first."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._events: deque[SeenEvent] = deque()
        self._first = 0

    def add(self, queued: QueuedPod) -> None:
        """The Pod was popped."""
        since = self._first + len(self._events)
        self._flights[queued.uid] = Flight(queued, since, queued.pod)

    def discard(self, queued: QueuedPod) -> bool:
        """The Pod is back or gone; drop the events stored for this Pod alone."""
        existed = self._flights.pop(queued.uid, None) is not None
        self._forget()
        return existed

    def _forget(self) -> None:
        if not self._flights:
            self._first += len(self._events)
            self._events.clear()
        elif self._events:
            oldest = next(iter(self._flights.values()))
            while self._first < oldest.since:
                self._events.popleft()
                self._first += 1

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep an event for all Pods in flight."""
        if not self._flights:
            return
        self._events.append(SeenEvent(event, old, new))
        if len(self._events) > MAX_EVENTS:
            self._events.popleft()
            self._first += 1

    def get(self, uid: str) -> Flight | None:
        """The Pod's flight."""
        return self._flights.get(uid)

    def missed_any(self, flight: Flight) -> bool:
        """Whether events were dropped that came after the Pod's pop."""
        return flight.since < self._first

    def events_since_pop(self, flight: Flight) -> Iterator[SeenEvent]:
        """What came after the Pod's pop: events of its own first, then everybody's."""
        yield from flight.own
        yield from islice(self._events, max(flight.since - self._first, 0), None)

    def event_counts(self) -> dict[str, int]:
        """How many events are kept, by name; "PodPopped" is the number of Pods. Any thread."""
        # Copied first, which no other thread can interrupt: the scheduling thread goes on.
        flights = list(self._flights.values())
        counts = Counter(seen.event.label for seen in self._events.copy())
        for flight in flights:
            counts.update(seen.event.label for seen in flight.own.copy())
        return {"PodPopped": len(flights), **counts}

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (flight.queued for flight in self._flights.values())

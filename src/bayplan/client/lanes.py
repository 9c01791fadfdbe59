"""Lanes: which request is sent next, and when. No I/O and no thread: the dispatcher polls.

A request is in one of these places, and every move is a method::

              put                     take                     settle
    (caller) -----> waiting in a lane -----> in flight -----------------------> (its on_done)
                          ^                      |
                          |     due              |  settle: worth another try
                          +--------- to retry <--+

    drop_bindings, drain: waiting or to retry -----> (its on_done, with `Closed`)

`take` decides in this order, and answers None at the first that says no:

1. Retries that are due go to the front of their lane.
2. Is there room in flight, and may anything be sent at all (`may_send`: are we the leader)?
3. The first lane with a request: bindings, then status writes, then events. Events have no place
   while `EVENTS_IN_FLIGHT` of them are in flight. Where no event waits, the event source is asked,
   but only when it has announced something at least `EVENT_PAUSE` ago. While the source says that
   it fills up, events come first, in up to half of the places: bindings that go on for minutes
   would otherwise cost events.
4. Does the rate limit have a token? Events have a bucket of their own.

An example, with two free places and a rate of 1 a second: a status write S, an event and then a
binding B are put. The first `take` gives B (lane before age), the second None, since the bucket is
empty, and `pause` is 1 second. B fails with 503: `settle` says after which delay it is sent again.
A second later `take` gives S, because B's delay is not over; had it been, B would have come first.

Invariants:
- What `take` has given is in flight until `settle`; at most ``max_in_flight`` are.
- Status writes of one path are sent one after the other, in the order in which they were put. Were
  two of them in flight at once, the older one could win. `take` holds back those whose path has one
  under way: in flight, to retry, or the next to be sent.
- A request that was put ends in exactly one of: `settle` without another try, `drop_bindings`,
  `drain`.
- `put` and `announce_event` may be called from any thread; everything else from one.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bayplan.client.errors import ApiError, Unreachable
from bayplan.client.request import ApiOutcome, ApiRequest, Lane
from bayplan.client.retry import lookup_delay, retry_delay
from bayplan.client.throttle import TokenBucket

EVENTS_IN_FLIGHT = 16
"""Few, so that a burst of bindings never finds the connections taken by events."""
EVENT_PAUSE = 0.1
"""Seconds for which events are gathered before their source is asked; client-go's recorder has no
hurry either."""
LONGEST_PAUSE = 1.0
"""Seconds after which `take` is worth another question, whatever happens."""


@dataclass(slots=True)
class LaneStatistics:
    """Counters since the start, and what is under way now; lists are per `Lane`."""

    waiting: list[int] = field(default_factory=lambda: [0, 0, 0])
    in_flight: list[int] = field(default_factory=lambda: [0, 0, 0])
    to_retry: int = 0
    sent: list[int] = field(default_factory=lambda: [0, 0, 0])
    retried: int = 0
    failed: int = 0
    callback_errors: int = 0


class Lanes:
    """The requests of one dispatcher.

    Args:
        qps: requests a second, for events and for all else; 0 is no limit.
        burst: how many of them may go at once.
        max_in_flight: how many may be in flight.
        may_send: nothing is taken while it says no.
        clock: monotonic seconds.
        jitter: random numbers in [0, 1).

    Attributes:
        max_in_flight, clock: as given.
        counts: what was sent, retried and failed.
        ending: whether no pause counts any more, because the process is about to end.
    """

    def __init__(
        self,
        *,
        qps: float = 0.0,
        burst: int = 0,
        max_in_flight: int = 64,
        may_send: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.max_in_flight = max_in_flight
        self._may_send = may_send
        self.clock = clock
        self._jitter = jitter
        self._lanes: tuple[deque[ApiRequest], ...] = (deque(), deque(), deque())
        # kube-scheduler has a client of its own for events, each with the configured limits.
        self._limits = TokenBucket(qps, burst), TokenBucket(qps, burst)
        self._limited_until = 0.0
        self._retries: list[tuple[float, int, ApiRequest]] = []
        self._sequence = itertools.count()
        self._status_writes: dict[str, deque[ApiRequest]] = {}
        """By path: that under way, then those that are held back for it."""
        self._event_source: Callable[[], ApiRequest | None] | None = None
        self._source_fills_up: Callable[[], bool] = lambda: False
        self._ask_source_at = 0.0
        self.counts = LaneStatistics()
        self.ending = False

    # From any thread

    def put(self, request: ApiRequest) -> None:
        """Append ``request`` to its lane."""
        self._lanes[request.lane].append(request)

    def announce_event(self) -> bool:
        """The event source has something; returns whether the source will be asked sooner now."""
        due = self.clock() + EVENT_PAUSE
        sooner = due < self._ask_source_at
        if sooner:
            self._ask_source_at = due
        return sooner

    def set_event_source(
        self, source: Callable[[], ApiRequest | None], fills_up: Callable[[], bool] = lambda: False
    ) -> None:
        """Ask ``source`` for a request of `Lane.EVENT` whenever there is room for one.

        ``fills_up`` says whether it has so many that they come first.
        """
        self._event_source, self._source_fills_up = source, fills_up
        self._ask_source_at = 0.0

    # What the dispatcher asks

    def take(self) -> ApiRequest | None:
        """The request to send now, or None where there is none for now."""
        now = self.clock()
        while self._retries and self._retries[0][0] <= now:
            request = heapq.heappop(self._retries)[2]
            self._lanes[request.lane].appendleft(request)
        if sum(self.counts.in_flight) >= self.max_in_flight or not self._may_send():
            return None
        events_first = self._source_fills_up() and self._has_place_for_event(now)
        lane = Lane.EVENT if events_first else self._next_lane(now)
        if lane is None:
            return None
        limit = self._limits[lane is Lane.EVENT]
        wait = limit.wait(now)
        self._limited_until = now + wait
        if wait > 0:
            return None
        taken = self._lanes[lane].popleft() if self._lanes[lane] else self._pull_event()
        if taken is not None:
            if not taken.superseded:
                limit.take()
            taken.tries += 1
            self.counts.in_flight[lane] += 1
        elif events_first:  # there was nothing after all
            return self.take()
        return taken

    def settle(self, request: ApiRequest, outcome: ApiOutcome) -> bool:
        """End a request in flight; returns whether the outcome is final. If not, retry later."""
        self.counts.in_flight[request.lane] -= 1
        if isinstance(outcome, ApiError):
            delay = self._retry_delay(request, outcome)
            if delay is not None:
                self.counts.retried += 1
                request.in_doubt |= outcome.outcome_unknown or isinstance(outcome, Unreachable)
                due = self.clock() + delay
                heapq.heappush(self._retries, (due, next(self._sequence), request))
                return False
            self.counts.failed += 1
        if request.lane is Lane.STATUS:
            self._let_go(request.path)
        return True

    def _status_may_be_sent(self) -> bool:
        """Hold back status writes until the first of the lane may be sent; whether there is one.

        What is put from now on stands behind it.
        """
        lane = self._lanes[Lane.STATUS]
        while lane:
            request = lane[0]
            same_path = self._status_writes.setdefault(request.path, deque([request]))
            if same_path[0] is request:
                return True
            same_path.append(lane.popleft())
        return False

    def _let_go(self, path: str) -> None:
        """The status write of the path that was under way has ended: the next one is the first."""
        same_path = self._status_writes[path]
        same_path.popleft()
        if same_path:
            self._lanes[Lane.STATUS].appendleft(same_path[0])
        else:
            del self._status_writes[path]

    def pause(self) -> float:
        """Seconds until `take` may answer otherwise because of time alone."""
        now = self.clock()
        due = [LONGEST_PAUSE]
        due += [at - now for at in (self._limited_until, self._ask_source_at) if at > now]
        if self._retries:
            due.append(self._retries[0][0] - now)
        return max(0.0, min(due))

    @property
    def eager(self) -> bool:
        """Whether something may want a place that has come free."""
        return any(self._lanes) or self._ask_source_at == 0.0 or self.ending

    @property
    def empty(self) -> bool:
        """Whether nothing waits, is in flight or is to be sent again."""
        return not (any(self.counts.in_flight) or self._retries or any(self._lanes))

    def drop_bindings(self) -> list[ApiRequest]:
        """Remove and return all bindings that are not in flight."""
        dropped = [*self._lanes[Lane.BIND]]
        self._lanes[Lane.BIND].clear()
        dropped += [request for _, _, request in self._retries if request.lane is Lane.BIND]
        self._retries = [entry for entry in self._retries if entry[2].lane is not Lane.BIND]
        heapq.heapify(self._retries)
        return dropped

    def drain(self) -> list[ApiRequest]:
        """Remove and return everything that is not in flight."""
        drained = [request for _, _, request in self._retries]
        self._retries = []
        for lane in self._lanes:
            drained += lane
            lane.clear()
        under_way = [same_path.popleft() for same_path in self._status_writes.values()]
        ended = set(drained)
        drained += itertools.chain.from_iterable(self._status_writes.values())
        in_flight = [request for request in under_way if request not in ended]
        self._status_writes = {request.path: deque([request]) for request in in_flight}
        return drained

    def statistics(self) -> LaneStatistics:
        """A copy of the counters."""
        waiting = [len(lane) for lane in self._lanes]
        waiting[Lane.STATUS] += sum(len(each) - 1 for each in list(self._status_writes.values()))
        return replace(
            self.counts,
            waiting=waiting,
            in_flight=list(self.counts.in_flight),
            to_retry=len(self._retries),
            sent=list(self.counts.sent),
        )

    def _next_lane(self, now: float) -> Lane | None:
        if self._lanes[Lane.BIND]:
            return Lane.BIND
        if self._status_may_be_sent():
            return Lane.STATUS
        if self.counts.in_flight[Lane.EVENT] >= EVENTS_IN_FLIGHT:
            return None
        due = self._lanes[Lane.EVENT] or self._ask_source_at <= now or self.ending
        return Lane.EVENT if due else None

    def _has_place_for_event(self, now: float) -> bool:
        places = self.max_in_flight // 2
        free = self.counts.in_flight[Lane.EVENT] < places and not self._retries_are_many()
        return free and self._ask_source_at <= now and self._limits[True].wait(now) <= 0

    def _retries_are_many(self) -> bool:
        """Requests that wait for their next try fill up what may be in flight.

        Otherwise an outage would turn the bounded source of events into an unbounded list.
        """
        return len(self._retries) >= EVENTS_IN_FLIGHT

    def _pull_event(self) -> ApiRequest | None:
        if self._event_source is None or self._retries_are_many():
            return None
        # First the pause, then the question: who announces an event in between shortens it.
        self._ask_source_at = self.clock() + LONGEST_PAUSE
        request = self._event_source()
        if request is not None:
            self._ask_source_at = 0.0
        return request

    def _retry_delay(self, request: ApiRequest, error: ApiError) -> float | None:
        if request.must_know:
            return lookup_delay(error, request.tries, self._jitter)
        return retry_delay(
            error,
            request.tries,
            request.max_tries,
            request.idempotent,
            self._jitter,
            repeatable=request.repeatable,
        )

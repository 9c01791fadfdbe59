"""All hot writes leave through one thread: bindings first, then status writes, then events.

One thread drives libcurl's multi interface over one HTTP/2 connection (many of HTTP/1.1 where the
server has no better), because beside a busy scheduling thread every further thread costs switches
of the interpreter lock. Invariants:

- Strict order of the lanes: a request starts only when no request of an earlier lane waits.
- Every request ends in exactly one call of its ``on_done``, on the dispatcher's thread (or, once
  the dispatcher has ended, on the caller's): with the answer's body, or with an `ApiError`.
- Events are pulled from their source only when there is room, so they cost nothing until then. They
  are announced, not urgent: what comes within `EVENT_PAUSE` goes out together, which saves a
  wake-up of this thread for each.

The loop waits in select(2), so the process must stay below 1,024 open files.
"""

from __future__ import annotations

import heapq
import itertools
import random
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pycurl
import structlog

from bayplan.client.connection import NO_ANSWER, Connection
from bayplan.client.errors import ApiError, Closed, Timeout, Unauthorized
from bayplan.client.http import answer, prepare
from bayplan.client.request import Lane, Outcome, Request
from bayplan.client.retry import lookup_delay, retry_delay
from bayplan.client.throttle import TokenBucket

log = structlog.get_logger(__name__)

EVENTS_IN_FLIGHT = 16
"""Few, so that a burst of bindings never finds the connections taken by events."""
EVENT_PAUSE = 0.1
"""How long events are gathered before their source is asked; client-go's recorder has no hurry
either."""
LONGEST_PAUSE = 1.0
ENDING = "the scheduler is ending"


@dataclass(slots=True)
class Statistics:
    """Counters since the start, and what is under way now; lists are per `Lane`."""

    waiting: list[int] = field(default_factory=lambda: [0, 0, 0])
    in_flight: list[int] = field(default_factory=lambda: [0, 0, 0])
    to_retry: int = 0
    sent: list[int] = field(default_factory=lambda: [0, 0, 0])
    retried: int = 0
    failed: int = 0
    callback_errors: int = 0


@dataclass(slots=True, eq=False)
class _Transfer:
    handle: pycurl.Curl
    chunks: list[bytes]
    request: Request | None = None
    headers: list[str] | None = None


class Dispatcher:
    """Sends what is submitted; `start` it once, `close` it once.

    Args:
        connection: to the API server.
        qps: requests a second, for events and for all else; 0 is no limit.
        burst: how many of them may go at once.
        max_in_flight: how many may be under way.
        may_send: asked before each request; nothing is sent while it says no.
        clock: monotonic seconds.
        jitter: random numbers in [0, 1).
    """

    def __init__(
        self,
        connection: Connection,
        *,
        qps: float = 0.0,
        burst: int = 0,
        max_in_flight: int = 64,
        may_send: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._jitter = jitter
        self._max_in_flight = max_in_flight
        self._may_send = may_send
        self._lanes: tuple[deque[Request], ...] = (deque(), deque(), deque())
        self._event_source: Callable[[], Request | None] | None = None
        self._ask_source_at = 0.0
        # kube-scheduler has a client of its own for events, each with the configured limits.
        self._limits = TokenBucket(qps, burst), TokenBucket(qps, burst)
        self._retries: list[tuple[float, int, Request]] = []
        self._sequence = itertools.count()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_in_flight)
        self._idle: list[_Transfer] = []
        self._active: dict[pycurl.Curl, _Transfer] = {}
        self._statistics = Statistics()
        self._lock = threading.Lock()
        self._asleep = False
        self._news = False
        self._binds = True
        self._ended = False
        self._deadline: float | None = None
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Send the request when its turn comes; from any thread, never blocks."""
        with self._lock:
            ended = self._ended
            if not ended:
                self._lanes[request.lane].append(request)
        if ended:
            request.on_done(Closed(ENDING))
        else:
            self.wake()

    def set_event_source(self, source: Callable[[], Request | None]) -> None:
        """Ask ``source`` for a request of `Lane.EVENT`, on our thread, whenever there is room.

        Whoever fills the source calls `announce_event`.
        """
        self._event_source = source
        self._ask_source_at = 0.0

    def announce_event(self) -> None:
        """The event source has something; it is asked within `EVENT_PAUSE`. From any thread."""
        due = self._clock() + EVENT_PAUSE
        if due < self._ask_source_at:
            self._ask_source_at = due
            self.wake()

    def wake(self) -> None:
        """Something is there to be sent."""
        self._news = True
        if self._asleep:
            self._asleep = False
            self._wake_writer.send(b"\0")

    def end_bindings(self) -> None:
        """Send nothing of `Lane.BIND` any more: what has not been sent fails, with `Closed`."""
        self._binds = False
        self.wake()

    def close(self, timeout: float = 5.0) -> bool:
        """Finish what was submitted, within ``timeout`` seconds; what is left then fails.

        Returns:
            Whether everything was finished in time.
        """
        self._deadline = self._clock() + timeout
        self.wake()
        if self._thread.ident is None:
            self._end()
        else:
            self._thread.join()
        return self._deadline > self._clock()

    @property
    def alive(self) -> bool:
        """Whether requests are being sent; false before the start, after the end or a crash."""
        return self._thread.is_alive()

    def statistics(self) -> Statistics:
        """A copy of the counters."""
        now = self._statistics
        return Statistics(
            waiting=[len(lane) for lane in self._lanes],
            in_flight=list(now.in_flight),
            to_retry=len(self._retries),
            sent=list(now.sent),
            retried=now.retried,
            failed=now.failed,
            callback_errors=now.callback_errors,
        )

    def _run(self) -> None:
        while True:
            pause = self._fill()
            self._multi.perform()
            if self._collect() and self._has_more():
                continue
            if self._deadline is not None and self._drained():
                break
            self._sleep(pause)
        self._end()

    def _has_more(self) -> bool:
        """Whether something may want the room that has come free."""
        return any(self._lanes) or self._ask_source_at == 0.0 or self._deadline is not None

    def _drained(self) -> bool:
        assert self._deadline is not None
        idle = not (self._active or self._retries or any(self._lanes))
        return idle or self._clock() >= self._deadline

    def _fill(self) -> float:
        """Start what may start; returns the seconds until time alone lets more of it start."""
        self._news = False
        if not self._binds:
            self._drop_bindings()
        now = self._clock()
        while self._retries and self._retries[0][0] <= now:
            request = heapq.heappop(self._retries)[2]
            self._lanes[request.lane].appendleft(request)
        while len(self._active) < self._max_in_flight and self._may_send():
            lane = self._next_lane(now)
            if lane is None:
                break
            limit = self._limits[lane is Lane.EVENT]
            wait = limit.wait(now)
            if wait > 0:
                return wait
            next_request = self._take(lane)
            if next_request is None:
                break
            limit.take()
            self._send(next_request)
        due = self._ask_source_at - now
        return min(due, LONGEST_PAUSE) if due > 0 else LONGEST_PAUSE

    def _drop_bindings(self) -> None:
        left = [entry for entry in self._retries if entry[2].lane is Lane.BIND]
        if left:
            self._retries = [entry for entry in self._retries if entry[2].lane is not Lane.BIND]
            heapq.heapify(self._retries)
        self._lanes[Lane.BIND].extend(request for _, _, request in left)
        while self._lanes[Lane.BIND]:
            self._report(self._lanes[Lane.BIND].popleft(), Closed(ENDING))

    def _next_lane(self, now: float) -> Lane | None:
        for lane in (Lane.BIND, Lane.STATUS):
            if self._lanes[lane]:
                return lane
        if self._statistics.in_flight[Lane.EVENT] >= EVENTS_IN_FLIGHT:
            return None
        ends = self._deadline is not None
        due = self._lanes[Lane.EVENT] or self._ask_source_at <= now or ends
        return Lane.EVENT if due else None

    def _take(self, lane: Lane) -> Request | None:
        if self._lanes[lane]:
            return self._lanes[lane].popleft()
        # Events that wait for their next try fill up what may be in flight, else an outage would
        # turn the bounded source into an unbounded list of retries.
        if self._event_source is None or len(self._retries) >= EVENTS_IN_FLIGHT:
            return None
        # First the pause, then the question: who announces an event in between shortens it.
        self._ask_source_at = self._clock() + LONGEST_PAUSE
        request = self._event_source()
        if request is not None:
            self._ask_source_at = 0.0
        return request

    def _send(self, request: Request) -> None:
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        request.tries += 1
        try:
            headers = self._connection.headers(request.content_type)
        except Unauthorized as error:
            self._idle.append(transfer)
            self._finish(request, error)
            return
        handle = transfer.handle
        prepare(handle, request.method, self._connection.url(request.path), request.body)
        if transfer.headers is not headers:
            handle.setopt(pycurl.HTTPHEADER, headers)
            transfer.headers = headers
        handle.setopt(pycurl.TIMEOUT_MS, int(request.timeout * 1000))
        transfer.request = request
        self._active[handle] = transfer
        self._statistics.in_flight[request.lane] += 1
        self._statistics.sent[request.lane] += 1
        self._multi.add_handle(handle)

    def _new_transfer(self) -> _Transfer:
        handle = self._connection.handle(multiplexed=True)
        chunks: list[bytes] = []
        handle.setopt(pycurl.WRITEFUNCTION, chunks.append)
        return _Transfer(handle, chunks)

    def _collect(self) -> bool:
        """Take the finished transfers; returns whether there were any."""
        remaining, succeeded, failed = self._multi.info_read()
        for handle in succeeded:
            transfer = self._active[handle]
            self._observe(transfer, str(handle.getinfo(pycurl.RESPONSE_CODE)))
            self._release(transfer, self._outcome(transfer))
        for handle, code, text in failed:
            self._observe(self._active[handle], NO_ANSWER)
            self._release(self._active[handle], self._connection.error(handle, code, text))
        return bool(remaining or succeeded or failed)

    def _observe(self, transfer: _Transfer, code: str) -> None:
        assert transfer.request is not None
        self._connection.observe(transfer.request.method, code)

    def _outcome(self, transfer: _Transfer) -> Outcome:
        try:
            return answer(transfer.handle, b"".join(transfer.chunks))
        except ApiError as error:
            return error

    def _release(self, transfer: _Transfer, outcome: Outcome) -> None:
        request = transfer.request
        assert request is not None
        self._multi.remove_handle(transfer.handle)
        del self._active[transfer.handle]
        transfer.chunks.clear()
        transfer.request = None
        self._idle.append(transfer)
        self._statistics.in_flight[request.lane] -= 1
        self._finish(request, outcome)

    def _finish(self, request: Request, outcome: Outcome) -> None:
        if isinstance(outcome, ApiError):
            delay = self._retry_delay(request, outcome)
            if delay is not None:
                self._statistics.retried += 1
                due = self._clock() + delay
                heapq.heappush(self._retries, (due, next(self._sequence), request))
                return
            self._statistics.failed += 1
        self._report(request, outcome)

    def _retry_delay(self, request: Request, error: ApiError) -> float | None:
        if isinstance(error, Unauthorized):
            self._connection.forget_credentials()
        if request.must_know:
            return lookup_delay(error, request.tries, self._jitter)
        return retry_delay(
            error, request.tries, request.max_tries, request.idempotent, self._jitter
        )

    def _report(self, request: Request, outcome: Outcome) -> None:
        try:
            request.on_done(outcome)
        except Exception:
            # A bug in one caller must not end the bindings of all others.
            self._statistics.callback_errors += 1
            log.exception("callback of a request failed", method=request.method, path=request.path)

    def _sleep(self, longest: float) -> None:
        """Wait for the network, a wake-up, or the moment when something falls due."""
        self._asleep = True
        # What came before we said that we sleep did not wake us.
        pause = 0.0 if self._news else min(longest, self._until_due())
        readable, writable, _ = self._multi.fdset()
        readable.append(self._wake_reader.fileno())
        ready = select.select(readable, writable, [], pause)[0]
        self._asleep = False
        if self._wake_reader.fileno() in ready:
            self._wake_reader.recv(64)

    def _until_due(self) -> float:
        """Seconds until a retry, the end, or libcurl itself needs us."""
        now = self._clock()
        pause = LONGEST_PAUSE
        if self._retries:
            pause = min(pause, self._retries[0][0] - now)
        if self._deadline is not None:
            pause = min(pause, self._deadline - now)
        until = self._multi.timeout()
        if until >= 0:
            pause = min(pause, until / 1000)
        return max(0.0, pause)

    def _end(self) -> None:
        for transfer in list(self._active.values()):
            self._multi.remove_handle(transfer.handle)
            request = transfer.request
            assert request is not None
            self._report(request, Timeout("the scheduler ended before the server answered"))
        with self._lock:
            self._ended = True
        left = [request for _, _, request in self._retries]
        for request in itertools.chain(left, *self._lanes):
            self._report(request, Closed(ENDING))
        for transfer in itertools.chain(self._idle, self._active.values()):
            transfer.handle.close()
        self._multi.close()
        self._wake_reader.close()
        self._wake_writer.close()

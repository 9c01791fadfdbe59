"""All hot writes leave through one thread: bindings first, then status writes, then events.

One thread drives libcurl's multi interface over one HTTP/2 connection (many of HTTP/1.1 where the
server has no better), because beside a busy scheduling thread every further thread costs switches
of the interpreter lock. `bayplan.client.lanes` says what is sent and when; here is the loop that
sends it and waits. Invariants:

- Every request ends in exactly one call of its ``on_done``, on the dispatcher's thread (or, once
  the dispatcher has ended, on the caller's): with the answer's body, or with an `ApiError`.
- Events are pulled from their source only when there is room, so they cost nothing until then.
- A thread that has something to be sent wakes the loop by a byte on a socket pair, but only where
  the loop has said that it sleeps.
- The loop turns at most once in `GATHER` seconds: answers that come meanwhile are taken together.

The loop waits in select(2), so the process must stay below 1,024 open files.

The reasons: docs/decisions/0007-one-sending-thread.md.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pycurl
import structlog

from bayplan.client.connection import NO_ANSWER, Connection
from bayplan.client.errors import ApiError, Closed, Timeout, Unauthorized
from bayplan.client.http import answer, prepare
from bayplan.client.lanes import LONGEST_PAUSE, Lanes, LaneStatistics
from bayplan.client.request import ApiOutcome, ApiRequest, Lane

log = structlog.get_logger(__name__)

ENDING = "the scheduler is ending"
GATHER = 0.002
"""Seconds from the end of one wait to the next one, at least. What one turn of the loop costs
besides the requests, such as libcurl's look at all transfers, is then shared among some of them."""


@dataclass(slots=True, eq=False)
class _Transfer:
    handle: pycurl.Curl
    chunks: list[bytes]
    request: ApiRequest | None = None
    headers: list[str] | None = None


class Dispatcher:
    """Sends submitted requests; `start` once, `close` once.

    Args:
        connection: to the API server.
        lanes: what is sent and when; without limits of its own unless given.
    """

    def __init__(self, connection: Connection, lanes: Lanes | None = None) -> None:
        self._connection = connection
        self._lanes = lanes or Lanes()
        self._clock = self._lanes.clock
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, self._lanes.max_in_flight)
        self._idle: list[_Transfer] = []
        self._active: dict[pycurl.Curl, _Transfer] = {}
        self._lock = threading.Lock()
        self._asleep = False
        self._news = False
        self._binds = True
        self._ended = False
        self._deadline: float | None = None
        self._awake_since = float("-inf")
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    # From any thread

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def submit(self, request: ApiRequest) -> None:
        """Send the request when its turn comes; never blocks."""
        with self._lock:
            ended = self._ended
            if not ended:
                self._lanes.put(request)
        if ended:
            request.on_done(Closed(ENDING))
        else:
            self.wake()

    def set_event_source(
        self, source: Callable[[], ApiRequest | None], fills_up: Callable[[], bool] = lambda: False
    ) -> None:
        """Ask ``source`` for a request of `Lane.EVENT`, on our thread, whenever there is room.

        The owner of the source calls `announce_event`; see `Lanes.set_event_source`.
        """
        self._lanes.set_event_source(source, fills_up)

    def announce_event(self) -> None:
        """The event source has something; it is asked within `EVENT_PAUSE`."""
        if self._lanes.announce_event():
            self.wake()

    def wake(self) -> None:
        """Something is there to be sent."""
        self._news = True
        if self._asleep:
            self._asleep = False
            try:
                self._wake_writer.send(b"\0")
            except OSError:
                if not self._ended:  # else the thread has awoken by itself and closed it
                    raise

    def end_bindings(self) -> None:
        """Send nothing of `Lane.BIND` any more: what has not been sent fails, with `Closed`."""
        self._binds = False
        self.wake()

    def close(self, timeout: float = 5.0) -> bool:
        """Finish what was submitted, within ``timeout`` seconds; what is left then fails.

        Returns:
            Whether everything was finished before the timeout.
        """
        self._lanes.ending = True
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

    def is_binding(self) -> bool:
        """Whether a request of `Lane.BIND` is still unanswered by the API server."""
        return self._lanes.counts.in_flight[Lane.BIND] > 0

    def statistics(self) -> LaneStatistics:
        """A copy of the counters."""
        return self._lanes.statistics()

    # The loop

    def _run(self) -> None:
        while True:
            self._news = False
            if not self._binds:
                for request in self._lanes.drop_bindings():
                    self._report(request, Closed(ENDING))
            while (next_request := self._lanes.take()) is not None:
                self._send(next_request)
            self._multi.perform()
            if self._collect() and self._lanes.eager:
                continue
            if self._deadline is not None and (
                self._lanes.empty or self._clock() >= self._deadline
            ):
                break
            self._sleep()
        self._end()

    def _send(self, request: ApiRequest) -> None:
        if request.superseded:
            self._finish(request, b"")
            return
        transfer = self._idle.pop() if self._idle else self._new_transfer()
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
        self._lanes.counts.sent[request.lane] += 1
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
        request = transfer.request
        assert request is not None
        self._connection.observe_call(transfer.handle, request.method, request.path, code)

    def _outcome(self, transfer: _Transfer) -> ApiOutcome:
        try:
            return answer(transfer.handle, b"".join(transfer.chunks))
        except ApiError as error:
            return error

    def _release(self, transfer: _Transfer, outcome: ApiOutcome) -> None:
        request = transfer.request
        assert request is not None
        self._multi.remove_handle(transfer.handle)
        del self._active[transfer.handle]
        transfer.chunks.clear()
        transfer.request = None
        self._idle.append(transfer)
        self._finish(request, outcome)

    def _finish(self, request: ApiRequest, outcome: ApiOutcome) -> None:
        if isinstance(outcome, Unauthorized):
            self._connection.forget_credentials()
        if self._lanes.settle(request, outcome):
            self._report(request, outcome)

    def _report(self, request: ApiRequest, outcome: ApiOutcome) -> None:
        try:
            request.on_done(outcome)
        except Exception:
            # A bug in one caller must not end the bindings of all others.
            self._lanes.counts.callback_errors += 1
            log.exception("callback of a request failed", method=request.method, path=request.path)

    def _sleep(self) -> None:
        """Wait for the network, a wake-up, or the moment when something falls due."""
        early = self._awake_since + GATHER - time.monotonic()
        if early > 0:
            time.sleep(early)
        self._asleep = True
        # What came before we said that we sleep did not wake us.
        pause = 0.0 if self._news else self._pause()
        readable, writable, _ = self._multi.fdset()
        readable.append(self._wake_reader.fileno())
        ready = select.select(readable, writable, [], pause)[0]
        self._asleep = False
        self._awake_since = time.monotonic()
        if self._wake_reader.fileno() in ready:
            self._wake_reader.recv(64)

    def _pause(self) -> float:
        """Seconds until the lanes, the end, or libcurl itself need us."""
        pause = min(LONGEST_PAUSE, self._lanes.pause())
        if self._deadline is not None:
            pause = min(pause, self._deadline - self._clock())
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
        for request in self._lanes.drain():
            self._report(request, Closed(ENDING))
        for transfer in (*self._idle, *self._active.values()):
            transfer.handle.close()
        self._multi.close()
        self._wake_reader.close()
        self._wake_writer.close()

r"""Reflector: lists and watches one kind, and posts the changes to the inbox.

          +------------------ version too old (410) ------------------+
          v                                                           |
        list --WatchList: initial events, then the same stream--> watch --ended--> watch again
          |    \-- paged list, where the server knows no WatchList --/     from the last version
          +-- failed: wait (0.8 s doubling to 30 s, jittered) and try again

An optional kind that the API server does not serve (404) counts as an empty list. The reflector
retries with the same backoff and lists the kind when it appears.

Invariants: no event is lost and none delivered twice; after a gap, `Replaced` has the whole list. A
reflector ends only when it is stopped. Messages of one chunk from the network are delivered in one
call.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import structlog

from bayplan.api.kinds import Kind
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, Closed, ConnectionLost, Expired, Invalid, NotFound
from bayplan.client.stream import Stream
from bayplan.inbox.messages import Changed, Message, Removed, Replaced
from bayplan.informers.backoff import Backoff
from bayplan.informers.decode import Event, Lines, ObjectDecoder

log = structlog.get_logger(__name__)

PAGE_SIZE = 500
WATCH_SECONDS = 300, 600
QUIET_SECONDS = 150.0
"""A watch gets a bookmark about once a minute; after this long without a byte it is dead."""
SHORT_WATCH = 1.0
"""A watch that ends sooner did not work, so the next one waits."""


@dataclass(slots=True)
class ReflectorStatistics:
    """Counters since the start, and how things stand.

    Attributes:
        undecodable: objects that were skipped because they could not be decoded.
        version: resource version up to which everything is delivered.
        last_error: why list or watch fails at present; empty while they work.
        served: whether the API server knows the kind, as far as it has said.
    """

    lists: int = 0
    watches: int = 0
    events: int = 0
    undecodable: int = 0
    version: str = ""
    last_error: str = ""
    served: bool = True


class Reflector:
    """One kind, one thread.

    Args:
        kind: what to watch.
        deliver: the inbox; called on the reflector's thread, must be thread-safe and quick.
        on_error: called with each failure, and with None after a recovery.

    Attributes:
        synced: set once the first list was delivered, or the kind is optional and not served.
    """

    def __init__(
        self,
        connection: Connection,
        kind: Kind[object],
        deliver: Callable[[list[Message]], object],
        *,
        on_error: Callable[[Kind[object], Exception | None], object] = lambda _kind, _error: None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        self.kind = kind
        self.synced = threading.Event()
        self._deliver = deliver
        self._on_error = on_error
        self._clock = clock
        self._jitter = jitter
        self._quiet = quiet
        self._backoff = Backoff(clock, jitter)
        self._decoder = ObjectDecoder(kind)
        self._stream = Stream(connection)
        self._stop = threading.Event()
        self._statistics = ReflectorStatistics()
        self._version = ""
        self._watch_list = True
        self._initial: _InitialEvents | None = None
        self._lines = Lines()
        self._thread = threading.Thread(
            target=self._run, name=f"reflector-{kind.name}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end; returns at once, see `join`."""
        self._stop.set()
        self._stream.abort()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, if the thread was started."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def statistics(self) -> ReflectorStatistics:
        """A copy of the counters."""
        return replace(
            self._statistics, undecodable=self._decoder.undecodable, version=self._version
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            began = self._clock()
            try:
                self._step()
            except Closed:
                break
            except ApiError as error:
                self._failed(error)
            except Exception as error:
                # A bug in the inbox: what was delivered is uncertain, so start over.
                log.exception("reflector failed", kind=self.kind.name)
                self._version = ""
                self._on_error(self.kind, error)
            else:
                if self._clock() - began >= SHORT_WATCH:
                    continue
            self._stop.wait(self._backoff.next())
        self._stream.close()

    def _step(self) -> None:
        """One list or watch, to its end."""
        if not self._version and self._watch_list:
            self._watch_list = self._watch_from_scratch()
            if self._watch_list:
                return
        if not self._version:
            self._list()
        self._watch(f"resourceVersion={self._version}")

    def _failed(self, error: ApiError) -> None:
        if isinstance(error, Expired):
            self._version = ""
            log.info("version too old, listing again", kind=self.kind.name)
            return
        if isinstance(error, NotFound) and self.kind.optional:
            self._not_served()
            return
        if error.message != self._statistics.last_error:
            log.warning("list or watch failed", kind=self.kind.name, error=error.message)
        self._statistics.last_error = error.message
        self._on_error(self.kind, error)

    def _not_served(self) -> None:
        """The kind is not served now, so there are no objects; the kind may be served later."""
        if self._statistics.served:
            log.info("kind is not served", kind=self.kind.name, api_version=self.kind.api_version)
            self._statistics.served = False
            self._replace([], "", [])
        self._version = ""
        self._clear_error()

    def _works(self) -> None:
        if not self._statistics.served:
            self._statistics.served = True
            log.info("kind is served", kind=self.kind.name, api_version=self.kind.api_version)
        self._clear_error()

    def _clear_error(self) -> None:
        if self._statistics.last_error:
            self._statistics.last_error = ""
            log.info("list and watch work again", kind=self.kind.name)
            self._on_error(self.kind, None)

    def _watch_from_scratch(self) -> bool:
        """A WatchList; false if the server has none."""
        initial = self._initial = _InitialEvents()
        self._statistics.lists += 1
        try:
            self._watch("resourceVersion=&resourceVersionMatch=NotOlderThan&sendInitialEvents=true")
            if not initial.complete:
                raise ConnectionLost(f"the first list of {self.kind.name} ended half-way")
        except Invalid:
            # If the server dislikes something else about it, the list will show that.
            return False
        finally:
            self._initial = None
        return True

    def _list(self) -> None:
        """Page by page, all of them from one version."""
        self._statistics.lists += 1
        objects: list[Any] = []
        more = ""
        while True:
            body: list[bytes] = []
            path = self._path(f"limit={PAGE_SIZE}", more and f"continue={quote(more, safe='')}")
            self._stream.get(path, body.append, self._quiet, self._works)
            page = self._decoder.page(b"".join(body))
            objects += page.objects
            more = page.continue_
            if not more:
                break
        self._replace(objects, page.version, [])

    def _watch(self, start: str) -> None:
        self._statistics.watches += 1
        self._lines = Lines()
        shortest, longest = WATCH_SECONDS
        seconds = int(shortest + (longest - shortest) * self._jitter())
        path = self._path("watch=1", "allowWatchBookmarks=true", f"timeoutSeconds={seconds}", start)
        self._stream.get(path, self._receive, self._quiet, self._works)

    def _path(self, *query: str) -> str:
        selector = self.kind.field_selector
        selected = f"fieldSelector={quote(selector, safe='')}" if selector else ""
        return f"{self.kind.path()}?" + "&".join(q for q in (*query, selected) if q)

    def _receive(self, chunk: bytes) -> None:
        """What a watch sent: deliver it, and remember how far we got."""
        messages: list[Message] = []
        try:
            for line in self._lines.feed(chunk):
                self._handle(self._decoder.event(line), messages)
        finally:
            # An error may come after good events in one chunk; those count.
            if messages:
                self._deliver(messages)

    def _handle(self, event: Event, messages: list[Message]) -> None:
        if event.initial_end and self._initial is not None:
            initial, self._initial = self._initial, None
            initial.complete = True
            self._replace(initial.objects, event.version, initial.later)
        elif event.object is not None:
            self._statistics.events += 1
            self._add(event, messages)
        if self._initial is None:
            self._version = event.version or self._version

    def _add(self, event: Event, messages: list[Message]) -> None:
        initial = self._initial
        if initial is not None and event.type == "ADDED" and not initial.later:
            initial.objects.append(event.object)
            return
        message = Removed if event.type == "DELETED" else Changed
        later = messages if initial is None else initial.later
        later.append(message(self.kind, event.object))

    def _replace(self, objects: list[Any], version: str, later: list[Message]) -> None:
        self._version = version
        self._deliver([Replaced(self.kind, objects), *later])
        self.synced.set()


@dataclass(slots=True)
class _InitialEvents:
    """The first part of a WatchList: the objects there are, and what changed in the meantime."""

    objects: list[Any] = field(default_factory=list)
    later: list[Message] = field(default_factory=list)
    complete: bool = False

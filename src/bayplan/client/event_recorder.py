"""Events about Pods (events.k8s.io/v1): recording never blocks, sending has the lowest priority.

`EventRecorder.event` appends to a bounded queue; JSON is made on the dispatcher's thread, when it
has no binding and no status write waiting, or when the queue is half full. A full queue drops
events and counts them. As in
client-go's event broadcaster, equal events (all but the note) become one series: the second one
turns the first into a series by a patch, later ones are only counted, and the count is sent every
half hour and when the series has been quiet for six minutes. Only the most recent `MAX_SERIES` are
remembered.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import structlog

from bayplan.api.kinds import EVENT
from bayplan.api.meta import ObjectReference
from bayplan.api.pod import Pod
from bayplan.client.connection import JSON, STRATEGIC_MERGE_PATCH
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.errors import AlreadyExists, ApiError, NotFound
from bayplan.client.request import ApiOutcome, ApiRequest, Lane

log = structlog.get_logger(__name__)

MAX_NOTE = 1024
"""Bytes of a note that the API accepts."""
MAX_NAME = 253
MAX_SERIES = 8192
SERIES_QUIET_NS = 6 * 60 * 10**9
"""After this long a series has ended (client-go's finishTime)."""
SERIES_REFRESH_NS = 30 * 60 * 10**9
"""How often the count of a running series is sent (client-go's refreshTime)."""
MAX_TRIES = 12


Subject = Pod | ObjectReference


class _Event(NamedTuple):
    time_ns: int
    reporter: str
    regarding: Subject
    related: Subject | None
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    """The first of equal events, the stored name of this event, and the count since then."""

    event: _Event
    name: str
    count: int = 1
    last_ns: int = 0
    unsent: bool = False


@dataclass(slots=True)
class EventStatistics:
    """Counters since the start."""

    waiting: int = 0
    recorded: int = 0
    dropped: int = 0
    sent: int = 0
    failed: int = 0
    series: int = 0


class EventRecorder:
    """Records events on behalf of schedulers; one for all profiles.

    Args:
        dispatcher: sends them; it pulls from here.
        reporting_controller: schedulerName, unless an event names another.
        reporting_instance: which process; the default is controller and host name.
        max_waiting: events kept while the dispatcher has better things to do. From half of that on
            they come first.
        clock_ns: wall clock in nanoseconds.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        reporting_controller: str,
        reporting_instance: str | None = None,
        *,
        max_waiting: int = 20_000,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._dispatcher = dispatcher
        self._controller = reporting_controller
        self._host = socket.gethostname()
        self._instance = reporting_instance
        self._max_waiting = max_waiting
        self._clock_ns = clock_ns
        self._waiting: deque[_Event] = deque()
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._due: deque[_Series] = deque()
        self._swept_ns = self._refreshed_ns = clock_ns()
        self._last_name_ns = 0
        self._statistics = EventStatistics()
        dispatcher.set_event_source(self.next_request, self._fills_up)

    def event(
        self,
        regarding: Subject,
        related: Subject | None,
        type_: str,
        reason: str,
        action: str,
        note: str,
        reporting_controller: str | None = None,
    ) -> None:
        """Record that something happened; returns at once, from any thread.

        The type is Normal or Warning, the action what was done or tried (Scheduling, Binding,
        Preempting); the note is cut to 1,024 bytes; ``reporting_controller`` is the schedulerName
        of the profile.
        """
        if len(self._waiting) >= self._max_waiting:
            self._statistics.dropped += 1
            return
        self._statistics.recorded += 1
        reporter = reporting_controller or self._controller
        self._waiting.append(
            _Event(self._clock_ns(), reporter, regarding, related, type_, reason, action, note)
        )
        self._dispatcher.announce_event()

    def _fills_up(self) -> bool:
        return 2 * len(self._waiting) > self._max_waiting

    def statistics(self) -> EventStatistics:
        """A copy of the counters."""
        waiting, series = len(self._waiting), len(self._series)
        return replace(self._statistics, waiting=waiting, series=series)

    def next_request(self) -> ApiRequest | None:
        """The next thing to send; for the dispatcher's thread alone."""
        while self._waiting:
            try:
                request = self._record(self._waiting.popleft())
            except Exception:
                # What one plugin said must not end what all others send.
                self._statistics.failed += 1
                log.exception("event cannot be sent")
                continue
            if request is not None:
                return request
        self._sweep()
        return self._patch(self._due.popleft()) if self._due else None

    def _record(self, event: _Event) -> ApiRequest | None:
        key = _key(event)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(event, self._name(event), last_ns=event.time_ns)
            if len(self._series) > MAX_SERIES:
                self._series.popitem(last=False)
            return self._create(series)
        self._series.move_to_end(key)
        series.count += 1
        series.last_ns = event.time_ns
        series.unsent = True
        return self._patch(series) if series.count == 2 else None

    def _name(self, event: _Event) -> str:
        # Two events in one tick of the clock must not get one name.
        self._last_name_ns = max(event.time_ns, self._last_name_ns + 1)
        name = f"{event.regarding.name}.{self._last_name_ns:x}"
        return name if len(name) <= MAX_NAME else str(uuid.uuid4())

    def _sweep(self) -> None:
        """Forget series that have ended, after their last count is sent."""
        now = self._clock_ns()
        if now - self._swept_ns < SERIES_QUIET_NS:
            return
        self._swept_ns = now
        refresh = now - self._refreshed_ns >= SERIES_REFRESH_NS
        if refresh:
            self._refreshed_ns = now
        ended = [(k, s) for k, s in self._series.items() if now - s.last_ns > SERIES_QUIET_NS]
        for key, _ in ended:
            del self._series[key]
        self._due.extend(s for _, s in ended if s.unsent)
        if refresh:
            self._due.extend(s for s in self._series.values() if s.unsent)

    def _create(self, series: _Series) -> ApiRequest:
        body = msgspec.json.encode(self._body(series))
        return self._request("POST", _collection(series.event), body, JSON, self._sent)

    def _patch(self, series: _Series) -> ApiRequest:
        series.unsent = False
        body = msgspec.json.encode({"series": _count(series)})

        def done(outcome: ApiOutcome) -> None:
            if isinstance(outcome, NotFound):  # Events expire; start a new series.
                self._dispatcher.submit(self._create(series))
            else:
                self._sent(outcome)

        path = f"{_collection(series.event)}/{series.name}"
        return self._request("PATCH", path, body, STRATEGIC_MERGE_PATCH, done)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        done: Callable[[ApiOutcome], None],
    ) -> ApiRequest:
        return ApiRequest(
            method,
            path,
            done,
            body,
            Lane.EVENT,
            content_type,
            idempotent=True,
            max_tries=MAX_TRIES,
        )

    def _sent(self, outcome: ApiOutcome) -> None:
        if not isinstance(outcome, ApiError) or isinstance(outcome, AlreadyExists):
            self._statistics.sent += 1
            return
        self._statistics.failed += 1
        log.warning("event was not stored", error=outcome.message, fault=outcome.fault.value)

    def _body(self, series: _Series) -> dict[str, Any]:
        event = series.event
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": _namespace(event)},
            "eventTime": _micro_time(event.time_ns),
            "reportingController": event.reporter,
            "reportingInstance": self._instance or f"{event.reporter}-{self._host}"[:128],
            "action": event.action,
            "reason": event.reason,
            "regarding": _reference(event.regarding),
            "note": cut(event.note),
            "type": event.type,
        }
        if event.related is not None:
            body["related"] = _reference(event.related)
        if series.count > 1:
            body["series"] = _count(series)
        return body


def cut(note: str) -> str:
    """The note, or as much of it as the API accepts, with kube-scheduler's mark of the cut."""
    encoded = note.encode(errors="backslashreplace")
    if len(encoded) <= MAX_NOTE:
        return encoded.decode()
    return encoded[: MAX_NOTE - 4].decode(errors="ignore") + " ..."


def _key(event: _Event) -> tuple[str, ...]:
    """Equal for events of one series."""
    related = (event.related.uid, event.related.name) if event.related is not None else ("", "")
    return (
        event.regarding.uid,
        event.regarding.namespace,
        event.regarding.name,
        event.type,
        event.reason,
        event.action,
        event.reporter,
        *related,
    )


def _count(series: _Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": _micro_time(series.last_ns)}


def _namespace(event: _Event) -> str:
    return event.regarding.namespace or "default"


def _collection(event: _Event) -> str:
    return EVENT.path(_namespace(event))


def _micro_time(time_ns: int) -> str:
    moment = datetime.fromtimestamp(time_ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ns % 10**9 // 1000:06d}Z"


def _reference(subject: Subject) -> dict[str, str]:
    if isinstance(subject, Pod):
        kind, api_version = "Pod", "v1"
    else:
        kind, api_version = subject.kind, subject.api_version
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
    }
    return {k: v for k, v in reference.items() if v}

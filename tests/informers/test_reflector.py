"""A reflector against a server that lists, watches, forgets, breaks and lies."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from tests.client.fault_server import Exchange, FaultServer
from tests.waiting import SOON, eventually

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.client import errors
from bayplan.inbox.messages import Changed, Message, Removed, Replaced
from bayplan.informers import backoff
from bayplan.informers.factory import Informers
from bayplan.informers.reflector import Reflector

Lines = list[bytes]


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.01)


def node(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def event(type_: str, name: str, version: int) -> bytes:
    found = {"type": type_, "object": node(name, version)}
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


def bookmark(version: int, end: bool = False) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n"


def error_event(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": reason}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class ListAndWatch:
    """A server that plays one list of steps: each request takes the next.

    Each step is a list of chunks to stream (the last step stays open), or a function.
    """

    def __init__(self, server: FaultServer, *steps: Lines | Callable[[Exchange], None]) -> None:
        self.server = server
        self.steps = list(steps)
        self.queries: Queue[dict[str, str]] = Queue()
        self.more: Queue[bytes | None] = Queue()
        server.script = self

    def __call__(self, exchange: Exchange) -> None:
        self.queries.put(exchange.query)
        step = self.steps.pop(0) if self.steps else []
        if callable(step):
            step(exchange)
        else:
            self.stream(exchange, step, stay=not self.steps)

    def stream(self, exchange: Exchange, chunks: Lines, stay: bool) -> None:
        exchange.begin_stream()
        for chunk in chunks:
            exchange.chunk(chunk)
        while stay and (chunk_or_end := self.more.get(timeout=SOON)) is not None:
            exchange.chunk(chunk_or_end)
        exchange.end_stream()

    def query(self) -> dict[str, str]:
        return self.queries.get(timeout=SOON)


class Watched:
    """A reflector and what it delivered."""

    def __init__(self, server: FaultServer, kind: Kind[Any] = NODE, **settings: Any) -> None:
        self.batches: Queue[list[Message]] = Queue()
        self.errors: Queue[Exception | None] = Queue()
        self.reflector = Reflector(
            server.connection(),
            kind,
            self.batches.put,
            on_error=lambda _kind, error: self.errors.put(error),
            jitter=lambda: 0.0,
            **settings,
        )
        self.reflector.start()

    def batch(self) -> list[tuple[str, Any]]:
        return [told(message) for message in self.batches.get(timeout=SOON)]

    def stop(self) -> None:
        self.reflector.stop()
        self.reflector.join(SOON)


def told(message: Message) -> tuple[str, Any]:
    match message:
        case Replaced(_, objects):
            return "replaced", [o.name for o in objects]
        case Changed(_, found):
            return "changed", found.name
        case Removed(_, found):
            return "removed", found.name
        case _:
            raise AssertionError(f"{message} is no watch message")


@pytest.fixture
def watch(server: FaultServer) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def start(kind: Kind[Any] = NODE, **settings: Any) -> Watched:
        made.append(Watched(server, kind, **settings))
        return made[-1]

    yield start
    for watched in made:
        watched.reflector.stop()
    server.over.set()
    for watched in made:
        watched.reflector.join(SOON)


SYNCED = [event("ADDED", "a", 1) + event("ADDED", "b", 2) + bookmark(5, end=True)]


def test_the_first_part_of_a_watch_list_comes_as_one(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    script = ListAndWatch(
        server, [event("ADDED", "a", 1), event("ADDED", "b", 2) + bookmark(5, True)]
    )
    watched = watch()
    assert watched.batch() == [("replaced", ["a", "b"])]
    assert watched.reflector.synced.wait(SOON)
    assert script.query() == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "",
        "resourceVersionMatch": "NotOlderThan",
        "sendInitialEvents": "true",
    }


def test_what_follows_on_the_same_stream_are_changes(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    script = ListAndWatch(server, SYNCED)
    watched = watch()
    watched.batch()
    script.more.put(event("MODIFIED", "a", 6) + event("DELETED", "b", 7))
    assert watched.batch() == [("changed", "a"), ("removed", "b")]
    script.more.put(event("ADDED", "c", 8))
    assert watched.batch() == [("changed", "c")]
    statistics = watched.reflector.statistics()
    assert (statistics.lists, statistics.watches, statistics.events) == (1, 1, 5)


def test_changes_amid_the_initial_events_come_after_them(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    first = event("ADDED", "a", 1) + event("DELETED", "a", 3) + event("ADDED", "a", 4)
    ListAndWatch(server, [first + bookmark(5, end=True)])
    assert watch().batch() == [("replaced", ["a"]), ("removed", "a"), ("changed", "a")]


def test_an_event_that_arrives_in_pieces_is_put_together(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    script = ListAndWatch(server, SYNCED)
    watched = watch()
    watched.batch()
    whole = event("MODIFIED", "a", 6)
    for i in range(0, len(whole), 9):
        script.more.put(whole[i : i + 9])
    assert watched.batch() == [("changed", "a")]


def test_the_server_leaves_out_what_the_selector_excludes(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    script = ListAndWatch(server, [bookmark(5, end=True)])
    watch(POD)
    assert script.query()["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


@pytest.fixture
def long_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any watch counts as long enough to be resumed at once."""
    monkeypatch.setattr("bayplan.informers.reflector.SHORT_WATCH", 0.0)


def test_a_watch_that_ended_is_resumed_where_it_stood(
    server: FaultServer, watch: Callable[..., Watched], long_watches: None
) -> None:
    script = ListAndWatch(server, [*SYNCED, event("ADDED", "c", 8)], [bookmark(11)], [])
    watched = watch()
    watched.batch()
    assert watched.batch() == [("changed", "c")]
    script.query()
    assert script.query()["resourceVersion"] == "8"
    resumed = script.query()
    assert resumed["resourceVersion"] == "11"
    assert "sendInitialEvents" not in resumed
    script.more.put(event("ADDED", "d", 12))
    assert watched.batch() == [("changed", "d")]


def test_a_broken_watch_is_resumed_and_the_breaking_told(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    def break_off(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.chunk(SYNCED[0])
        exchange.chunk(event("ADDED", "c", 8))
        exchange.hang_up()

    script = ListAndWatch(server, break_off, [event("ADDED", "d", 9)])
    watched = watch()
    assert watched.batch()[0] == ("replaced", ["a", "b"])
    assert watched.batch() == [("changed", "c")]
    assert watched.batch() == [("changed", "d")]
    script.query()
    assert script.query()["resourceVersion"] == "8"
    assert isinstance(watched.errors.get(timeout=SOON), errors.ConnectionLost)
    assert watched.errors.get(timeout=SOON) is None


EXPIRED = [
    pytest.param([error_event(410, "Expired")], id="event in the watch"),
    pytest.param([event("ADDED", "c", 8) + error_event(410, "Gone")], id="event after another"),
    pytest.param(lambda exchange: exchange.error(410, "Expired"), id="HTTP status"),
]


@pytest.mark.parametrize("step", EXPIRED)
def test_a_version_that_is_too_old_leads_to_a_new_list(
    server: FaultServer,
    watch: Callable[..., Watched],
    long_watches: None,
    step: Callable[..., Any] | list[bytes],
) -> None:
    again = [event("ADDED", "z", 20) + bookmark(21, end=True)]
    script = ListAndWatch(server, SYNCED, step, again)
    watched = watch()
    batches = [watched.batch()]
    while batches[-1] != [("replaced", ["z"])]:
        batches.append(watched.batch())
    queries = [script.query() for _ in range(3)]
    assert [q["resourceVersion"] for q in queries] == ["", "5", ""]
    assert watched.errors.empty(), "it is no failure: nothing is missing"


def page(names: list[str], version: int, more: str = "") -> Callable[[Exchange], None]:
    meta = {"resourceVersion": str(version), "continue": more}
    items = [node(name, version) for name in names]
    return lambda exchange: exchange.answer(200, {"metadata": meta, "items": items})


@pytest.mark.parametrize("code", [400, 422])
def test_a_server_without_watch_list_is_listed_page_by_page(
    server: FaultServer, watch: Callable[..., Watched], code: int
) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.error(code, "Invalid", "sendInitialEvents is forbidden")

    script = ListAndWatch(
        server, refuse, page(["a", "b"], 5, "next&page"), page(["c"], 5), [event("ADDED", "d", 6)]
    )
    watched = watch()
    assert watched.batch() == [("replaced", ["a", "b", "c"])]
    assert watched.batch() == [("changed", "d")]
    script.query()
    assert script.query() == {"limit": "500"}
    assert script.query() == {"limit": "500", "continue": "next&page"}
    assert script.query()["resourceVersion"] == "5"


def test_a_first_list_that_ends_half_way_is_begun_again(
    server: FaultServer, watch: Callable[..., Watched], long_watches: None
) -> None:
    ListAndWatch(server, [event("ADDED", "half", 1)], SYNCED)
    watched = watch()
    assert watched.batch() == [("replaced", ["a", "b"])]
    assert "ended half-way" in str(watched.errors.get(timeout=SOON))


def test_a_forbidden_list_is_told_and_tried_again(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    why = 'nodes is forbidden: User "u" cannot list resource "nodes"'
    ListAndWatch(server, lambda exchange: exchange.error(403, "Forbidden", why), SYNCED)
    watched = watch()
    error = watched.errors.get(timeout=SOON)
    assert isinstance(error, errors.Forbidden)
    assert str(error) == why
    assert watched.batch() == [("replaced", ["a", "b"])]
    assert watched.errors.get(timeout=SOON) is None
    assert watched.reflector.statistics().last_error == ""


def test_a_refused_token_is_read_again(server: FaultServer, watch: Callable[..., Watched]) -> None:
    ListAndWatch(server, lambda exchange: exchange.error(401, "Unauthorized"), SYNCED)
    forgotten = threading.Event()
    connection = server.connection()
    connection.forget_credentials = forgotten.set  # type: ignore[method-assign]
    reflector = Reflector(connection, NODE, lambda _: None, jitter=lambda: 0.0)
    reflector.start()
    assert reflector.synced.wait(SOON)
    assert forgotten.is_set()
    reflector.stop()


def test_garbage_in_a_watch_ends_it_and_what_came_before_counts(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    script = ListAndWatch(server, [SYNCED[0], event("ADDED", "c", 8) + b"<html>\n"], [])
    watched = watch()
    watched.batch()
    assert watched.batch() == [("changed", "c")]
    script.query()
    assert script.query()["resourceVersion"] == "8"
    assert isinstance(watched.errors.get(timeout=SOON), errors.ServerError)


def test_an_object_that_is_not_understood_costs_itself_alone(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    odd = b'{"type":"ADDED","object":{"metadata":{"name":"odd","resourceVersion":"9"},"spec":5}}\n'
    script = ListAndWatch(server, [SYNCED[0], odd + event("ADDED", "c", 10), odd], [])
    watched = watch()
    watched.batch()
    assert watched.batch() == [("changed", "c")]
    script.query()
    assert script.query()["resourceVersion"] == "9", "it is not fetched again and again"
    assert watched.reflector.statistics().undecodable == 2


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_busy_loop(
    server: FaultServer, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.05)
    script = ListAndWatch(server, SYNCED, *[[] for _ in range(50)])
    began = time.monotonic()
    watch()
    for _ in range(5):
        script.query()
    assert time.monotonic() - began >= 0.05 + 0.1 + 0.2 + 0.4 - 0.02


def test_a_connection_that_went_quiet_is_given_up(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    def say_nothing(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.wait_until_the_end()

    script = ListAndWatch(server, say_nothing, SYNCED)
    watched = watch(quiet=1.0)
    script.query()
    assert watched.batch() == [("replaced", ["a", "b"])]
    assert isinstance(watched.errors.get(timeout=SOON), errors.Timeout)


def test_it_stops_at_once_amid_a_quiet_watch(
    server: FaultServer, watch: Callable[..., Watched]
) -> None:
    ListAndWatch(server, SYNCED)
    watched = watch(quiet=10 * SOON)
    watched.batch()
    watched.stop()
    assert not watched.reflector._thread.is_alive()
    assert watched.errors.empty()


def test_it_stops_while_it_waits_after_a_failure(
    server: FaultServer, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST", 30.0)
    ListAndWatch(server, lambda exchange: exchange.error(500))
    watched = watch()
    watched.errors.get(timeout=SOON)
    watched.reflector.stop()
    watched.reflector.join(SOON)
    assert not watched.reflector._thread.is_alive()


def test_a_bug_in_the_inbox_is_told_and_the_list_begun_again(server: FaultServer) -> None:
    ListAndWatch(server, SYNCED, SYNCED)
    delivered: Queue[list[Message]] = Queue()
    told_errors: Queue[Exception | None] = Queue()

    def deliver(messages: list[Message]) -> None:
        delivered.put(messages)
        if delivered.qsize() == 1:
            raise ZeroDivisionError

    reflector = Reflector(
        server.connection(), NODE, deliver, on_error=lambda _, error: told_errors.put(error)
    )
    reflector.start()
    assert isinstance(told_errors.get(timeout=SOON), ZeroDivisionError)
    assert reflector.synced.wait(SOON)
    reflector.stop()
    server.over.set()
    reflector.join(SOON)


def test_informers_say_which_kinds_are_not_there_yet_and_why(server: FaultServer) -> None:
    def script(exchange: Exchange) -> None:
        if exchange.bare_path == POD.path():
            exchange.error(403, "Forbidden", "pods is forbidden")
            return
        exchange.begin_stream()
        exchange.chunk(SYNCED[0])
        exchange.wait_until_the_end()

    server.script = script
    batches: Queue[list[Message]] = Queue()
    informers = Informers(server.connection(), batches.put)
    informers.watch([NODE, POD])
    assert [told(m) for m in batches.get(timeout=SOON)] == [("replaced", ["a", "b"])]
    eventually(informers.errors)
    assert informers.unsynced() == {POD: "pods is forbidden"}
    assert [type(e) for e in informers.errors().values()] == [errors.Forbidden]
    assert informers.statistics()[POD].last_error == "pods is forbidden"
    informers.stop()


def test_informers_that_watch_nothing_can_be_stopped(server: FaultServer) -> None:
    Informers(server.connection(), lambda _: None).stop()


def empty_and_quiet(exchange: Exchange) -> None:
    """A list without objects, then a watch in which nothing happens."""
    exchange.begin_stream()
    exchange.chunk(bookmark(5, end=True))
    exchange.wait_until_the_end()


ENDS_WITH_A_WATCH = """
import atexit, sys, threading, time
from kubernetes.client import Configuration
from bayplan.api.kinds import NODE, POD
from bayplan.client.connection import Connection
from bayplan.informers.factory import Informers

atexit.register(lambda: print([t.name for t in threading.enumerate()]))
informers = Informers(Connection(Configuration(host=sys.argv[1])), lambda _: None)
informers.watch([NODE, POD])
while informers.unsynced():
    time.sleep(0.01)
print([t.name for t in threading.enumerate()])
"""


def test_no_watch_is_left_when_the_process_ends(server: FaultServer) -> None:
    server.script = empty_and_quiet
    command = [sys.executable, "-c", ENDS_WITH_A_WATCH, server.url]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SOON)
    during, after = map(ast.literal_eval, ran.stdout.splitlines())
    assert during == ["MainThread", "reflector-Node", "reflector-Pod"]
    assert after == ["MainThread"]


def test_informers_are_synced_when_every_kind_is(server: FaultServer) -> None:
    server.script = empty_and_quiet
    informers = Informers(server.connection(), lambda _: None)
    informers.watch([NODE, POD])
    assert set(informers.unsynced()) <= {NODE, POD}
    eventually(lambda: not informers.unsynced())
    assert informers.errors() == {}
    informers.stop()

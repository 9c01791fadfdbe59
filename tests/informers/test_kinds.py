"""Kinds that the API server may or may not serve, and a set of kinds that changes."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest
from tests.client.fault_server import Exchange, FaultServer
from tests.informers.test_reflector import SYNCED, ListAndWatch, bookmark, event, told
from tests.waiting import SOON, eventually

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.client.errors import Forbidden
from bayplan.inbox.messages import Message, Replaced
from bayplan.informers import backoff
from bayplan.informers.factory import Informers

WIDGET = Kind.generic("example.com/v1", "Widget", "widgets", namespaced=False)
Reports = list[tuple[str, Any]]


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.01)


class Watching:
    """Informers and what they delivered."""

    def __init__(self, server: FaultServer) -> None:
        self.batches: Queue[list[Message]] = Queue()
        self.informers = Informers(server.connection(), self.batches.put)

    def batch(self) -> Reports:
        return [told(message) for message in self.batches.get(timeout=SOON)]


@pytest.fixture
def watching(server: FaultServer) -> Iterator[Watching]:
    made = Watching(server)
    yield made
    server.over.set()
    made.informers.stop()


def not_served(exchange: Exchange) -> None:
    exchange.answer(404, b"404 page not found\n")


def forbidden(exchange: Exchange) -> None:
    exchange.error(403, "Forbidden", "widgets is forbidden")


def test_a_kind_that_is_not_served_counts_as_empty_and_comes_when_it_appears(
    server: FaultServer, watching: Watching
) -> None:
    script = ListAndWatch(server, not_served, not_served, not_served, SYNCED)
    watching.informers.watch([WIDGET])
    assert watching.batch() == [("replaced", [])]
    assert watching.informers.unsynced() == {}
    assert watching.informers.errors() == {}
    assert watching.batch() == [("replaced", ["a", "b"])]
    assert watching.informers.statistics()[WIDGET].served
    assert script.queries.qsize() == 4


def test_a_kind_that_goes_away_is_emptied_and_looked_for_again(
    server: FaultServer, watching: Watching
) -> None:
    later = [event("ADDED", "c", 8) + bookmark(9, end=True)]
    ListAndWatch(server, SYNCED, not_served, not_served, later)
    watching.informers.watch([WIDGET])
    batches = [watching.batch() for _ in range(3)]
    assert batches == [
        [("replaced", ["a", "b"])],
        [("replaced", [])],
        [("replaced", ["c"])],
    ]
    assert watching.informers.unsynced() == {}


def test_while_a_kind_is_not_served_that_is_no_error(
    server: FaultServer, watching: Watching
) -> None:
    server.script = not_served
    watching.informers.watch([WIDGET])
    assert watching.batch() == [("replaced", [])]
    eventually(lambda: len(server.requests) > 3)
    assert watching.batches.empty()
    assert watching.informers.unsynced() == {}
    assert watching.informers.errors() == {}
    assert not watching.informers.statistics()[WIDGET].served


def test_a_kind_that_is_not_optional_must_be_served(
    server: FaultServer, watching: Watching
) -> None:
    server.script = not_served
    watching.informers.watch([NODE])
    eventually(watching.informers.errors)
    assert set(watching.informers.unsynced()) == {NODE}
    assert watching.batches.empty()


def test_a_kind_that_may_not_be_read_is_an_error_even_when_it_is_optional(
    server: FaultServer, watching: Watching
) -> None:
    server.script = forbidden
    watching.informers.watch([WIDGET])
    eventually(watching.informers.errors)
    assert watching.informers.unsynced() == {WIDGET: "widgets is forbidden"}
    assert isinstance(watching.informers.errors()[WIDGET], Forbidden)


def test_an_error_is_forgotten_once_the_server_says_that_there_is_no_such_kind(
    server: FaultServer, watching: Watching
) -> None:
    ListAndWatch(server, forbidden, not_served, SYNCED)
    watching.informers.watch([WIDGET])
    assert watching.batch() == [("replaced", [])]
    assert watching.batch() == [("replaced", ["a", "b"])]
    assert watching.informers.errors() == {}


def test_kinds_can_be_added_and_dropped_and_the_others_go_on(
    server: FaultServer, watching: Watching
) -> None:
    def script(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.chunk(SYNCED[0])
        exchange.wait_until_the_end()

    server.script = script
    informers = watching.informers
    informers.watch([NODE])
    informers.watch([NODE, WIDGET, WIDGET])
    assert [watching.batch(), watching.batch()] == [[("replaced", ["a", "b"])]] * 2
    assert len(server.requests) == 2
    assert set(informers.statistics()) == {NODE, WIDGET}
    informers.watch([NODE])
    [message] = watching.batches.get(timeout=SOON)
    assert isinstance(message, Replaced)
    assert (message.kind, told(message)) == (WIDGET, ("replaced", []))
    assert set(informers.statistics()) == {NODE}
    assert len(server.requests) == 2


def test_a_kind_that_is_dropped_leaves_no_error_behind(
    server: FaultServer, watching: Watching
) -> None:
    server.script = forbidden
    watching.informers.watch([POD])
    eventually(watching.informers.errors)
    watching.informers.watch([])
    assert watching.informers.errors() == {}
    assert watching.informers.unsynced() == {}

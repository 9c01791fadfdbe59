"""Deadlines and the limit of connections, by a clock of our own."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from bayplan.server.connections import (
    ANSWER_SECONDS,
    IDLE_SECONDS,
    REQUEST_SECONDS,
    Connections,
)


class Pairs:
    """Connections with both ends, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.connections = Connections(most=2, clock=lambda: self.now)
        self._peers: dict[socket.socket, socket.socket] = {}

    def new(self) -> tuple[socket.socket, bool]:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._peers[ours] = theirs
        return ours, self.connections.add(ours)

    def is_open(self, ours: socket.socket) -> bool:
        try:
            return self._peers[ours].recv(1) != b""
        except BlockingIOError:
            return True

    def close(self) -> None:
        for ours, theirs in self._peers.items():
            ours.close()
            theirs.close()


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    made = Pairs()
    yield made
    made.close()


def test_a_request_that_is_late_ends_the_connection(pairs: Pairs) -> None:
    early, _ = pairs.new()
    pairs.now = 1.0
    late, _ = pairs.new()
    pairs.now = REQUEST_SECONDS + 0.5
    pairs.connections.close_overdue()
    assert (pairs.is_open(early), pairs.is_open(late)) == (False, True)


def test_making_the_answer_may_take_long_and_sending_it_may_not(pairs: Pairs) -> None:
    connection, _ = pairs.new()
    pairs.connections.answering(connection)
    pairs.now = 1000.0
    pairs.connections.close_overdue()
    assert pairs.is_open(connection)
    pairs.connections.answering(connection, ANSWER_SECONDS)
    pairs.now += ANSWER_SECONDS + 1
    pairs.connections.close_overdue()
    assert not pairs.is_open(connection)


def test_one_too_many_ends_the_oldest_that_has_not_asked_yet(pairs: Pairs) -> None:
    asked, _ = pairs.new()
    silent, _ = pairs.new()
    pairs.connections.answering(asked)
    _, accepted = pairs.new()
    assert accepted
    assert (pairs.is_open(asked), pairs.is_open(silent)) == (True, False)
    assert len(pairs.connections) == 2


def test_an_idle_connection_waits_longer_than_a_request_that_has_begun(pairs: Pairs) -> None:
    (idle, _), (begun, _) = pairs.new(), pairs.new()
    for connection in (idle, begun):
        assert pairs.connections.idle(connection)
    pairs.connections.reading(begun)
    pairs.now = IDLE_SECONDS - 0.5
    pairs.connections.close_overdue()
    assert (pairs.is_open(idle), pairs.is_open(begun)) == (True, False)
    pairs.now = IDLE_SECONDS + 0.5
    pairs.connections.close_overdue()
    assert not pairs.is_open(idle)


def test_one_too_many_ends_an_idle_one_first(pairs: Pairs) -> None:
    (reading, _), (idle, _) = pairs.new(), pairs.new()
    pairs.connections.idle(idle)
    _, accepted = pairs.new()
    assert accepted
    assert (pairs.is_open(reading), pairs.is_open(idle)) == (True, False)


def test_at_the_end_those_that_have_asked_are_answered_and_none_asks_again(pairs: Pairs) -> None:
    (answering, _), (idle, _) = pairs.new(), pairs.new()
    pairs.connections.answering(answering)
    pairs.connections.idle(idle)
    pairs.connections.end()
    assert (pairs.is_open(answering), pairs.is_open(idle)) == (True, False)
    assert not pairs.connections.idle(answering)


def test_one_too_many_is_refused_where_all_are_being_answered(pairs: Pairs) -> None:
    for connection, _ in (pairs.new(), pairs.new()):
        pairs.connections.answering(connection)
    refused, accepted = pairs.new()
    assert not accepted
    pairs.connections.remove(refused)
    assert len(pairs.connections) == 2


def test_a_connection_that_ends_makes_room(pairs: Pairs) -> None:
    one, _ = pairs.new()
    two, _ = pairs.new()
    pairs.connections.remove(one)
    _, accepted = pairs.new()
    assert accepted
    assert pairs.is_open(two)

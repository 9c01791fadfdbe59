"""The one thread of writes: order, limits, retries, and its end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from kubernetes.client import Configuration
from tests.client.fault_server import Exchange, FaultServer, one_after_another
from tests.waiting import SOON, eventually

from bayplan.client import errors
from bayplan.client.connection import Connection
from bayplan.client.dispatcher import GATHER, Dispatcher
from bayplan.client.lanes import EVENTS_IN_FLIGHT, Lanes
from bayplan.client.request import ApiOutcome, ApiRequest, Lane


class Bench:
    """A dispatcher against the server, and what became of the requests."""

    def __init__(self, server: FaultServer) -> None:
        self.server = server
        self.outcomes: Queue[tuple[str, ApiOutcome]] = Queue()
        self.dispatcher: Dispatcher | None = None

    def start(self, connection: Connection | None = None, **settings: Any) -> Dispatcher:
        connection = connection or self.server.connection()
        self.dispatcher = Dispatcher(connection, Lanes(jitter=lambda: 0.0, **settings))
        self.dispatcher.start()
        return self.dispatcher

    def request(self, path: str, lane: Lane = Lane.BIND, **fields: Any) -> ApiRequest:
        return ApiRequest(
            "POST", path, lambda o: self.outcomes.put((path, o)), b"{}", lane, **fields
        )

    def submit(self, path: str, lane: Lane = Lane.BIND, **fields: Any) -> None:
        assert self.dispatcher
        self.dispatcher.submit(self.request(path, lane, **fields))

    def outcome(self) -> tuple[str, ApiOutcome]:
        return self.outcomes.get(timeout=SOON)

    def error(self) -> errors.ApiError:
        outcome = self.outcome()[1]
        assert isinstance(outcome, errors.ApiError)
        return outcome

    def paths(self) -> list[str]:
        return [r.path for r in self.server.requests]


@pytest.fixture
def bench(server: FaultServer) -> Iterator[Bench]:
    made = Bench(server)
    yield made
    if made.dispatcher:
        made.dispatcher.close(0)


class Gate:
    """A script that holds requests back until it is opened, and counts those it holds."""

    def __init__(self) -> None:
        self.arrived: Queue[str] = Queue()
        self.open = threading.Event()
        self.lock = threading.Lock()
        self.inside = 0
        self.most = 0

    def __call__(self, exchange: Exchange) -> None:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.arrived.put(exchange.path)
        self.open.wait(SOON)
        with self.lock:
            self.inside -= 1
        exchange.answer(201)

    def wait_for(self, count: int) -> list[str]:
        return [self.arrived.get(timeout=SOON) for _ in range(count)]


def test_a_request_gets_the_answer(bench: Bench) -> None:
    bench.server.script = lambda exchange: exchange.answer(201, {"ok": True})
    dispatcher = bench.start()
    assert dispatcher.alive
    bench.submit("/a", content_type="x/y")
    assert bench.outcome() == ("/a", b'{"ok": true}')
    (request,) = bench.server.requests
    assert (request.command, request.body) == ("POST", b"{}")
    assert request.headers["Content-Type"] == "x/y"


def test_bindings_go_first_then_status_writes_then_events(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    bench.start(max_in_flight=1)
    bench.submit("/first")
    gate.wait_for(1)
    for path, lane in [("/e", Lane.EVENT), ("/s", Lane.STATUS), ("/b", Lane.BIND)]:
        bench.submit(path, lane)
    gate.open.set()
    assert gate.wait_for(3) == ["/b", "/s", "/e"]


def test_events_are_pulled_only_when_nothing_else_waits(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    dispatcher = bench.start(max_in_flight=1)
    pulled: list[str] = []

    def source() -> ApiRequest | None:
        if pulled:
            return None
        pulled.append("event")
        return bench.request("/event", Lane.EVENT)

    bench.submit("/a")
    gate.wait_for(1)
    bench.submit("/b")
    dispatcher.set_event_source(source)
    dispatcher.wake()
    assert pulled == []
    gate.open.set()
    assert gate.wait_for(2) == ["/b", "/event"]


def test_events_leave_room_for_bindings(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    dispatcher = bench.start()
    dispatcher.set_event_source(lambda: bench.request("/event", Lane.EVENT))
    dispatcher.wake()
    gate.wait_for(EVENTS_IN_FLIGHT)
    bench.submit("/bind")
    assert gate.wait_for(1) == ["/bind"]
    dispatcher.set_event_source(lambda: None)
    gate.open.set()


def test_events_announced_one_by_one_are_gathered_and_go_out_together(bench: Bench) -> None:
    dispatcher = bench.start()
    waiting: deque[ApiRequest] = deque()
    answers: Queue[bool] = Queue()

    def source() -> ApiRequest | None:
        request = waiting.popleft() if waiting else None
        answers.put(request is not None)
        return request

    dispatcher.set_event_source(source)
    dispatcher.wake()
    assert not answers.get(timeout=SOON)
    waiting += (bench.request(path, Lane.EVENT) for path in ("/1", "/2", "/3"))
    for _ in range(3):
        dispatcher.announce_event()
    assert [answers.get(timeout=SOON) for _ in range(4)] == [True, True, True, False]


def test_no_more_are_in_flight_than_allowed(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    bench.start(max_in_flight=3)
    for i in range(10):
        bench.submit(f"/{i}")
    gate.wait_for(3)
    gate.open.set()
    for _ in range(10):
        bench.outcome()
    assert gate.most == 3
    assert len({r.client_address for r in bench.server.requests}) == 3


def test_answers_that_come_close_together_are_taken_together(bench: Bench) -> None:
    waits: list[float] = []

    class Watched(Lanes):
        def pause(self) -> float:
            waits.append(time.monotonic())
            return super().pause()

    bench.server.script = lambda exchange: exchange.answer(201)
    dispatcher = bench.dispatcher = Dispatcher(bench.server.connection(), Watched())
    dispatcher.start()
    for number in range(200):
        bench.submit(f"/{number}")
    for _ in range(200):
        bench.outcome()
    assert len(waits) > 1
    assert all(later - earlier > GATHER - 1e-6 for earlier, later in pairwise(waits.copy()))


def test_requests_are_spread_out_as_qps_and_burst_say(bench: Bench) -> None:
    bench.server.script = lambda exchange: exchange.answer()
    bench.start(qps=50, burst=2)
    began = time.monotonic()
    for i in range(6):
        bench.submit(f"/{i}")
    for _ in range(6):
        bench.outcome()
    assert time.monotonic() - began >= 4 / 50 - 0.005


def answer(exchange: Exchange) -> None:
    exchange.answer(201, b"fine")


def throttle(exchange: Exchange) -> None:
    exchange.error(429, "TooManyRequests")


def fail(exchange: Exchange) -> None:
    exchange.error(500, "InternalError")


def hang_up(exchange: Exchange) -> None:
    exchange.hang_up()


def conflict(exchange: Exchange) -> None:
    exchange.error(409, "Conflict", "taken")


RETRIES = [
    pytest.param(throttle, False, b"fine", 2, id="throttled"),
    pytest.param(fail, True, b"fine", 2, id="server error, idempotent"),
    pytest.param(fail, False, errors.ServerError, 1, id="server error, not idempotent"),
    pytest.param(hang_up, True, b"fine", 2, id="broken, idempotent"),
    pytest.param(hang_up, False, errors.ConnectionLost, 1, id="broken, not idempotent"),
    pytest.param(conflict, True, errors.Conflict, 1, id="conflict"),
]


@pytest.mark.parametrize(("fault", "idempotent", "expected", "tries"), RETRIES)
def test_a_failed_request_is_sent_again_where_the_rules_say(
    bench: Bench,
    fault: Callable[[Exchange], None],
    idempotent: bool,
    expected: bytes | type[Any],
    tries: int,
) -> None:
    bench.server.script = one_after_another(fault, answer)
    dispatcher = bench.start()
    bench.submit("/a", idempotent=idempotent)
    _, outcome = bench.outcome()
    assert outcome == expected if isinstance(expected, bytes) else isinstance(outcome, expected)
    assert len(bench.server.requests) == tries
    assert dispatcher.statistics().retried == tries - 1


def one_waits_for_its_next_try(bench: Bench) -> Dispatcher:
    """/slow is to be sent again in a minute; /quick, submitted after it, has its answer."""
    bench.server.script = lambda exchange: (
        exchange.error(429, Retry_After="60") if exchange.path == "/slow" else exchange.answer()
    )
    dispatcher = bench.start(max_in_flight=1)
    bench.submit("/slow")
    bench.submit("/quick")
    assert bench.outcome()[0] == "/quick"
    return dispatcher


def test_a_request_that_waits_for_its_next_try_does_not_hold_up_others(bench: Bench) -> None:
    dispatcher = one_waits_for_its_next_try(bench)
    assert dispatcher.statistics().to_retry == 1


def test_a_server_that_is_not_there_is_reported(bench: Bench) -> None:
    bench.start(Connection(Configuration(host="http://127.0.0.1:1")))
    bench.submit("/a", max_tries=2)
    assert isinstance(bench.error(), errors.Unreachable)


def test_a_request_without_an_answer_times_out(bench: Bench) -> None:
    bench.server.script = lambda exchange: exchange.wait_until_the_end()
    bench.start()
    bench.submit("/a", timeout=0.05)
    assert isinstance(bench.error(), errors.Timeout)


def test_a_refused_token_is_read_again(bench: Bench, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    bench.server.script = lambda exchange: (
        exchange.answer()
        if exchange.headers["Authorization"] == "Bearer new"
        else exchange.error(401, "Unauthorized")
    )
    connection = Connection(Configuration(host=bench.server.url), token)
    connection.headers()
    token.write_text("new")
    bench.start(connection)
    bench.submit("/a")
    assert isinstance(bench.outcome()[1], bytes)


def test_a_token_that_cannot_be_read_fails_the_request(bench: Bench, tmp_path: Path) -> None:
    bench.start(Connection(Configuration(host=bench.server.url), tmp_path / "missing"))
    bench.submit("/a")
    assert isinstance(bench.error(), errors.Unauthorized)
    assert bench.server.requests == []


def test_a_callback_that_raises_costs_nobody_else(bench: Bench) -> None:
    bench.server.script = answer
    dispatcher = bench.start()

    def explode(_: ApiOutcome) -> None:
        raise ZeroDivisionError

    dispatcher.submit(ApiRequest("GET", "/bad", explode))
    bench.submit("/good")
    assert bench.outcome() == ("/good", b"fine")
    assert dispatcher.close(SOON)
    assert dispatcher.statistics().callback_errors == 1


def test_counters_tell_what_went_where(bench: Bench) -> None:
    bench.server.script = answer
    dispatcher = bench.start()
    for lane in (Lane.BIND, Lane.STATUS, Lane.STATUS, Lane.EVENT):
        bench.submit("/a", lane)
    for _ in range(4):
        bench.outcome()
    statistics = dispatcher.statistics()
    assert statistics.sent == [1, 2, 1]
    assert statistics.in_flight == statistics.waiting == [0, 0, 0]


def test_closing_finishes_what_was_submitted(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    dispatcher = bench.start(max_in_flight=2)
    for i in range(6):
        bench.submit(f"/{i}")
    gate.wait_for(2)
    gate.open.set()
    assert dispatcher.close(SOON)
    assert sorted(bench.outcome()[0] for _ in range(6)) == [f"/{i}" for i in range(6)]


def test_closing_sends_what_a_callback_submits(bench: Bench) -> None:
    bench.server.script = answer
    dispatcher = bench.start()
    dispatcher.submit(ApiRequest("POST", "/a", lambda _: bench.submit("/b"), b"{}"))
    assert dispatcher.close(SOON)
    assert bench.outcome() == ("/b", b"fine")


def test_what_is_left_at_the_deadline_fails(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    dispatcher = bench.start(max_in_flight=1)
    bench.submit("/sent")
    gate.wait_for(1)
    bench.submit("/unsent")
    assert not dispatcher.close(0.05)
    left = dict([bench.outcome(), bench.outcome()])
    assert isinstance(left["/sent"], errors.Timeout)
    assert isinstance(left["/unsent"], errors.Closed)


def test_once_bindings_are_ended_none_is_sent_and_all_else_is(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    dispatcher = bench.start(max_in_flight=1)
    bench.submit("/sent")
    gate.wait_for(1)
    bench.submit("/unsent")
    bench.submit("/status", Lane.STATUS)
    dispatcher.end_bindings()
    gate.open.set()
    outcomes = dict(bench.outcome() for _ in range(3))
    assert isinstance(outcomes.pop("/unsent"), errors.Closed)
    assert not any(isinstance(outcome, errors.ApiError) for outcome in outcomes.values())
    bench.submit("/late")
    assert isinstance(bench.error(), errors.Closed)
    assert sorted(bench.paths()) == ["/sent", "/status"]


def test_a_binding_that_waits_for_its_next_try_has_none_once_bindings_are_ended(
    bench: Bench,
) -> None:
    dispatcher = one_waits_for_its_next_try(bench)
    dispatcher.end_bindings()
    path, outcome = bench.outcome()
    assert path == "/slow"
    assert isinstance(outcome, errors.Closed)


def test_nothing_is_sent_while_that_is_not_allowed(bench: Bench) -> None:
    bench.server.script = answer
    allowed = threading.Event()
    asked: Queue[None] = Queue()

    def may_send() -> bool:
        asked.put(None)
        return allowed.is_set()

    dispatcher = bench.start(may_send=may_send)
    bench.submit("/a")
    for _ in range(2):  # the first may have been before there was anything to send
        asked.get(timeout=SOON)
        dispatcher.wake()
    assert bench.paths() == []
    allowed.set()
    dispatcher.wake()
    assert bench.outcome() == ("/a", b"fine")


def test_one_that_never_started_can_be_closed(server: FaultServer) -> None:
    ended: list[ApiOutcome] = []
    dispatcher = Dispatcher(server.connection())
    dispatcher.submit(ApiRequest("GET", "/a", ended.append))
    assert dispatcher.close(1)
    assert [type(e) for e in ended] == [errors.Closed]
    assert not dispatcher.alive


def test_what_is_submitted_after_the_end_fails_at_once(bench: Bench) -> None:
    bench.start().close(1)
    bench.submit("/late")
    assert isinstance(bench.error(), errors.Closed)


def test_a_wake_that_comes_after_the_end_is_no_error(bench: Bench) -> None:
    dispatcher = bench.start()
    writer = dispatcher._wake_writer
    asked = threading.Event()

    class Late:
        """Sends when the thread has ended by itself, as it may while another one is about to."""

        def send(self, data: bytes) -> int:
            asked.set()
            dispatcher._thread.join(SOON)
            return writer.send(data)

        def close(self) -> None:
            writer.close()

    eventually(lambda: dispatcher._asleep)
    dispatcher._wake_writer = Late()  # type: ignore[assignment]
    dispatcher.close(0)
    assert asked.is_set()
    assert not dispatcher.alive


def test_it_says_whether_the_api_server_has_a_binding_to_answer(bench: Bench) -> None:
    gate = bench.server.script = Gate()
    dispatcher = bench.start()
    bench.submit("/event", Lane.EVENT)
    gate.wait_for(1)
    assert not dispatcher.is_binding()
    bench.submit("/binding")
    gate.wait_for(1)
    assert dispatcher.is_binding()
    gate.open.set()
    assert {bench.outcome()[0], bench.outcome()[0]} == {"/event", "/binding"}
    assert not dispatcher.is_binding()

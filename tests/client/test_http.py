"""Calls that wait: what they return, what they raise, what they try again."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from kubernetes.client import Configuration
from tests.client.fault_server import FaultServer, one_after_another

from bayplan.client import errors
from bayplan.client.connection import STRATEGIC_MERGE_PATCH, Connection
from bayplan.client.http import Http
from bayplan.telemetry.instrument import Instrument


class Naps:
    """Stands in for time.sleep, and for the clock that it would move."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)

    def clock(self) -> float:
        return sum(self.taken)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def http(server: FaultServer, naps: Naps) -> Http:
    return Http(server.connection(), sleep=naps.sleep, clock=naps.clock)


def test_each_verb_sends_its_method_path_body_and_type(server: FaultServer, http: Http) -> None:
    server.script = lambda exchange: exchange.answer(201, {"ok": True})
    http.get("/a?x=1")
    http.post("/b", b"{}")
    http.put("/c", b"{}")
    http.patch("/d", b"[]", STRATEGIC_MERGE_PATCH)
    http.request("DELETE", "/e")
    http.request("DELETE", "/f", b'{"x":1}')
    assert http.get("/g") == b'{"ok": true}'
    sent = [(r.command, r.path, r.body) for r in server.requests]
    assert sent == [
        ("GET", "/a?x=1", b""),
        ("POST", "/b", b"{}"),
        ("PUT", "/c", b"{}"),
        ("PATCH", "/d", b"[]"),
        ("DELETE", "/e", b""),
        ("DELETE", "/f", b'{"x":1}'),
        ("GET", "/g", b""),
    ]
    assert server.requests[3].headers["Content-Type"] == STRATEGIC_MERGE_PATCH


def test_calls_share_one_connection(server: FaultServer, http: Http) -> None:
    server.script = lambda exchange: exchange.answer()
    http.get("/a")
    http.post("/b", b"{}")
    assert len({r.client_address for r in server.requests}) == 1


def test_a_throttled_call_waits_as_long_as_the_server_says(
    server: FaultServer, http: Http, naps: Naps
) -> None:
    server.script = one_after_another(
        lambda exchange: exchange.error(429, "TooManyRequests", Retry_After="2"),
        lambda exchange: exchange.answer(200, {"ok": True}),
    )
    assert http.post("/a", b"{}") == b'{"ok": true}'
    assert naps.taken == [2]


def test_a_call_gives_up_when_its_time_would_be_over(
    server: FaultServer, http: Http, naps: Naps
) -> None:
    server.script = lambda exchange: exchange.error(429, "TooManyRequests", Retry_After="20")
    with pytest.raises(errors.TooManyRequests):
        http.get("/a", timeout=30)
    assert naps.taken == [20]


def test_a_refused_token_is_read_again_once(
    server: FaultServer, naps: Naps, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    connection = Connection(Configuration(host=server.url), token)
    http = Http(connection, sleep=naps.sleep, clock=naps.clock)
    server.script = lambda exchange: exchange.answer()
    http.get("/a")
    token.write_text("new")
    server.script = lambda exchange: (
        exchange.answer()
        if exchange.headers["Authorization"] == "Bearer new"
        else exchange.error(401, "Unauthorized")
    )
    http.get("/b")
    assert [r.headers["Authorization"] for r in server.requests] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
    ]


def test_a_read_is_tried_again_when_the_connection_breaks_and_a_write_is_not(
    server: FaultServer, http: Http
) -> None:
    server.script = one_after_another(
        lambda exchange: exchange.hang_up(), lambda exchange: exchange.answer(200, b"fine")
    )
    assert http.get("/a") == b"fine"
    server.script = lambda exchange: exchange.hang_up()
    with pytest.raises(errors.ConnectionLost):
        http.post("/b", b"{}")


def test_a_server_that_is_not_there_is_unreachable(naps: Naps) -> None:
    http = Http(
        Connection(Configuration(host="http://127.0.0.1:1")), sleep=naps.sleep, clock=naps.clock
    )
    with pytest.raises(errors.Unreachable, match="cannot reach the API server at http://127"):
        http.get("/a")
    assert len(naps.taken) == 2


def test_a_write_that_went_out_is_in_doubt_even_where_no_second_connection_comes_about(
    naps: Naps,
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted:
            received.append(accepted.recv(65536))
            accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            received.append(accepted.recv(65536))
            listener.close()

    server = threading.Thread(target=serve)
    server.start()
    configuration = Configuration(host=f"http://127.0.0.1:{listener.getsockname()[1]}")
    http = Http(Connection(configuration), sleep=naps.sleep, clock=naps.clock)
    http.get("/warm")
    with pytest.raises(errors.ConnectionLost) as lost:
        http.post("/write", b"{}")
    server.join()
    assert received[1].startswith(b"POST /write")
    assert lost.value.outcome_unknown
    assert not lost.value.never_sent
    assert naps.taken == []


def test_a_server_that_does_not_answer_times_out(server: FaultServer) -> None:
    server.script = lambda exchange: exchange.wait_until_the_end()
    with pytest.raises(errors.Timeout):
        Http(server.connection()).post("/a", b"{}", timeout=0.05)


def test_a_forbidden_call_says_what_is_forbidden(server: FaultServer, http: Http) -> None:
    why = 'pods is forbidden: User "u" cannot list resource "pods" in API group ""'
    server.script = lambda exchange: exchange.error(403, "Forbidden", why)
    with pytest.raises(errors.Forbidden) as caught:
        http.get("/api/v1/pods")
    assert str(caught.value) == why


def test_every_request_is_observed_with_its_code(server: FaultServer) -> None:
    seen: list[tuple[str, str, str]] = []

    class Requests(Instrument):
        def request(self, host: str, method: str, code: str) -> None:
            seen.append((host, method, code))

    connection = Connection(Configuration(host=server.url), instrument=Requests())
    server.script = lambda exchange: exchange.answer(200, {})
    Http(connection).get("/a")
    nowhere = Connection(Configuration(host="http://127.0.0.1:1"), instrument=Requests())
    with pytest.raises(errors.Unreachable):
        Http(nowhere, max_tries=1).post("/b", b"{}")
    host = server.url.removeprefix("http://")
    assert seen == [(host, "GET", "200"), ("127.0.0.1:1", "POST", "<error>")]

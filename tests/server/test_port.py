"""The port: requests over TLS or not, on connections that are kept, and clients that misbehave."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
from tests.certificates import Authority
from tests.server.conftest import Client, Got, Ports, serving, trusting

from bayplan.server import connections
from bayplan.server.options import PortError
from bayplan.server.pages import Answer, Page, PageRequest, Pages, text
from bayplan.server.port import MOST_BYTES, Port


def echo(request: PageRequest) -> Answer:
    return text(200, f"{request.method} {dict(request.query)} {request.body.decode()}")


def received(connection: socket.socket) -> bytes:
    """What comes before the connection ends, or nothing where it is reset."""
    try:
        return connection.recv(100)
    except ConnectionResetError:
        return b""


def broken(_: PageRequest) -> Answer:
    raise LookupError("nothing there")


PAGES: Pages = {
    "/healthz": Page(lambda _: Answer(200, b"ok")),
    "/echo": Page(echo, ("GET", "PUT")),
    "/broken": Page(broken),
    "/busy": Page(lambda _: Answer(429, b"busy", retry_after=7)),
}


@pytest.fixture
def plain(ports: Ports) -> Client:
    return Client(ports.start(PAGES).port)


@pytest.fixture
def secure(ports: Ports, authority: Authority) -> Client:
    return Client(ports.start(PAGES, tls=serving(authority)).port, trusting(authority))


@pytest.fixture(params=["plain", "secure"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        pytest.param("GET", "/echo", None, (200, "GET {} \n"), id="page"),
        pytest.param(
            "GET", "/echo?a=1&a=2&b", None, (200, "GET {'a': '2', 'b': ''} \n"), id="query"
        ),
        pytest.param("PUT", "/echo", b"5", (200, "PUT {} 5\n"), id="body"),
        pytest.param("POST", "/echo", b"5", (405, "only GET and PUT\n"), id="other method"),
        pytest.param("GET", "/", None, (404, "not found\n"), id="no such page"),
        pytest.param("GET", "/echo/", None, (404, "not found\n"), id="no folder"),
        pytest.param("GET", "/broken", None, (500, "LookupError: nothing there\n"), id="broken"),
    ],
)
def test_a_page_answers_the_methods_that_it_has(
    client: Client, method: str, path: str, body: bytes | None, expected: tuple[int, str]
) -> None:
    status, content_type, got = client.get(path, method, body)
    assert (status, got) == expected
    assert content_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        pytest.param(
            b"GET /echo HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
            b"HTTP/1.1 400 ",
            b"Content-Length is no length\n",
            id="digits without end",
        ),
        pytest.param(
            b"GET /echo HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
            b"HTTP/1.1 400 ",
            b"Content-Length is no length\n",
            id="a digit of Unicode",
        ),
        pytest.param(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"HTTP/1.1 505 ",
            b"Invalid HTTP version (2.0)\n",
            id="HTTP/2",
        ),
        pytest.param(
            b"BREW /pot HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 501 ",
            b"Unsupported method ('BREW')\n",
            id="no method",
        ),
        pytest.param(
            b"GET / HTTP/one\r\n\r\n",
            b"HTTP/1.1 400 ",
            b"Bad request version ('HTTP/one')\n",
            id="no version",
        ),
    ],
)
def test_what_is_no_request_is_told_so_in_plain_text(
    plain: Client, sent: bytes, status: bytes, said: bytes
) -> None:
    with plain.connect() as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as stream:
            answer = stream.read()
    assert answer.startswith(status)
    assert b"Content-Type: text/plain" in answer
    assert answer.endswith(said)


def test_who_is_to_come_again_is_told_when(plain: Client) -> None:
    def told(path: str) -> bytes:
        with plain.connect() as connection:
            connection.sendall(b"GET %b HTTP/1.1\r\nConnection: close\r\n\r\n" % path.encode())
            return b"".join(iter(lambda: connection.recv(4096), b""))

    assert b"\r\nretry-after: 7\r\n" in told("/busy")
    assert b"retry-after" not in told("/echo")


def test_a_request_that_is_too_long_is_refused_before_it_is_read(plain: Client) -> None:
    with plain.connect() as connection:
        connection.sendall(b"PUT /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MOST_BYTES + 1))
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_headers_end_where_a_request_may_be_no_longer(plain: Client) -> None:
    start = b"GET /echo HTTP/1.1\r\nX: "
    with plain.connect() as connection:
        connection.sendall(start + b"y" * (MOST_BYTES - len(start)))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_connection_is_kept_for_the_next_request(client: Client) -> None:
    with closing(client.persistent()) as connection:
        opened = list[socket.socket]()
        for number in range(3):
            connection.request("PUT", "/echo", b"%d" % number)
            with connection.getresponse() as answer:
                assert (answer.status, answer.read()) == (200, b"PUT {} %d\n" % number)
            opened.append(connection.sock)
    assert opened == [opened[0]] * 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("GET", "/busy", None, 429, id="refused"),
        pytest.param("HEAD", "/echo", None, 405, id="an answer without a body"),
        pytest.param("POST", "/nowhere", b"not read by the page", 404, id="no such page"),
        pytest.param("GET", "/broken", None, 500, id="broken"),
    ],
)
def test_a_refusal_does_not_end_the_connection(
    client: Client, method: str, path: str, body: bytes | None, status: int
) -> None:
    with closing(client.persistent()) as connection:
        for asked, expected in (((method, path, body), status), (("GET", "/healthz"), 200)):
            connection.request(*asked)
            with connection.getresponse() as answer:
                assert answer.status == expected
                answer.read()
            assert connection.sock is not None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"PUT /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="no length"),
        pytest.param(b"BREW /pot HTTP/1.1\r\n\r\n", id="no method"),
        pytest.param(b"GET /echo HTTP/1.0\r\n\r\n", id="HTTP/1.0"),
        pytest.param(b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n", id="asked for"),
        pytest.param(b"GET /echo HTTP/1.1\r\nX: ".ljust(MOST_BYTES, b"y"), id="too long"),
    ],
)
def test_after_what_ends_nowhere_the_connection_ends(plain: Client, sent: bytes) -> None:
    with plain.connect() as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as stream:
            assert b"connection: close\r\n" in stream.read()


def test_requests_that_were_sent_at_once_are_answered_one_after_the_other(client: Client) -> None:
    with closing(client.persistent()) as connection:
        connection.connect()
        request = b"PUT /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d"
        last = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
        connection.sock.sendall(request % 1 + request % 2 + last)
        with connection.sock.makefile("rb") as stream:
            answers = stream.read()
    assert [part in answers for part in (b"PUT {} 1\n", b"PUT {} 2\n")] == [True, True]
    assert answers.endswith(b"\r\n\r\nok")


def test_each_request_of_a_connection_may_be_as_long(plain: Client) -> None:
    body = b"y" * (MOST_BYTES - 1000)
    with closing(plain.persistent()) as connection:
        for _ in range(3):
            connection.request("PUT", "/echo", body)
            with connection.getresponse() as answer:
                assert answer.read() == b"PUT {} %b\n" % body


def test_idle_connections_make_room(client: Client) -> None:
    idle = [client.persistent() for _ in range(connections.MOST)]
    for connection in idle:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
    assert client.get("/healthz").status == 200
    assert idle[0].sock.recv(1) == b""
    idle[-1].request("GET", "/healthz")
    assert idle[-1].getresponse().status == 200
    for connection in idle:
        connection.close()


def test_an_idle_connection_ends_with_its_time(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.0)
    with closing(Client(ports.start(PAGES).port).persistent()) as connection:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        assert connection.sock.recv(1) == b""


def test_an_idle_connection_ends_with_the_port(ports: Ports) -> None:
    port = ports.start(PAGES)
    with closing(Client(port.port).persistent()) as connection:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        port.stop()
        assert connection.sock.recv(1) == b""


def test_a_port_that_is_taken_is_an_error(plain: Client) -> None:
    with pytest.raises(PortError, match=rf"port {plain.port} .* in use"):
        Port("127.0.0.1", plain.port, PAGES)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_an_unspecified_address_is_every_address(host: str) -> None:
    port = Port(host, 0, PAGES)
    port.start()
    try:
        assert Client(port.port).get("/healthz").status == 200
    finally:
        port.stop()


def test_clients_that_say_nothing_do_not_keep_others_out(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [client.connect() for _ in range(connections.MOST + 20)]
    assert client.get("/healthz") == Got(200, "text/plain; charset=utf-8", "ok")
    # The oldest made room.
    assert silent[0].recv(1) == b""
    for connection in silent:
        connection.close()


def test_a_client_that_takes_too_long_is_closed(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.0)
    client = Client(ports.start(PAGES).port)
    with client.connect() as connection:
        connection.sendall(b"GET /echo")
        assert connection.recv(1) == b""


def test_plain_http_to_a_secure_port_is_no_harm(secure: Client) -> None:
    with secure.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        # What comes back is an alert of TLS, if anything.
        assert b"HTTP/" not in received(connection)
    assert secure.get("/healthz").status == 200


def test_a_client_that_hangs_up_is_no_harm(client: Client) -> None:
    for _ in range(3):
        connection = client.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    assert client.get("/healthz").status == 200

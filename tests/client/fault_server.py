"""A server that misbehaves on request: the faults that a real one cannot be made to show."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration
from tests.waiting import SOON

from bayplan.client.connection import Connection


class Received(NamedTuple):
    """A request as it came."""

    command: str
    path: str
    headers: Message
    body: bytes
    client_address: tuple[str, int]


class Exchange(BaseHTTPRequestHandler):
    """One request, and the ways to answer it."""

    protocol_version = "HTTP/1.1"
    server: FaultServer

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        self.query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        self.bare_path = parts.path
        with self.server.lock:
            self.server.requests.append(
                Received(self.command, self.path, self.headers, self.body, self.client_address)
            )
        self.server.script(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def json(self) -> Any:
        return json.loads(self.body)

    def answer(self, status: int = 200, body: Any = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def error(self, status: int, reason: str = "", message: str = "no", **headers: str) -> None:
        body = {"kind": "Status", "status": "Failure", "code": status}
        self.answer(status, body | {"reason": reason, "message": message}, **headers)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def hang_up(self) -> None:
        """Break the connection without a word."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def wait_until_the_end(self) -> None:
        """Say nothing until the test is over."""
        self.server.over.wait(SOON)
        self.close_connection = True

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # The client has gone: some tests are about that.
            super().finish()

    def log_message(self, *args: Any) -> None:
        pass


class FaultServer(ThreadingHTTPServer):
    """Serves `script`; remembers `requests` in the order of arrival."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.lock = threading.Lock()
        self.requests: list[Received] = []
        self.script: Callable[[Exchange], None] = lambda exchange: exchange.answer()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def connection(self, **settings: Any) -> Connection:
        configuration = Configuration(host=self.url)
        for name, value in settings.items():
            setattr(configuration, name, value)
        return Connection(configuration)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # A client that goes away is no failure of the test.


@contextmanager
def running_server() -> Iterator[FaultServer]:
    server = FaultServer()
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def one_after_another(*steps: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    """A script: each request gets the next step, the last step is repeated."""
    remaining = list(steps)
    lock = threading.Lock()

    def play(exchange: Exchange) -> None:
        with lock:
            step = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        step(exchange)

    return play

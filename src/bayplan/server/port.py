"""Port: listens, and answers the requests of each connection on a thread of its own.

The standard library's server: enough for a probe every few seconds, a scrape now and then, and some
who ask. A connection is kept open for the next request, which needs no handshake then. The
accepting thread does nothing that waits for a client; see `bayplan.server.connections` for what a
slow one can do.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import os
import socket
import socketserver
import ssl
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

import structlog

from bayplan.client.errors import ApiError
from bayplan.server.access import Access
from bayplan.server.body import read_body
from bayplan.server.connections import ANSWER_SECONDS, IDLE_SECONDS, Connections
from bayplan.server.options import PortError
from bayplan.server.pages import Answer, PageRequest, PageSource, text
from bayplan.server.tls import ServingContext
from bayplan.server.users import Client

log = structlog.get_logger("port")

MOST_BYTES = 64 * 1024
"""Of a request: its line, headers and body."""
SILENCE_SECONDS = 10.0
"""After which a client that sends or takes nothing is given up, while something is due of it."""
BACKLOG = 128


class Port:
    """One listening socket.

    Args:
        host: an address, or empty for every one.
        port: 0 picks a free one; see `port`.
        tls: None serves plain HTTP.
        access: None lets everybody read everything.
        most_bytes: of a request.

    Raises:
        PortError: the port is taken, or not ours to use.
    """

    def __init__(
        self,
        host: str,
        port: int,
        pages: PageSource,
        tls: ServingContext | None = None,
        access: Access | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._server = _Server(_listen(host, port), pages, tls, access, most_bytes)
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="port", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering; requests that are being answered are not waited for."""
        self._server.shutdown()
        self._server.connections.end()
        self.close()

    def close(self) -> None:
        """Give up the port, where it was never started."""
        self._server.server_close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        if host and not ipaddress.ip_address(host).is_unspecified:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):  # this machine has no IPv6, or the port is taken
                return socket.create_server(
                    ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
                )
        return socket.create_server(("", port), backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise PortError(f"port {port} cannot be used: {why}") from error


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        listener: socket.socket,
        pages: PageSource,
        tls: ServingContext | None,
        access: Access | None,
        most_bytes: int,
    ) -> None:
        self.pages, self.tls, self.access, self.most_bytes = pages, tls, access, most_bytes
        self.connections = Connections()
        super().__init__(listener.getsockname(), _Exchange, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        connection.settimeout(SILENCE_SECONDS)
        if self.tls is not None:
            # The handshake comes later, on the thread of the connection.
            connection = self._wrapped(self.tls, connection)
        return connection, address

    def _wrapped(self, tls: ServingContext, connection: socket.socket) -> socket.socket:
        try:
            return tls.load().wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        except (PortError, ValueError) as error:
            connection.close()
            raise OSError(str(error)) from error  # the accepting thread goes on after that

    def verify_request(self, request: Any, client_address: Any) -> bool:
        del client_address
        return self.connections.add(request)

    def service_actions(self) -> None:
        self.connections.close_overdue()

    def shutdown_request(self, request: Any) -> None:
        self.connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away or speak no TLS are not logged; faults of pages are, in `_made`."""


class _Limited(io.RawIOBase):
    """The first bytes of what a client sends, and then the end of the stream.

    Attributes:
        left: how many more may be read.
    """

    def __init__(self, raw: io.RawIOBase, most_bytes: int) -> None:
        self._raw, self.left = raw, most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._raw.readinto(memoryview(buffer)[: self.left])
        self.left -= count or 0
        return count


def _parameters(query: str) -> dict[str, str]:
    return {key: given[-1] for key, given in parse_qs(query, keep_blank_values=True).items()}


class _Exchange(BaseHTTPRequestHandler):
    """The requests of a connection, one after the other, and their answers."""

    server: _Server
    server_version = "bayplan"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one piece, headers and body
    disable_nagle_algorithm = True

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()
        self._limited = _Limited(self.request.makefile("rb", buffering=0), self.server.most_bytes)
        self.rfile: io.BufferedReader = io.BufferedReader(self._limited)

    def handle(self) -> None:
        """Answer until there is no further request, or may be none."""
        self.handle_one_request()
        while not self.close_connection and self._another():
            self.handle_one_request()

    def _another(self) -> bool:
        """Whether a further request begins; waits for it."""
        connections = self.server.connections
        if not connections.idle(self.request):
            return False
        self._limited.left = self.server.most_bytes
        self.request.settimeout(IDLE_SECONDS)
        if not self.rfile.peek(1):
            return False
        connections.reading(self.request)
        self.request.settimeout(SILENCE_SECONDS)
        return True

    def _serve(self) -> None:
        body = read_body(self.headers, self.rfile, self.server.most_bytes)
        if not self._limited.left:
            # It may have been cut off, and what follows is no request then.
            self.close_connection = True
        if isinstance(body, Answer):
            self.close_connection = True  # nobody knows where it would have ended
            self._send(body)
            return
        self.server.connections.answering(self.request)
        answer = self._answer(body)
        self.server.connections.answering(self.request, ANSWER_SECONDS)
        self._send(answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    def _answer(self, body: bytes) -> Answer:
        path, _, query = self.path.partition("?")
        access, page = self.server.access, self.server.pages.get(path)
        request = PageRequest(self.command, path, _parameters(query), body)
        if access is not None:
            client = self._client()
            user = access.user(client, path)
            if page is not None and page.asks and not isinstance(user, Answer):
                user = access.acting(user, client)
            if isinstance(user, Answer):
                return user
            if page is not None and page.asks:
                request = request._replace(user=user, may=partial(access.may, user))
            elif (refusal := access.refusal(user, self.command, path)) is not None:
                return refusal
        if page is None:
            return text(404, "not found")
        if self.command not in page.methods:
            return text(405, f"only {' and '.join(page.methods)}")
        try:
            return page.answer(request)
        except ApiError as error:
            return text(503, f"access cannot be checked: {error}")
        except Exception as error:
            log.exception("Page broke", path=path)
            return text(500, f"{type(error).__name__}: {error}")

    def _client(self) -> Client:
        tls = self.request if isinstance(self.request, ssl.SSLSocket) else None
        certificate = tls.getpeercert() if tls else None
        return Client(self.headers, certificate or {})

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        headers = {"cache-control": "no-cache, private", "x-content-type-options": "nosniff"}
        if answer.retry_after:
            headers["retry-after"] = str(answer.retry_after)
        if self.close_connection:
            headers["connection"] = "close"
        for name, value in (headers | dict(answer.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request of HTTP/1 is answered as all else is: in plain text."""
        del explain
        # Without a version that was understood nothing but the text would be sent.
        self.request_version = "HTTP/1.0"
        self.close_connection = True
        self._send(text(code, message or "no request of HTTP/1"))

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""

"""Clients of a port, well-behaved or not."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.certificates import Authority
from tests.client.fault_server import FaultServer, running_server
from tests.waiting import SOON

from bayplan.client.http import Http
from bayplan.server.access import Access, Credentials
from bayplan.server.certificates import Pair
from bayplan.server.pages import Pages
from bayplan.server.port import Port
from bayplan.server.reviews import AccessReviews, TokenReviews
from bayplan.server.tls import ServingContext


class Got(NamedTuple):
    """An answer as a client sees it."""

    status: int
    content_type: str
    body: str


@dataclass
class Client:
    """Asks one port."""

    port: int
    context: ssl.SSLContext | None = None

    def get(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        authorization: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Got:
        scheme = "https" if self.context else "http"
        url = f"{scheme}://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, body, method=method)
        if authorization:
            request.add_header("Authorization", authorization)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=SOON, context=self.context) as answer:
                return Got(answer.status, answer.headers["Content-Type"], answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Got(error.code, error.headers["Content-Type"], error.read().decode())

    def persistent(self) -> HTTPConnection:
        """A connection for several requests."""
        if self.context is None:
            return HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        return HTTPSConnection("127.0.0.1", self.port, timeout=SOON, context=self.context)

    def connect(self) -> socket.socket:
        """A connection on which nothing was sent."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=SOON)


class Ports:
    """Starts ports, and stops them at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, pages: Pages, **options: Any) -> Port:
        port = Port("127.0.0.1", 0, pages, **options)
        port.start()
        self._stack.callback(port.stop)
        return port


@pytest.fixture
def ports() -> Iterator[Ports]:
    with ExitStack() as stack:
        yield Ports(stack)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def api_server() -> Iterator[FaultServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def http(api_server: FaultServer) -> Http:
    return Http(api_server.connection(), max_tries=1)


@pytest.fixture
def access(http: Http) -> Access:
    return Access(
        Credentials(TokenReviews(http)).user, AccessReviews(http), ("/healthz", "/open/*")
    )


def trusting(authority: Authority) -> ssl.SSLContext:
    """The context of a client that trusts ``authority``."""
    return ssl.create_default_context(cadata=authority.ca.decode())


def with_certificate(
    authority: Authority, folder: Path, name: str, *organizations: str
) -> ssl.SSLContext:
    """The context of a client that has a certificate of ``authority``."""
    context = trusting(authority)
    context.load_cert_chain(*authority.files(name, folder, *organizations))
    return context


def serving(authority: Authority, trusted: bytes = b"", **more: Any) -> ServingContext:
    """The context of a port whose certificate ``authority`` signed."""
    pair = Pair(*authority.issue("127.0.0.1"))
    settings = {"min_version": "VersionTLS12", "cipher_suites": ()} | more
    return ServingContext(lambda: pair, lambda: trusted, **settings)

"""The only way to the API server: address, credentials, and handles with all options set.

`Connection` holds what the credentials say and turns it into pycurl options. Authorization is read
from the token's file, or through the official client's Configuration (it renews exec credentials),
and is looked at again every few seconds and after every 401, so a rotated token is used without a
restart. Safe to use from any thread; a handle belongs to one thread.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pycurl

from bayplan import __version__
from bayplan.client import kubeconfig
from bayplan.client.errors import ApiError, Unauthorized, from_curl
from bayplan.telemetry.instrument import Instrument

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

CREDENTIALS_AGE = 10.0
"""Seconds for which a bearer token is used before it is looked at again."""
NO_ANSWER = "<error>"
"""What counts as the status code of a request that was not answered, as in client-go."""
CONNECT_TIMEOUT_MS = 10_000
SILENCE_MS = 30_000
KEEPALIVE_IDLE_S = 30
KEEPALIVE_INTERVAL_S = 15
CONNECTED: int = pycurl.SOCKOPT_ALREADY_CONNECTED


class Connection:
    """Server, TLS and credentials.

    Args:
        configuration: the official client's, see `bayplan.client.kubeconfig.load`.
        token_file: likewise.
        instrument: gets every request.
        user_agent: as which it introduces itself.
        clock: monotonic seconds.
        open_socket: makes the connections, in place of libcurl; ``pycurl.SOCKET_BAD`` for none.
        peer: whom errors name.

    Attributes:
        server: URL of the API server as the credentials name it, without a trailing slash.
        configuration: as it was given.
    """

    def __init__(
        self,
        configuration: Any,
        token_file: Path | None = None,
        *,
        instrument: Instrument | None = None,
        user_agent: str = f"bayplan/{__version__}",
        clock: Callable[[], float] = time.monotonic,
        open_socket: Callable[[], socket.socket | int] | None = None,
        peer: str = "the API server",
    ) -> None:
        self.server: str = configuration.host.rstrip("/")
        self._host = urlsplit(self.server).netloc
        self._instrument = instrument or Instrument()
        self.configuration = configuration
        self._peer = peer
        self._token_file = token_file
        self._user_agent = user_agent
        self._clock = clock
        self._lock = threading.Lock()
        self._authorization = ""
        self._read_at = float("-inf")
        self._headers: dict[str, list[str]] = {}
        self._base, self._connect_to = named_address(self.server, configuration.tls_server_name)
        self._options = _options(configuration)
        if open_socket is not None:
            self._options += [
                (pycurl.OPENSOCKETFUNCTION, lambda _purpose, _address: open_socket()),
                (pycurl.SOCKOPTFUNCTION, lambda _socket, _purpose: CONNECTED),
            ]

    @classmethod
    def load(
        cls, where: kubeconfig.Where = None, instrument: Instrument | None = None
    ) -> Connection:
        """Connect as a kubeconfig file says; without one as `kubeconfig.load` finds.

        Every request is reported to ``instrument``.

        Raises:
            KubeconfigError: there are no usable credentials.
        """
        configuration, token_file = kubeconfig.load(where)
        return cls(configuration, token_file, instrument=instrument)

    @classmethod
    def to(cls, server: str, token: str = "", *, verify: bool = True) -> Connection:
        """Connect to another server than the API server, with a bearer token if there is one.

        Its certificate is checked by the authorities of the system, unless not to ``verify``.
        """
        credentials = {"BearerToken": {"value": f"Bearer {token}"}} if token else {}
        return cls(
            SimpleNamespace(
                host=server,
                tls_server_name=None,
                verify_ssl=verify,
                assert_hostname=None,
                proxy=None,
                no_proxy=None,
                cert_file=None,
                ca_cert_data=None,
                ssl_ca_cert=None,
                auth_settings=lambda: credentials,
            )
        )

    def handle(self, *, multiplexed: bool = False) -> pycurl.Curl:
        """A new pycurl handle with everything set that does not change between requests.

        ``multiplexed`` handles of one CurlMulti share an HTTP/2 connection where the server can.
        """
        handle = pycurl.Curl()
        for option, value in self._options:
            handle.setopt(option, value)
        if multiplexed and self._base.startswith("https:"):
            handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
            # Wait for the first connection to show whether it can be shared.
            handle.setopt(pycurl.PIPEWAIT, 1)
        if self._connect_to:
            handle.setopt(pycurl.CONNECT_TO, [self._connect_to])
        return handle

    def observe(self, method: str, code: str) -> None:
        """Count a request; the code is `NO_ANSWER` where no answer came."""
        self._instrument.request(self._host, method, code)

    def observe_call(self, handle: pycurl.Curl, method: str, path: str, code: str) -> None:
        """`observe` a request on ``handle`` that has ended, and report the duration."""
        self._instrument.request(self._host, method, code)
        if self._instrument.times_calls:
            seconds = handle.getinfo(pycurl.TOTAL_TIME)
            self._instrument.called(method, path, code, seconds)

    def url(self, path: str) -> str:
        """The URL of an API path that begins with a slash."""
        return self._base + path

    def headers(self, content_type: str = JSON) -> list[str]:
        """Request headers, fresh credentials included; the same list object while unchanged.

        Raises:
            Unauthorized: the file that holds the token cannot be read.
        """
        if self._clock() - self._read_at > CREDENTIALS_AGE:
            self._refresh()
        headers = self._headers.get(content_type)
        if headers is None:
            headers = self._headers[content_type] = self._make_headers(content_type)
        return headers

    def forget_credentials(self) -> None:
        """Look at the credentials again before the next request (after a 401)."""
        self._read_at = float("-inf")

    def error(self, handle: pycurl.Curl, code: int, text: str) -> ApiError:
        """The error for a transfer on ``handle`` that libcurl gave up."""
        connected = handle.getinfo(pycurl.PRETRANSFER_TIME) > 0
        sent = handle.getinfo(pycurl.REQUEST_SIZE) > 0
        return from_curl(code, text, self.server, connected=connected, sent=sent, peer=self._peer)

    def _refresh(self) -> None:
        with self._lock:
            if self._clock() - self._read_at <= CREDENTIALS_AGE:
                return
            try:
                authorization = self._read_authorization()
            except (OSError, UnicodeDecodeError) as error:
                raise Unauthorized(f"cannot read the bearer token: {error}") from error
            if authorization != self._authorization:
                self._authorization = authorization
                self._headers = {}
            self._read_at = self._clock()

    def _read_authorization(self) -> str:
        if self._token_file is not None:
            return f"Bearer {self._token_file.read_text(encoding='utf-8').strip()}"
        token = self.configuration.auth_settings().get("BearerToken")
        return str(token["value"]).strip() if token else ""

    def _make_headers(self, content_type: str) -> list[str]:
        headers = [
            f"User-Agent: {self._user_agent}",
            f"Accept: {JSON}",
            f"Content-Type: {content_type}",
            # Without this libcurl asks for permission before it sends a large body.
            "Expect:",
        ]
        if self._authorization:
            headers.append(f"Authorization: {self._authorization}")
        if self._connect_to:
            headers.append(f"Host: {urlsplit(self.server).netloc}")
        return headers


def named_address(server: str, tls_server_name: str | None) -> tuple[str, str]:
    """Base URL and CONNECT_TO entry, the latter empty unless another TLS name is wanted.

    libcurl takes the name for SNI and verification from the URL, so the URL gets that name and
    CONNECT_TO leads it to the real host.
    """
    if not tls_server_name:
        return server, ""
    parts = urlsplit(server)
    port = parts.port or 443
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    base = f"{parts.scheme}://{tls_server_name}:{port}{parts.path}"
    return base, f"{tls_server_name}:{port}:{host}:{port}"


def _options(configuration: Any) -> list[tuple[int, Any]]:
    verify = bool(configuration.verify_ssl)
    options = [
        # Signals and threads do not mix.
        (pycurl.NOSIGNAL, 1),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
        (pycurl.TCP_NODELAY, 1),
        (pycurl.TCP_KEEPALIVE, 1),
        (pycurl.TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
        (pycurl.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
        (pycurl.SOCKOPTFUNCTION, _limit_silence),
        (pycurl.CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS),
        # Empty, not unset: unset would let libcurl read the environment on its own.
        (pycurl.PROXY, configuration.proxy or ""),
        (pycurl.NOPROXY, configuration.no_proxy or ""),
        (pycurl.SSL_VERIFYPEER, int(verify)),
        (pycurl.SSL_VERIFYHOST, 2 if verify and configuration.assert_hostname is not False else 0),
    ]
    if configuration.cert_file:
        options.append((pycurl.SSLCERT, configuration.cert_file))
        options.append((pycurl.SSLKEY, configuration.key_file or configuration.cert_file))
    return options + _authorities(configuration)


def _limit_silence(descriptor: int, _purpose: int) -> int:
    """Let the kernel close a connection whose peer no longer acknowledges anything.

    Without it a shared connection to a machine that vanished would swallow requests for a quarter
    of an hour.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:
            duplicate.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
    return int(pycurl.SOCKOPT_OK)


def _authorities(configuration: Any) -> list[tuple[int, Any]]:
    if configuration.ca_cert_data:
        data = configuration.ca_cert_data
        return [(pycurl.CAINFO_BLOB, data.encode() if isinstance(data, str) else data)]
    if configuration.ssl_ca_cert:
        return [(pycurl.CAINFO, configuration.ssl_ca_cert)]
    # The wheel of pycurl brings its own OpenSSL, which does not know this system's paths.
    system = ssl.get_default_verify_paths()
    return [
        (option, path)
        for option, path in ((pycurl.CAINFO, system.cafile), (pycurl.CAPATH, system.capath))
        if path
    ]

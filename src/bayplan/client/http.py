"""Plain calls that wait for their answer, for whatever is not hot: leases, claims, single objects.

Each thread has its own connection. The binding and status writes of the scheduler do not come
through here; see `bayplan.client.dispatcher`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

import pycurl

from bayplan.client.connection import JSON, NO_ANSWER, Connection
from bayplan.client.errors import ApiError, Unauthorized, from_status
from bayplan.client.retry import retry_delay

DEFAULT_TIMEOUT = 30.0


class Http:
    """Requests one at a time; safe to share between threads."""

    def __init__(
        self,
        connection: Connection,
        *,
        max_tries: int = 3,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self._max_tries = max_tries
        self._sleep = sleep
        self._clock = clock
        self._local = threading.local()

    def get(self, path: str, timeout: float = DEFAULT_TIMEOUT) -> bytes:
        """The body of the answer; see `request`."""
        return self.request("GET", path, timeout=timeout)

    def post(self, path: str, body: bytes, timeout: float = DEFAULT_TIMEOUT) -> bytes:
        """Create; see `request`."""
        return self.request("POST", path, body, timeout=timeout)

    def put(self, path: str, body: bytes, timeout: float = DEFAULT_TIMEOUT) -> bytes:
        """Replace; see `request`."""
        return self.request("PUT", path, body, timeout=timeout)

    def patch(
        self, path: str, body: bytes, content_type: str, timeout: float = DEFAULT_TIMEOUT
    ) -> bytes:
        """Patch; ``content_type`` says what kind of patch; see `request`."""
        return self.request("PATCH", path, body, content_type, timeout)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Send a request, again where `bayplan.client.retry` allows, and return the answer's body.

        All tries together take at most ``timeout`` seconds.

        Raises:
            ApiError: it failed; the subtype says how.
        """
        deadline = self._clock() + timeout
        tries = 0
        while True:
            tries += 1
            try:
                return self.once(method, path, body, content_type, deadline - self._clock())
            except ApiError as error:
                if isinstance(error, Unauthorized):
                    self.connection.forget_credentials()
                delay = retry_delay(error, tries, self._max_tries, method == "GET", random.random)
                if delay is None or self._clock() + delay >= deadline:
                    raise
                self._sleep(delay)

    def once(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Sequence[str] = (),
    ) -> bytes:
        """`request` with a single try, and more ``headers``, such as ``Name: value``."""
        handle: pycurl.Curl = self._handle()
        chunks: list[bytes] = []
        prepare(handle, method, self.connection.url(path), body)
        more = [header.encode() for header in headers]
        handle.setopt(pycurl.HTTPHEADER, [*self.connection.headers(content_type), *more])
        handle.setopt(pycurl.TIMEOUT_MS, max(1, int(timeout * 1000)))
        handle.setopt(pycurl.WRITEFUNCTION, chunks.append)
        try:
            handle.perform()
        except pycurl.error as error:
            self.connection.observe_call(handle, method, path, NO_ANSWER)
            raise self.connection.error(handle, *error.args) from None
        code = str(handle.getinfo(pycurl.RESPONSE_CODE))
        self.connection.observe_call(handle, method, path, code)
        return answer(handle, b"".join(chunks))

    def _handle(self) -> pycurl.Curl:
        handle = getattr(self._local, "handle", None)
        if handle is None:
            handle = self._local.handle = self.connection.handle()
        return handle


def prepare(handle: pycurl.Curl, method: str, url: str, body: bytes | None) -> None:
    """Set on the handle what differs from request to request."""
    handle.setopt(pycurl.URL, url)
    if body is None:
        handle.setopt(pycurl.HTTPGET, 1)
    else:
        handle.setopt(pycurl.POSTFIELDS, body)
    handle.setopt(pycurl.CUSTOMREQUEST, method)


def answer(handle: pycurl.Curl, body: bytes) -> bytes:
    """The body of a complete answer.

    Raises:
        ApiError: the server's answer is an error.
    """
    status = handle.getinfo(pycurl.RESPONSE_CODE)
    if 200 <= status < 300:
        return body
    raise from_status(body, status, handle.getinfo(pycurl.RETRY_AFTER))

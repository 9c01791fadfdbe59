"""Stream: a list or a watch, whose bytes are delivered as they arrive.

A stream belongs to one thread; only `abort` may be called from another. Waiting and decrypting
happen inside libcurl without the interpreter lock; Python runs once per chunk and not in between.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

import pycurl

from bayplan.client.connection import NO_ANSWER, Connection
from bayplan.client.errors import Closed, Unauthorized
from bayplan.client.http import answer, prepare

HTTP_OK = b"200"
BUFFER_BYTES = 512 * 1024


class Stream:
    """One persistent connection for reads that take long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._aborted = False
        self._raised: BaseException | None = None
        self._status = b""
        self._handle = connection.handle()
        self._handle.setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
        self._handle.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)

    def get(
        self,
        path: str,
        on_chunk: Callable[[bytes], None],
        quiet: float,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        """Read until the server ends the answer.

        ``on_open`` is called when the server has agreed to answer. What ``on_chunk`` raises ends
        the stream and comes out of here. ``quiet`` is the number of seconds without a byte after
        which the connection counts as broken.

        Raises:
            ApiError: it failed or broke; `Closed` after `abort`.
        """
        if self._aborted:
            raise Closed("the stream was aborted")
        handle, complaint, self._raised = self._handle, list[bytes](), None
        self._status = b""
        prepare(handle, "GET", self._connection.url(path), None)
        handle.setopt(pycurl.HTTPHEADER, self._connection.headers())
        handle.setopt(pycurl.LOW_SPEED_LIMIT, 1)
        handle.setopt(pycurl.LOW_SPEED_TIME, int(quiet))
        handle.setopt(pycurl.HEADERFUNCTION, self._header_reader(on_open))
        handle.setopt(pycurl.WRITEFUNCTION, self._receiver(on_chunk, complaint))
        try:
            handle.perform()
        except pycurl.error as error:
            if self._aborted:
                raise Closed("the stream was aborted") from None
            if self._raised is not None:
                raise self._raised from None
            if not self._status:
                self._connection.observe("GET", NO_ANSWER)
            raise self._connection.error(handle, *error.args) from None
        try:
            answer(handle, b"".join(complaint))
        except Unauthorized:
            self._connection.forget_credentials()
            raise

    def abort(self) -> None:
        """End the read that is under way, and all later ones; from any thread."""
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # It was not connected yet, or not any more.
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free the connection; on the stream's own thread."""
        self._handle.close()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _header_reader(self, on_open: Callable[[], None]) -> Callable[[bytes], None]:
        # libcurl allows no getinfo while it performs, so the status is read from its line.
        def read(line: bytes) -> None:
            if line.startswith(b"HTTP/"):
                self._status = line.split(b" ", 2)[1]
            elif line == b"\r\n":
                self._connection.observe("GET", self._status.decode())
                if self._status == HTTP_OK:
                    on_open()

        return read

    def _receiver(
        self, on_chunk: Callable[[bytes], None], complaint: list[bytes]
    ) -> Callable[[bytes], int | None]:
        """The write callback: errors go to ``complaint``, all else to ``on_chunk``."""

        def receive(chunk: bytes) -> int | None:
            if self._status != HTTP_OK:
                complaint.append(chunk)
                return None
            try:
                on_chunk(chunk)
            except BaseException as error:  # noqa: BLE001 - pycurl would print and drop it
                self._raised = error
                return -1
            return None

        return receive

    def _open_socket(
        self, _purpose: int, address: tuple[int, int, int, object]
    ) -> socket.socket | int:
        # libcurl gets a duplicate; ours is kept to shut the connection down from another thread.
        family, kind, protocol, _ = address
        with self._lock:
            if self._aborted:
                return int(pycurl.SOCKET_BAD)
            if self._socket is not None:
                self._socket.close()
            self._socket = socket.socket(family, kind, protocol)
            return self._socket

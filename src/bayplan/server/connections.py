"""Connections: how many there are at once, and how long each may take.

A client that opens connections and sends nothing, or one byte a second, must not keep probes out.
So every connection has a deadline, and there are at most `MOST`: one more closes the oldest of
those that have not sent their request yet.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

MOST = 100
REQUEST_SECONDS = 10.0
"""For the TLS handshake and the request, from the moment the connection was accepted."""
ANSWER_SECONDS = 30.0
"""For sending the answer, after the page was made."""


class Connections:
    """At most ``most`` connections. Any thread; `add` and `close_overdue` on the accepting one."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: dict[socket.socket, float] = {}  # in the order of arrival
        self._answering: dict[socket.socket, float] = {}

    def __len__(self) -> int:
        return len(self._reading) + len(self._answering)

    def add(self, connection: socket.socket) -> bool:
        """A new connection; its request must come within `REQUEST_SECONDS`.

        Returns:
            False if there are too many, all of which are being answered.
        """
        with self._lock:
            if len(self) >= self._most:
                if not self._reading:
                    return False
                oldest = next(iter(self._reading))
                del self._reading[oldest]
                _shut(oldest)
            self._reading[connection] = self._clock() + REQUEST_SECONDS
            return True

    def answering(self, connection: socket.socket, seconds: float = float("inf")) -> None:
        """The request is here, and the answer is sent within ``seconds``."""
        with self._lock:
            self._reading.pop(connection, None)
            self._answering[connection] = self._clock() + seconds

    def remove(self, connection: socket.socket) -> None:
        """The connection is about to be closed."""
        with self._lock:
            self._reading.pop(connection, None)
            self._answering.pop(connection, None)

    def close_overdue(self) -> None:
        """End connections past their deadline; the serving thread sees the end of the stream."""
        now = self._clock()
        with self._lock:
            for group in (self._reading, self._answering):
                for connection in [c for c, deadline in group.items() if deadline < now]:
                    del group[connection]
                    _shut(connection)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the method of SSLSocket, which would change what the serving thread uses.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)

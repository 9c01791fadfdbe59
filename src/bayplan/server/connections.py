"""Connections: how many there are at once, and how long each may take.

A client that opens connections and sends nothing, or one byte a second, must not keep probes out.
So every connection has a deadline, and there are at most `MOST`: one more closes the oldest that
waits for a further request, or else the oldest of those that have not sent their first.

| state | until |
|---|---|
| reading | the request is here; `REQUEST_SECONDS` |
| answering | the answer is made, without a limit, and then sent: `ANSWER_SECONDS` |
| idle | the next request begins; `IDLE_SECONDS` |
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

MOST = 100
REQUEST_SECONDS = 10.0
"""For the request, from its first byte; of the first one from the moment the connection was
accepted, with the TLS handshake."""
ANSWER_SECONDS = 30.0
"""For sending the answer, after the page was made."""
IDLE_SECONDS = 90.0
"""Between an answer and the next request, as in kube-scheduler."""


class Connections:
    """At most ``most`` connections. Any thread; `add` and `close_overdue` on the accepting one."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        # Deadlines, in the order in which the connections came to be in that state.
        self._idle: dict[socket.socket, float] = {}
        self._reading: dict[socket.socket, float] = {}
        self._answering: dict[socket.socket, float] = {}
        self._states = self._idle, self._reading, self._answering
        self._ended = False

    def __len__(self) -> int:
        return sum(map(len, self._states))

    def add(self, connection: socket.socket) -> bool:
        """A new connection; its request must come within `REQUEST_SECONDS`.

        Returns:
            False if there are too many, all of which are being answered.
        """
        with self._lock:
            if len(self) >= self._most:
                silent = self._idle or self._reading
                if not silent:
                    return False
                oldest = next(iter(silent))
                del silent[oldest]
                _shut(oldest)
            self._move(connection, self._reading, REQUEST_SECONDS)
            return True

    def idle(self, connection: socket.socket) -> bool:
        """The answer is sent; False if there is to be no further one."""
        with self._lock:
            if not self._ended:
                self._move(connection, self._idle, IDLE_SECONDS)
            return not self._ended

    def reading(self, connection: socket.socket) -> None:
        """A further request begins, and must be here within `REQUEST_SECONDS`."""
        with self._lock:
            self._move(connection, self._reading, REQUEST_SECONDS)

    def answering(self, connection: socket.socket, seconds: float = float("inf")) -> None:
        """The request is here, and the answer is sent within ``seconds``."""
        with self._lock:
            self._move(connection, self._answering, seconds)

    def remove(self, connection: socket.socket) -> None:
        """The connection is about to be closed."""
        with self._lock:
            self._drop(connection)

    def close_overdue(self) -> None:
        """End connections past their deadline; the serving thread sees the end of the stream."""
        now = self._clock()
        with self._lock:
            for state in self._states:
                for connection in [c for c, deadline in state.items() if deadline < now]:
                    del state[connection]
                    _shut(connection)

    def end(self) -> None:
        """Close idle connections; from now on each ends with its answer."""
        with self._lock:
            self._ended = True
            for connection in self._idle:
                _shut(connection)
            self._idle.clear()

    def _move(
        self, connection: socket.socket, state: dict[socket.socket, float], seconds: float
    ) -> None:
        self._drop(connection)
        state[connection] = self._clock() + seconds

    def _drop(self, connection: socket.socket) -> None:
        for state in self._states:
            state.pop(connection, None)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the method of SSLSocket, which would change what the serving thread uses.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)

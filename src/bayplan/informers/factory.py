"""Informers: all reflectors, one for each watched kind."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterable

from bayplan.api.kinds import Kind
from bayplan.client.connection import Connection
from bayplan.inbox.messages import Message, Replaced
from bayplan.informers.reflector import Reflector, ReflectorStatistics

JOIN_SECONDS = 5.0
"""How long a reflector that is stopped may take to end; its connection is shut down, so it is
quick."""


class Informers:
    """Reflectors by kind, all delivering to one inbox.

    They are stopped when the process ends, at the latest: a thread that is still in libcurl while
    its libraries are taken down can crash the process.

    Args:
        deliver: the inbox; called on the reflectors' threads, must be thread-safe and quick.
    """

    def __init__(self, connection: Connection, deliver: Callable[[list[Message]], object]) -> None:
        self._connection = connection
        self._deliver = deliver
        self._lock = threading.Lock()
        self._errors: dict[Kind[object], Exception] = {}
        self._reflectors: dict[Kind[object], Reflector] = {}
        atexit.register(self.stop)

    def watch(self, kinds: Iterable[Kind[object]]) -> None:
        """Watch exactly ``kinds`` from now on.

        Kinds that are watched already go on undisturbed. Of one that is watched no longer, all
        objects count as gone.
        """
        all_kinds = tuple(kinds)
        with self._lock:
            dropped = [self._reflectors.pop(k) for k in set(self._reflectors).difference(all_kinds)]
            added = [k for k in dict.fromkeys(all_kinds) if k not in self._reflectors]
            for kind in added:
                self._reflectors[kind] = Reflector(
                    self._connection, kind, self._deliver, on_error=self._note
                )
                self._reflectors[kind].start()
        _stop(dropped, JOIN_SECONDS)
        for reflector in dropped:
            self._note(reflector.kind, None)
            self._deliver([Replaced(reflector.kind, [])])

    def unsynced(self) -> dict[Kind[object], str]:
        """The kinds whose first list is still to come, and why.

        An optional kind that the API server does not serve is not among them.
        """
        with self._lock:
            return {
                kind: str(self._errors.get(kind, "not listed yet"))
                for kind, reflector in self._reflectors.items()
                if not reflector.synced.is_set()
            }

    def errors(self) -> dict[Kind[object], Exception]:
        """Why the list or watch of a kind does not work at present."""
        with self._lock:
            return dict(self._errors)

    def statistics(self) -> dict[Kind[object], ReflectorStatistics]:
        """A copy of the counters of each kind."""
        with self._lock:
            return {kind: r.statistics() for kind, r in self._reflectors.items()}

    def stop(self, timeout: float = JOIN_SECONDS) -> None:
        """End all reflectors; waits up to ``timeout`` seconds."""
        with self._lock:
            reflectors = list(self._reflectors.values())
        _stop(reflectors, timeout)
        atexit.unregister(self.stop)

    def _note(self, kind: Kind[object], error: Exception | None) -> None:
        with self._lock:
            if error is None:
                self._errors.pop(kind, None)
            else:
                self._errors[kind] = error


def _stop(reflectors: Iterable[Reflector], timeout: float) -> None:
    for reflector in reflectors:
        reflector.stop()
    deadline = time.monotonic() + timeout
    for reflector in reflectors:
        reflector.join(max(0, deadline - time.monotonic()))

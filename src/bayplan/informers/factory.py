"""All reflectors together: started, waited for, and stopped as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from bayplan.api.kinds import Kind
from bayplan.client.connection import Connection
from bayplan.inbox.messages import Message
from bayplan.informers.reflector import Reflector, Statistics


class Informers:
    """One reflector per kind, all delivering to one inbox.

    Args:
        deliver: the inbox; called on the reflectors' threads, must be thread-safe and quick.
    """

    def __init__(
        self,
        connection: Connection,
        kinds: Iterable[Kind],
        deliver: Callable[[list[Message]], object],
    ) -> None:
        self._lock = threading.Lock()
        self._errors: dict[str, Exception] = {}
        self._reflectors = [
            Reflector(connection, kind, deliver, on_error=self._note) for kind in kinds
        ]

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in self._reflectors:
            reflector.start()

    def wait_synced(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until every first list is delivered; whether it is."""
        deadline = time.monotonic() + timeout
        return all(r.synced.wait(max(0, deadline - time.monotonic())) for r in self._reflectors)

    def unsynced(self) -> list[tuple[str, str]]:
        """Kind and reason for each kind whose first list is still to come."""
        with self._lock:
            reasons = {kind: str(error) for kind, error in self._errors.items()}
        waiting = [r.kind.name for r in self._reflectors if not r.synced.is_set()]
        return [(kind, reasons.get(kind, "not listed yet")) for kind in waiting]

    def errors(self) -> dict[str, Exception]:
        """By kind, why its list or watch does not work at present."""
        with self._lock:
            return dict(self._errors)

    def stop(self, timeout: float = 5.0) -> None:
        """End all reflectors; waits up to ``timeout`` seconds."""
        for reflector in self._reflectors:
            reflector.stop()
        deadline = time.monotonic() + timeout
        for reflector in self._reflectors:
            reflector.join(max(0, deadline - time.monotonic()))

    def statistics(self) -> dict[str, Statistics]:
        """Each reflector's counters, by kind."""
        return {r.kind.name: r.statistics() for r in self._reflectors}

    def _note(self, kind: str, error: Exception | None) -> None:
        with self._lock:
            if error is None:
                self._errors.pop(kind, None)
            else:
                self._errors[kind] = error

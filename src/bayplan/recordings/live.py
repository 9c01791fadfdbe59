"""Live: the objects of a running cluster for a recorder, by the informers of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bayplan.api.kinds import CORE_KINDS, Kind
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, Forbidden, Unauthorized
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Changed, Message, Removed, Replaced
from bayplan.informers.factory import Informers
from bayplan.recordings.recorder import Recorder
from bayplan.recordings.stripped import stripping

FLUSH_SECONDS = 1.0
"""Most that a process that ends without warning has not written."""


class LiveSource:
    """Lists and watches.

    Args:
        kinds: what to record.
        annotations: see `stripping`.

    Raises:
        KubeconfigError: there are no usable credentials.
    """

    def __init__(
        self, kubeconfig: str | None, kinds: Iterable[Kind[Any]], annotations: Iterable[str]
    ) -> None:
        kept = tuple(annotations)
        self._needed = {kind.name for kind in CORE_KINDS}
        self._kinds = [stripping(kind, kept) for kind in kinds]
        self._inbox = Inbox()
        self._informers = Informers(Connection.load(kubeconfig), self._inbox.post_all)

    def listed(self) -> tuple[list[Message], dict[str, str]]:
        """Waits for the first list of every kind: what came, and which kinds may not be read.

        Raises:
            ApiError: Nodes, Namespaces or Pods may not be read.
        """
        self._informers.watch(self._kinds)
        messages: list[Message] = []
        while True:
            errors = self._informers.errors()
            waiting = list(self._informers.unsynced())
            denied = {k: e for k in waiting if isinstance(e := errors.get(k), Forbidden)}
            for kind in waiting:
                error = errors.get(kind)
                refused = isinstance(error, Unauthorized) or kind in denied
                if refused and isinstance(error, ApiError) and kind.name in self._needed:
                    raise error
            if len(waiting) == len(denied):
                messages += self._inbox.drain()
                return messages, {kind.name: str(error) for kind, error in denied.items()}
            messages += self._inbox.drain(FLUSH_SECONDS)

    def follow(self, recorder: Recorder, stopped: Callable[[], bool]) -> None:
        """Record what happens until ``stopped`` says so.

        Raises:
            OSError: the file cannot be written.
        """
        while not stopped():
            record(recorder, self._inbox.drain(FLUSH_SECONDS))
            recorder.flush()

    def trouble(self) -> str:
        """Which kinds cannot be followed at present, and why; "" if all can."""
        errors = self._informers.errors().items()
        return "; ".join(f"{kind.name}: {error}" for kind, error in errors)


def record(recorder: Recorder, messages: Iterable[Message]) -> None:
    """Give what informers have sent to ``recorder``."""
    for message in messages:
        if isinstance(message, Replaced | Changed | Removed):
            recorder.apply(message)

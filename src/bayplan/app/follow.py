"""Follower: a core that follows a cluster through the API server and decides nothing.

The same informers fill the same tables as of the scheduler, on a thread that does nothing else but
that and answer questions. Nothing is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from bayplan.api.kinds import Kind
from bayplan.app.assembly import Core, Ports, build
from bayplan.app.feed import Feed
from bayplan.app.load import LoadFeeds
from bayplan.app.questions import Question
from bayplan.attempt.selection import TieBreak
from bayplan.client.errors import Forbidden, Unauthorized
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Where
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry

T = TypeVar("T")


ANSWER_SECONDS = 60.0


class NoEvents:
    """Drops every event."""

    def event(self, *_: object) -> None:
        """See `bayplan.framework.handle.EventRecorder`."""


class Follower:
    """See the module's docstring.

    Attributes:
        feed: where it comes from.
        core: what is known; on the thread of the follower only.

    Raises:
        KubeconfigError: there are no usable credentials.
        ConfigError: see `bayplan.app.assembly.build`.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        registry: Registry,
        kubeconfig: Where,
        tie_break: TieBreak,
    ) -> None:
        self.feed = Feed(kubeconfig)
        self.feed.start()
        ports = Ports(
            events=NoEvents(), inbox=self.feed.inbox, tie_break=tie_break, exhaustive=True
        )
        self.core: Core = build(config, registry, ports)
        self.feed.informers.watch(registry.kinds(config))
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def start(self) -> None:
        """Return when the first lists are there; a thread follows from then on.

        Raises:
            ApiError: see `fill`.
        """
        self.fill()
        self._thread.start()

    def fill(self) -> None:
        """Apply the first lists, and return when they are there.

        Raises:
            ApiError: a kind that is needed may not be read.
        """
        scheduler, informers = self.core.scheduler, self.feed.informers
        while waiting := self._waiting():
            scheduler.take_in(wait=True)
            errors = informers.errors()
            for kind in waiting:
                if isinstance(error := errors.get(kind), Forbidden | Unauthorized):
                    raise error
        scheduler.take_in(wait=False)
        loads = LoadFeeds(Http(self.feed.connection), self.feed.inbox, self.core.world.cache.nodes)
        loads.watch(self.core.profiles.sources())

    def _waiting(self) -> list[Kind[Any]]:
        """The kinds whose first list is still to come, but optional ones that cannot be read."""
        informers = self.feed.informers
        errors = informers.errors()
        return [k for k in informers.unsynced() if not (k.optional and k in errors)]

    def _follow(self) -> None:
        while True:
            self.core.scheduler.take_in(wait=True)

    def trouble(self) -> str:
        """Which kinds cannot be followed at present, and why; "" if all can. Any thread."""
        errors = self.feed.informers.errors().items()
        return "; ".join(f"{kind.name}: {error}" for kind, error in errors if not kind.optional)

    def ask(self, answer: Callable[[], T]) -> T:
        """What ``answer`` returns, called on the thread of the follower.

        Raises:
            TimeoutError: the thread did not come to it in `ANSWER_SECONDS`.
        """
        question = Question(answer, lambda _: None)
        self.feed.inbox.post(question)
        return question.done.result(ANSWER_SECONDS)

"""Profiles: everything built from one configuration, and replaced as a whole by a reload.

One generation of plugins: frameworks, plugin instances, queue order and queueing hints. What lives
longer is in `bayplan.world`. Nothing there may hold a reference to a plugin, so that a replaced
generation is garbage-collected after its last binding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import structlog

from bayplan.cache.node_price import FloatArray
from bayplan.config.args import LoadSource, PriceSource
from bayplan.engine.faults import is_interrupt
from bayplan.engine.runtime import Framework
from bayplan.framework.interface import Plugin
from bayplan.queue.policy import QueuePolicy

log = structlog.get_logger("profiles")


class Profiles(Mapping[str, Framework]):
    """Frameworks by schedulerName.

    Attributes:
        frameworks: the same, as a dictionary.
        policy: what they decide about the queue.
    """

    def __init__(self, frameworks: dict[str, Framework], policy: QueuePolicy) -> None:
        self.frameworks = frameworks
        self.policy = policy

    def __getitem__(self, name: str) -> Framework:
        return self.frameworks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.frameworks)

    def __len__(self) -> int:
        return len(self.frameworks)

    def load_sources(self) -> list[LoadSource]:
        """Where the load of nodes is to be read."""
        return [source for f in self.values() for source in f.services.load_sources]

    def sources(self) -> list[LoadSource | PriceSource]:
        """Where load and prices of nodes are to be read."""
        prices = [source for f in self.values() for source in f.services.price_sources]
        return [*self.load_sources(), *prices]

    def node_shares(self) -> dict[str, FloatArray]:
        """The lenses that plugins have; see `Services.node_shares`. Scheduling thread only."""
        return {name: of() for f in self.values() for name, of in f.services.node_shares.items()}

    def close(self) -> None:
        """Close every plugin. Scheduling thread only."""
        for framework in self.values():
            close(framework.plugins.all)


class OneForAll(Profiles):
    """The first profile judges Pods that ask for none of the others, too."""

    def __getitem__(self, name: str) -> Framework:
        return self.frameworks.get(name) or next(iter(self.frameworks.values()))

    def __contains__(self, _: object) -> bool:
        return True


def close(plugins: Iterable[Plugin]) -> None:
    """Close all plugins; a plugin that raises is logged, and the next one is closed."""
    for plugin in plugins:
        try:
            plugin.close()
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            log.exception("plugin failed to close", plugin=plugin.name)

"""Profiles: everything that is made from one configuration and goes with it.

A generation of plugins: frameworks, plugin instances, and how they order and wake Pods. What lives
longer is `bayplan.world`. Nothing there may keep a reference to a plugin, so that a generation
that was replaced leaves the memory with the last binding that it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import structlog

from bayplan.framework.interface import Plugin
from bayplan.framework.runtime import Framework
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

    def close(self) -> None:
        """Close every plugin. Scheduling thread only."""
        for framework in self.values():
            close(framework.plugins.all)


def close(plugins: Iterable[Plugin]) -> None:
    """Close these plugins; one that raises is logged and does not keep the others from it."""
    for plugin in plugins:
        try:
            plugin.close()
        except (Exception, SystemExit):
            log.exception("plugin failed to close", plugin=plugin.name)

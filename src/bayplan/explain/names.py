"""Names: what is taken out of an answer for whoever may not see all of the cluster.

Messages are made for those who place Pods, and plugins name what they like in them. So names are
found in the text, by what the scheduler knows: nodes (also as the first part of a host name, or as
a part of a path such as ``driver/node/device``), objects of other namespaces as ``namespace/name``,
and Queues of others after the word queue. A Pod of another namespace that stands there without its
namespace is not found.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Any

from bayplan.api.kinds import NAMESPACE, QUEUE
from bayplan.world import World

_PART = r"[A-Za-z0-9]+(?:(?:-+|\.)[A-Za-z0-9]+)*"
_WORD = re.compile(rf"(\bqueue[ '\"]+)?({_PART}(?:/{_PART})*)", re.IGNORECASE)
_SHOWN = {
    *("apiVersion", "kind", "pod", "group", "name", "queue", "state", "resource", "reason"),
    *("plugin", "plugins", "rejectedBy", "time"),
}
"""Fields that hold what was asked about, or words of the format."""


class Names:
    """What readers who know of some ``namespaces`` may be told. Scheduling thread only."""

    def __init__(self, world: World, namespaces: Collection[str]) -> None:
        self._world, self._own = world, namespaces

    def hide(self, value: Any, field: str = "") -> Any:
        """``value``, plain data, with NODE, POD, OBJECT and QUEUE in place of names in texts."""
        if isinstance(value, str):
            return value if field in _SHOWN else self.hidden(value)
        if isinstance(value, dict):
            return {key: self.hide(one, key) for key, one in value.items()}
        return [self.hide(one, field) for one in value] if isinstance(value, list) else value

    def hidden(self, text: str) -> str:
        """``text`` with NODE, POD, OBJECT and QUEUE in place of names."""
        return _WORD.sub(self._word, text)

    def _word(self, match: re.Match[str]) -> str:
        before, word = match[1] or "", match[2]
        objects = self._world.cache.objects
        if before and objects.get(QUEUE, word) is not None:
            return before + (word if word in self._own_queues else "QUEUE")
        namespace, slash, _ = word.partition("/")
        if slash and namespace in self._own:
            return match[0]
        if word in self._world.handlers.pods:
            return f"{before}POD"
        if slash and objects.get(NAMESPACE, namespace) is not None:
            return f"{before}OBJECT"
        return before + "/".join(map(self._part, word.split("/")))

    @cached_property
    def _own_queues(self) -> set[str]:
        """The Queues of Pods in the namespaces, and the Queues above."""
        queues, own = self._world.queues, set(self._own)
        structure = queues.structure
        return {
            structure.name(link)
            for row, links in enumerate(structure.links)
            if not own.isdisjoint(queues.namespaces(row))
            for link in links
        }

    def _part(self, part: str) -> str:
        row = self._world.cache.nodes.row
        if row(part) is not None:
            return "NODE"
        host, dot, domain = part.partition(".")
        return f"NODE{dot}{domain}" if dot and row(host) is not None else part

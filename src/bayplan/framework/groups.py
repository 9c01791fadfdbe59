"""Groups: what the plugin that places Pods together says about them, as the queue sees it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bayplan.cache.pod_groups import Group
from bayplan.framework.points import Named


@runtime_checkable
class GroupsPods(Named, Protocol):
    """A plugin that has Pods placed together. In-tree only; it switches groups on.

    Attributes:
        timeout: seconds that members may take to get ready, where their group does not say.
        backoff: least seconds between two attempts of a group.
    """

    timeout: float
    backoff: float

    def find(self, key: str, /) -> Group | None:
        """The group called ``key``; None while its object does not exist."""

"""SelfCheck: plugins that keep sums and can compare these with a recount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from bayplan.framework.points import Named


@runtime_checkable
class SelfCheck(Named, Protocol):
    """A plugin that keeps up to date what could be computed from scratch. In-tree only."""

    def recount(self) -> Mapping[str, str]:
        """What differed from a computation from scratch, by its name; empty when all is well."""

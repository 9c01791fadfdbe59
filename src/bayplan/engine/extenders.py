"""What an attempt asks of extenders; `bayplan.extenders` implements it with webhooks.

So the scheduling cycle, which simulate and explain run too, knows no network.
"""

from __future__ import annotations

from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.engine.search import Fit
from bayplan.framework.status import Status

REJECTOR = "Extender"
"""What stands for all extenders among the plugins that rejected a Pod."""


class ExtenderError(Exception):
    """An extender could not be called, or returned an error."""


class NodeExtenders(Protocol):
    """All extenders of the configuration; false when there are none."""

    def __bool__(self) -> bool:
        """Whether there are any."""

    def filter(self, pod: Pod, nodes: NodeTable, fit: Fit) -> dict[int, Status]:
        """Remove from ``fit`` what extenders reject; returns why, by row.

        Raises:
            AttemptFault: an extender that is not ignorable failed.
        """

    def add_scores(self, pod: Pod, nodes: NodeTable, fit: Fit, totals: IntArray) -> IntArray:
        """``totals`` plus the extenders' scores; nodes that are not feasible come last."""

"""The result of an attempt: a `Placement`, or a `Rejection` that says why there is none.

Every attempt creates one. A msgspec.Struct needs a tenth of the time of a frozen dataclass.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
import numpy as np

from bayplan.config.points import Point
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.search import Fit
from bayplan.engine.ties import Choice, Ties
from bayplan.framework.interface import PostFilterResult
from bayplan.framework.status import QUEUE_CLOSED, QUEUE_LIMIT, Status

_NO_TIES = Ties(np.empty(0, np.intp))
_NO_NODES = np.empty(0, np.bool_)


class Reason(StrEnum):
    """The reason of the condition PodScheduled."""

    UNSCHEDULABLE = "Unschedulable"
    """Plugins rejected the Pod, or there is no node."""
    QUEUE_LIMIT = QUEUE_LIMIT
    """The limit of a queue is reached. Autoscalers add nodes for Unschedulable alone."""
    QUEUE_CLOSED = QUEUE_CLOSED
    """A queue takes no Pods, or none like this."""
    SCHEDULER_ERROR = "SchedulerError"
    """A plugin, an extender or the API server failed: nothing is known about the nodes."""


class Placement(msgspec.Struct, frozen=True, eq=False):
    """The node for a Pod.

    Attributes:
        best: the nodes that are as good as the chosen one; see `Selection`.
        fit: the feasible nodes.
    """

    node_name: str
    best: Ties
    fit: Fit

    @property
    def evaluated(self) -> int:
        """How many nodes were filtered."""
        return self.fit.evaluated

    @property
    def feasible(self) -> int:
        """How many of them fit."""
        return self.fit.count

    @property
    def choice(self) -> Choice:
        """How the node was chosen."""
        return Choice(self.fit.evaluated, self.fit.count, self.best.count, self.best.total)

    def without_rows(self) -> Placement:
        """Its counts alone: the rows of 50,000 tries on 5,000 nodes take more than 300 MB."""
        fit = Fit(_NO_NODES, self.fit.count, self.fit.evaluated, self.fit.nominated)
        return Placement(self.node_name, _NO_TIES, fit)


class Rejection(msgspec.Struct, frozen=True, eq=False):
    """Why a Pod got no node, or could not have the one that was chosen.

    Attributes:
        message: the text of the FailedScheduling event and of the condition, not shortened.
        unschedulable_plugins: the plugins that rejected the Pod; their events may wake it.
        pending_plugins: those that rejected it with Pending.
        nominated: the node to nominate, "" for none, None to leave the nomination as it is.
        evaluated: how many nodes were filtered.
        diagnosis: the status of every node; None where no node was filtered.
        post_filter: what PostFilter plugins answered.
        fault: the exception behind a SchedulerError, where there is one.
        point: Reserve or Permit, where it was one of these that refused the chosen node.
        status: how it did.
        timed_out: whether the Pod waited in Permit until its time was up.
    """

    reason: Reason
    message: str
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated: str | None = ""
    evaluated: int = 0
    diagnosis: Diagnosis | None = None
    post_filter: PostFilterResult | None = None
    fault: BaseException | None = None
    point: Point | None = None
    status: Status | None = None
    timed_out: bool = False

    @classmethod
    def by_error(cls, message: str, fault: BaseException | None = None) -> Rejection:
        """The attempt failed: it is repeated after a backoff."""
        return cls(Reason.SCHEDULER_ERROR, message, fault=fault)

    @classmethod
    def of_chosen_node(cls, point: Point, status: Status, *, timed_out: bool = False) -> Rejection:
        """A Reserve or Permit plugin refused the one node that was left."""
        reasons = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
        message = "0/1 nodes are available:" + (f" {reasons}." if reasons else "")
        return cls(
            Reason.UNSCHEDULABLE,
            message,
            frozenset({status.plugin}),
            point=point,
            status=status,
            timed_out=timed_out,
        )

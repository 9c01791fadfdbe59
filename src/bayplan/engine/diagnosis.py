"""Diagnosis: why each node was rejected, from the arrays of the decision itself.

The FailedScheduling message, the queue's list of rejecting plugins, preemption's candidates and
`bayplan explain` all read this one object, so they cannot disagree.

It is filled in by the Filter plugins in turn, and keeps two numbers a row: which plugin rejected it
first, and with which code. Texts are made on demand, once per distinct code. Three nodes::

    run(NodeUnschedulable, [0 1 0])     first [-1  0 -1]   codes [0 1 0]   fits [1 0 1]
    run(NodeResourcesFit,  [0 3 2])     first [-1  0  1]   codes [0 1 2]   fits [1 0 0]

Row 1 keeps the first rejection. ``groups()`` puts each pair of plugin and code into words, with its
rows: ("node(s) were unschedulable", [1]) and ("Insufficient cpu", [2]).

A status that no Filter plugin gave (a node that PreFilter excluded, a node that a nominated Pod
needs, an extender's) is an override: it stands in place of whatever the plugins said.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault
from bayplan.engine.stages import FilterStage
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Integers, NodeStatuses
from bayplan.framework.status import SUCCESS, Code, Status

NOT_LOOKED_AT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""The status of a node that was never filtered."""


class Diagnosis(NodeStatuses):
    """One Pod's filter results over one table.

    Attributes:
        state: what the plugins have written about the Pod.
        fits: (n,) the nodes that no plugin rejected.
        pre_filter: the status with which a PreFilter plugin rejected every node, if one did.
        unschedulable_plugins: the plugins whose rejections stood in the way.
        pending_plugins: those that answered Pending.
        post_filter_message: what PostFilter plugins add to the message.
    """

    def __init__(self, nodes: NodeTable, state: CycleState, pod: Pod) -> None:
        self.nodes = nodes
        self.fits: BoolArray = nodes.exists.copy()
        self.pre_filter: Status | None = None
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        self.post_filter_message = ""
        self.state = state
        self._pod = pod
        self._first: IntArray = np.full(len(nodes), -1, np.int64)
        self._codes: IntArray = np.zeros(len(nodes), np.int64)
        self._stages: list[tuple[FilterStage, list[int]]] = []
        self._overrides: IntArray = np.full(len(nodes), -1, np.int64)
        self._statuses: list[Status] = []

    def reject_all(self, status: Status) -> None:
        """A PreFilter plugin turned the Pod down on every node."""
        self.pre_filter = status
        self.fits[:] = False
        self._note(status)

    def exclude(self, rows: BoolArray, status: Status) -> None:
        """Reject nodes outside of a PreFilter result; the rejection is no plugin's."""
        self._override(np.flatnonzero(rows & self.nodes.exists), status)

    def override(self, rows: IntArray | int, status: Status) -> None:
        """The nodes at ``rows`` are rejected with ``status``, whatever the plugins said."""
        self._override(rows, status)
        self._note(status)

    def _override(self, rows: IntArray | int, status: Status) -> None:
        if status not in self._statuses:
            self._statuses.append(status)
        self._overrides[rows] = self._statuses.index(status)
        self.fits[rows] = False

    def run(self, stage: FilterStage, codes: Integers) -> None:
        """The next Filter plugin answered ``codes``; nodes rejected before keep their status."""
        rejected = self.fits & (codes != 0)
        if not rejected.any():
            return
        self._first[rejected] = len(self._stages)
        given = codes[rejected]
        self._codes[rejected] = given
        # Mostly it is one code for all of them, which is seen sooner than sorted out.
        one = (given == given[0]).all()
        distinct = [int(given[0])] if one else np.unique(given).tolist()
        self._stages.append((stage, distinct))
        self.fits &= ~rejected
        for code in distinct:
            self._note(stage.status(self.state, self._pod, code))

    def _note(self, status: Status) -> None:
        if status.plugin and status.rejected:
            pending = status.code is Code.PENDING
            (self.pending_plugins if pending else self.unschedulable_plugins).add(status.plugin)

    def status(self, row: int) -> Status:
        """The status of the node at ``row``, from the first plugin to reject the node."""
        if self.pre_filter is not None:
            return self.pre_filter
        override = int(self._overrides[row])
        if override >= 0:
            return self._statuses[override]
        index = int(self._first[row])
        if index < 0:
            return SUCCESS
        stage, _ = self._stages[index]
        return stage.status(self.state, self._pod, int(self._codes[row]))

    def groups(self) -> list[tuple[Status, IntArray]]:
        """Every distinct status of rejected nodes, with its rows."""
        if self.pre_filter is not None:
            return [(self.pre_filter, np.flatnonzero(self.nodes.exists))]
        overridden = [np.flatnonzero(self._overrides == i) for i in range(len(self._statuses))]
        pairs = zip(self._statuses, overridden, strict=True)
        groups = [(status, rows) for status, rows in pairs if len(rows)]
        free = self._overrides < 0
        for index, (stage, distinct) in enumerate(self._stages):
            rejected = (self._first == index) & free
            for code in distinct:
                rows = np.flatnonzero(rejected & (self._codes == code))
                if len(rows):
                    groups.append((stage.status(self.state, self._pod, code), rows))
        return groups

    @property
    def filtered(self) -> BoolArray:
        """(n,) the nodes whose status is that of Filter plugins."""
        return self._overrides < 0

    def rows_with(self, unresolvable: bool) -> IntArray:
        """Rows rejected with UnschedulableAndUnresolvable, or those rejected otherwise."""
        picked = [
            rows
            for status, rows in self.groups()
            if (status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE) is unresolvable
        ]
        return np.sort(np.concatenate(picked)) if picked else np.empty(0, np.int64)

    def fault(self) -> AttemptFault | None:
        """The first Error status among the nodes, if there is one, with the first of its nodes."""
        for status, rows in self.groups():
            if status.code is Code.ERROR:
                node = self.nodes.names[int(rows[0])] or ""
                return AttemptFault(Point.FILTER, status.plugin, status, node)
        return None

    @property
    def message(self) -> str:
        """kube-scheduler's FitError text: ``0/12 nodes are available: ...``."""
        domain = self.state.domain
        number = self.nodes.node_count
        if domain is not None and self.state.outside is None:
            number = int(np.count_nonzero(domain & self.nodes.exists))
        text = f"0/{number} nodes are available:"
        if self.pre_filter is not None and self.pre_filter.held_by:
            text = self.pre_filter.message + ("." if self.post_filter_message else "")
        elif self.pre_filter is not None:
            if self.pre_filter.message:
                text += f" {self.pre_filter.message}."
        else:
            counts: Counter[str] = Counter()
            for status, rows in self.groups():
                for reason in status.reasons:
                    counts[reason] += len(rows)
            if counts:
                text += f" {', '.join(sorted(f'{n} {r}' for r, n in counts.items()))}."
        return f"{text} {self.post_filter_message}" if self.post_filter_message else text


class SingleMisses(Diagnosis):
    """The nodes that one Filter plugin alone rejects: every plugin is asked about all nodes.

    Nodes whose status no Filter plugin gave in ``diagnosis`` are left out.
    """

    def __init__(self, diagnosis: Diagnosis, pod: Pod) -> None:
        super().__init__(diagnosis.nodes, diagnosis.state, pod)
        self.fits &= diagnosis.filtered
        self._among = self.fits.copy()
        self._rejections: IntArray = np.zeros(len(self.nodes), np.int64)

    def run(self, stage: FilterStage, codes: Integers) -> None:
        """The next Filter plugin answered ``codes``."""
        self._rejections += codes != 0
        self.fits = self._among & (self._rejections < 2)
        super().run(stage, codes)
        self.fits = self._among.copy()

    def groups(self) -> list[tuple[Status, IntArray]]:
        """See `Diagnosis`."""
        once = self._rejections == 1
        groups = [(status, rows[once[rows]]) for status, rows in super().groups()]
        return [(status, rows) for status, rows in groups if len(rows)]

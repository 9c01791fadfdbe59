"""LiveNodeTable: the nodes of the cluster, kept up to date by the cache.

Invariants:
- It is a tuple of columns and a `Rows`; a new column is a class in `BUILT_IN` (or one that a plugin
  adds with `ensure_column`) and nothing else.
- A row that changed is in one of two journals: `node_journal` (the node object changed, or the
  row got or lost its node) or `pod_journal` (its Pods changed). A node
  update that changes nothing, such as a heartbeat, adds no entry.
- Columns of Pods equal a recount over `pods`; `recount` proves it.

The reasons: docs/decisions/0002-columns-and-kept-answers.md.
"""

from __future__ import annotations

from itertools import product
from struct import pack
from typing import Protocol, TypeVar

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.fingerprint import fingerprint
from bayplan.cache.journal import Journal
from bayplan.cache.node_table.column import (
    BoolArray,
    Column,
    Columns,
    IntArray,
    NodeColumn,
    PodColumn,
)
from bayplan.cache.node_table.node_columns import (
    Allocatable,
    Features,
    Images,
    Labels,
    NodeObjects,
    Taints,
    Unschedulable,
    equal_but_version,
)
from bayplan.cache.node_table.pod_columns import HostPorts, PodObjects, Requested
from bayplan.cache.node_table.pod_table import PodTable
from bayplan.cache.node_table.rows import Rows
from bayplan.cache.node_table.view import Load, NodeTable
from bayplan.cache.subscription import Subscribers, Subscription

BUILT_IN: tuple[type[Column], ...] = (
    NodeObjects,
    Allocatable,
    Unschedulable,
    Taints,
    Features,
    Labels,
    Images,
    PodObjects,
    Requested,
    HostPorts,
)
C = TypeVar("C", bound=Column)
_FIRST_ROWS = 64


class Listener(Protocol):
    """Someone who keeps counters over the table's rows; by default a change is ignored.

    A node whose labels or taints change is reported as: all its Pods removed, `node_changed`, all
    its Pods added.
    """

    def pod_added(self, row: int, pod: Pod) -> None:
        """``pod`` now counts on ``row``."""

    def pod_removed(self, row: int, pod: Pod) -> None:
        """``pod`` no longer counts on ``row``."""

    def node_changed(self, row: int) -> None:
        """The node of ``row`` came or went, or its labels or taints changed."""


class LiveNodeTable(NodeTable):
    """The nodes of the cluster and the Pods on them; see the module's docstring.

    Attributes:
        tentative: whether Pods that come and go now are only tried out (`bayplan.cache.trial`): a
            listener that tells other threads must not tell them of these.
    """

    def __init__(self, n: int = 0) -> None:
        self.origin = None
        self.live = self
        self.tentative = False
        self._rows = Rows()
        self.columns = Columns(pod_kinds=[])
        self._node_columns: list[NodeColumn] = []
        self._pod_columns: list[PodColumn] = []
        self._listeners: Subscribers[Listener] = Subscribers()
        for kind in BUILT_IN:
            self.ensure_column(kind)
        self.node_journal = self._rows.node_journal
        """Rows whose node came, went or changed."""
        self.pod_journal = self._rows.pod_journal
        """Rows whose Pods changed."""
        self.start_journal = self._rows.start_journal
        """Rows on which a Pod has got its start time."""
        self._fingerprint = self._recounts = 0
        self._pod_table: PodTable | None = None
        self._seen = 0, 0
        """Where the two journals of Pods stood when they were read for it."""
        self._allocatable = self.column(Allocatable)
        self._requested = self.column(Requested)
        self.reserve(n)

    # Rows

    @property
    def exists(self) -> BoolArray:
        """Which rows have a node, ``(n,)``."""
        return self._rows.exists

    @property
    def names(self) -> list[str | None]:
        """Node names by row; None where there is no node."""
        return self._rows.names

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._rows.index)

    def __len__(self) -> int:
        return len(self._rows.names)

    def row(self, name: str) -> int | None:
        """The row of the node called ``name``, or None."""
        return self._rows.index.get(name)

    def reserve(self, n: int) -> None:
        """Have room for ``n`` nodes in all."""
        if n > len(self):
            self._rows.grow(n)
            for column in self.columns.values():
                column.grow(n)

    def load(self, row: int) -> Load:
        """What the node at ``row`` offers and what its Pods request; equal for rows as full."""
        allocatable, requested = self._allocatable, self._requested
        # Both columns only ever gain resources: as many numbers are of the same ones.
        numbers = (
            allocatable.pods.values.item(row),
            requested.pods.values.item(row),
            requested.nonzero_cpu.values.item(row),
            requested.nonzero_memory.values.item(row),
            *allocatable.row(row),
            *requested.row(row),
        )
        return pack(f"{len(numbers)}q", *numbers)

    def load_columns(self) -> list[IntArray]:
        """What `load` is made of: for all rows, ``(n,)`` each."""
        allocatable, requested = self._allocatable, self._requested
        columns = [
            allocatable.pods.values,
            requested.pods.values,
            requested.nonzero_cpu.values,
            requested.nonzero_memory.values,
        ]
        return [*columns, *allocatable.arrays(), *requested.arrays()]

    # Columns and listeners

    def ensure_column(self, kind: type[C]) -> C:
        """The column of class ``kind``; it is made and filled in if there is none."""
        if kind not in self.columns:
            column = self.columns[kind] = kind()
            column.grow(len(self))
            if isinstance(column, NodeColumn):
                self._node_columns.append(column)
                for info in self:
                    column.set_node(info.row, info.node, None)
            if isinstance(column, PodColumn):
                self._pod_columns.append(column)
                self.columns.pod_kinds.append(kind)
                self.count_into(column)
        return self.column(kind)

    @property
    def pods_version(self) -> tuple[int, int]:
        """Changes with the Pods on nodes, and is as before when a change of a trial is undone.

        For answers that depend on all of them; answers by row follow `pod_journal`.
        """
        return self._fingerprint, self._recounts

    def touch(self, row: int) -> None:
        """The owner of a column has changed ``row``: cached answers for this row are stale."""
        self.node_journal.append(row)

    def listen(self, listener: Listener) -> Subscription:
        """Tell ``listener`` of every change; it counts what is there by itself.

        It is called as long as it is referenced elsewhere; see `Subscribers`.
        """
        return self._listeners.add(listener)

    # Nodes

    def set_node(self, node: Node) -> int:
        """Add ``node``, or replace the node with the same name; returns the row."""
        row = self._rows.index.get(node.name)
        if row is None:
            if self._rows.full:
                self.reserve(len(self) + max(_FIRST_ROWS, len(self) // 8))
            row = self._rows.occupy(node.name)
        previous = self.nodes[row]
        if previous is not None and equal_but_version(previous, node):
            self.nodes[row] = node
            return row
        moved = (
            previous is None
            or previous.labels != node.labels
            or previous.spec.taints != node.spec.taints
        )
        pods = list(self.pods[row].values()) if moved else []
        for listener, pod in product(self._listeners, pods):
            listener.pod_removed(row, pod)
        for column in self._node_columns:
            column.set_node(row, node, previous)
        if moved:
            self._report_node(row)
        for listener, pod in product(self._listeners, pods):
            listener.pod_added(row, pod)
        self.node_journal.append(row)
        return row

    def remove_node(self, name: str) -> list[Pod]:
        """Free the row of ``name``; returns the Pods that were counted there."""
        row = self._rows.index.get(name)
        if row is None:
            return []
        pods = list(self.pods[row].values())
        for pod in pods:
            self.remove_pod(row, pod)
        for column in self.columns.values():
            column.clear(row)
        self._rows.free(name)
        self._report_node(row)
        self.node_journal.append(row)
        return pods

    # Pods

    def add_pod(self, row: int, pod: Pod) -> None:
        """Count ``pod`` on ``row``."""
        for column in self._pod_columns:
            column.count(row, pod, 1)
        self._fingerprint += fingerprint(pod, row)
        self.pod_journal.append(row)
        for listener in self._listeners:
            listener.pod_added(row, pod)

    def remove_pod(self, row: int, pod: Pod) -> None:
        """No longer count ``pod`` on ``row``; must be the same object that was added."""
        for column in self._pod_columns:
            column.count(row, pod, -1)
        self._fingerprint -= fingerprint(pod, row)
        self.pod_journal.append(row)
        for listener in self._listeners:
            listener.pod_removed(row, pod)

    def replace_pod(self, row: int, pod: Pod) -> None:
        """``pod`` is on ``row`` already, in an older version that counts as this one does."""
        previous = self.pods[row][pod.uid]
        self.pods[row][pod.uid] = pod
        if previous.status.start_time != pod.status.start_time:
            self.start_journal.append(row)

    def recount_pod(self, row: int, pod: Pod) -> None:
        """Replace an older version of ``pod`` on ``row``; the order of the Pods stays."""
        order = tuple(self.pods[row])
        self.remove_pod(row, self.pods[row][pod.uid])
        self.add_pod(row, pod)
        self.reorder_pods(row, order)
        self._recounts += 1

    def reorder_pods(self, row: int, order: tuple[str, ...]) -> None:
        """Put the Pods of ``row`` in this order of uids, which may name Pods of other rows."""
        pods = self.pods[row]
        if tuple(pods) != order:
            for uid in order:
                if uid in pods:
                    pods[uid] = pods.pop(uid)

    def pod_table(self) -> PodTable:
        """The Pods as columns; kept from the first question on, see `PodTable`."""
        changed, started = map(Journal.since, (self.pod_journal, self.start_journal), self._seen)
        if self._pod_table is None or changed is None or started is None:
            self._pod_table = PodTable(self.pods)
        elif changed or started:
            self._pod_table.update(self.pods, [*changed, *started])
        self._seen = self.pod_journal.position, self.start_journal.position
        return self._pod_table

    def recount(self) -> dict[str, int]:
        """See `NodeTable.recount`; of the `pod_table`, too, where there is one."""
        wrong = super().recount()
        if self._pod_table is not None:
            different = self.pod_table().differences(PodTable(self.pods))
            wrong |= {"pod_table": different} if different else {}
        return wrong

    def _report_node(self, row: int) -> None:
        for listener in self._listeners:
            listener.node_changed(row)

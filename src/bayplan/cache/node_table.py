"""NodeTable: one row per node, one NumPy column per fact.

Invariants:
- Every array that the table hands out has the shape ``(n,)`` with ``n = len(table)``. Some rows may
  be free (no node): `exists` says which rows count; all other columns are zero or -1 there.
- A freed row is used again. A row that changed stands in one of two journals: `node_journal`
  (the node object changed, or the row got or lost its node) or `pod_journal` (its Pods changed).
- `requested` and the other sums equal a recount over `pods`; `recount` proves it.
- `take` gives a small table of its own for "what if" questions. It shares value codes with its
  parent, and nothing that it changes is seen there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from bayplan.api import quantity
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.columns import ABSENT, BoolArray, CodeArray, CodedColumn, IntArray
from bayplan.cache.host_ports import HostPort, host_ports
from bayplan.cache.journal import Journal
from bayplan.cache.node_info import NodeInfo
from bayplan.cache.requests import Requests, pod_requests

Load = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""How full a node is, as a key; see `NodeTable.load`."""

_ROWS_AT_FIRST = 64


class Listener(Protocol):
    """Someone who keeps counters over the table's rows.

    A node whose labels or taints change is reported as: all its Pods removed, `node_changed`, all
    its Pods added.
    """

    def pod_added(self, row: int, pod: Pod) -> None:
        """``pod`` now counts on ``row``."""

    def pod_removed(self, row: int, pod: Pod) -> None:
        """``pod`` no longer counts on ``row``."""

    def node_changed(self, row: int) -> None:
        """The node of ``row`` came, went or changed."""


class NodeTable:
    """All nodes as columns; see the module's docstring."""

    def __init__(self, n: int = 0) -> None:
        self.names: list[str | None] = [None] * n
        self.nodes: list[Node | None] = [None] * n
        self.pods: list[dict[str, Pod]] = [{} for _ in range(n)]
        self.host_ports: list[Counter[HostPort]] = [Counter() for _ in range(n)]
        self.exists: BoolArray = np.zeros(n, np.bool_)
        self.unschedulable: BoolArray = np.zeros(n, np.bool_)
        self.allowed_pods: IntArray = np.zeros(n, np.int64)
        self.pod_count: IntArray = np.zeros(n, np.int64)
        self.nonzero_cpu: IntArray = np.zeros(n, np.int64)
        self.nonzero_memory: IntArray = np.zeros(n, np.int64)
        self.taints = CodedColumn(n)
        """Codes of distinct taint lists; values are tuples of Taint."""
        self.features = CodedColumn(n)
        """Codes of distinct status.declaredFeatures; values are frozensets of names."""
        self.image_rows: dict[str, dict[int, int]] = {}
        """Image name -> row -> size in bytes. Not kept by tables made with `take`."""
        self.origin: IntArray | None = None
        """Row numbers in the full table that this one was taken from; None for the full table."""
        self.node_journal = Journal()
        self.pod_journal = Journal()
        self.start_journal = Journal()
        """Rows on which a Pod has got its start time, which only preemption asks about."""
        self.node_count = 0
        self._allocatable: dict[str, IntArray] = {}
        self._requested: dict[str, IntArray] = {}
        self._labels: dict[str, CodedColumn] = {}
        self._rows: dict[str, int] = {}
        self._free: list[int] = list(range(n - 1, -1, -1))
        self._listeners: list[Listener] = []

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[NodeInfo]:
        """Every node, in row order."""
        return (self.info(row) for row in np.flatnonzero(self.exists).tolist())

    def info(self, row: int) -> NodeInfo:
        """The node at ``row``."""
        return NodeInfo(self, row)

    def row(self, name: str) -> int | None:
        """The row of the node called ``name``, or None."""
        return self._rows.get(name)

    # Columns

    def allocatable(self, resource: str) -> IntArray:
        """What each node offers of ``resource``: milli-CPU, bytes or counts, ``(n,)``."""
        return self._resource(self._allocatable, resource)

    def requested(self, resource: str) -> IntArray:
        """What each node's Pods request of ``resource``, same units, ``(n,)``."""
        return self._resource(self._requested, resource)

    def _resource(self, columns: dict[str, IntArray], resource: str) -> IntArray:
        column = columns.get(resource)
        if column is None:
            column = columns[resource] = np.zeros(len(self), np.int64)
        return column

    @property
    def resources(self) -> set[str]:
        """Names of all resources that a node offers or a Pod requests."""
        return self._allocatable.keys() | self._requested.keys()

    def load(self, row: int) -> Load:
        """What the node at ``row`` offers and what its Pods request; equal for rows as full."""
        counts = (
            self.allowed_pods.item(row),
            self.pod_count.item(row),
            self.nonzero_cpu.item(row),
            self.nonzero_memory.item(row),
        )
        offered = tuple([column.item(row) for column in self._allocatable.values()])
        requested = tuple([column.item(row) for column in self._requested.values()])
        return counts, offered, requested

    def label(self, key: str) -> CodedColumn:
        """The column of the node label ``key``, made when first asked for."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = self._make_label(key)
        return column

    def _make_label(self, key: str) -> CodedColumn:
        column = CodedColumn(len(self))
        for row in self._rows.values():
            _set_label(column, row, key, self.nodes[row])
        return column

    def listen(self, listener: Listener) -> None:
        """From now on, tell ``listener`` of every change; it counts what is there by itself."""
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        """Tell ``listener`` no more."""
        self._listeners.remove(listener)

    # Nodes

    def reserve(self, nodes: int) -> None:
        """Make room for ``nodes`` nodes in all."""
        if nodes > len(self):
            self._grow(nodes - len(self))

    def set_node(self, node: Node) -> int:
        """Add ``node``, or replace the node of that name; returns its row."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._occupy(node.name)
        old = self.nodes[row]
        moved = old is None or old.labels != node.labels or old.spec.taints != node.spec.taints
        pods = list(self.pods[row].values()) if moved else []
        for pod in pods:
            self._tell_removed(row, pod)
        self._forget_images(row, old)
        self.nodes[row] = node
        self._write_node(row, node)
        for listener in self._listeners:
            listener.node_changed(row)
        for pod in pods:
            self._tell_added(row, pod)
        self.node_journal.append(row)
        return row

    def remove_node(self, name: str) -> list[Pod]:
        """Free the row of ``name``; returns the Pods that were counted there."""
        row = self._rows.pop(name, None)
        if row is None:
            return []
        pods = list(self.pods[row].values())
        for pod in pods:
            self.remove_pod(row, pod)
        self._forget_images(row, self.nodes[row])
        self._clear_row(row)
        self.node_count -= 1
        for listener in self._listeners:
            listener.node_changed(row)
        self.node_journal.append(row)
        self._free.append(row)
        return pods

    def _occupy(self, name: str) -> int:
        if not self._free:
            self._grow(max(_ROWS_AT_FIRST, len(self) // 8))
        row = self._free.pop()
        self._rows[name] = row
        self.names[row] = name
        self.exists[row] = True
        self.node_count += 1
        return row

    def _write_node(self, row: int, node: Node) -> None:
        for column in self._allocatable.values():
            column[row] = 0
        for resource, amount in node.status.allocatable.items():
            if resource == "pods":
                self.allowed_pods[row] = quantity.value(amount)
            else:
                self.allocatable(resource)[row] = quantity.of(resource, amount)
        if "pods" not in node.status.allocatable:
            self.allowed_pods[row] = 0
        self.unschedulable[row] = node.spec.unschedulable
        taints = node.spec.taints
        taint_key = tuple((t.key, t.value, t.effect) for t in taints)
        self.taints.codes[row] = self.taints.code(taints, taint_key)
        self.features.codes[row] = self.features.code(frozenset(node.status.declared_features))
        for key, label in self._labels.items():
            _set_label(label, row, key, node)
        for image in node.status.images:
            for image_name in image.names:
                self.image_rows.setdefault(image_name, {}).setdefault(row, image.size_bytes)

    def _forget_images(self, row: int, node: Node | None) -> None:
        for image in node.status.images if node else ():
            for image_name in image.names:
                rows = self.image_rows.get(image_name, {})
                rows.pop(row, None)
                if not rows:
                    self.image_rows.pop(image_name, None)

    def _clear_row(self, row: int) -> None:
        self.names[row] = None
        self.nodes[row] = None
        self.exists[row] = self.unschedulable[row] = False
        self.allowed_pods[row] = 0
        for column in self._allocatable.values():
            column[row] = 0
        for coded in (self.taints, self.features, *self._labels.values()):
            coded.codes[row] = ABSENT

    def _grow(self, more: int) -> None:
        old = len(self)
        self._free[:0] = range(old + more - 1, old - 1, -1)
        self.names += [None] * more
        self.nodes += [None] * more
        self.pods += [{} for _ in range(more)]
        self.host_ports += [Counter() for _ in range(more)]
        for name in _PLAIN_COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(more, column.dtype)]))
        for columns in (self._allocatable, self._requested):
            for resource, amounts in columns.items():
                columns[resource] = np.concatenate([amounts, np.zeros(more, np.int64)])
        for coded in (self.taints, self.features, *self._labels.values()):
            coded.codes = np.concatenate([coded.codes, np.full(more, ABSENT, np.int32)])

    # Pods

    def add_pod(self, row: int, pod: Pod) -> None:
        """Count ``pod`` on ``row``."""
        self.pods[row][pod.uid] = pod
        self._count(row, pod, 1)
        self._tell_added(row, pod)

    def remove_pod(self, row: int, pod: Pod) -> None:
        """No longer count ``pod`` on ``row``; it must be the very Pod that was added."""
        del self.pods[row][pod.uid]
        self._count(row, pod, -1)
        self._tell_removed(row, pod)

    def add_pods(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """Count ``pods[i]`` on ``rows[i]``, for all i."""
        for row, pod in zip(rows, pods, strict=True):
            self.pods[row][pod.uid] = pod
        self._count_all(rows, pods, 1)
        for row, pod in zip(rows, pods, strict=True):
            self._tell_added(row, pod)

    def remove_pods(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """No longer count ``pods[i]`` on ``rows[i]``; see `remove_pod`."""
        for row, pod in zip(rows, pods, strict=True):
            del self.pods[row][pod.uid]
        self._count_all(rows, pods, -1)
        for row, pod in zip(rows, pods, strict=True):
            self._tell_removed(row, pod)

    def _count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """`_count` of many Pods, those that request the same in one go."""
        alike: dict[int, tuple[Requests, list[int]]] = {}
        for row, pod in zip(rows, pods, strict=True):
            requests = pod_requests(pod)
            alike.setdefault(id(requests), (requests, []))[1].append(row)
            self._count_ports(row, pod, sign)
            self.pod_journal.append(row)
        for requests, of_rows in alike.values():
            index = np.array(of_rows)
            for resource, amount in requests.amounts.items():
                if amount:
                    np.add.at(self.requested(resource), index, sign * amount)
            np.add.at(self.nonzero_cpu, index, sign * requests.nonzero_cpu)
            np.add.at(self.nonzero_memory, index, sign * requests.nonzero_memory)
            np.add.at(self.pod_count, index, sign)

    def _count(self, row: int, pod: Pod, sign: int) -> None:
        requests = pod_requests(pod)
        for resource, amount in requests.amounts.items():
            if amount:
                self.requested(resource)[row] += sign * amount
        self.nonzero_cpu[row] += sign * requests.nonzero_cpu
        self.nonzero_memory[row] += sign * requests.nonzero_memory
        self.pod_count[row] += sign
        self._count_ports(row, pod, sign)
        self.pod_journal.append(row)

    def _count_ports(self, row: int, pod: Pod, sign: int) -> None:
        for port in pod.shape.memo(host_ports):
            self.host_ports[row][port] += sign
            # Where Pods share a port that they should not, kube-scheduler frees it with the first
            # of them. A dry run has to find the victims that it would.
            if not self.host_ports[row][port] or (sign < 0 and self.origin is not None):
                del self.host_ports[row][port]

    def _tell_added(self, row: int, pod: Pod) -> None:
        for listener in self._listeners:
            listener.pod_added(row, pod)

    def _tell_removed(self, row: int, pod: Pod) -> None:
        for listener in self._listeners:
            listener.pod_removed(row, pod)

    # What if

    def take(self, rows: IntArray) -> NodeTable:
        """A table of its own with only ``rows``, in that order, for "what if" questions.

        Adding and removing Pods there changes its columns alone. `origin` holds the rows' numbers
        in the full table, also where this table was itself taken from one. A column is copied when
        it is first read, so the table taken from must not change as long as the new one is used.
        """
        return _TakenTable(self, rows)

    def recount(self) -> dict[str, int]:
        """Rows per column whose sums differ from a fresh recount; empty when all is well."""
        fresh = NodeTable(len(self))
        for row, pods in enumerate(self.pods):
            for pod in pods.values():
                fresh.add_pod(row, pod)
        columns = {name: (getattr(self, name), getattr(fresh, name)) for name in _COUNTED_COLUMNS}
        for resource in self._requested:
            columns[resource] = (self.requested(resource), fresh.requested(resource))
        wrong = {name: int((kept != real).sum()) for name, (kept, real) in columns.items()}
        ports = zip(self.host_ports, fresh.host_ports, strict=True)
        wrong["host_ports"] = sum(kept != real for kept, real in ports)
        return {name: rows for name, rows in wrong.items() if rows}


class _TakenTable(NodeTable):
    """Some rows of another table; see `NodeTable.take`. Columns are made when first read."""

    def __init__(self, source: NodeTable, rows: IntArray) -> None:
        self._source = source
        self._picked = rows
        self.origin = rows if source.origin is None else source.origin[rows]
        self.node_count = len(rows)
        self._allocatable = {}
        self._requested = {}
        self._labels = {}
        self._listeners = []

    def __len__(self) -> int:
        return len(self._picked)

    def __getattr__(self, name: str) -> Any:
        """Take the column ``name`` from the source; later reads find it as an attribute."""
        column: Any
        if name in _PLAIN_COLUMNS:
            column = getattr(self._source, name)[self._picked]
        elif name in ("taints", "features"):
            column = getattr(self._source, name).take(self._picked)
        elif name in _COPY_OF_ROW:
            values, copy = getattr(self._source, name), _COPY_OF_ROW[name]
            column = [copy(values[row]) for row in self._picked.tolist()]
        elif name == "_rows":
            column = {node: row for row, node in enumerate(self.names) if node is not None}
        elif name in ("node_journal", "pod_journal"):
            column = Journal()
        else:
            raise AttributeError(name)
        setattr(self, name, column)
        return column

    def _resource(self, columns: dict[str, IntArray], resource: str) -> IntArray:
        column = columns.get(resource)
        if column is None:
            source = self._source
            read = source.allocatable if columns is self._allocatable else source.requested
            column = columns[resource] = read(resource)[self._picked]
        return column

    @property
    def resources(self) -> set[str]:
        return self._source.resources | super().resources

    def _make_label(self, key: str) -> CodedColumn:
        return self._source.label(key).take(self._picked)


def _same(value: Any) -> Any:
    return value


_COPY_OF_ROW: dict[str, Callable[[Any], Any]] = {
    "names": _same,
    "nodes": _same,
    "pods": dict,
    "host_ports": Counter,
}
_COUNTED_COLUMNS = ("pod_count", "nonzero_cpu", "nonzero_memory")
_PLAIN_COLUMNS = ("exists", "unschedulable", "allowed_pods", *_COUNTED_COLUMNS)


def _set_label(column: CodedColumn, row: int, key: str, node: Node | None) -> None:
    value = node.labels.get(key) if node else None
    column.codes[row] = ABSENT if value is None else column.code(value)


__all__ = [
    "ABSENT",
    "BoolArray",
    "CodeArray",
    "CodedColumn",
    "HostPort",
    "IntArray",
    "Listener",
    "Load",
    "NodeInfo",
    "NodeTable",
    "Requests",
    "host_ports",
]

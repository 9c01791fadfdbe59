"""NodeTable: the read interface of the nodes, with two implementations.

`LiveNodeTable` has the current nodes of the cluster, `WhatIfTable` a hypothetical copy of some of
them; `NodeInfo` is one row of either. Every array has the shape ``(n,)`` with ``n = len(table)``,
one row a node. Some rows may be free (no node): `exists` says which rows count; all other columns
are zero or -1 there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from bayplan.api.node import Node, Taint
from bayplan.api.pod import Pod
from bayplan.cache.node_table.column import BoolArray, CodedColumn, Columns, IntArray, PodColumn
from bayplan.cache.node_table.node_columns import (
    Allocatable,
    Features,
    Images,
    Labels,
    NodeObjects,
    Taints,
    Unschedulable,
)
from bayplan.cache.node_table.pod_columns import HostPort, HostPorts, PodObjects, Requested

C = TypeVar("C")
Load = bytes
"""How full a node is, as a key; see `LiveNodeTable.load`."""


class NodeTable(ABC):
    """Nodes as columns.

    Attributes:
        origin: row numbers in the live table that these rows were taken from, ``(n,)``; None for
            the live table itself.
        live: the live table that these rows were taken from, or this one.
        columns: by class; those of a what-if table are taken lazily.
    """

    origin: IntArray | None
    live: NodeTable
    columns: Columns

    def column(self, kind: type[C]) -> C:
        """The column of class ``kind``, which plugins add with `LiveNodeTable.ensure_column`.

        Raises:
            KeyError: no such column was added.
        """
        column: C = self.columns[kind]
        return column

    # Rows

    def __len__(self) -> int:
        return len(self.exists)

    def __iter__(self) -> Iterator[NodeInfo]:
        """Every node, in row order."""
        return (self.info(row) for row in np.flatnonzero(self.exists).tolist())

    def info(self, row: int) -> NodeInfo:
        """The node at ``row``."""
        return NodeInfo(self, row)

    @property
    @abstractmethod
    def exists(self) -> BoolArray:
        """Which rows have a node, ``(n,)``."""

    @property
    @abstractmethod
    def names(self) -> list[str | None]:
        """Node names by row; None where there is no node."""

    @property
    @abstractmethod
    def node_count(self) -> int:
        """How many nodes there are."""

    @abstractmethod
    def row(self, name: str) -> int | None:
        """The row of the node called ``name``, or None."""

    def take(self, rows: IntArray) -> WhatIfTable:
        """A copy of ``rows``, in this order, with the Pods on each row at this moment."""
        return WhatIfTable(self, rows)

    # What the node object says

    @property
    def nodes(self) -> list[Node | None]:
        """Node objects by row; None where there is no node."""
        column: NodeObjects = self.columns[NodeObjects]
        return column.values

    def node(self, name: str) -> Node | None:
        """The node called ``name``, or None."""
        row = self.row(name)
        return None if row is None else self.nodes[row]

    @property
    def unschedulable(self) -> BoolArray:
        """spec.unschedulable, ``(n,)``."""
        column: Unschedulable = self.columns[Unschedulable]
        return column.values

    @property
    def taints(self) -> CodedColumn:
        """Codes of distinct taint lists; values are tuples of Taint."""
        column: Taints = self.columns[Taints]
        return column

    @property
    def features(self) -> CodedColumn:
        """Codes of distinct status.declaredFeatures; values are frozensets of names."""
        column: Features = self.columns[Features]
        return column

    @property
    def images(self) -> Images:
        """The container images of the rows."""
        column: Images = self.columns[Images]
        return column

    def label(self, key: str) -> CodedColumn:
        """The codes of the node label ``key``."""
        labels: Labels = self.columns[Labels]
        return labels[key]

    def domains(self, level: str) -> IntArray:
        """The domain of each node at a ``level``, a node label; ``(n,)``, negative for none.

        Without a level ("") all nodes are in one domain.
        """
        if not level:
            return np.zeros(len(self), np.int64)
        return self.label(level).codes.astype(np.int64)

    @property
    def allowed_pods(self) -> IntArray:
        """How many Pods each node takes, ``(n,)``."""
        column: Allocatable = self.columns[Allocatable]
        return column.pods.values

    def allocatable(self, resource: str) -> IntArray:
        """What each node offers of ``resource``: milli-CPU, bytes or counts, ``(n,)``."""
        column: Allocatable = self.columns[Allocatable]
        return column[resource]

    # What the Pods on it add up to

    @property
    def pods(self) -> list[dict[str, Pod]]:
        """Pods by row and uid, assumed ones included. Read only."""
        column: PodObjects = self.columns[PodObjects]
        return column.values

    @property
    def host_ports(self) -> list[Counter[HostPort]]:
        """How many Pods take each host port, by row. Read only."""
        column: HostPorts = self.columns[HostPorts]
        return column.values

    @property
    def pod_count(self) -> IntArray:
        """How many Pods each node has, ``(n,)``."""
        column: Requested = self.columns[Requested]
        return column.pods.values

    @property
    def nonzero_cpu(self) -> IntArray:
        """milli-CPU that Pods request, with a default for containers without one, ``(n,)``."""
        column: Requested = self.columns[Requested]
        return column.nonzero_cpu.values

    @property
    def nonzero_memory(self) -> IntArray:
        """Bytes requested by Pods, with a default for containers without a request, ``(n,)``."""
        column: Requested = self.columns[Requested]
        return column.nonzero_memory.values

    def requested(self, resource: str) -> IntArray:
        """What each node's Pods request of ``resource``, as `allocatable`, ``(n,)``."""
        column: Requested = self.columns[Requested]
        return column[resource]

    @property
    def resources(self) -> set[str]:
        """Names of all resources that a node offers or a Pod requests."""
        allocatable: Allocatable = self.columns[Allocatable]
        requested: Requested = self.columns[Requested]
        return allocatable.keys() | requested.keys()

    # Proof

    def recount(self) -> dict[str, int]:
        """Rows by kind of fact that differ from a fresh count; empty when all is well."""
        wrong: dict[str, int] = {}
        for kind in self.columns.pod_kinds:
            fresh = kind()
            fresh.grow(len(self))
            self.count_into(fresh)
            wrong |= self.columns[kind].differences(fresh)
        return {name: rows for name, rows in wrong.items() if rows}

    def count_into(self, column: PodColumn) -> None:
        """Count all Pods in ``column``, which has counted none so far."""
        for row, pods in enumerate(self.pods):
            for pod in list(pods.values()):
                column.count(row, pod, 1)


class NodeInfo:
    """One row, for plugins that look at one node at a time. Valid during one call.

    Attributes:
        table: the table.
        row: the row's number there.
    """

    __slots__ = ("row", "table")

    def __init__(self, table: NodeTable, row: int) -> None:
        self.table = table
        self.row = row

    @property
    def origin(self) -> int:
        """The row's number in the live table."""
        origin = self.table.origin
        return self.row if origin is None else origin.item(self.row)

    @property
    def node(self) -> Node:
        """The node object."""
        node = self.table.nodes[self.row]
        assert node is not None
        return node

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self.node.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The node's annotations."""
        return self.node.metadata.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.node.spec.taints

    @property
    def pods(self) -> list[Pod]:
        """The Pods on the node, assumed ones included."""
        return list(self.table.pods[self.row].values())

    def allocatable(self, resource: str) -> int:
        """How much of ``resource`` the node has: milli-CPU, bytes or a count."""
        return int(self.table.allocatable(resource)[self.row])

    def requested(self, resource: str) -> int:
        """How much of ``resource`` its Pods request, same units."""
        return int(self.table.requested(resource)[self.row])

    def free(self, resource: str) -> int:
        """What is left of ``resource``, same units; negative when overcommitted."""
        return self.allocatable(resource) - self.requested(resource)


class WhatIfTable(NodeTable):
    """The rows ``picked`` of ``source``, in that order, for "what if" questions.

    Adding and removing Pods changes this table alone. A column is taken when it is first read, so
    ``source`` must not change as long as this table is used. `NodeTable.origin` holds the rows'
    numbers in the live table, also where ``source`` is a what-if table itself.
    """

    def __init__(self, source: NodeTable, picked: IntArray) -> None:
        self._source = source
        self._picked = picked
        self.live = source.live
        self.origin = picked if source.origin is None else source.origin[picked]
        self.columns = _Taken(source.columns, picked)

    @cached_property
    def exists(self) -> BoolArray:
        """Which rows have a node, ``(n,)``."""
        return self._source.exists[self._picked]

    @cached_property
    def names(self) -> list[str | None]:
        """Node names by row; None where there is no node."""
        names = self._source.names
        return [names[row] for row in self._picked.tolist()]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names) if name is not None}

    def __len__(self) -> int:
        return len(self._picked)

    @property
    def node_count(self) -> int:
        """How many rows there are, with or without a node."""
        return len(self._picked)

    def row(self, name: str) -> int | None:
        """The row of the node called ``name``, or None."""
        return self._index.get(name)

    def add_pods(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """What if ``pods[i]`` were on ``rows[i]``, for all i?"""
        self._count(rows, pods, 1)

    def remove_pods(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """What if ``pods[i]`` were gone from ``rows[i]``, for all i?"""
        self._count(rows, pods, -1)

    def _count(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        for kind in self.columns.pod_kinds:
            column: PodColumn = self.columns[kind]
            column.count_all(rows, pods, sign)


class _Taken(Columns):
    """Columns by class, each taken from ``source`` when it is first asked for."""

    def __init__(self, source: Columns, picked: IntArray) -> None:
        super().__init__(source.pod_kinds)
        self._source = source
        self._picked = picked

    def __missing__(self, kind: type[Any]) -> Any:
        column = self[kind] = self._source[kind].take(self._picked)
        return column

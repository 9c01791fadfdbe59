"""NodeTable: the read interface of the nodes, with two implementations.

`LiveNodeTable` has the current nodes of the cluster, `WhatIfTable` a hypothetical copy of some of
them. Every array has the shape ``(n,)`` with ``n = len(table)``, one row a node. Some rows may be
free (no node): `exists` says which rows count; all other columns are zero or -1 there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bayplan.api.node import Node
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
from bayplan.cache.node_table.node_info import NodeInfo
from bayplan.cache.node_table.pod_columns import HostPort, HostPorts, PodObjects, Requested

if TYPE_CHECKING:
    from bayplan.cache.node_table.live_table import LiveNodeTable
    from bayplan.cache.node_table.what_if_table import WhatIfTable

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
    live: LiveNodeTable
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

    @abstractmethod
    def take(self, rows: IntArray) -> WhatIfTable:
        """A `WhatIfTable` of only ``rows``, in that order."""

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

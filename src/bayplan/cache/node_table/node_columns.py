"""The columns that depend on the node object. Each column writes only changed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from msgspec.structs import replace

from bayplan.api import quantity
from bayplan.api.node import ContainerImage, Node
from bayplan.cache.node_table.column import ABSENT, CodedColumn, IntArray, Numbers, NumbersByKey


def equal_but_version(previous: Node, node: Node) -> bool:
    """Whether the two say the same, so that no answer about the node can have changed.

    A kubelet's heartbeat gives such a node: of its status only times differ, and those are not
    decoded.
    """
    version = node.metadata.resource_version
    return (
        previous.status == node.status
        and previous.spec == node.spec
        and replace(previous.metadata, resource_version=version) == node.metadata
    )


class NodeObjects:
    """The node objects themselves.

    Attributes:
        values: by row; None where there is no node.
    """

    def __init__(self) -> None:
        self.values: list[Node | None] = []

    def set_node(self, row: int, node: Node, _previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        self.values[row] = node

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        self.values += [None] * (n - len(self.values))

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        self.values[row] = None

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        copy = type(self)()
        copy.values = [self.values[row] for row in rows.tolist()]
        return copy


class Allocatable(NumbersByKey):
    """What nodes offer: milli-CPU, bytes or counts by resource, and how many Pods they take.

    Attributes:
        pods: status.allocatable.pods.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pods = Numbers(np.int64)

    def set_node(self, row: int, node: Node, previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        offered = node.status.allocatable
        if previous is not None and previous.status.allocatable == offered:
            return
        self.clear(row)
        for resource, amount in offered.items():
            if resource == "pods":
                self.pods.values[row] = quantity.value(amount)
            else:
                self[resource][row] = quantity.of(resource, amount)

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        super().grow(n)
        self.pods.grow(n)

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        super().clear(row)
        self.pods.clear(row)

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        copy = super().take(rows)
        copy.pods = self.pods.take(rows)
        return copy


class Unschedulable(Numbers[np.bool_]):
    """spec.unschedulable."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.bool_)

    def set_node(self, row: int, node: Node, _previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        self.values[row] = node.spec.unschedulable


class Taints(CodedColumn):
    """Distinct taint lists; values are tuples of Taint."""

    __slots__ = ()

    def set_node(self, row: int, node: Node, previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        taints = node.spec.taints
        if previous is None or previous.spec.taints != taints:
            key = tuple((t.key, t.value, t.effect) for t in taints)
            self.codes[row] = self.code(taints, key)


class Features(CodedColumn):
    """Distinct status.declaredFeatures; values are frozensets of names."""

    __slots__ = ()

    def set_node(self, row: int, node: Node, previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        features = node.status.declared_features
        if previous is None or previous.status.declared_features != features:
            self.codes[row] = self.code(frozenset(features))


class Labels:
    """The values of node labels, one `CodedColumn` a key; a key is coded when it is first read."""

    def __init__(self, source: Labels | None = None, picked: IntArray | None = None) -> None:
        self._by_key: dict[str, CodedColumn] = {}
        self._nodes: dict[int, Node] = {}
        self._n = 0
        self._source = source
        self._picked = picked

    def __getitem__(self, key: str) -> CodedColumn:
        """The codes of the label ``key``; `ABSENT` where a node does not have it."""
        column = self._by_key.get(key)
        if column is None:
            column = self._by_key[key] = self._make(key)
        return column

    def _make(self, key: str) -> CodedColumn:
        if self._source is not None and self._picked is not None:
            return self._source[key].take(self._picked)
        column = CodedColumn(self._n)
        for row, node in self._nodes.items():
            _set_label(column, row, key, node)
        return column

    def set_node(self, row: int, node: Node, previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        self._nodes[row] = node
        if previous is None or previous.labels != node.labels:
            for key, column in self._by_key.items():
                _set_label(column, row, key, node)

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        self._n = n
        for column in self._by_key.values():
            column.grow(n)

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        del self._nodes[row]
        for column in self._by_key.values():
            column.clear(row)

    def take(self, rows: IntArray) -> Labels:
        """See `Column.take`; a key is copied when it is first read."""
        return Labels(self, rows)


def _set_label(column: CodedColumn, row: int, key: str, node: Node) -> None:
    value = node.labels.get(key)
    column.codes[row] = ABSENT if value is None else column.code(value)


class Images:
    """The container images of the nodes."""

    def __init__(self, source: Images | None = None, picked: Sequence[int] = ()) -> None:
        self._sizes: dict[str, dict[int, int]] = {}
        self._of_row: dict[int, tuple[ContainerImage, ...]] = {}
        self._source = source
        self._picked = picked

    def sizes(self, name: str) -> Mapping[int, int]:
        """Row -> size in bytes, for the rows that have the image called ``name``."""
        if self._source is None:
            return self._sizes.get(name, {})
        there = self._source.sizes(name)
        return {i: there[row] for i, row in enumerate(self._picked) if row in there}

    def set_node(self, row: int, node: Node, previous: Node | None) -> None:
        """See `NodeColumn.set_node`."""
        images = node.status.images
        if previous is not None and previous.status.images == images:
            return
        self.clear(row)
        if images:
            self._of_row[row] = images
        for image in images:
            for name in image.names:
                self._sizes.setdefault(name, {}).setdefault(row, image.size_bytes)

    def grow(self, n: int) -> None:
        """See `Column.grow`: only rows that have images are kept."""

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        for image in self._of_row.pop(row, ()):
            for name in image.names:
                rows = self._sizes.get(name, {})
                rows.pop(row, None)
                if not rows:
                    self._sizes.pop(name, None)

    def take(self, rows: IntArray) -> Images:
        """See `Column.take`."""
        return Images(self, rows.tolist())

"""NodeInfo: one row of the node table, for plugins that evaluate one node at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.node import Node, Taint
from bayplan.api.pod import Pod

if TYPE_CHECKING:
    from bayplan.cache.node_table.view import NodeTable


class NodeInfo:
    """One row, for plugins that look at one node at a time. Valid during one call."""

    __slots__ = ("_table", "row")

    def __init__(self, table: NodeTable, row: int) -> None:
        self._table = table
        self.row = row

    @property
    def node(self) -> Node:
        """The node object."""
        node = self._table.nodes[self.row]
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
        return list(self._table.pods[self.row].values())

    def allocatable(self, resource: str) -> int:
        """How much of ``resource`` the node has: milli-CPU, bytes or a count."""
        return int(self._table.allocatable(resource)[self.row])

    def requested(self, resource: str) -> int:
        """How much of ``resource`` its Pods request, same units."""
        return int(self._table.requested(resource)[self.row])

    def free(self, resource: str) -> int:
        """What is left of ``resource``, same units; negative when overcommitted."""
        return self.allocatable(resource) - self.requested(resource)

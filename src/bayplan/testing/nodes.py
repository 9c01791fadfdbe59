"""Nodes for tests: ``make_node("n").capacity(cpu="4", pods=110).label("zone", "a").obj()``."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.kinds import NODE
from bayplan.api.node import Node
from bayplan.testing.builder import Builder


class NodeBuilder(Builder[Node]):
    """Builds a `Node`."""

    def capacity(
        self, amounts: Mapping[str, object] | None = None, /, **more: object
    ) -> NodeBuilder:
        """Add allocatable amounts: ``capacity(cpu="4", pods=110)``, ``capacity({"gpu": 1})``."""
        allocatable = self._status.setdefault("allocatable", {})
        allocatable.update({**(amounts or {}), **more})
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> NodeBuilder:
        """Add a taint."""
        taint = {"key": key, "value": value, "effect": effect}
        self._spec.setdefault("taints", []).append(taint)
        return self

    def unschedulable(self) -> NodeBuilder:
        """Cordon the node."""
        return self.spec(unschedulable=True)

    def image(self, size_bytes: int, *names: str) -> NodeBuilder:
        """Add an image under these names."""
        entry = {"names": list(names), "sizeBytes": size_bytes}
        self._status.setdefault("images", []).append(entry)
        return self

    def features(self, *names: str) -> NodeBuilder:
        """Set status.declaredFeatures."""
        return self.status(declaredFeatures=list(names))

    def condition(self, type_: str, status: str) -> NodeBuilder:
        """Add a condition."""
        conditions = self._status.setdefault("conditions", [])
        conditions.append({"type": type_, "status": status})
        return self


def make_node(name: str = "n") -> NodeBuilder:
    """A builder of a node without allocatable amounts."""
    return NodeBuilder(NODE, name)

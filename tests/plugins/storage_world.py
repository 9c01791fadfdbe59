"""StorageWorld: nodes and storage objects with one plugin over them, as the scheduler has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.handles import make_handle
from tests.plugins.harness import filtered, make

from bayplan.api.pod import Pod
from bayplan.binding.preparing import PreparingPod
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Plugin
from bayplan.framework.status import SUCCESS, Status
from bayplan.testing import NodeBuilder, PodBuilder, make_node


class StorageWorld:
    """A small cluster. Placed Pods, nodes and objects may come before and after the plugin."""

    def __init__(self, *nodes: NodeBuilder | str) -> None:
        self.nodes = LiveNodeTable()
        self.objects = ObjectStore()
        for node in nodes:
            self.add_node(make_node(node) if isinstance(node, str) else node)
        self.preparing: dict[str, PreparingPod] = {}
        self.handle = make_handle(self.nodes, self.objects, preparing=self.preparing)

    def add_node(self, node: NodeBuilder) -> StorageWorld:
        """Add or replace a node."""
        self.nodes.set_node(node.obj())
        return self

    def store(self, *builders: Any) -> StorageWorld:
        """Add or replace storage objects."""
        for builder in builders:
            self.objects.set(builder.kind, builder.obj())
        return self

    def remove(self, builder: Any) -> StorageWorld:
        """Remove a storage object."""
        self.objects.remove(builder.kind, builder.obj().key)
        return self

    def place(self, pod: PodBuilder, node: str) -> Pod:
        """Put a Pod on a node."""
        placed = pod.node(node).obj()
        self.nodes.add_pod(self.row(node), placed)
        return placed

    def row(self, node: str) -> int:
        """Its row."""
        row = self.nodes.row(node)
        assert row is not None
        return row

    def plugin(self, cls: type[Plugin], **args: Any) -> Any:
        """The plugin with these args."""
        return make(cls, self.handle, **args)

    def filtered(self, plugin: Any, pod: Pod) -> dict[str, Status]:
        """The Filter status of every node."""
        return filtered(plugin, pod, self.nodes)

    def messages(self, plugin: Any, pod: Pod) -> dict[str, str]:
        """The Filter message of every node."""
        return {node: status.message for node, status in self.filtered(plugin, pod).items()}

    def state(self, plugin: Any, pod: Pod) -> CycleState:
        """The state after a PreFilter that does not reject the Pod."""
        state = CycleState()
        status = plugin.pre_filter(state, pod, self.nodes)
        assert status is None or status.ok, status
        return state

    def what_if(
        self,
        plugin: Any,
        pod: Pod,
        removed: dict[str, list[Pod]] | None = None,
        added: dict[str, list[Pod]] | None = None,
    ) -> dict[str, Status]:
        """The Filter status of every node if these Pods were gone, or there, on each of them."""
        removed, added = removed or {}, added or {}
        state = self.state(plugin, pod)
        rows = np.flatnonzero(self.nodes.exists)[::-1].copy()
        table, state = self.nodes.take(rows), state.what_if(rows)
        for at, name in enumerate(table.names):
            for other in removed.get(name or "", []):
                table.remove_pods([at], [other])
                plugin.remove_pod(state, pod, other, table, at)
            for other in added.get(name or "", []):
                table.add_pods([at], [other])
                plugin.add_pod(state, pod, other, table, at)
        codes = plugin.filter_nodes(state, pod, table)
        assert codes.shape == rows.shape
        return {
            name or "": plugin.reasons(state, pod, int(code)) if code else SUCCESS
            for name, code in zip(table.names, codes, strict=True)
        }

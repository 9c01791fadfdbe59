"""PluginWorld: what one plugin sees of a cluster, without a scheduler; and what the plugin says.

The functions ask a plugin in the column form, as the framework would, and answer by node name.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

import numpy as np
from tests.handles import make_handle

from bayplan.api.kinds import Kind
from bayplan.api.pod import Pod
from bayplan.binding.preparing import PreparingPods
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import LiveNodeTable, NodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import ClusterWriter
from bayplan.framework.interface import Plugin, PreFilterResult
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.testing import Builder, NodeBuilder, PodBuilder, make_node

PluginT = TypeVar("PluginT", bound=Plugin)


class PluginWorld:
    """Nodes with Pods, other objects, and the handle by which a plugin gets at them.

    Everything may come before and after the plugin.

    Args:
        nodes: builders, or names of nodes about which nothing else matters.
        writer: what stands for the API server; nothing does otherwise.
    """

    def __init__(self, *nodes: NodeBuilder | str, writer: ClusterWriter | None = None) -> None:
        self.nodes, self.objects = LiveNodeTable(), ObjectStore()
        self.counters = DomainCounters(self.nodes, self.objects)
        self.preparing = PreparingPods()
        self.handle = make_handle(
            self.nodes,
            self.objects,
            counters=self.counters,
            preparing=self.preparing,
            writer=writer,
        )
        self.add(*(make_node(node) if isinstance(node, str) else node for node in nodes))

    def add(self, *builders: Builder[Any]) -> Self:
        """These nodes and other objects are new or have changed."""
        for builder in builders:
            if isinstance(builder, NodeBuilder):
                self.nodes.set_node(builder.obj())
            else:
                self.objects.set(builder.kind, builder.obj())
        return self

    def remove(self, builder: Builder[Any]) -> Self:
        """This object, which is no node, is gone."""
        self.objects.remove(builder.kind, builder.key)
        return self

    def place(self, pod: PodBuilder, node: str) -> Pod:
        """Put a Pod on a node; the Pod as it is there."""
        placed = pod.obj().on_node(node)
        self.nodes.add_pod(self.row(node), placed)
        return placed

    def placed(self) -> list[tuple[str, Pod]]:
        """Every Pod with the name of its node."""
        return [(info.name, pod) for info in self.nodes for pod in info.pods]

    def row(self, node: str) -> int:
        """The row of a node."""
        row = self.nodes.row(node)
        assert row is not None
        return row

    def make(self, cls: type[Plugin], **args: Any) -> Any:
        """The plugin with these args (API field names)."""
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


def make(cls: type[PluginT], handle: Any = None, **args: Any) -> PluginT:
    """The plugin with these args (API field names), defaults for the rest."""
    model: Any = cls.Args
    given = handle if handle is not None else make_handle()
    return cls(model.model_validate(args) if model else None, given)


def table_of(*nodes: NodeBuilder) -> LiveNodeTable:
    """A table of these nodes; it has free rows, too."""
    table = LiveNodeTable()
    for node in nodes:
        table.set_node(node.obj())
    return table


def pre_filtered(plugin: Any, pod: Pod, nodes: LiveNodeTable) -> PreFilterResult | Status | None:
    """What PreFilter answers."""
    answer: PreFilterResult | Status | None = plugin.pre_filter(CycleState(), pod, nodes)
    return answer


def filtered(plugin: Any, pod: Pod, nodes: LiveNodeTable) -> dict[str, Status]:
    """The Filter status of every node, after PreFilter."""
    state = CycleState()
    if hasattr(plugin, "pre_filter"):
        status = plugin.pre_filter(state, pod, nodes)
        if isinstance(status, Status) and status.code is Code.SKIP:
            return {info.name: SUCCESS for info in nodes}
    codes = plugin.filter_nodes(state, pod, nodes)
    assert codes.shape == (len(nodes),)
    assert np.issubdtype(codes.dtype, np.integer)
    verdicts = {
        info.name: plugin.reasons(state, pod, int(codes[info.row])) if codes[info.row] else SUCCESS
        for info in nodes
    }
    if hasattr(plugin, "filter"):
        singly = {info.name: plugin.filter(state, pod, info) or SUCCESS for info in nodes}
        assert singly == verdicts, "both forms say the same"
    return verdicts


def scored(plugin: Any, pod: Pod, nodes: NodeTable) -> dict[str, int] | Status:
    """Raw scores by node, or what PreScore answers when that is not Success."""
    state = CycleState()
    if hasattr(plugin, "pre_score"):
        status: Status | None = plugin.pre_score(state, pod, nodes, nodes.exists)
        if status is not None and not status.ok:
            return status
    scores = plugin.score_nodes(state, pod, nodes)
    assert scores.shape == (len(nodes),)
    assert np.issubdtype(scores.dtype, np.integer)
    by_name = {info.name: int(scores[info.row]) for info in nodes}
    if hasattr(plugin, "score"):
        singly = {info.name: plugin.score(state, pod, info) for info in nodes}
        assert singly == by_name, "both forms say the same"
    return by_name


def normalized(plugin: Any, pod: Pod, nodes: LiveNodeTable) -> dict[str, int]:
    """Normalized scores by node, all of them feasible."""
    raw = scored(plugin, pod, nodes)
    assert isinstance(raw, dict)
    values = np.array(list(raw.values()))
    scores = plugin.normalizer(values, int(values.max(initial=0)))
    return dict(zip(raw, scores.tolist(), strict=True))


def hint(
    plugin: Any, resource: Resource | Kind[Any], action: Action, pod: Pod, old: Any, new: Any
) -> Hint | None:
    """What the plugin says to an event; None when it did not register for it."""
    event = ClusterEvent(resource, action)
    answers = [
        registration.hint(pod, old, new) if registration.hint else Hint.QUEUE
        for registration in plugin.events_to_register()
        if registration.event.matches(event)
    ]
    assert len(answers) <= 1
    return answers[0] if answers else None

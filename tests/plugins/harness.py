"""Runs one plugin in the column form, as the framework would, and answers by node name."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from tests.handles import make_handle

from bayplan.api.kinds import Kind
from bayplan.api.pod import Pod
from bayplan.cache.node_table import LiveNodeTable, NodeTable
from bayplan.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Plugin, PreFilterResult
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.testing import NodeBuilder

PluginT = TypeVar("PluginT", bound=Plugin)


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
    return {
        info.name: plugin.reasons(state, pod, int(codes[info.row])) if codes[info.row] else SUCCESS
        for info in nodes
    }


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
    return {info.name: int(scores[info.row]) for info in nodes}


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

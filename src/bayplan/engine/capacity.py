"""Capacity columns: at most how many more Pods of one kind each node takes.

An upper bound, quick to compute for all nodes at once: it prunes and never decides. That a group
does not fit is then known without placing most of it, and a domain that cannot hold it is not
tried. Where the bound lets a group through, the ordinary attempts decide.

Two sources, and a node's bound is the lowest of all:

- ``copies`` of Filter plugins that have it (`BoundsCopies`).
- In-tree row-local Filter plugins that depend on the node object alone. Pods cannot change their
  answer, so a node that they reject takes none.

A plugin that is neither bounds nothing. So the bound holds whatever other Pods are placed
meanwhile: a Pod's siblings may attract it to a node, but they cannot give that node more room. What
they can do, as by taking the GPUs for which a node keeps CPUs, a plugin sees from their kinds
(`CycleState.beside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np

from bayplan.api.pod import Pod, PodShape, SpecPart
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable
from bayplan.config.points import Point
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.row_answers import AnswerCache
from bayplan.engine.stages import FilterStage
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import UNBOUNDED, Depends, Integers
from bayplan.framework.points import HasEpoch

KINDS_KEPT = 64

PodKind = PodShape | tuple[SpecPart, SpecPart]
_FILTER = Point.FILTER


class CopyBound(msgspec.Struct, frozen=True, eq=False):
    """The bound for one kind of Pod.

    Attributes:
        copies: ``(n,)`` how many each node takes at most; 0 where there is no node.
        bounds: by what limits it (a resource, say), the bound that this alone gives, ``(n,)``.
        plugins: the plugins behind it.
        closed: by plugin, ``(n,)`` the nodes that take none, whatever room they have; each node is
            named once.
    """

    copies: IntArray
    bounds: dict[str, Integers]
    plugins: frozenset[str]
    closed: dict[str, BoolArray]


def kind_of(pod: Pod) -> PodKind:
    """Equal for Pods that have the same capacity.

    Pod anti-affinity, which reads labels, makes them as different as their shapes.
    """
    affinity = pod.spec.affinity
    if affinity is not None and affinity.pod_anti_affinity is not None:
        return pod.shape
    return pod.shape.constraints, pod.shape.requests


class CapacityCache:
    """The capacities of one profile, kept until a node or a Pod on one changes."""

    def __init__(
        self,
        plugins: ProfilePlugins,
        filters: Sequence[FilterStage],
        answers: AnswerCache,
        nodes: LiveNodeTable,
    ) -> None:
        self._plugins, self._answers, self._nodes = plugins, answers, nodes
        self._static = [f for f in filters if _is_static(f, plugins)]
        self._kept: dict[tuple[PodKind, frozenset[PodKind]], CopyBound] = {}
        self._positions = (-1, -1)

    def of(self, pod: Pod, beside: Mapping[PodKind, Pod] = MappingProxyType({})) -> CopyBound:
        """The bound for Pods like ``pod``; ``beside`` are Pods of other kinds in their group.

        Raises:
            AttemptFault: a plugin broke.
        """
        positions = self._nodes.node_journal.position, self._nodes.pod_journal.position
        if positions != self._positions or len(self._kept) >= KINDS_KEPT:
            self._kept.clear()
            self._positions = positions
        kind = kind_of(pod)
        others = {other: one for other, one in beside.items() if other != kind}
        key = kind, frozenset(others)
        capacity = self._kept.get(key)
        if capacity is None:
            capacity = self._kept[key] = self._make(pod, tuple(others.values()))
        return capacity

    def _make(self, pod: Pod, beside: Sequence[Pod]) -> CopyBound:
        nodes, state = self._nodes, CycleState(timed=False)
        state.beside = beside
        state.adopt(self._answers.answers(pod).state)
        copies = np.where(nodes.exists, UNBOUNDED, 0)
        behind, closed = set(), dict[str, BoolArray]()
        for stage in self._static:
            if stage.name not in state.skip_filter:
                rejected = stage.codes(state, pod, nodes, nodes.exists) != 0
                if rejected.any():
                    behind.add(stage.name)
                    closed[stage.name] = rejected & (copies > 0)
                    copies[rejected] = 0
        bounds: dict[str, Integers] = {}
        for plugin in self._plugins.bounding:
            given = self._plugins.call(plugin, _FILTER, plugin.copies, state, pod, nodes)
            if given:
                behind.add(plugin.name)
                for name, most in given.items():
                    bound = np.where(nodes.exists, most, 0)
                    # Two plugins may bound the same resource, each by a rule of its own.
                    bounds[name] = np.minimum(bounds.get(name, bound), bound)
        for bound in bounds.values():
            np.minimum(copies, bound, out=copies)
        return CopyBound(np.maximum(copies, 0), bounds, frozenset(behind), closed)


def _is_static(stage: FilterStage, plugins: ProfilePlugins) -> bool:
    """Whether the plugin's answer about a node is the same whatever Pods are where."""
    plugin = stage.plugin
    return (
        plugin.name in plugins.trusted
        and plugin.name in plugins.local
        and plugin.filter_depends == Depends.NODE
        and not isinstance(plugin, HasEpoch)
    )

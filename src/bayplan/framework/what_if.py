"""What if Pods were on a node, or gone from it: the same Filter plugins over a changed table.

Preemption and nominated Pods ask such questions. Every row of a table made with
`NodeTable.take` is a world of its own: Pods added to one row are on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable, WhatIfTable
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.diagnosis import Diagnosis
from bayplan.framework.handle import PodNominator
from bayplan.framework.plugin_set import PluginSet
from bayplan.framework.points import PodMoves
from bayplan.framework.stages import Caller, FilterStage


class WhatIf:
    """One profile's Filter plugins over changed tables."""

    def __init__(self, nominator: PodNominator) -> None:
        self._nominator = nominator
        self._call: Caller
        self._stateful: list[PodMoves] = []
        self.stages: list[FilterStage] = []
        """The profile's Filter plugins; empty until they are made."""

    def adopt(self, plugins: PluginSet, stages: list[FilterStage]) -> None:
        """The profile's plugins are made: these are the Filter plugins."""
        self._call = plugins.call
        self._stateful = [p for p in plugins.pre_filter if isinstance(p, PodMoves)]
        self.stages = stages

    def add_pods(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
    ) -> None:
        """What if ``others[i]`` were on ``rows[i]`` of ``nodes``?"""
        nodes.add_pods(rows, others)
        for plugin in self._stateful:
            if plugin.name not in state.skip_filter:
                each = partial(_each, plugin.add_pod, state, pod, others, nodes, rows)
                self._call(plugin, Point.PRE_FILTER, each)

    def remove_pods(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
    ) -> None:
        """What if ``others[i]`` were gone from ``rows[i]`` of ``nodes``?"""
        nodes.remove_pods(rows, others)
        for plugin in self._stateful:
            if plugin.name not in state.skip_filter:
                each = partial(_each, plugin.remove_pod, state, pod, others, nodes, rows)
                self._call(plugin, Point.PRE_FILTER, each)

    def run_filters(
        self, state: CycleState, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis
    ) -> None:
        """Every Filter plugin over ``nodes``, into ``diagnosis``."""
        for stage in self.stages:
            if stage.name not in state.skip_filter:
                codes = stage.codes(state, pod, nodes, diagnosis.fits)
                diagnosis.run(stage, codes)

    def filter(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        rivals: Mapping[int, list[Pod]] | None = None,
    ) -> Diagnosis:
        """Every Filter plugin over ``nodes``, and once more with nominated Pods added.

        ``nodes`` was made by ``take``, and ``state`` is the `CycleState.what_if` copy that saw the
        same changes. A node fits only when it does both with and without the Pods of equal or
        higher priority that are nominated to it: they are not there yet, and may never come.
        Who asks about one table several times finds its ``rivals`` once.
        """
        crowded = self.crowded(state, pod, nodes, rivals)
        diagnosis = Diagnosis(nodes, state, pod)
        self.run_filters(state, pod, nodes, diagnosis)
        if crowded is not None:
            rows, with_rivals = crowded
            for status, rejected in with_rivals.groups():
                diagnosis.override(rows[rejected], status)
        return diagnosis

    def crowded(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        rivals: Mapping[int, list[Pod]] | None = None,
    ) -> tuple[IntArray, Diagnosis] | None:
        """Rows of ``nodes`` with rival nominated Pods, and how ``pod`` fares beside them there."""
        if rivals is None:
            rivals = self.rivals(pod, nodes)
        if not rivals:
            return None
        rows = np.array(sorted(rivals))
        table = nodes.take(rows)
        # A what-if state is per row of its table: going from one to a part of it is what_if again.
        changed = state.what_if(rows)
        added = [(i, rival) for i, row in enumerate(rows.tolist()) for rival in rivals[row]]
        self.add_pods(changed, pod, [p for _, p in added], table, [i for i, _ in added])
        diagnosis = Diagnosis(table, changed, pod)
        self.run_filters(changed, pod, table, diagnosis)
        return rows, diagnosis

    def rivals(self, pod: Pod, nodes: NodeTable) -> Mapping[int, list[Pod]]:
        """Row -> Pods of equal or higher priority that are nominated to that node."""
        nominator, rivals = self._nominator, {}
        for row, name in self._nominated_rows(nodes):
            found = [
                p
                for p in nominator.nominated_pods(name)
                if p.priority >= pod.priority and p.uid != pod.uid
            ]
            if found:
                rivals[row] = found
        return rivals

    def _nominated_rows(self, nodes: NodeTable) -> list[tuple[int, str]]:
        """Rows of ``nodes`` that Pods are nominated to, with their names."""
        nominated = self._nominator.nominated_nodes()
        if len(nodes) < len(nominated):
            return [
                (row, n) for row, n in enumerate(nodes.names) if n is not None and n in nominated
            ]
        rows = [(nodes.row(name), name) for name in nominated]
        return [(row, name) for row, name in rows if row is not None]


def _each(
    tell: Callable[[CycleState, Pod, Pod, NodeTable, int], None],
    state: CycleState,
    pod: Pod,
    others: Sequence[Pod],
    nodes: NodeTable,
    rows: list[int],
) -> None:
    for other, row in zip(others, rows, strict=True):
        tell(state, pod, other, nodes, row)

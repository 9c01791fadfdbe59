"""What-if: the same Filter plugins over a table with Pods added or removed.

Preemption asks "would the Pod fit if these victims were gone?", and every Pod asks "would it fit
beside the Pods that are nominated to the node?". kube-scheduler clones a NodeInfo and the cycle
state for each node and runs all Filter plugins on it. Here one `WhatIfTable` has a row for each
node that is asked about, and the Filter plugins answer for all rows in one call.

Each row is independent: a Pod that is added to one row does not exist for the other rows, neither
as a neighbor in the same zone nor in any count. Example: is there room for Pod P on rows 4 or 7, if
their Pods of lower priority, V on row 4 and W on row 7, were gone?

1. ``rows = [4, 7]``; ``table = nodes.take(rows)`` has row 0 (was 4) and row 1 (was 7), and
   ``state.what_if(rows)`` has the plugins' notes with one entry for each.
2. ``remove_pods(state, P, [V, W], table, [0, 1])`` takes them out of the columns, and tells every
   PreFilter plugin that has ``remove_pod``: PodTopologySpread then counts one Pod less in the zone
   of V in world 0, and one less in the zone of W in world 1.
3. ``filter(state, P, table)`` runs the Filter plugins over both rows. Then it adds the nominated
   Pods of equal or higher priority (nominees) to the rows that have some, in a table taken from
   ``table``, and runs them again: they are not there yet, and may never come, so P must fit in
   both cases.

Of the live table the rows with nominees are kept as such a table (`_Nominees`), as every Pod asks
about them and they seldom change: 512 nominees would cost each attempt more than all else does.

The reasons: docs/decisions/0005-what-if-worlds.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, LiveNodeTable, NodeTable, WhatIfTable
from bayplan.config.points import Point
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.stages import Caller, FilterStage
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import PodNominator
from bayplan.framework.points import MovesElsewhere, PodMoves
from bayplan.framework.services import Services
from bayplan.framework.turns import Turns, keeps_room

Move = Callable[[CycleState, Pod, Pod, NodeTable, int], None]
"""`PodMoves.add_pod` or its like: state, preemptor, the other Pod, table, row."""

MOST_PRIORITIES = 16
"""Priorities for which the live table's rows with nominees are kept."""


@dataclass
class _Nominees:
    """Rows of a table, with nominated Pods on them.

    Attributes:
        rows: of the table that was asked about.
        table: these rows, with the nominees.
        nominees: all of them.
        table_rows: the row of each in ``table``.
    """

    rows: IntArray
    table: WhatIfTable
    nominees: list[Pod]
    table_rows: list[int]


@dataclass
class _CachedNominees:
    """Those of the live table, and up to where changes have been seen.

    Attributes:
        by_row: what `WhatIf.nominees` answers.
        added: a table with them; None: there are none.
        nodes: the live table.
        nominations: `PodNominator.version`.
        node_position: of the live table's `node_journal`.
        pod_position: of its `pod_journal`.
    """

    by_row: Mapping[int, list[Pod]]
    added: _Nominees | None
    nodes: LiveNodeTable
    nominations: object
    node_position: int
    pod_position: int


class WhatIf:
    """One profile's Filter plugins over changed tables."""

    def __init__(self, nominator: PodNominator, services: Services) -> None:
        self._nominator, self._services = nominator, services
        self._call: Caller
        self._stateful: list[PodMoves] = []
        self._cached: dict[object, _CachedNominees] = {}
        self.stages: Sequence[FilterStage] = ()
        """The profile's Filter plugins; empty until they are made."""

    def adopt(self, plugins: ProfilePlugins, stages: Sequence[FilterStage]) -> None:
        """The profile's plugins are made: these are the Filter plugins."""
        self._call = plugins.call
        self._stateful = [p for p in plugins.pre_filter if isinstance(p, PodMoves)]
        self.stages = stages

    def is_local(self, state: CycleState) -> bool:
        """See `AsksWhatIf`."""
        return all(s.local or s.name in state.skip_filter for s in self.stages)

    def epochs(self, pod: Pod) -> tuple[int, ...]:
        """See `AsksWhatIf`."""
        return tuple(s.epoch.epoch(pod) for s in self.stages if s.epoch is not None)

    def add_pods(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
    ) -> None:
        """See `AsksWhatIf`."""
        nodes.add_pods(rows, others)
        self._added(state, pod, others, nodes, rows)

    def _added(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
    ) -> None:
        moves = ((plugin, plugin.add_pod) for plugin in self._stateful)
        self._move(moves, state, pod, others, nodes, rows)

    def _move(
        self,
        moves: Iterable[tuple[PodMoves, Move]],
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
    ) -> None:
        """Have the plugins that concern themselves with ``pod`` follow a change of each row."""
        for plugin, move in moves:
            if plugin.name not in state.skip_filter:
                each = partial(_each, move, state, pod, others, nodes, rows)
                self._call(plugin, Point.PRE_FILTER, each)

    def remove_pods(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
    ) -> None:
        """See `AsksWhatIf`."""
        nodes.remove_pods(rows, others)
        moves = ((plugin, plugin.remove_pod) for plugin in self._stateful)
        self._move(moves, state, pod, others, nodes, rows)

    def move_elsewhere(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
        *,
        back: bool,
    ) -> None:
        """See `AsksWhatIf`."""
        sign = 1 if back else -1
        moves = (
            (plugin, partial(plugin.move_elsewhere, sign))
            for plugin in self._stateful
            if isinstance(plugin, MovesElsewhere)
        )
        self._move(moves, state, pod, others, nodes, rows)

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
        nominees: Mapping[int, list[Pod]] | None = None,
    ) -> Diagnosis:
        """See `AsksWhatIf`."""
        nominated = self.with_nominees(state, pod, nodes, nominees)
        diagnosis = Diagnosis(nodes, state, pod)
        self.run_filters(state, pod, nodes, diagnosis)
        if nominated is not None:
            rows, beside_nominees = nominated
            for status, rejected in beside_nominees.groups():
                diagnosis.override(rows[rejected], status)
        return diagnosis

    @property
    def anybody_nominated(self) -> bool:
        """Whether room is kept for any Pod."""
        return bool(self._nominator.nominated_nodes())

    def with_nominees(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        nominees: Mapping[int, list[Pod]] | None = None,
    ) -> tuple[IntArray, Diagnosis] | None:
        """Rows of ``nodes`` with nominees, and the Filter results with these added."""
        if nominees is not None:
            added = _add_nominees(nodes, nominees)
        elif not self.anybody_nominated:
            return None
        elif isinstance(nodes, LiveNodeTable) and not self._nominator.nominated_node(pod.uid):
            added = self._cached_nominees(pod, nodes).added
        else:
            added = _add_nominees(nodes, self._nominees(pod, nodes))
        if added is None:
            return None
        # A what-if state is per row of its table: going from one to a part of it is what_if again.
        changed = state.what_if(added.rows)
        self._added(changed, pod, added.nominees, added.table, added.table_rows)
        diagnosis = Diagnosis(added.table, changed, pod)
        self.run_filters(changed, pod, added.table, diagnosis)
        return added.rows, diagnosis

    def _cached_nominees(self, pod: Pod, nodes: LiveNodeTable) -> _CachedNominees:
        """The nominees for a Pod without a nomination, kept by priority and rivals."""
        turns = self._turns
        key = pod.priority, None if turns is None else turns.rivalry(pod)
        kept = self._cached.get(key)
        if kept is None or not self._is_current(kept, nodes):
            if len(self._cached) >= MOST_PRIORITIES:
                self._cached.clear()
            nominees = self._nominees(pod, nodes)
            kept = self._cached[key] = _CachedNominees(
                nominees,
                _add_nominees(nodes, nominees),
                nodes,
                self._nominator.version,
                0,
                0,
            )
        kept.node_position = nodes.node_journal.position
        kept.pod_position = nodes.pod_journal.position
        return kept

    def _is_current(self, kept: _CachedNominees, nodes: LiveNodeTable) -> bool:
        """Whether neither a nomination nor one of its rows has changed."""
        if kept.nodes is not nodes or kept.nominations != self._nominator.version:
            return False
        changed = nodes.node_journal.since(kept.node_position)
        moved = nodes.pod_journal.since(kept.pod_position)
        if changed is None or moved is None:
            return False
        rows = kept.by_row
        if any(row in rows for row in moved):
            return False
        nominated, names = self._nominator.nominated_nodes(), nodes.names
        return not any(row in rows or names[row] in nominated for row in changed)

    def nominees(self, pod: Pod, nodes: NodeTable) -> Mapping[int, list[Pod]]:
        """See `AsksWhatIf`."""
        if isinstance(nodes, LiveNodeTable) and not self._nominator.nominated_node(pod.uid):
            return self._cached_nominees(pod, nodes).by_row
        return self._nominees(pod, nodes)

    def _nominees(self, pod: Pod, nodes: NodeTable) -> Mapping[int, list[Pod]]:
        nominated_pods, turns = self._nominator.nominated_pods, self._turns
        keeps_off, nominees = self._nominator.keeps_off, {}
        for row, name in self._nominated_rows(nodes):
            pods = [
                other
                for other in nominated_pods(name)
                if keeps_off(other, pod, name) and keeps_room(other, pod, turns)
            ]
            if pods:
                nominees[row] = pods
        return nominees

    @property
    def _turns(self) -> Turns | None:
        turns = self._services.turns
        return turns if turns is not None and turns.active else None

    def _nominated_rows(self, nodes: NodeTable) -> list[tuple[int, str]]:
        """Rows of ``nodes`` that Pods are nominated to, with their names."""
        nominated = self._nominator.nominated_nodes()
        if len(nodes) < len(nominated):
            return [
                (row, n) for row, n in enumerate(nodes.names) if n is not None and n in nominated
            ]
        rows = [(nodes.row(name), name) for name in nominated]
        return [(row, name) for row, name in rows if row is not None]


def _add_nominees(nodes: NodeTable, nominees: Mapping[int, list[Pod]]) -> _Nominees | None:
    if not nominees:
        return None
    rows = np.array(sorted(nominees))
    pairs = [(i, nominee) for i, row in enumerate(rows.tolist()) for nominee in nominees[row]]
    added = _Nominees(rows, nodes.take(rows), [p for _, p in pairs], [i for i, _ in pairs])
    added.table.add_pods(added.table_rows, added.nominees)
    return added


def _each(
    tell: Move,
    state: CycleState,
    pod: Pod,
    others: Sequence[Pod],
    nodes: NodeTable,
    rows: list[int],
) -> None:
    for other, row in zip(others, rows, strict=True):
        tell(state, pod, other, nodes, row)

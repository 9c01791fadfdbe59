"""PodRequest: one Pod that fits nowhere, for the search that also serves groups.

The proof is a dry run on the nodes of the victims, as for preemption by priority: each node is a
row of a what-if table from which its own victims are gone, and all Filter plugins are asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import FilterFailure
from bayplan.framework.room import Taker
from bayplan.framework.what_if import WhatIf


class PodRequest:
    """See the module's docstring, and `bayplan.framework.room.RoomRequest`."""

    def __init__(
        self, what_if: WhatIf, state: CycleState, pod: Pod, failure: FilterFailure
    ) -> None:
        self._what_if, self._state, self._pod = what_if, state, pod
        self._nodes = failure.nodes
        self._usable = np.zeros(len(failure.nodes), np.bool_)
        self._usable[failure.candidates] = True
        self.taker = Taker(pod.uid, pod.key, (pod,), 1, level="")
        self.dry_run, self.effects = state.dry_run, state.effects

    def rows_for(self, _pod: Pod) -> BoolArray:
        """See `RoomRequest`."""
        return self._usable

    def plan_without(self, victims: Sequence[Pod]) -> Mapping[str, str] | None:
        """See `RoomRequest`; of the nodes that will do, one with the fewest victims."""
        by_row: dict[int, list[Pod]] = defaultdict(list)
        for victim in victims:
            row = self._nodes.row(victim.node_name)
            if row is not None and self._usable[row]:
                by_row[row].append(victim)
        if not by_row:
            return None
        rows = np.array(sorted(by_row, key=lambda row: (len(by_row[row]), row)))
        gone = [(index, pod) for index, row in enumerate(rows.tolist()) for pod in by_row[row]]
        state, table = self._state.what_if(rows), self._nodes.take(rows)
        pods, indices = [pod for _, pod in gone], [index for index, _ in gone]
        self._what_if.remove_pods(state, self._pod, pods, table, indices)
        fits = np.flatnonzero(self._what_if.filter(state, self._pod, table).fits)
        if not len(fits):
            return None
        return {self._pod.uid: self._nodes.names[int(rows[fits[0]])] or ""}

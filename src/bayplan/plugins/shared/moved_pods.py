"""What-if questions about Pods, for plugins whose notes are counts of other Pods."""

from __future__ import annotations

from bayplan.api.pod import Pod
from bayplan.cache.node_table import NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.points import MovesElsewhere


class MovableCounts:
    """Counts in the CycleState, under the name of the plugin; ``what_if`` gives those to change."""

    def count(self, other: Pod, row: int, pods: int, elsewhere: int | None = None) -> None:
        """In the world of ``row``, ``pods`` more Pods like ``other`` are there.

        Or on another node, the row ``elsewhere`` of the live table.
        """
        raise NotImplementedError


class CountsMoves(MovesElsewhere):
    """Base of a plugin that writes `MovableCounts` in PreFilter."""

    def add_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int, /
    ) -> None:
        """What if ``other`` were on ``row``?"""
        self._counts(state).count(other, row, 1)

    def remove_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int, /
    ) -> None:
        """What if ``other`` were gone from ``row``?"""
        self._counts(state).count(other, row, -1)

    def move_elsewhere(
        self, pods: int, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int, /
    ) -> None:
        """What if ``pods`` more like ``other`` were on its own node, in the world of ``row``?"""
        elsewhere = nodes.live.row(other.node_name)
        if elsewhere is not None:
            self._counts(state).count(other, row, pods, elsewhere)

    def _counts(self, state: CycleState) -> MovableCounts:
        return state.read(self.name, MovableCounts)

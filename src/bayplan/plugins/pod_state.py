"""PodState: prefer nodes with terminating Pods and without nominated ones.

A node's raw score is the number of its terminating Pods less that of the Pods nominated to it;
scaled so that the lowest is 0 and the highest 100. As in scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.node_table.column import Numbers
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Plugin
from bayplan.framework.points import ScoreNodes
from bayplan.plugins.shared.min_max import MinMax


class Terminating(Numbers[np.int64]):
    """How many Pods of each row are being deleted."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.int64)

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        self.values[row] += sign * (pod.deleted is not None)

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        return {"terminating": int((self.values != other.values).sum())}


class PodState(Plugin, ScoreNodes):
    """See the module's docstring."""

    normalizer = MinMax()

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.nodes.ensure_column(Terminating)

    def score_nodes(self, _state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray | None:
        """Terminating less nominated Pods; None where there is neither."""
        terminating, nominator = nodes.column(Terminating).values, self.handle.nominator
        if not nominator.nominated_nodes() and not terminating.any():
            return None
        scores: IntArray = terminating.copy()
        for name in nominator.nominated_nodes():
            if (row := nodes.row(name)) is not None:
                scores[row] -= sum(1 for _ in nominator.nominated_pods(name))
        return scores

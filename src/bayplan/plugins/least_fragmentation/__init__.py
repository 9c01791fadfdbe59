"""LeastFragmentation: prefer nodes where a Pod leaves the rest of the GPUs most useful.

A node with two free GPUs and no free CPU has room that nobody can use. How much of its room the
typical Pods of this cluster cannot use is the measure (`measure`); a Pod's *gain* on a node is by
how much that becomes less, in devices, mostly a negative number. Of nodes with about the same gain,
those are better whose devices are fuller. Both are one number::

    step  = gain / grain, rounded down, plus 10, from 0 to 20
    full  = share of the node's devices in use with the Pod; for a Pod that takes parts of devices,
            the mean of that and of how full these devices are with it
    score = (step + full) x 100 / 21, rounded down

The gain is an estimate, so it is rounded: differences below the grain say less than how full nodes
are. Nodes that have none of the resources are as good as a Pod without any effect: 47.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, LiveNodeTable, NodeTable
from bayplan.config.args import LeastFragmentationArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Plugin
from bayplan.framework.points import ExplainsScore, ScoreNodes
from bayplan.plugins.least_fragmentation.demand import Demand
from bayplan.plugins.least_fragmentation.measure import ROUNDING, FloatArray
from bayplan.plugins.least_fragmentation.rooms import Effect, Rooms

_STEPS = 10
"""Gains of more than so many grains are as good as that."""
_FULL = 0.999
"""The share of a full node; a full one is not as good as one more grain."""
_DEMANDS_KEPT = 256
_ROWS_AT_ONCE = 4096


@dataclass(slots=True)
class _Scores:
    """The scores of the live table's rows for one demand, and up to where they are right."""

    values: IntArray
    epoch: int
    position: int


class LeastFragmentation(Plugin, ScoreNodes, ExplainsScore):
    """See the module's docstring."""

    Args = LeastFragmentationArgs
    kinds = (DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE)

    def __init__(self, args: LeastFragmentationArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._grain = args.grain
        self._rooms = Rooms(args, handle)
        self._kept: dict[Demand, _Scores] = {}

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray | None:
        """0 to 99; None where no node has any of the resources."""
        self._rooms.refresh()
        if not len(self._rooms.rows):
            return None
        demand = self._rooms.reader.of(pod)
        if isinstance(nodes, LiveNodeTable):
            return self._live(demand)
        rows = np.arange(len(nodes))
        return self._scored(self._rooms.effect(demand, self._rooms.look(nodes, rows)))

    def _live(self, demand: Demand) -> IntArray:
        rooms = self._rooms
        kept = self._kept.get(demand)
        changed = None
        if kept is not None and kept.epoch == rooms.epoch:
            changed = rooms.journal.since(kept.position)
        if kept is None or changed is None:
            if len(self._kept) >= _DEMANDS_KEPT:
                del self._kept[next(iter(self._kept))]
            neutral = np.full(len(self.handle.nodes), self._neutral, np.int64)
            kept = self._kept[demand] = _Scores(neutral, rooms.epoch, 0)
            rows = rooms.rows
        else:
            rows = np.array(sorted(set(changed)), np.int64)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            kept.values[some] = self._scored(rooms.effect(demand, rooms.live(some)))
        kept.position = rooms.journal.position
        return kept.values

    def stranded(self) -> float:
        """How many devices are of no use for typical Pods."""
        self._rooms.refresh()
        rows = self._rooms.rows
        return sum(float(ground.stranded.sum()) for ground in self._rooms.live(rows))

    def kind(self, pod: Pod) -> Hashable:
        """The same for Pods that strand as much."""
        return self._rooms.reader.of(pod)

    def strands(self, pod: Pod) -> FloatArray:
        """(n,) how many devices fewer are of use for typical Pods with ``pod`` on each row."""
        self._rooms.refresh()
        stranded, rows = np.zeros(len(self.handle.nodes)), self._rooms.rows
        if len(rows):
            effect = self._rooms.effect(self._rooms.reader.of(pod), self._rooms.live(rows))
            stranded[rows] = effect.after - effect.before
        return stranded

    def _scored(self, effect: Effect) -> IntArray:
        size = np.maximum(effect.size, 1.0)
        used = 1 - effect.left / size
        if effect.full is not None:
            used = np.where(np.isnan(effect.full), used, (used + effect.full) / 2)
        used = np.minimum(np.maximum(used, 0.0), _FULL) * (effect.size > 0)
        step = np.floor((effect.before - effect.after) / self._grain + ROUNDING)
        step = np.minimum(np.maximum(step, -_STEPS), _STEPS)
        scores = (step + _STEPS + used) * (MAX_NODE_SCORE / (2 * _STEPS + 1))
        return np.floor(scores + ROUNDING).astype(np.int64)

    _neutral = _STEPS * MAX_NODE_SCORE // (2 * _STEPS + 1)

    def explain_score(self, _state: CycleState, pod: Pod, rows: IntArray) -> Sequence[str]:
        """What the Pod does to the devices of each node, and how full they are then."""
        self._rooms.refresh()
        rows = rows[np.isin(rows, self._rooms.rows)]
        effect = self._rooms.effect(self._rooms.reader.of(pod), self._rooms.live(rows))
        names = self.handle.nodes.names
        return [
            f"{names[row]}: {before:.2f} of {size:g} devices stranded, {after:.2f} with the Pod; "
            f"{size - left:g} in use with it"
            for row, size, before, after, left in zip(rows.tolist(), *effect[:4], strict=True)
        ]

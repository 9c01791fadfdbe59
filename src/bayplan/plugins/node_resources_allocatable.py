"""NodeResourcesAllocatable: prefer small nodes (mode Least) or large ones (Most).

A node's raw score is the weighted mean of what it has to offer, whatever is in use; the lowest of
the feasible nodes gets 0, the highest 100. As in scheduler-plugins, with its weights: a milli-CPU
counts as much as a mebibyte.
"""

from __future__ import annotations

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.config.args import NodeResourcesAllocatableArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Plugin, PodPart
from bayplan.framework.points import ScoreNodes
from bayplan.plugins.shared.min_max import MinMax


class NodeResourcesAllocatable(Plugin, ScoreNodes):
    """See the module's docstring."""

    Args = NodeResourcesAllocatableArgs
    args: NodeResourcesAllocatableArgs
    score_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS
    normalizer = MinMax()

    def score_nodes(self, _state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray:
        """The weighted mean, negative with mode Least."""
        weights = {spec.name: spec.weight for spec in self.args.resources}
        total = np.zeros(len(nodes), np.int64)
        for name, weight in weights.items():
            total += nodes.allocatable(name) * weight
        mean: IntArray = total // sum(weights.values())
        return mean if self.args.mode == "Most" else -mean

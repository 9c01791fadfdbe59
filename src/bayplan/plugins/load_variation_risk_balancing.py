"""LoadVariationRiskBalancing: prefer nodes whose load is low and even.

For cpu and memory, as shares of what is allocatable, with the Pod's request added to the mean::

    100 (1 - (mean + margin deviation^(1/sensitivity)) / 2)

each summand from 0 to 1. The lower score of the two counts, or the one whose load is known. Name,
arguments and formula are those of scheduler-plugins.
"""

from __future__ import annotations

import numpy as np

from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.node_load import RESOURCES, FloatArray
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.config.args import LoadVariationRiskBalancingArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.effective_resources import effective
from bayplan.plugins.shared.load_scores import LoadPlugin


def requested(part: SpecPart) -> dict[str, int]:
    """For ``requests.memo``: milli-CPU and bytes."""
    return effective(part.spec, lambda container: container.resources.requests)


class LoadVariationRiskBalancing(LoadPlugin):
    """See the module's docstring."""

    Args = LoadVariationRiskBalancingArgs

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._margin = args.safe_variance_margin
        self._sensitivity = args.safe_variance_sensitivity

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """See the module's docstring."""
        load, requests = self.load(nodes), pod.shape.requests.memo(requested)
        lowest = np.full(len(nodes), np.inf)
        for name in RESOURCES:
            whole = np.maximum(nodes.allocatable(name), 1)
            mean = np.clip(np.minimum(load.mean[name], 1) + requests.get(name, 0) / whole, 0, 1)
            risk = (mean + self._deviation(load.deviation[name])) / 2
            score = np.where(nodes.allocatable(name) > 0, 100 * (1 - risk), 0)
            lowest = np.where(np.isnan(load.mean[name]), lowest, np.minimum(lowest, score))
        return self.or_unknown(np.isfinite(lowest), lowest)

    def _deviation(self, deviation: FloatArray) -> FloatArray:
        inside = np.clip(deviation, 0, 1)
        if self._sensitivity > 0:
            inside = inside ** (1 / self._sensitivity)
        else:
            inside = (inside == 1).astype(np.float64)
        return np.clip(self._margin * inside, 0, 1)

"""TargetLoadPacking: fill nodes up to a CPU load, and spread Pods beyond it.

The load is that measured, and what is expected of Pods that it does not show yet: the Pod to be
placed, and Pods that started less than a minute before the sample or have not started at all.
In percent x of the capacity, with a target of T, the score is

    T + (100 - T) x / T         up to T: from T on an idle node to 100
    T (100 - x) / (100 - T)     beyond T: to 0 on a full one
    0                           beyond 100

Name, arguments and formula are those of scheduler-plugins, which counts Pods by when it saw them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from bayplan.api import quantity
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.pod_spec import Container
from bayplan.cache.node_load import FloatArray
from bayplan.cache.node_table import IntArray, LiveNodeTable, NodeInfo, NodeTable
from bayplan.cache.shape_cache import SHAPES_KEPT
from bayplan.config.args import TargetLoadPackingArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.load_scores import Changes, LoadOfPodsPlugin

AGENT_SECONDS = 60.0
"""A Pod that started less than this before a sample is not in the sample."""


class TargetLoadPacking(LoadOfPodsPlugin):
    """See the module's docstring."""

    Args = TargetLoadPackingArgs

    def __init__(self, args: TargetLoadPackingArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._target = args.target_utilization
        self._multiplier = float(args.default_requests_multiplier)
        self._default = quantity.milli(args.default_requests.get("cpu", 0))
        self._expected = lru_cache(SHAPES_KEPT)(self._expected_use)
        self._changes = Changes(nodes=False)
        self._unseen = np.zeros(0)

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """See the module's docstring."""
        live, target = self.handle.nodes, self._target
        self._refresh(live)
        rows = slice(None) if nodes.origin is None else nodes.origin
        unseen, share = self._unseen[rows], self.load(live).mean["cpu"][rows]
        capacity = self.capacity(live, "cpu")[rows]
        known = ~np.isnan(share)
        added = (self._expected(pod.shape.requests) + unseen) / np.maximum(capacity, 1)
        x = np.where(capacity > 0, 100 * (share + added), 0)
        below = (100 - target) * x / target + target
        beyond = target * (100 - x) / max(100 - target, 1)
        scores = np.where(x > 100, 0, np.where(x > target, beyond, below))
        return self.or_unknown(known, scores)

    def score(self, _state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Likewise."""
        live, row, target = self.handle.nodes, node.origin, self._target
        self._refresh(live)
        share, capacity = (
            self.load(live).mean["cpu"].item(row),
            self.capacity(live, "cpu").item(row),
        )
        x = 0.0
        if capacity > 0:
            added = self._expected(pod.shape.requests) + self._unseen.item(row)
            x = 100 * (share + added / capacity)
        if x > target:
            score = target * (100 - x) / max(100 - target, 1) if x <= 100 else 0.0
        else:
            score = (100 - target) * x / target + target
        return self.one_or_unknown(known=not math.isnan(share), score=score)

    def _refresh(self, nodes: LiveNodeTable) -> None:
        load = self.load(nodes)
        changed = self._changes.rows(nodes, load.version)
        if changed is None:
            self._unseen = np.zeros(len(nodes))
            changed = list(range(len(nodes)))
        ends: FloatArray = load.times["cpu"]
        for row in changed:
            pods, end = nodes.pods[row], ends.item(row) - AGENT_SECONDS
            self._unseen[row] = sum(
                self._expected(pod.shape.requests)
                for pod in pods.values()
                if (start := pod.status.start_time) is None or start.timestamp() > end
            )

    def _expected_use(self, part: SpecPart) -> int:
        """Milli-CPU, of the containers that are not init containers, and overhead."""
        use = sum(map(self._of_container, part.spec.containers))
        return use + quantity.milli(part.spec.overhead.get("cpu", 0))

    def _of_container(self, container: Container) -> int:
        requests, limits = container.resources.requests, container.resources.limits
        if "cpu" in limits:
            return quantity.milli(limits["cpu"])
        if "cpu" in requests:
            return math.floor(quantity.milli(requests["cpu"]) * self._multiplier + 0.5)
        return self._default

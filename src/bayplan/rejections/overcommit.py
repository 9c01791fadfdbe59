"""Overcommit: nodes whose Pods request more than the node has.

No scheduler does this alone. It happens when two schedulers use one node, when a Pod is created
with ``spec.nodeName``, or when a node shrinks. The columns are compared as a whole every few
seconds, so neither a Pod nor a change of a node costs anything. Extended resources that a node does
not offer do not count: the kubelet ignores them, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import structlog

from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, NodeTable

log = structlog.get_logger("overcommit")

CHECK_SECONDS = 5.0
PODS = "pods"
NATIVE = ("cpu", "memory", "ephemeral-storage", PODS)

ExcessByNode = Mapping[tuple[str, ...], float]
"""By node and resource: how much more is requested than there is, in cores, bytes or counts."""


class Overcommit:
    """Detects overcommitted nodes; scheduling thread only, `excess` excepted.

    Args:
        nodes: the live table.
        clock: monotonic seconds; real ones, also where the scheduler's clock is a virtual one.

    Attributes:
        excess: as of the last check; replaced, never changed.
    """

    def __init__(self, nodes: LiveNodeTable, clock: Callable[[], float] = time.monotonic) -> None:
        self._nodes = nodes
        self._clock = clock
        self._next = 0.0
        self.excess: ExcessByNode = {}

    def check(self) -> None:
        """Compare all nodes, unless the last check was just now; log what begins and ends."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + CHECK_SECONDS
        previous, self.excess = self.excess, self._compare()
        for key in sorted(self.excess.keys() - previous.keys()):
            facts = dict(zip(("node", "resource"), key, strict=True))
            log.warning("Node is overcommitted", **facts, excess=self.excess[key])
        for key in sorted(previous.keys() - self.excess.keys()):
            facts = dict(zip(("node", "resource"), key, strict=True))
            log.info("Node is no longer overcommitted", **facts)

    def _compare(self) -> ExcessByNode:
        excess: dict[tuple[str, ...], float] = {}
        names = self._nodes.names
        for resource in (*self._nodes.resources, PODS):
            requested, offered = _columns(self._nodes, resource)
            for row in np.flatnonzero(_is_over(resource, requested, offered)).tolist():
                amount = int(requested[row] - offered[row])
                name = names[row]
                if name is not None:
                    excess[name, resource] = amount / 1000 if resource == "cpu" else amount
        return excess


def overcommitted(nodes: NodeTable, row: int) -> bool:
    """Whether the Pods on ``row`` request more than it has of anything."""
    for resource in (*nodes.resources, PODS):
        requested, offered = _columns(nodes, resource)
        if _is_over(resource, requested[row : row + 1], offered[row : row + 1]).any():
            return True
    return False


def _columns(nodes: NodeTable, resource: str) -> tuple[IntArray, IntArray]:
    if resource == PODS:
        return nodes.pod_count, nodes.allowed_pods
    return nodes.requested(resource), nodes.allocatable(resource)


def _is_over(resource: str, requested: IntArray, offered: IntArray) -> BoolArray:
    over = requested > offered
    return over if resource in NATIVE else over & (offered > 0)

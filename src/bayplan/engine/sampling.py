"""percentageOfNodesToScore: stop looking once enough feasible nodes are found.

bayplan evaluates all nodes unless a percentage is set. Where it is, the nodes kept are those that
kube-scheduler's search would have found first: in zone-interleaved order, beginning where the last
search ended.

The reasons: docs/decisions/0006-all-nodes.md.
"""

from __future__ import annotations

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable

MIN_FEASIBLE_NODES = 100
"""At least so many feasible nodes are looked for, whatever the percentage."""

_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeSampler:
    """Takes a part of the feasible nodes. One per scheduler, shared by all profiles.

    Attributes:
        start: where the next search begins, by place in the order of nodes: where the last one
            ended. A trial that is not kept sets it back.
    """

    def __init__(self, nodes: LiveNodeTable) -> None:
        self._nodes = nodes
        self.start = 0
        self._order: IntArray = np.empty(0, np.int64)
        self._position = -1

    def restrict(
        self,
        feasible: BoolArray,
        percentage: int,
        among: BoolArray | None = None,
    ) -> tuple[BoolArray, int]:
        """The part of ``feasible`` to score, and how many nodes were looked at for it.

        ``among`` are the nodes that PreFilter left, where it left some out: the percentage is of
        those. The next search begins where this one ended.
        """
        everything = self._current_order()
        order = everything if among is None else everything[among[everything]]
        limit = nodes_to_find(percentage, len(order))
        rotated = np.roll(order, -(self.start % max(len(order), 1)))
        feasible_so_far = np.cumsum(feasible[rotated])
        looked_at = len(rotated)
        if len(feasible_so_far) and feasible_so_far[-1] > limit:
            looked_at = int(np.searchsorted(feasible_so_far, limit)) + 1
        self.start = (self.start + looked_at) % max(len(everything), 1)
        sample = np.zeros_like(feasible)
        sample[rotated[:looked_at]] = True
        return feasible & sample, looked_at

    def _current_order(self) -> IntArray:
        journal = self._nodes.node_journal
        if journal.position != self._position:
            self._order = zone_interleaved(self._nodes)
            self._position = journal.position
        return self._order


def nodes_to_find(percentage: int, nodes: int) -> int:
    """How many feasible nodes end the search among ``nodes`` nodes."""
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    return max(MIN_FEASIBLE_NODES, nodes * percentage // 100)


def zone_interleaved(nodes: LiveNodeTable) -> IntArray:
    """Rows, taking one of each zone in turn, so that any prefix spreads over all zones."""
    zones: dict[tuple[str, str], list[int]] = {}
    for info in nodes:
        zones.setdefault(_zone(info.labels), []).append(info.row)
    queues = list(zones.values())
    longest = max(map(len, queues), default=0)
    rows = [q[i] for i in range(longest) for q in queues if i < len(q)]
    return np.array(rows, np.int64)


def _zone(labels: dict[str, str]) -> tuple[str, str]:
    region = next((labels[k] for k in _REGION_LABELS if k in labels), "")
    zone = next((labels[k] for k in _ZONE_LABELS if k in labels), "")
    return region, zone

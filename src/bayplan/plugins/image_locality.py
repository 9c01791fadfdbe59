"""ImageLocality: nodes that have the Pod's images already score better.

An image counts with its size times the share of nodes that have it, so that a single node with a
large image does not attract every Pod. The size is the one that was seen first: kube-scheduler
keeps one size per image, whatever other nodes report.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, Plugin

_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST_PER_CONTAINER = 1000 * _MB


class ImageLocality(Plugin):
    """Scores by the images of a Pod's containers and image volumes; depends on all nodes."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:  # noqa: ARG002
        """0 to 100, linear in the sum of the image sizes. Read only: the array is kept."""
        return pod.shape.memo(_KeptScores).of(nodes)


class _KeptScores:
    """The scores for one shape, made anew when any node changed."""

    def __init__(self, shape: PodShape) -> None:
        spec = shape.spec
        containers = (*spec.init_containers, *spec.containers)
        references = [c.image for c in containers]
        references += [v.image.reference for v in spec.volumes if v.image is not None]
        self._images = Counter(map(_normalized, references))
        self._most = _MOST_PER_CONTAINER * len(containers)
        self._scores: IntArray = np.empty(0, np.int64)
        self._nodes: NodeTable | None = None
        self._position = -1

    def of(self, nodes: NodeTable) -> IntArray:
        position = nodes.node_journal.position
        same_nodes = nodes is self._nodes and position == self._position
        if not same_nodes or len(nodes) != len(self._scores):
            self._scores = self._score(nodes)
            self._scores.flags.writeable = False
            self._nodes, self._position = nodes, position
        return self._scores

    def _score(self, nodes: NodeTable) -> IntArray:
        total = np.zeros(len(nodes), np.int64)
        for image, times in self._images.items():
            rows = nodes.image_rows.get(image)
            if rows:
                size = next(iter(rows.values()))
                spread = len(rows) / nodes.node_count
                total[np.fromiter(rows, np.int64, len(rows))] += times * int(size * spread)
        bounded = np.maximum(np.minimum(total, self._most), _LEAST)
        return MAX_NODE_SCORE * (bounded - _LEAST) // (self._most - _LEAST)


def _normalized(image: str) -> str:
    """``image`` as nodes report it, with the tag that is meant when none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"

"""ImageLocality: nodes that have the Pod's images already score better.

An image counts with its size times the share of nodes that have it, so that a single node with a
large image does not attract every Pod; once for each container and volume that names it. The size
is the one that was seen first: kube-scheduler keeps one size per image, whatever other nodes
report.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Plugin, PodPart
from bayplan.framework.points import HasEpoch, ScoreNodes

_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST_PER_IMAGE = 1000 * _MB


class ImageLocality(Plugin, ScoreNodes, HasEpoch):
    """Scores by the images of a Pod's containers and image volumes."""

    score_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS

    def epoch(self, pod: Pod) -> int:
        """Changes with the share of nodes that have any of the Pod's images."""
        return hash(tuple(self._values(pod).items()))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """0 to 100, linear in the sum of the image sizes."""
        images = pod.shape.constraints.memo(_wanted)
        total = np.zeros(len(nodes), np.int64)
        for image, value in self._values(pod).items():
            has = self._has(image, nodes)
            total[has] += images.images[image] * value
        bounded = np.maximum(np.minimum(total, images.most), _LEAST)
        return MAX_NODE_SCORE * (bounded - _LEAST) // (images.most - _LEAST)

    def _values(self, pod: Pod) -> dict[str, int]:
        """The value of each image: the size times the share of nodes with the image."""
        nodes = self.handle.nodes
        values = {}
        for image in pod.shape.constraints.memo(_wanted).images:
            if sizes := nodes.images.sizes(image):
                values[image] = int(next(iter(sizes.values())) * (len(sizes) / nodes.node_count))
        return values

    def _has(self, image: str, nodes: NodeTable) -> IntArray:
        """Rows of ``nodes`` that have the image."""
        rows = nodes.images.sizes(image)
        return np.fromiter(rows, np.int64, len(rows))


class _Wanted(NamedTuple):
    images: Counter[str]
    most: int


def _wanted(constraints: SpecPart) -> _Wanted:
    """How often each image is named, and the sum of sizes that scores 100."""
    spec = constraints.spec
    containers = (*spec.init_containers, *spec.containers)
    references = [c.image for c in containers]
    references += [v.image.reference for v in spec.volumes if v.image is not None]
    return _Wanted(Counter(map(_normalized, references)), _MOST_PER_IMAGE * len(references))


def _normalized(image: str) -> str:
    """``image`` in the form that nodes report, with the default tag if there is none."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"

"""RunningPods: the Pods on all nodes as columns, to ask about thousands of them at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable


class RunningPods:
    """The Pods that count on nodes; index i is the same Pod in every column.

    Attributes:
        pods: the Pods, assumed ones included.
        rows: (p,) their nodes.
        shapes: the distinct shapes among them.
        codes: (p,) the shape of each, as an index into `shapes`.
        priorities: (p,)
        leaving: (p,) whether they are being deleted, or are about to be.
    """

    def __init__(self, nodes: NodeTable, evicted: Collection[str] = ()) -> None:
        """Of all nodes; ``evicted`` has the uids of Pods whose deletion is on its way."""
        by_row = nodes.pods
        self.pods: list[Pod] = list(chain.from_iterable(pods.values() for pods in by_row))
        self.rows: IntArray = np.repeat(np.arange(len(by_row)), [len(pods) for pods in by_row])
        codes: dict[PodShape, int] = {}
        self.codes: IntArray = np.array(
            [codes.setdefault(pod.shape, len(codes)) for pod in self.pods], np.int64
        )
        self.shapes = list(codes)
        self.priorities = self.by_shape(lambda shape: shape.spec.priority)
        deleted = [pod.deleted is not None or pod.uid in evicted for pod in self.pods]
        self.leaving: BoolArray = np.array(deleted, np.bool_)

    def __len__(self) -> int:
        return len(self.pods)

    def by_shape(self, value: Callable[[PodShape], int]) -> IntArray:
        """(p,) a number that is a matter of the shape."""
        values: IntArray = np.array([value(shape) for shape in self.shapes], np.int64)
        return values[self.codes]

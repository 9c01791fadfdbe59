"""RunningPods: the Pods on all nodes as columns, to ask about thousands of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable


class RunningPods:
    """The Pods that count on nodes; index i is the same Pod in every column.

    Attributes:
        pods: the Pods, assumed ones included.
        rows: (p,) their nodes.
        shapes: the distinct shapes among them.
        codes: (p,) the shape of each, as an index into `shapes`.
        starts: (p,) see `bayplan.cache.node_table.pod_table.start`.
        priorities: (p,)
        leaving: (p,) whether they are being deleted, or are about to be.
    """

    def __init__(self, nodes: LiveNodeTable) -> None:
        table = nodes.pod_table()
        self.pods: list[Pod] = list(chain.from_iterable(map(dict.values, nodes.pods)))
        self.rows, self.codes, self.starts = table.rows, table.codes, table.starts
        self.shapes: Sequence[PodShape] = table.shapes
        self.priorities = self.by_shape(lambda shape: shape.spec.priority)
        self.leaving: BoolArray = table.leaving

    def __len__(self) -> int:
        return len(self.pods)

    @property
    def examples(self) -> list[Pod]:
        """A Pod of each shape, in the order of `shapes`."""
        last = np.zeros(len(self.shapes), np.int64)
        last[self.codes] = np.arange(len(self))
        return [self.pods[i] for i in last.tolist()]

    def by_shape(self, value: Callable[[PodShape], int]) -> IntArray:
        """(p,) a number that is a matter of the shape."""
        values: IntArray = np.array([value(shape) for shape in self.shapes], np.int64)
        return values[self.codes]

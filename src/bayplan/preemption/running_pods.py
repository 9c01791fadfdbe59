"""RunningPods: the Pods on all nodes as columns, to ask about thousands of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain
from operator import attrgetter

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.preemption.ranking import starts

_shape, _deleted = attrgetter("shape"), attrgetter("deleted")
_NOBODY: Mapping[str, Pod] = {}


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

    def __init__(self, nodes: NodeTable, evicted: Mapping[str, Pod] = _NOBODY) -> None:
        """Of all nodes; ``evicted`` are, by uid, Pods whose deletion is on its way."""
        by_row = nodes.pods
        self.pods: list[Pod] = list(chain.from_iterable(pods.values() for pods in by_row))
        self.rows: IntArray = np.repeat(np.arange(len(by_row)), [len(pods) for pods in by_row])
        code: defaultdict[PodShape, int] = defaultdict()
        code.default_factory = code.__len__
        codes = map(code.__getitem__, map(_shape, self.pods))
        self.codes: IntArray = np.fromiter(codes, np.int64, len(self.pods))
        self.shapes: list[PodShape] = list(code)
        self.priorities = self.by_shape(lambda shape: shape.spec.priority)
        self.leaving: BoolArray = np.zeros(len(self.pods), np.bool_)
        deleted = list(map(_deleted, self.pods))
        if any(deleted):
            self.leaving[[index for index, time in enumerate(deleted) if time is not None]] = True
        for uid, pod in evicted.items():
            row = nodes.row(pod.node_name)
            if row is not None and uid in by_row[row]:
                first = int(np.searchsorted(self.rows, row))
                self.leaving[first + list(by_row[row]).index(uid)] = True

    def __len__(self) -> int:
        return len(self.pods)

    @cached_property
    def starts(self) -> IntArray:
        """(p,) see `bayplan.preemption.ranking.start`."""
        return starts(self.pods)

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

"""PodTable: the Pods on all nodes as columns, to ask about thousands of them at once.

The columns are made at the first call (`LiveNodeTable.pod_table`) and cached. At the next
call only the rows in the journals are read again. Without a call nothing is cached.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table.column import BoolArray, IntArray

NOT_STARTED = np.iinfo(np.int64).max
"""Stands for a start time that is not there, which counts as now."""
MICROSECONDS = 1_000_000

PodsByRow = Sequence[Mapping[str, Pod]]
"""By row of the node table and uid."""
_shape, _start_time = attrgetter("shape"), attrgetter("status.start_time")


class PodTable:
    """The Pods on all nodes, sorted by row; the Pods of a row are in order of arrival.

    It holds no Pods, as it may be long until the next call. An update replaces the arrays, so
    callers may go on to use previous arrays.

    Attributes:
        rows: (p,) their nodes.
        codes: (p,) the shape of each, as an index into `shapes`.
        starts: (p,) see `start`.
        leaving: (p,) whether they are being deleted.
        shapes: the distinct shapes among them.
    """

    def __init__(self, pods: PodsByRow) -> None:
        self.rows: IntArray = np.zeros(0, np.int64)
        self.codes: IntArray = np.zeros(0, np.int64)
        self.starts: IntArray = np.zeros(0, np.int64)
        self.leaving: BoolArray = np.zeros(0, np.bool_)
        self.shapes: list[PodShape] = []
        self.update(pods, range(len(pods)))

    def update(self, pods: PodsByRow, changed: Iterable[int]) -> None:
        """Read the Pods of the rows that have ``changed`` again."""
        changed_rows = np.array(sorted(set(changed)), np.int64)
        groups = [pods[row].values() for row in changed_rows.tolist()]
        read = list(chain.from_iterable(groups))
        columns = (
            np.repeat(changed_rows, list(map(len, groups))),
            self._codes(read),
            starts(read),
            np.array([pod.deleted is not None for pod in read], np.bool_),
        )
        is_changed = np.zeros(len(pods), np.bool_)
        is_changed[changed_rows] = True
        kept = ~is_changed[self.rows]
        order = np.concatenate([self.rows[kept], columns[0]]).argsort(kind="stable")
        self.rows, self.codes, self.starts, self.leaving = (
            np.concatenate([before[kept], now])[order]
            for before, now in zip(
                (self.rows, self.codes, self.starts, self.leaving), columns, strict=True
            )
        )
        self._forget_shapes()

    def _codes(self, pods: Sequence[Pod]) -> IntArray:
        """The shape of each; new ones are added."""
        code: defaultdict[PodShape, int] = defaultdict()
        code.default_factory = code.__len__
        code.update((shape, index) for index, shape in enumerate(self.shapes))
        codes = np.fromiter(map(code.__getitem__, map(_shape, pods)), np.int64, len(pods))
        self.shapes = list(code)
        return codes

    def _forget_shapes(self) -> None:
        """Remove shapes without Pods."""
        used = np.bincount(self.codes, minlength=len(self.shapes)) > 0
        if not used.all():
            self.shapes = [self.shapes[code] for code in np.flatnonzero(used).tolist()]
            self.codes = (used.cumsum() - 1)[self.codes]

    def differences(self, other: PodTable) -> int:
        """How many Pods differ from those of ``other``; used to prove a recount."""
        if len(self.rows) != len(other.rows):
            return abs(len(self.rows) - len(other.rows))
        mine, its = ([table.shapes[code].id for code in table.codes] for table in (self, other))
        different = (
            (self.rows != other.rows)
            | (np.array(mine) != np.array(its))
            | (self.starts != other.starts)
            | (self.leaving != other.leaving)
        )
        return int(different.sum())


def start(pod: Pod) -> int:
    """When ``pod`` started, in microseconds since the epoch, or `NOT_STARTED`."""
    began = pod.status.start_time
    return NOT_STARTED if began is None else round(began.timestamp() * MICROSECONDS)


def starts(pods: Sequence[Pod]) -> IntArray:
    """(p,) the `start` of each, at a fraction of the cost."""
    times = list(map(_start_time, pods))
    started = [index for index, time in enumerate(times) if time is not None]
    seconds = np.array(list(map(datetime.timestamp, filter(None, times))), np.float64)
    result = np.full(len(pods), NOT_STARTED)
    result[started] = np.rint(seconds * MICROSECONDS).astype(np.int64)
    return result

"""Admission: whether the quotas leave room for a Pod, also if other Pods were gone.

PreFilter makes an `Admission` for each Pod whose namespace has a quota. There are two limits: the
maximum of the Pod's own quota, and the sum of the minimums of all quotas, which the use of all
together may not exceed. Each leaves some room for more Pods, which is the row

    [own cpu, own memory, ..., total cpu, total memory, ...]

A limit holds twice: with what is leaving, and without that but beside nominated Pods.

A what-if copy has such a row for each node: the requests of the Pods that were added there, less
those of the Pods that were removed. The Pod is admitted where that is no more than the room.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import NO_ROW, Amounts, Charge
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.plugins.capacity_scheduling.quotas import TOTAL, QuotaRows, Quotas

_NO_LIMIT = 2**62
_LARGEST = 2**55
"""More than any Pod has; sums of a hundred stay within 64 bits."""


class Need(NamedTuple):
    """What is to come on top of what is used.

    Attributes:
        own: (r,) in the namespace.
        total: (r,) in all namespaces with a quota.
        named: the resources that are named in the namespace.
    """

    own: Amounts
    total: Amounts
    named: Collection[str]


class Admission:
    """What the quotas say about a Pod, or about several of a namespace together.

    Args:
        quotas: what is used.
        charge: of the Pods.
        beside: their need, and that of nominated Pods that count beside them; None without any.

    Attributes:
        above_maximum: whether it would be above its maximum.
        above_total: whether all namespaces with a quota together would use more than the sum of
            their minimums.
        is_awaiting: whether it would not be above either if those were gone that are preempted.
    """

    above_maximum = above_total = is_awaiting = False
    _moved: IntArray | None = None

    def __init__(
        self, quotas: Quotas, charge: Charge[QuotaRows], beside: Need | None = None
    ) -> None:
        self._quotas, self._sums = quotas, charge.sums
        self._charge, self._beside = charge, beside
        if beside is not None or not charge.is_within_limits:
            width, (alone, together) = len(charge.requests), self._needs
            now, later = self._left(alone, leaving=False), self._left(together, leaving=True)
            self.above_maximum = min(now[:width] + later[:width]) < 0
            self.above_total = min(now[width:] + later[width:]) < 0
            self.is_awaiting = min(now) < 0 <= min(later)

    @property
    def row(self) -> int:
        """The quota of the namespace."""
        return self._charge.row

    @cached_property
    def _needs(self) -> tuple[Need, Need]:
        """The need of the Pods alone, and beside nominated Pods."""
        requests = self._charge.requests
        alone = Need(requests, requests, self._charge.amounts)
        return alone, self._beside or alone

    def _left(self, need: Need, *, leaving: bool) -> list[int]:
        """The room for more than ``need``, less than nothing where there is too little.

        ``leaving``: whether what is leaving is room.
        """
        sums, width = self._sums, len(need.own)
        both = self.row, TOTAL
        used = {row: sums.staying(row) if leaving else sums.used_rows[row] for row in both}
        left = [_NO_LIMIT] * (2 * width)
        for row, column, most in sums.structure.limits_on(self.row, need.own, need.named):
            is_total = row == TOTAL
            more = (need.total if is_total else need.own)[column]
            left[width * is_total + column] = most - used[row][column] - more
        return left

    @cached_property
    def above_minimum(self) -> bool:
        """Whether the namespace would be above its minimum, without what leaves."""
        structure, (_, need) = self._sums.structure, self._needs
        used, minimum = self._sums.staying(self.row), structure.minimum[self.row]
        columns = structure.compared(need.named)
        return any(used[column] + need.own[column] > minimum[column] for column in columns)

    @cached_property
    def _rooms(self) -> tuple[IntArray, IntArray]:
        """The room without nominated Pods, and beside them; few Pods need these."""
        left = [self._left(need, leaving=True) for need in self._needs]
        alone, beside = np.array([[max(-_NO_LIMIT, amount) for amount in row] for row in left])
        return alone, beside

    def what_if(self, rows: IntArray) -> Self:
        """A copy for a table of only ``rows``; see `bayplan.framework.cycle_state`."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _rooms=self._rooms, _vectors=self._vectors)
        size = len(rows), 2 * len(self._charge.requests)
        copy._moved = np.zeros(size, np.int64) if self._moved is None else self._moved[rows]
        return copy

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """What if ``pod`` were on ``row`` (``sign`` 1), or gone from there (-1)?"""
        leaf = self._sums.structure.row_of.get(pod.namespace, NO_ROW)
        if leaf == NO_ROW or pod.is_preempted:
            return
        assert self._moved is not None, "only a what-if copy can be changed"
        vector = self._vector(pod)
        self._moved[row, len(vector) :] += sign * vector
        if leaf == self.row:
            self._moved[row, : len(vector)] += sign * vector

    @cached_property
    def _vectors(self) -> dict[int, IntArray]:
        """By the id of requests."""
        return {}

    def _vector(self, pod: Pod) -> IntArray:
        part = pod.shape.requests
        vector = self._vectors.get(part.id)
        if vector is None:
            takes, resources = self._quotas.amounts(pod), self._sums.structure.resources
            amounts = [min(takes.get(name, 0), _LARGEST) for name in resources]
            vector = self._vectors[part.id] = np.array(amounts, np.int64)
        return vector

    def rows(self, *, beside_nominated: bool) -> BoolArray:
        """The rows of a what-if copy where the Pod is admitted."""
        assert self._moved is not None, "only a what-if copy has rows"
        alone, beside = self._rooms
        room = beside if beside_nominated else alone
        admitted: BoolArray = np.all(self._moved <= room, axis=1)
        return admitted

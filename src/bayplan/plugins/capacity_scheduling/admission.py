"""Admission: whether the quotas leave room for a Pod, also if other Pods were gone.

PreFilter makes an `Admission` for each Pod whose namespace has a quota. There are two limits: the
maximum of the Pod's own quota, and the sum of the minimums of all quotas, which the use of all
together may not exceed. Each leaves some room for more Pods, which is the row

    [own cpu, own memory, ..., total cpu, total memory, ...]

A what-if copy has such a row for each node: the requests of the Pods that were added there, less
those of the Pods that were removed. The Pod is admitted where that is no more than the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Self

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.plugins.capacity_scheduling.amounts import Amounts, add, is_above, request, room
from bayplan.plugins.capacity_scheduling.quotas import Bounds, Quota, Quotas
from bayplan.plugins.shared.resource_names import CORE

_NO_LIMIT = 2**62
_LARGEST = 2**55
"""More than any Pod has; sums of a hundred stay within 64 bits."""


class Admission:
    """What the quotas say about one Pod.

    Nominated Pods count beside it: those of its namespace that are at least as important, and for
    the sum those of other namespaces that are not above their minimum.

    Attributes:
        quota: of its namespace.
        above_maximum: whether it would be above its maximum.
        above_total: whether all namespaces with a quota together would use more than the sum of
            their minimums.
        is_awaiting: whether it would not be above either if those were gone that are preempted.
    """

    def __init__(self, quotas: Quotas, pod: Pod, nominated: Sequence[Pod] = ()) -> None:
        self.quota: Quota = quotas.by_namespace[pod.namespace]
        self._quotas = quotas
        self._request = self._own = self._total = request(pod)
        bounds = quotas.bounds(pod)
        self.above_maximum = is_above(self.quota.used, bounds.own)
        self.above_total = is_above(quotas.total_used, bounds.total)
        self.is_awaiting = self.above_maximum or self.above_total
        if nominated:
            self._own, self._total = self._beside(pod, nominated)
            bounds = Bounds(quotas, self.quota, self._own, self._total)
        if nominated or self.is_awaiting:
            own = is_above(self.quota.staying, bounds.own)
            total = is_above(quotas.total_staying, bounds.total)
            self.above_maximum |= own
            self.above_total |= total
            self.is_awaiting = self.is_awaiting and not (own or total)
        self._vectors: dict[int, IntArray] = {}
        self._moved: IntArray | None = None

    def _beside(self, pod: Pod, nominated: Iterable[Pod]) -> tuple[Amounts, Amounts]:
        own, total = dict(self._request), dict(self._request)
        for other in nominated:
            quota = self._quotas.by_namespace.get(other.namespace)
            if quota is self.quota and other.priority >= pod.priority:
                add(own, request(other))
                add(total, request(other))
            elif (
                quota is not None
                and quota is not self.quota
                and not quota.exceeds_minimum(quota.staying)
            ):
                add(total, request(other))
        return own, total

    @cached_property
    def above_minimum(self) -> bool:
        """Whether the namespace would be above its minimum with the Pod; preemption asks."""
        return self.quota.exceeds_minimum_with(self._own)

    def _with_all_names(self, total: Amounts) -> Amounts:
        """The sum with all resources in use, including resources that the Pod does not request."""
        return {**dict.fromkeys(self._quotas.total_used, 0), **total}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The columns of a row, twice."""
        return tuple(dict.fromkeys((*CORE, *self._with_all_names(self._total))))

    @cached_property
    def _rooms(self) -> tuple[IntArray, IntArray]:
        """The room beside nominated Pods, and without them; few Pods need these."""
        return self._row(self._own, self._total), self._row(self._request, self._request)

    def _row(self, own: Amounts, total: Amounts) -> IntArray:
        quotas = self._quotas
        own_room = self.quota.room_below_maximum(own)
        everything = self._with_all_names(total)
        total_room = room(quotas.total_minimum, quotas.total_staying, everything, 0)
        left = [own_room.get(name, _NO_LIMIT) for name in self._names]
        left += [total_room.get(name, _NO_LIMIT) for name in self._names]
        return np.array([max(-_NO_LIMIT, min(amount, _NO_LIMIT)) for amount in left])

    def what_if(self, rows: IntArray) -> Self:
        """A copy for a table of only ``rows``; see `bayplan.framework.cycle_state`."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _names=self._names, _rooms=self._rooms)
        size = len(rows), 2 * len(self._names)
        copy._moved = np.zeros(size, np.int64) if self._moved is None else self._moved[rows]
        return copy

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """What if ``pod`` were on ``row`` (``sign`` 1), or gone from there (-1)?"""
        if pod.namespace not in self._quotas.by_namespace or pod.is_preempted:
            return
        assert self._moved is not None, "only a what-if copy can be changed"
        width = len(self._names)
        vector = self._vector(pod)
        self._moved[row, width:] += sign * vector
        if pod.namespace == self.quota.namespace:
            self._moved[row, :width] += sign * vector

    def _vector(self, pod: Pod) -> IntArray:
        part = pod.shape.requests
        vector = self._vectors.get(part.id)
        if vector is None:
            takes = request(pod)
            amounts = [min(takes.get(name, 0), _LARGEST) for name in self._names]
            vector = self._vectors[part.id] = np.array(amounts, np.int64)
        return vector

    def rows(self, *, beside_nominated: bool) -> BoolArray:
        """The rows of a what-if copy where the Pod is admitted."""
        assert self._moved is not None, "only a what-if copy has rows"
        beside, alone = self._rooms
        room = beside if beside_nominated else alone
        admitted: BoolArray = np.all(self._moved <= room, axis=1)
        return admitted

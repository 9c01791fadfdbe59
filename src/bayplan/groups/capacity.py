"""GroupCapacity: at most how many Pods of a group fit, on all nodes or by domain.

The capacity columns of each kind of Pod in the group (`bayplan.engine.capacity`), summed. Each
kind is counted as if it had the nodes for itself, so this bounds from above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, CodeArray, IntArray
from bayplan.engine.capacity import CopyBound, PodKind, kind_of
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.framework.interface import Integers

Column = TypeVar("Column", BoolArray, Integers)

MOST_KINDS = 16
"""Groups of more kinds of Pods are not bounded: to place them costs little more."""


class GroupCapacity:
    """The bound for some Pods.

    Args:
        framework: the profile of the Pods.
        pods: the Pods.
        beside: more Pods that may be placed before, one of each kind.

    Attributes:
        total: how many Pods there are.
        plugins: the plugins behind it.
        pods: one Pod of each kind.
    """

    def __init__(
        self,
        framework: Framework,
        pods: Sequence[Pod],
        beside: Mapping[PodKind, Pod] = MappingProxyType({}),
    ) -> None:
        self.total = len(pods)
        counts = Counter(map(kind_of, pods))
        first = kinds_of(pods) if len(counts) <= MOST_KINDS else {}
        try:
            others = {**beside, **first}
            capacities = [framework.search.capacity.of(pod, others) for pod in first.values()]
        except AttemptFault:
            capacities = []  # the first attempt meets the fault as well, and reports it
        self._kinds = list(zip((counts[kind] for kind in first), capacities, strict=False))
        self.pods = tuple(first.values())
        self.plugins = frozenset().union(*(c.plugins for c in capacities))

    @property
    def bounds(self) -> bool:
        """Whether anything is known; otherwise all Pods are taken to fit anywhere."""
        return bool(self._kinds)

    def at_most(self, rows: BoolArray | None = None) -> int:
        """How many of the Pods fit on ``rows``, at most."""
        if not self._kinds:
            return self.total
        return sum(min(count, _sum(_of(capacity.copies, rows))) for count, capacity in self._kinds)

    def by_domain(self, codes: CodeArray, domains: int) -> tuple[IntArray, IntArray]:
        """For each domain, how many of the Pods fit at most, and how much room it has in all.

        Args:
            codes: ``(n,)`` the domain of each row, negative for none.
            domains: how many there are.

        Returns:
            Two arrays, ``(domains,)``; the second one in copies of its Pods, to compare domains.
        """
        inside = codes >= 0
        if not self._kinds:
            full = np.full(domains, self.total, np.int64)
            return full, np.bincount(codes[inside], minlength=domains)
        fit = np.zeros(domains, np.int64)
        room = np.zeros(domains, np.int64)
        for count, capacity in self._kinds:
            total = np.bincount(codes[inside], capacity.copies[inside], domains).astype(np.int64)
            fit += np.minimum(total, count)
            room += total
        return fit, room

    def short_of(self, rows: BoolArray | None = None) -> list[str]:
        """What Pods lack without a place on the open nodes of ``rows``, the scarcest first."""
        scarce = {
            name: total / count
            for count, capacity in self._kinds
            for name, bound in capacity.bounds.items()
            if (total := _sum(np.maximum(bound, 0)[_open(capacity, rows)])) < count
        }
        return sorted(scarce, key=lambda name: scarce[name])

    def closed(self, rows: BoolArray | None = None) -> dict[str, int]:
        """By plugin, how many of ``rows`` it closes to some of the Pods; the most first."""
        closed: Counter[str] = Counter()
        for _, capacity in self._kinds:
            for plugin, mask in capacity.closed.items():
                closed[plugin] = max(closed[plugin], int(np.count_nonzero(_of(mask, rows))))
        return {plugin: number for plugin, number in closed.most_common() if number}


def _of(column: Column, rows: BoolArray | None) -> Column:
    return column if rows is None else column[rows]


def _open(capacity: CopyBound, rows: BoolArray | None) -> BoolArray:
    """The open ones of ``rows``."""
    left = np.ones(len(capacity.copies), np.bool_) if rows is None else rows.copy()
    for mask in capacity.closed.values():
        left &= ~mask
    return left


def kinds_of(pods: Iterable[Pod]) -> Mapping[PodKind, Pod]:
    """One Pod of each kind."""
    first: dict[PodKind, Pod] = {}
    for pod in pods:
        first.setdefault(kind_of(pod), pod)
    return first


def _sum(copies: Integers) -> int:
    return int(copies.sum())

"""GroupCapacity: at most how many Pods of a group fit, on all nodes or by domain.

The capacity columns of each kind of Pod in the group (`bayplan.engine.capacity`), summed. Each
kind is counted as if it had the nodes for itself, so this bounds from above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, CodeArray, IntArray
from bayplan.engine.capacity import PodKind, kind_of
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.framework.interface import Integers

MOST_KINDS = 16
"""Groups of more kinds of Pods are not bounded: to place them costs little more."""


class GroupCapacity:
    """The bound for some Pods.

    Args:
        framework: the profile of the Pods.
        pods: the Pods.
        beside: more Pods that may be placed before, one of each kind.

    Attributes:
        plugins: the plugins behind it.
        pods: one Pod of each kind.
    """

    def __init__(
        self,
        framework: Framework,
        pods: Sequence[Pod],
        beside: Mapping[PodKind, Pod] = MappingProxyType({}),
    ) -> None:
        self._total = len(pods)
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

    def at_most(self, rows: BoolArray | slice = slice(None)) -> int:
        """How many of the Pods fit on ``rows``, at most."""
        if not self._kinds:
            return self._total
        return sum(min(count, _sum(capacity.copies[rows])) for count, capacity in self._kinds)

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
            full = np.full(domains, self._total, np.int64)
            return full, np.bincount(codes[inside], minlength=domains)
        fit = np.zeros(domains, np.int64)
        room = np.zeros(domains, np.int64)
        for count, capacity in self._kinds:
            total = np.bincount(codes[inside], capacity.copies[inside], domains).astype(np.int64)
            fit += np.minimum(total, count)
            room += total
        return fit, room

    def short_of(self, rows: BoolArray | slice = slice(None)) -> list[str]:
        """What the Pods that do not fit on ``rows`` lack, the scarcest first."""
        scarce = {
            name: total / count
            for count, capacity in self._kinds
            for name, bound in capacity.bounds.items()
            if (total := _sum(np.maximum(bound, 0)[rows])) < count
        }
        return sorted(scarce, key=lambda name: scarce[name])


def kinds_of(pods: Iterable[Pod]) -> Mapping[PodKind, Pod]:
    """One Pod of each kind."""
    first: dict[PodKind, Pod] = {}
    for pod in pods:
        first.setdefault(kind_of(pod), pod)
    return first


def _sum(copies: Integers) -> int:
    return int(copies.sum())

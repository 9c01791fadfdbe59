"""DomainCounter: the number of Pods in each topology domain, updated incrementally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from bayplan.cache.counters.domains import Domains, Integers
from bayplan.cache.node_table import ABSENT, BoolArray, NodeTable

CountArray = npt.NDArray[np.int32]
_INT32_IS_ENOUGH = 2**30
"""Sums below it cannot overflow 32 bits."""


class DomainCounter:
    """Pods per domain.

    Attributes:
        counts: ``(d + 1,)`` or longer once read through `by_domain`.
        total: the sum of ``counts``.
        users: how many parties asked for this counter; kept by their owner.
    """

    __slots__ = ("counts", "domains", "total", "users")

    def __init__(self, domains: Domains) -> None:
        self.domains = domains
        self.counts: CountArray = domains.fit(np.zeros(0, np.int32))
        self.total = 0
        self.users = 0

    @property
    def topology_key(self) -> str:
        """The topology key; empty where every row is a domain of its own."""
        return self.domains.spec.key or ""

    def add(self, row: int, pods: int) -> None:
        """Count ``pods`` more Pods (fewer, if negative) on ``row``."""
        code = self.domains.codes[row]
        if code == ABSENT:
            return
        if code >= len(self.counts) - 1:
            self.counts = self.domains.fit(self.counts)
        self.counts[code] += pods
        self.total += pods

    def add_rows(self, rows: Mapping[int, int], sign: int) -> None:
        """`add` for several rows: row -> number of Pods, times ``sign``."""
        for row, pods in rows.items():
            self.add(row, sign * pods)

    def by_domain(self) -> CountArray:
        """The counts by domain, ``(d + 1,)``; the last is the count of `ABSENT`, always 0."""
        self.counts = self.domains.fit(self.counts)
        return self.counts[: self.domains.size + 1]

    def at(self, nodes: NodeTable) -> Integers:
        """The count of the domain that each row of ``nodes`` lies in, ``(len(nodes),)``."""
        return weighted_counts([(1, self)], nodes)


def clamp_outside(values: Integers, rows: BoolArray) -> Integers:
    """Overwrite (in place) every value outside ``rows`` with the first value inside.

    So the minimum and maximum are those of ``rows``. Arithmetic instead of `np.where`, because
    irregular masks cause branch mispredictions.
    """
    if not rows.all():
        first = values[rows.argmax()]
        values -= first
        values *= rows
        values += first
    return values


def weighted_counts(weighted: Sequence[tuple[int, DomainCounter]], nodes: NodeTable) -> Integers:
    """The sum of weights times what the counters have `at` each row, ``(len(nodes),)``.

    Counters of the same domains are first added up by domain. The integers are as wide as the sum
    of all Pods needs.
    """
    most = sum(abs(weight) * counter.total for weight, counter in weighted)
    width = np.int32 if most < _INT32_IS_ENOUGH else np.int64
    sums: dict[Domains, Integers] = {}
    for weight, counter in weighted:
        domains = counter.domains
        counts = counter.by_domain().astype(width, copy=False) * weight
        sums[domains] = sums[domains] + counts if domains in sums else counts
    columns = (domains.at(counts, nodes) for domains, counts in sums.items())
    return reduce(np.add, columns) if sums else np.zeros(len(nodes), width)

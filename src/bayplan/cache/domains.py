"""Topology domains of rows, and counts of Pods per domain.

Invariants:
- A domain is a code of ``nodes.label(key)``; with no key, every row is a domain of its own.
- `Domains.codes` is `ABSENT` for rows that do not count: free ones, those without the topology key
  (or another key that is asked for), and those that its rule does not admit.
- Arrays over domains have a slot more than there are domains: the last one stands for `ABSENT`
  (code -1) and is always 0, so ``counts.take(codes)`` needs no mask.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.cache.node_table import ABSENT, BoolArray, CodeArray, IntArray, NodeTable

_DOMAINS_AT_FIRST = 8
_FAR_FROM_OVERFLOW = 2**30
_FEW = 8
"""Where less than one in so many is left out, a look at those is cheaper than one at all."""
Number = TypeVar("Number", bound=np.generic)
CountArray = npt.NDArray[np.int32]
Integers = npt.NDArray[Any]
"""Signed integers, no wider than they need to be."""


class NodeRule(Protocol):
    """Which nodes count, beyond having the topology keys."""

    def mask(self, nodes: NodeTable) -> BoolArray:
        """All rows at once, ``(n,)``; the answer for free rows is ignored."""

    def matches(self, node: Node) -> bool:
        """One node; the same answer as `mask`."""


@dataclass(frozen=True)
class DomainSpec:
    """How rows are divided into domains; equal specs divide alike.

    Attributes:
        key: the topology key; None divides into single rows.
        requires: label keys that a node must have to count.
        rule_id: identity of ``rule`` by content.
        rule: a further condition on nodes, judged by labels, taints and name alone.
        absent_as: the value that stands for a missing topology key; None leaves such nodes out.
    """

    key: str | None
    requires: tuple[str, ...] = ()
    rule_id: Hashable = None
    rule: NodeRule | None = field(default=None, compare=False)
    absent_as: str | None = None


class Domains:
    """The domain of every row.

    Attributes:
        codes: ``(n,)``, the domain of each row that counts, else `ABSENT`.
        rows: ``(d + 1,)`` or longer, how many rows each domain has.
        count: how many domains have rows.
        users: how many counters use this; kept by `DomainTable`.
    """

    def __init__(self, nodes: NodeTable, spec: DomainSpec) -> None:
        self.spec = spec
        self.users = 0
        self._nodes = nodes
        self.codes = self.compute()
        self.rows: IntArray = np.bincount(self.codes[self.codes != ABSENT]).astype(np.int64)
        self.rows = self.fit(self.rows)
        self.count = int(np.count_nonzero(self.rows))

    @property
    def size(self) -> int:
        """How many domains there may be, ``d``: every code is below it."""
        key = self.spec.key
        return len(self._nodes) if key is None else len(self._nodes.label(key).values)

    def fit(self, by_domain: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """``by_domain``, or a longer copy where it has no slot for every domain and `ABSENT`."""
        if len(by_domain) > self.size:
            return by_domain
        length = max(_DOMAINS_AT_FIRST, self.size + self.size // 2 + 1)
        fitted = np.zeros(length, by_domain.dtype)
        fitted[: len(by_domain)] = by_domain
        return fitted

    def labels(self, nodes: NodeTable) -> IntArray | CodeArray:
        """The domain that each row of ``nodes`` lies in, whether it counts or not, ``(len,)``.

        ``nodes`` is the table that this was made for or one taken from it.
        """
        if self.spec.key is not None:
            return nodes.label(self.spec.key).codes
        return np.arange(len(nodes)) if nodes.origin is None else nodes.origin

    def at(self, by_domain: npt.NDArray[Number], nodes: NodeTable) -> npt.NDArray[Number]:
        """What ``by_domain`` has for the domain that each row of ``nodes`` lies in, ``(len,)``.

        A part of ``by_domain`` itself where every row is a domain of its own.
        """
        if self.spec.key is None and nodes.origin is None:
            return by_domain[: len(nodes)]
        return by_domain.take(self.labels(nodes))

    def among(self, rows: BoolArray) -> int:
        """How many domains have one of ``rows``, ``(n,)``, that counts.

        Where few rows are left out, only those are looked at.
        """
        rows = rows[: len(self.codes)]
        left_out = ~rows
        if _FEW * np.count_nonzero(left_out) > len(rows):
            return int(np.count_nonzero(np.bincount((self.codes + 1) * rows)[1:]))
        codes = self.codes[left_out]
        gone = np.bincount(codes[codes != ABSENT], minlength=len(self.rows))
        return int(np.count_nonzero(self.rows - gone))

    def compute(self) -> IntArray:
        """The codes of all rows as they must be now, ``(n,)``."""
        nodes, spec = self._nodes, self.spec
        codes = self.labels(nodes).astype(np.int64)
        if spec.key is not None and spec.absent_as is not None:
            codes[codes == ABSENT] = nodes.label(spec.key).code(spec.absent_as)
        for key in spec.requires:
            codes[nodes.label(key).codes == ABSENT] = ABSENT
        if spec.rule is not None:
            codes[~spec.rule.mask(nodes)] = ABSENT
        codes[~nodes.exists] = ABSENT
        return codes

    def changed(self, row: int) -> None:
        """The node of ``row`` came, went or changed; its Pods must not be counted meanwhile."""
        if row >= len(self.codes):
            more = np.full(len(self._nodes) - len(self.codes), ABSENT, np.int64)
            self.codes = np.concatenate([self.codes, more])
        self.rows = self.fit(self.rows)
        old, new = int(self.codes[row]), self._code(row)
        self.codes[row] = new
        if old != ABSENT:
            self.rows[old] -= 1
            self.count -= not self.rows[old]
        if new != ABSENT:
            self.count += not self.rows[new]
            self.rows[new] += 1

    def proven(self) -> bool:
        """Whether everything equals what a fresh look at all nodes gives."""
        codes = self.compute()
        rows = np.bincount(codes[codes != ABSENT], minlength=len(self.rows))
        same = np.array_equal(self.codes, codes[: len(self.codes)])
        return same and np.array_equal(self.rows, rows) and self.count == np.count_nonzero(rows)

    def _code(self, row: int) -> int:
        node, spec = self._nodes.nodes[row], self.spec
        if node is None or any(key not in node.labels for key in spec.requires):
            return ABSENT
        if spec.rule is not None and not spec.rule.matches(node):
            return ABSENT
        if spec.key is None:
            return row
        column = self._nodes.label(spec.key)
        code = int(column.codes[row])
        if code == ABSENT and spec.absent_as is not None:
            return column.code(spec.absent_as)
        return code


class DomainTable:
    """All `Domains` in use; equal specs share one."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._domains: dict[DomainSpec, Domains] = {}

    def __iter__(self) -> Iterator[Domains]:
        return iter(self._domains.values())

    def acquire(self, spec: DomainSpec) -> Domains:
        """The domains of ``spec``; `release` them in the end."""
        domains = self._domains.get(spec)
        if domains is None:
            domains = self._domains[spec] = Domains(self._nodes, spec)
        domains.users += 1
        return domains

    def release(self, domains: Domains) -> None:
        """Undo one `acquire`; the last one forgets the domains."""
        domains.users -= 1
        if not domains.users:
            del self._domains[domains.spec]

    def changed(self, row: int) -> None:
        """See `Domains.changed`."""
        for domains in self:
            domains.changed(row)

    def wrong(self) -> int:
        """How many differ from what a fresh look at all nodes gives."""
        return sum(not domains.proven() for domains in self)


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
        """The counts, ``(d + 1,)``: one for every domain, and that of `ABSENT`, which is 0."""
        self.counts = self.domains.fit(self.counts)
        return self.counts[: self.domains.size + 1]

    def at(self, nodes: NodeTable) -> Integers:
        """The count of the domain that each row of ``nodes`` lies in, ``(len(nodes),)``."""
        return weighted_counts([(1, self)], nodes)


def levelled(values: Integers, rows: BoolArray) -> Integers:
    """``values``, but out of ``rows`` that of the first one of them; ``values`` are lost.

    So the extremes are those among ``rows``. Arithmetic takes as long for any mask; to pick by one
    that has no pattern, the processor has to guess at every row.
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
    width = np.int32 if most < _FAR_FROM_OVERFLOW else np.int64
    sums: dict[Domains, Integers] = {}
    for weight, counter in weighted:
        domains = counter.domains
        counts = counter.by_domain().astype(width, copy=False) * weight
        sums[domains] = sums[domains] + counts if domains in sums else counts
    columns = (domains.at(counts, nodes) for domains, counts in sums.items())
    return reduce(np.add, columns) if sums else np.zeros(len(nodes), width)

"""Topology domains of rows: the zone of each row, or the value of another topology key.

A `DomainSpec` defines how rows are divided and which rows count. `Domains` has the result as
arrays, `codes` by row and `rows` by domain, and follows the node table row by row. With the key
``zone``, and a rule that leaves out nodes with a taint::

    row      label zone     taint   code     domain   rows
    0        a                      0        0 (a)    2
    1        b              yes     ABSENT   1 (b)    0
    2        a                      0        ABSENT   0
    3        (no label)             ABSENT

    count = 1: one domain, a, has rows

Row 1 loses its taint: its code becomes 1, ``rows[1]`` 1 and ``count`` 2. No other row is read.

Invariants:
- A domain is a code of ``nodes.label(key)``; with no key, every row is a domain of its own.
- `Domains.codes` is `ABSENT` for rows that do not count: free ones, those without the topology key
  (or another required key), and those that the rule does not admit.
- Arrays over domains have one slot more than there are domains: the last one stands for `ABSENT`
  (code -1) and is always 0, so ``counts.take(codes)`` needs no mask.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.cache.node_table import ABSENT, BoolArray, CodeArray, IntArray, NodeTable

_FIRST_DOMAINS = 8
_FEW = 8
"""If fewer than 1/8 of the rows are excluded, subtracting them is cheaper than recounting all."""
Number = TypeVar("Number", bound=np.generic)
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
    """How rows are divided into domains; equal specs give equal domains.

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
        length = max(_FIRST_DOMAINS, self.size + self.size // 2 + 1)
        fitted = np.zeros(length, by_domain.dtype)
        fitted[: len(by_domain)] = by_domain
        return fitted

    def labels(self, nodes: NodeTable) -> IntArray | CodeArray:
        """The domain of each row of ``nodes``, counted or not, ``(len,)``.

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
        """How many domains have at least one of ``rows``, ``(n,)``, that counts."""
        rows = rows[: len(self.codes)]
        excluded = ~rows
        if _FEW * np.count_nonzero(excluded) > len(rows):
            # ABSENT becomes 0, and so do the excluded rows: slot 0 is dropped.
            return int(np.count_nonzero(np.bincount((self.codes + 1) * rows)[1:]))
        codes = self.codes[excluded]
        excluded_rows = np.bincount(codes[codes != ABSENT], minlength=len(self.rows))
        return int(np.count_nonzero(self.rows - excluded_rows))

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
        previous, code = int(self.codes[row]), self._code(row)
        self.codes[row] = code
        if previous != ABSENT:
            self.rows[previous] -= 1
            if self.rows[previous] == 0:
                self.count -= 1
        if code != ABSENT:
            if self.rows[code] == 0:
                self.count += 1
            self.rows[code] += 1

    def equals_recount(self) -> bool:
        """Whether everything equals a recount over all nodes."""
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
        """Undo one `acquire`; the last one drops the domains."""
        domains.users -= 1
        if not domains.users:
            del self._domains[domains.spec]

    def changed(self, row: int) -> None:
        """See `Domains.changed`."""
        for domains in self:
            domains.changed(row)

    def wrong(self) -> int:
        """How many differ from a recount over all nodes."""
        return sum(not domains.equals_recount() for domains in self)

"""Amounts: sums and limits of tenants, by row and by resource.

A tenant is a row: a Queue, or a namespace with an ElasticQuota. A resource is a column.
`TenantRows` say what the rows are and which limits hold; `bayplan.cache.kept_sums` keeps the sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from bayplan.api.meta import ObjectFault
from bayplan.cache.node_table import IntArray

NO_ROW = -1
"""The row of a Pod that belongs to no tenant."""
UNLIMITED = 2**62
"""The limit of a resource that has none."""
Amounts = Sequence[int]
"""(r,) by resource: milli-CPU, bytes or counts."""
Rows = Sequence[list[int]]
"""(q, r) sums in lists: a single Pod changes them at a fraction of what arrays cost."""
Terms = Sequence[tuple[list[int], int, int]]
"""Sums of one row, a column of them, and an amount."""


class Limit(NamedTuple):
    """What a row may use at most of the resource of a column."""

    row: int
    column: int
    most: int


class TenantRows(Protocol):
    """What the rows and columns are."""

    @property
    def resources(self) -> Sequence[str]:
        """(r,) the columns."""

    @property
    def links(self) -> Sequence[Sequence[int]]:
        """(q,) of each row, itself and its ancestors."""

    @property
    def faults(self) -> Sequence[ObjectFault]:
        """What is wrong with the objects of tenants."""

    def limits_on(self, leaf: int, requests: Amounts, named: Collection[str], /) -> Iterable[Limit]:
        """The limits that hold for a Pod of a leaf.

        Args:
            leaf: the row.
            requests: (r,) of the Pod.
            named: the resources that the Pod names, those included of which it requests 0.
        """


S = TypeVar("S", bound=TenantRows)


class Sums(Generic[S]):
    """The columns of one structure. Any thread may read them, and may see a change half done.

    Attributes:
        structure: what the rows and columns are.
        used_rows, leaving_rows, demand_rows: (q, r) see `bayplan.cache.kept_sums`.
        share: (q, r) what rows are entitled to, where somebody computes it.
    """

    def __init__(self, structure: S) -> None:
        self.structure = structure
        shape = len(structure.links), len(structure.resources)
        self.share: IntArray = np.zeros(shape, np.int64)
        self.used_rows, self.leaving_rows, self.demand_rows = (self.zeros() for _ in range(3))

    @property
    def used(self) -> IntArray:
        """(q, r) what counts on nodes, as of now."""
        return self._array(self.used_rows)

    @property
    def demand(self) -> IntArray:
        """(q, r) what counts on nodes or waits for one, as of now."""
        return self._array(self.demand_rows)

    @property
    def leaving(self) -> IntArray:
        """(q, r) what of `used` is leaving, as of now."""
        return self._array(self.leaving_rows)

    def staying(self, row: int) -> list[int]:
        """(r,) what a row will use when all is gone that is leaving."""
        pairs = zip(self.used_rows[row], self.leaving_rows[row], strict=True)
        return [used - leaving for used, leaving in pairs]

    def zeros(self) -> Rows:
        """Other sums of this shape, see `add_amounts`."""
        q, r = self.share.shape
        return [[0] * r for _ in range(q)]

    def _array(self, rows: Rows) -> IntArray:
        try:
            return np.array(rows, np.int64).reshape(self.share.shape)
        except OverflowError:
            return np.array([[min(amount, UNLIMITED) for amount in row] for row in rows], np.int64)


class Charge(Generic[S]):
    """The sums and limits for Pods of one leaf with equal requests.

    A term says which sum it is about. So a Pod is counted, and compared with its limits, without
    looking for rows and columns again.

    Attributes:
        sums: which they are.
        row: the leaf.
        requests: (r,) of one Pod.
        amounts: the same by resource, as the Pod names them.
        used, demand: what a Pod adds, of the leaf and its ancestors.
        most: how much may be used for a Pod to be within a limit, for each limit that concerns it.
        can_run: whether such a Pod is ever placed, as far as limits and the largest node that takes
            new Pods say.
    """

    __slots__ = ("amounts", "can_run", "demand", "most", "requests", "row", "sums", "used")

    def __init__(
        self, sums: Sums[S], row: int, requests: Amounts, amounts: Mapping[str, int]
    ) -> None:
        structure = sums.structure
        terms = [
            (link, column, amount)
            for link in structure.links[row]
            for column, amount in enumerate(requests)
            if amount
        ]
        self.sums, self.row, self.requests, self.amounts = sums, row, requests, amounts
        self.used: Terms = [(sums.used_rows[link], c, amount) for link, c, amount in terms]
        self.demand: Terms = [(sums.demand_rows[link], c, amount) for link, c, amount in terms]
        self.most: Terms = [
            (sums.used_rows[link], column, most - requests[column])
            for link, column, most in structure.limits_on(row, requests, amounts)
        ]
        self.can_run = True

    @property
    def is_within_limits(self) -> bool:
        """Whether no limit stands in the way of one Pod more."""
        for sums, column, most in self.most:  # noqa: SIM110 - a generator costs twice as much
            if sums[column] > most:
                return False
        return True


def add_amounts(rows: Rows, links: Iterable[int], amounts: Amounts, sign: int = 1) -> None:
    """Add to the sums of these rows, or with ``sign`` -1 subtract from them."""
    for link in links:
        sums = rows[link]
        for column, amount in enumerate(amounts):
            sums[column] += sign * amount

"""Amounts: sums and limits of tenants, by row and by resource.

A tenant is a row: a Queue, or a namespace with an ElasticQuota. A resource is a column. Where a
limit is for each user of a tenant, each user is one more row, which is added when it has a Pod.
`TenantRows` say what the rows are and which limits hold; `bayplan.cache.kept_sums` keeps the sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
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
Terms = Sequence[tuple[list[int], int, int]]
"""Sums of one row, a column of them, and an amount."""


class Rows(Protocol):
    """(q, r) sums in lists: a single Pod changes them at a fraction of what arrays cost."""

    def __getitem__(self, row: int, /) -> list[int]:
        """(r,) the sums of a row."""


class Limit(NamedTuple):
    """What a row may use at most of the resource of a column."""

    row: int
    column: int
    most: int


class User(NamedTuple):
    """Whose Pods have a limit within a tenant.

    The Pods of a tenant that are never evicted are another such part: their limit is what is
    guaranteed to the tenant.

    Attributes:
        row: of the tenant.
        name: of the user; "" stands for all Pods that name nobody.
        limits: columns, and what the user may use of them at most.
        never_evicted: whether these are the Pods that are never evicted, whoever the user is.
    """

    row: int
    name: str
    limits: tuple[tuple[int, int], ...]
    never_evicted: bool = False


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
            The rows of users follow those of tenants.
        share: (q, r) what rows are entitled to, where somebody computes it.
        users: by user, the row; in the order of rows.
    """

    def __init__(self, structure: S) -> None:
        self.structure = structure
        shape = len(structure.links), len(structure.resources)
        self.share: IntArray = np.zeros(shape, np.int64)
        self.used_rows, self.leaving_rows, self.demand_rows = (
            [[0] * shape[1] for _ in range(shape[0])] for _ in range(3)
        )
        self.users: dict[User, int] = {}

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
        r = self.share.shape[1]
        return defaultdict(lambda: [0] * r)

    def row_of(self, user: User) -> int:
        """The row of a user; a new one where there is none yet."""
        if user not in self.users:
            self.users[user] = len(self.used_rows)
            for rows in (self.used_rows, self.leaving_rows, self.demand_rows):
                rows.append([0] * self.share.shape[1])
        return self.users[user]

    def user_at(self, row: int) -> User | None:
        """The user who has this row; None for the row of a tenant."""
        number = row - len(self.share)
        return next(islice(self.users, number, None)) if number >= 0 else None

    def of_users(self, rows: str) -> dict[User, tuple[int, ...]]:
        """What users have in the sums of that name; nobody who has nothing."""
        sums: list[list[int]] = getattr(self, rows)
        return {user: tuple(sums[row]) for user, row in self.users.items() if any(sums[row])}

    def _array(self, rows: Sequence[list[int]]) -> IntArray:
        rows = rows[: len(self.share)]
        try:
            return np.array(rows, np.int64).reshape(self.share.shape)
        except OverflowError:
            return np.array([[min(amount, UNLIMITED) for amount in row] for row in rows], np.int64)


class Charge(Generic[S]):
    """The sums and limits for Pods of one leaf, and of the same users, with equal requests.

    A term says which sum it is about. So a Pod is counted, and compared with its limits, without
    looking for rows and columns again.

    Attributes:
        sums: which they are.
        row: the leaf.
        users: whose limits hold, too.
        links: the leaf, its ancestors, and users.
        requests: (r,) of one Pod.
        amounts: the same by resource, as the Pod names them.
        wanted: likewise, what the Pod is demand for; that may be more.
        used, demand: what a Pod adds, of all links.
        most: how much may be used for a Pod to be within a limit, for each limit that concerns it.
        can_run: whether such a Pod is ever placed, as far as limits and the largest node that takes
            new Pods say.
    """

    __slots__ = (
        "amounts",
        "can_run",
        "demand",
        "links",
        "most",
        "requests",
        "row",
        "sums",
        "used",
        "users",
        "wanted",
    )

    def __init__(
        self,
        sums: Sums[S],
        row: int,
        requests: Amounts,
        amounts: Mapping[str, int],
        users: Sequence[User] = (),
        demand: tuple[Mapping[str, int], Amounts] | None = None,
    ) -> None:
        self.users = users
        self.links = (*sums.structure.links[row], *map(sums.row_of, users))
        self.wanted, demanded = demand or (amounts, requests)
        self.sums, self.row, self.requests, self.amounts = sums, row, requests, amounts
        self.used: Terms = self._terms(sums.used_rows, requests)
        self.demand: Terms = self._terms(sums.demand_rows, demanded)
        self.most: Terms = [
            (sums.used_rows[link], column, most - requests[column])
            for link, column, most in self.limits_on(requests, amounts)
        ]
        self.can_run = True

    def _terms(self, rows: Sequence[list[int]], amounts: Amounts) -> Terms:
        named = [(column, amount) for column, amount in enumerate(amounts) if amount]
        return [(rows[link], column, amount) for link in self.links for column, amount in named]

    def limits_on(self, requests: Amounts, named: Collection[str] = ()) -> list[Limit]:
        """The limits for Pods of this leaf and these users that request so much together.

        Arguments as in `TenantRows.limits_on`.
        """
        of_users = [
            Limit(self.sums.row_of(user), column, most)
            for user in self.users
            for column, most in user.limits
            if requests[column]
        ]
        return [*self.sums.structure.limits_on(self.row, requests, named), *of_users]

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


def total(charges: Mapping[Charge[S], int]) -> list[int]:
    """(r,) what Pods request together; of each charge, how many there are."""
    amounts = ([n * amount for amount in charge.requests] for charge, n in charges.items())
    return [sum(column) for column in zip(*amounts, strict=True)]

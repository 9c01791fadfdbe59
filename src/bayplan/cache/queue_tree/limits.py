"""Limits: which one stands in the way of Pods of a queue, and by how much."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api import quantity
from bayplan.cache.amounts import Amounts, Charge, Rows, Sums
from bayplan.cache.queue_tree.structure import Structure


class Excess(NamedTuple):
    """Which limit stands in the way; amounts as in `bayplan.api.quantity.of`.

    Attributes:
        whose: of whom the limit is: a queue, or a user in a queue.
        is_guarantee: whether it is the one of the Pods that are never evicted.
    """

    whose: str
    is_guarantee: bool
    resource: str
    used: int
    promised: int
    requested: int
    limit: int

    @property
    def limit_name(self) -> str:
        """Which limit, without figures."""
        resource, _, kind = self.resource.partition("@")
        where = f" on {kind} nodes" if kind else ""
        what = "guarantee" if self.is_guarantee else "limit"
        return f"{what} of {resource}{where} of {self.whose}"

    @property
    def message(self) -> str:
        """Which limit, and by how much."""
        used, promised, requested, limit = (
            quantity.shown(self.resource, amount)
            for amount in (self.used, self.promised, self.requested, self.limit)
        )
        by = " by Pods that are never evicted" if self.is_guarantee else ""
        others = f", {promised} promised to nominated Pods" if self.promised else ""
        return f"{self.limit_name} is {limit}: {used} used{by}{others}, {requested} requested"


def excess(
    charge: Charge[Structure],
    requests: Amounts,
    others: Rows | None = None,
    promised: Rows | None = None,
) -> Excess | None:
    """Which limit of their queue or above, or of a user, Pods would exceed.

    Args:
        charge: of one of them.
        requests: (r,) of all of them.
        others: (q, r) what counts as used, too.
        promised: (q, r) what nominated Pods will use.
    """
    sums = charge.sums
    rows = sums.used_rows
    for link, column, limit in charge.limits_on(requests):
        used, requested = rows[link][column], requests[column]
        if others is not None:
            used += others[link][column]
        kept = 0 if promised is None else promised[link][column]
        if used + kept + requested > limit:
            user = sums.user_at(link)
            is_guarantee = user is not None and user.never_evicted
            whose = _named(sums, user.row if user is not None and is_guarantee else link)
            resource = sums.structure.resources[column]
            return Excess(whose, is_guarantee, resource, used, kept, requested, limit)
    return None


def _named(sums: Sums[Structure], link: int) -> str:
    """Whose row it is."""
    structure, user = sums.structure, sums.user_at(link)
    if user is None:
        return f"queue {structure.name(link)}"
    who = f"user {user.name}" if user.name else "Pods without user"
    return f"{who} in queue {structure.name(user.row)}"

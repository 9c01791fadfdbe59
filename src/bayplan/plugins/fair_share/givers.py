"""Givers: the queues that may give to a preemptor, and how much; found for all queues at once.

A giver and the preemptor are compared where they part: the two children of their lowest common
ancestor are the giver's *branch* and its *rival*, the preemptor's queue itself or an ancestor of
it. There are as many rivals as the preemptor's queue has ancestors, and one more.

What has to stay in use of a queue is its *floor*: what is guaranteed to it (rule GUARANTEED), or
its share (rule SHARE); at the branch the share times how saturated the rival will be, where that is
more than once. Every queue from the giver up to its branch has to be above its floor, of any
resource; a resource of which it is not is not bounded. A giver may give the least that they may.

An example: queues A and B have the share 10, C the share 20, and A uses 14, C 20, B 7. B takes 1,
so its saturation will be 0.8. A may give 4; C is not above its share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.cache.amounts import Rows
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import Structure
from bayplan.plugins.fair_share.turns import saturation

RULES = GUARANTEED, SHARE = "guaranteed", "share"
MOST_OVER = 1e6
"""What is above this many times its share counts as if it were this many."""
_UNBOUNDED = 2**62


class Giver(NamedTuple):
    """A queue, some of whose Pods may yield.

    Attributes:
        leaf: its row.
        rule: GUARANTEED or SHARE.
        over: used / share, of its branch.
        path: the rows from the leaf to its branch.
        floors: (q, c) what has to stay in use.
        most: (c,) what it may give.
    """

    leaf: int
    rule: str
    over: float
    path: Sequence[int]
    floors: Rows
    most: list[int]

    def room(self, used: Rows) -> list[list[int]]:
        """(path, c) what may go before a floor is reached."""
        return [
            [a - b for a, b in zip(used[link], self.floors[link], strict=True)]
            for link in self.path
        ]


def find_givers(
    structure: Structure,
    row: int,
    needed: IntArray,
    used: IntArray,
    guaranteed: IntArray,
    shares: IntArray,
) -> tuple[list[Giver], list[int]]:
    """The givers; and leaves above their share, but with a claim to get back any gift.

    Args:
        structure: the queues.
        row: that of the preemptor.
        needed: (c,)
        used: (q, c) what queues will use.
        guaranteed: (q, c)
        shares: (q, c)
    """
    taking = structure.chains[row]
    after = used[taking] + needed
    stays_within = np.logical_and.accumulate((after <= guaranteed[taking]).all(axis=1))
    saturated = saturation(after, shares[taking])
    branch, rival = _parting(structure, row)
    is_branch = branch == np.arange(len(structure))
    # By rule: what each queue by itself may give, then what it and all up to its branch may.
    times = np.clip(saturated[rival], 1, MOST_OVER)[:, None]
    tops = np.ceil(np.minimum(shares * times, _UNBOUNDED)).astype(np.int64)
    bounds = np.stack([guaranteed, np.where(is_branch[:, None], tops, shares)])
    above = used > bounds
    floors = np.where(above, bounds, used - _UNBOUNDED)
    gives: IntArray = used - floors
    may_give: BoolArray = np.logical_or.reduce(above, axis=2)
    for rows in structure.levels:
        below = rows[~is_branch[rows]]
        parents = structure.parent[below]
        gives[:, below] = np.minimum(gives[:, below], gives[:, parents])
        may_give[:, below] &= may_give[:, parents]
    over = saturation(used, shares)[branch]
    by_guarantee = stays_within[rival] & may_give[0]
    is_over = ~by_guarantee & (over > 1)
    by_share = is_over & may_give[1] & (saturated[rival] <= MOST_OVER)
    leaves = [
        leaf for leaf in structure.leaves if leaf != row and structure.queues[leaf].spec.reclaimable
    ]
    by_rule = list(zip(RULES, floors.tolist(), gives.tolist(), strict=True))
    branches, overs = branch.tolist(), over.tolist()
    givers: list[Giver] = []
    for leaf in leaves:
        if by_guarantee[leaf] or by_share[leaf]:
            rule, kept, most = by_rule[0 if by_guarantee[leaf] else 1]
            links = structure.links[leaf]
            path = links[: links.index(branches[leaf]) + 1]
            givers.append(Giver(leaf, rule, overs[leaf], path, kept, most[leaf]))
    return givers, [leaf for leaf in leaves if is_over[leaf] and not by_share[leaf]]


def _parting(structure: Structure, row: int) -> tuple[IntArray, IntArray]:
    """Where each queue parts from the one at ``row``.

    Returns:
        (q,) its branch, and (q,) its rival: 0 for the queue at ``row``, 1 for its parent, and so
        on.
    """
    taking = structure.chains[row]
    is_common = np.zeros(len(structure) + 1, np.bool_)
    is_common[taking] = True
    is_common[-1] = True  # the parent of roots
    branch, rival = np.zeros((2, len(structure)), np.int64)
    for depth, rows in enumerate(structure.levels):
        parents = structure.parent[rows]
        parts = is_common[parents]
        branch[rows] = np.where(parts, rows, branch[parents])
        rival[rows] = np.where(parts, len(taking) - 1 - depth, rival[parents])
    return branch, rival

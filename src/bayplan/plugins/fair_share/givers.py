"""Givers: the queues that may give to a preemptor, and how much; found for all queues at once.

A giver and the preemptor are compared where they part: the two children of their lowest common
ancestor are the giver's *branch* and its *rival*, the preemptor's queue itself or an ancestor of
it. There are as many rivals as the preemptor's queue has ancestors, and one more.

By which rule a queue gives is a matter of the rival and the branch:

- GUARANTEED: what is guaranteed to the rival covers the preemptor (a *claim*). All Pods of the
  branch yield that are not covered by a guarantee themselves, however large they are.
- SHARE: the rival with the preemptor is no more saturated than the branch is without its victims,
  and less than it is with them. Saturation is the largest ``used / share`` of the resources of
  which the siblings need more than there is. So the branch is bounded by its *floor*: of the
  resource of which it has most, it keeps its share times the saturation of the rival. A branch that
  *lacks* a share of something that it uses is infinitely saturated, and keeps none of that; other
  Pods than those that use some do not yield, as it would take room back for them by their share.

An example: queues A and B have the share 10, C the share 20, and A uses 14, C 20, B 7. B takes 1,
so its saturation will be 0.8. A may give 6 and C 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import Structure
from bayplan.cache.queue_tree.shares import Shares

GUARANTEED, SHARE = "guaranteed", "share"
MOST_OVER = 1e6
"""What is above this many times its share counts as if it were this many."""
_ROUNDED = 1e-9
"""Relative errors of quotients."""


class Giver(NamedTuple):
    """A queue, some of whose Pods may yield.

    Attributes:
        leaf: its row.
        rule: GUARANTEED or SHARE.
        over: the saturation of its branch.
        branch: the row where it parts from the preemptor's queue.
        path: the rows from the leaf to the branch.
        column: the resource that bounds the branch, by SHARE.
        floor: what the branch keeps of that.
        lacks: of which resources the branch uses something without a share, by SHARE.
    """

    leaf: int
    rule: str
    over: float
    branch: int
    path: tuple[int, ...]
    column: int
    floor: int
    lacks: tuple[int, ...]

    def room(self, used: Sequence[Sequence[int]]) -> int:
        """What may go before the floor is reached, by SHARE; ``used`` is (q, r)."""
        return used[self.branch][self.column] - self.floor


def find_givers(
    structure: Structure,
    row: int,
    claims: BoolArray,
    needed: IntArray,
    used: IntArray,
    shares: Shares,
) -> tuple[list[Giver], list[int]]:
    """The givers; and leaves above their share that would be entitled to take any gift back.

    Args:
        structure: the queues.
        row: that of the preemptor.
        claims: (k,) whether the preemptor is covered, by its queue and the ancestors of that.
        needed: (r,)
        used: (q, r) what queues will use.
        shares: of all queues.
    """
    taking = structure.chains[row]
    after = shares.saturation(used[taking] + needed, taking)
    branch, rival = _parting(structure, row)
    ratios = shares.ratios(used)
    lacks = np.isinf(ratios)
    column = ratios.argmax(axis=1)
    over = ratios.max(axis=1)[branch]
    by_guarantee = claims[rival]
    times = after[rival]
    by_share = ~by_guarantee & (times < over * (1 - _ROUNDED)) & (times <= MOST_OVER)
    bound = column[branch]
    kept = np.clip(times, 0, MOST_OVER) * shares.exact[branch, bound] * (1 - _ROUNDED)
    floors = np.ceil(np.minimum(kept, 2.0**62)).astype(np.int64)
    givers: list[Giver] = []
    undone: list[int] = []
    for leaf in structure.leaves:
        if leaf == row or not structure.queues[leaf].spec.reclaimable:
            continue
        if by_guarantee[leaf] or by_share[leaf]:
            rule = GUARANTEED if by_guarantee[leaf] else SHARE
            top = int(branch[leaf])
            links = structure.links[leaf]
            path = links[: links.index(top) + 1]
            least = float(over[leaf]), top, path, int(bound[leaf]), int(floors[leaf])
            without = () if rule == GUARANTEED else tuple(np.flatnonzero(lacks[top]).tolist())
            givers.append(Giver(leaf, rule, *least, without))
        elif over[leaf] > 1:
            undone.append(leaf)
    return givers, undone


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

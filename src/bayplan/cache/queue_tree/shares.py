"""Fair shares: how much of the cluster each queue is entitled to at this moment.

The room of the cluster flows down the tree, each resource by itself. What a queue *needs* is its
demand, or its limit where that is less. The children of one parent divide the parent's share:

1. Each gets what it needs of its guaranteed amount. Where these sums exceed the parent's share (a
   node was lost, or more is guaranteed than there is), they are cut in proportion to what is
   guaranteed.
2. What is left goes to the children with the highest priority that need more, by weight, then to
   those with the next lower priority, and in the end to those of weight 0.

"By weight" is water-filling: each child gets ``weight * level``, but no more than it needs, with
the highest level for which there is room. An example with room 12, weights 1, 1, 2 and needs
2, 9, 9: at level 2 the first one has all that it needs; the other 10 are divided 1:2. The level
becomes 10/3, the shares are 2, 3 and 6 (rounded down; the rest of 1 stays idle).

With the children sorted by ``need / weight``, those that get all they need come first. Whether the
k-th does is seen from running sums: all before it have what they need, and it and all after it
stand at its level. So one sort and two running sums answer for all parents at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import IntArray

FloatArray = npt.NDArray[np.float64]


def needs(
    parent: IntArray, levels: Sequence[IntArray], demand: IntArray, limit: IntArray
) -> IntArray:
    """What each queue can use: the demand, cut by the limits of the queue and its descendants.

    Args:
        parent: (q,) the row of each queue's parent, -1 for none.
        levels: the rows by depth, roots first.
        demand: (q, r) of the queue's own Pods, running or waiting; 0 where it has children.
        limit: (q, r), `bayplan.cache.amounts.UNLIMITED` for none.
    """
    need = demand.copy()
    for rows in reversed(levels):
        need[rows] = np.minimum(need[rows], limit[rows])
        children = rows[parent[rows] >= 0]
        np.add.at(need, parent[children], need[children])
    return need


def fair_shares(
    capacity: IntArray,
    parent: IntArray,
    levels: Sequence[IntArray],
    need: IntArray,
    guaranteed: IntArray,
    weight: IntArray,
    priority: IntArray,
) -> IntArray:
    """The share of every queue; see the module's docstring.

    Args:
        capacity: (r,) what the cluster has.
        parent: see `needs`.
        levels: see `needs`.
        need: (q, r), from `needs`.
        guaranteed: (q, r).
        weight: (q,) not negative.
        priority: (q,).

    Returns:
        (q, r) whole units: children never have more than their parent, roots never more than
        ``capacity``, and no queue has more than it needs.
    """
    share = np.zeros_like(need)
    r = len(capacity)
    for rows in levels:
        # Siblings are one group for each resource.
        group = (parent[rows, None] + 1) * r + np.arange(r)
        shares = _divide(
            np.concatenate([capacity, share.ravel()]),
            group.ravel(),
            need[rows].ravel(),
            guaranteed[rows].ravel(),
            np.repeat(weight[rows], r),
            np.repeat(priority[rows], r),
        )
        share[rows] = shares.reshape(len(rows), r)
    return share


def _divide(
    room: IntArray,
    group: IntArray,
    need: IntArray,
    guaranteed: IntArray,
    weight: IntArray,
    priority: IntArray,
) -> IntArray:
    """The shares of siblings; ``room[group]`` is what the siblings of a group have together."""
    share = np.minimum(guaranteed, need)
    over = _sums(share, group, room) > room
    if over.any():
        cut = over[group] & (share > 0)
        share[cut] = fill(room, share[cut], guaranteed[cut], group[cut])
    for turn, turn_weight in _turns(weight, priority):
        want = need[turn] - share[turn]
        if want.any():
            rest = room - _sums(share, group, room)
            share[turn] += fill(rest, want, turn_weight, group[turn])
    return share


def _turns(weight: IntArray, priority: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """The queues served together, with weights: by priority; weight 0 comes last."""
    for value in np.unique(priority)[::-1]:
        turn = np.flatnonzero((priority == value) & (weight > 0))
        yield turn, weight[turn]
    idle = np.flatnonzero(weight == 0)
    yield idle, np.ones(len(idle), np.int64)


def _sums(amounts: IntArray, group: IntArray, room: IntArray) -> IntArray:
    sums = np.zeros(len(room), np.int64)
    np.add.at(sums, group, amounts)
    return sums


def fill(room: IntArray, want: IntArray, weight: IntArray, group: IntArray) -> IntArray:
    """Water-filling within each group: (n,) whole units, at most ``want`` each.

    Args:
        room: (g,) what each group divides.
        want: (n,).
        weight: (n,) above 0.
        group: (n,) an index into ``room``.
    """
    order = np.lexsort((want / weight, group))
    wants, weights, groups = want[order], weight[order], group[order]
    first = np.searchsorted(groups, groups)
    before = _before(wants, first)
    total = np.bincount(groups, weights, len(room))
    standing = total[groups] - _before(weights, first)
    # Multiplied out: a division would round.
    full = wants * standing <= (room[groups] - before) * weights
    satisfied = np.bincount(groups[full], wants[full], len(room))
    thirsty = np.bincount(groups[~full], weights[~full], len(room))
    level = (room - satisfied) / np.maximum(thirsty, 1)
    shares = np.empty_like(want)
    flowing = np.floor(level[groups] * weights).astype(np.int64)
    shares[order] = np.where(full, wants, np.clip(flowing, 0, wants))
    return shares


def _before(amounts: IntArray, first: IntArray) -> FloatArray:
    """The sum of the elements before each element of a group; ``first`` is the group's start.

    In whole numbers: other groups count bytes, beside which single devices would be rounded away.
    """
    running = np.cumsum(amounts) - amounts
    before: FloatArray = (running - running[first]).astype(np.float64)
    return before

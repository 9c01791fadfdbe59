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
becomes 10/3, the shares 2, 3 1/3 and 6 2/3.

Shares are whole: rounded down, and of what is left each child gets one unit in the order of the
largest remainder, the highest priority, the highest weight, the name. In the example the third one
gets it: 2, 3 and 7. So nothing that somebody needs is nobody's, not even the last device.

With the children sorted by ``need / weight``, those that get all they need come first. Whether the
k-th does is seen from running sums: all before it have what they need, and it and all after it
stand at its level. So one sort and two running sums answer for all parents at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import BoolArray, IntArray

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


def needed_guarantees(
    parent: IntArray, levels: Sequence[IntArray], guaranteed: IntArray, need: IntArray
) -> IntArray:
    """(q, r) what of the guarantees is needed by whom they are for; arguments as in `fair_shares`.

    What a child does not need of its guarantee is not guaranteed to its siblings.
    """
    needed = np.minimum(guaranteed, need)
    for rows in reversed(levels):
        children = rows[parent[rows] >= 0]
        of_children, their_need = np.zeros((2, *need.shape), np.int64)
        np.add.at(of_children, parent[children], guaranteed[children])
        np.add.at(their_need, parent[children], needed[children])
        above = np.unique(parent[children])
        own = np.maximum(guaranteed[above] - of_children[above], 0)
        needed[above] = np.minimum(needed[above], own + their_need[above])
    return needed


class Shares(NamedTuple):
    """What queues are entitled to.

    Attributes:
        whole: (q, r) the shares: children never have more than their parent, roots never more than
            there is, and no queue has more than it needs.
        exact: (q, r) the same before rounding, where a resource is no count of devices. Equal
            queues have equal ones.
        guaranteed: (q, r) what of `whole` is guaranteed; less than the Queue says where it needs
            less, or where more is guaranteed than there is.
        contended: (q, r) whether the queue and its siblings need more than they have together.
    """

    whole: IntArray
    exact: FloatArray
    guaranteed: IntArray
    contended: BoolArray

    @classmethod
    def none(cls, *shape: int) -> Shares:
        """No shares, of so many queues and resources."""
        amounts = np.zeros(shape or (0, 0), np.int64)
        return cls(amounts, amounts.astype(np.float64), amounts.copy(), amounts.astype(np.bool_))

    def compared_by(self, columns: BoolArray) -> Shares:
        """The same where only some (r,) columns count."""
        return self._replace(contended=self.contended & columns)

    def saturation(self, used: IntArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        """(n,) the largest ``used / share`` of a contended resource; infinite without a share.

        Args:
            used: (n, r)
            rows: (n,) the queues.
        """
        return self.ratios(used, rows).max(axis=-1, initial=0.0)  # type: ignore[no-any-return]

    def ratios(self, used: IntArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        """(n, r) ``used / share`` of each resource, 0 where it is not contended."""
        share = self.exact[rows]
        counts = self.contended[rows] & (used > 0)
        without = np.where(counts, np.inf, 0.0)
        ratios: FloatArray = np.divide(used, share, out=without, where=counts & (share > 0))
        return ratios


def fair_shares(
    capacity: IntArray,
    parent: IntArray,
    levels: Sequence[IntArray],
    need: IntArray,
    guaranteed: IntArray,
    weight: IntArray,
    priority: IntArray,
    divisible: BoolArray,
) -> Shares:
    """The share of every queue; see the module's docstring.

    Args:
        capacity: (r,) what the cluster has.
        parent: see `needs`.
        levels: see `needs`.
        need: (q, r), from `needs`.
        guaranteed: (q, r).
        weight: (q, r), or (q, 1); not negative.
        priority: (q,).
        divisible: (r,) whether one unit is too little to matter: cores, bytes.
    """
    shares = Shares.none(*need.shape)
    r = len(capacity)
    for rows in levels:
        # Siblings are one group for each resource.
        group = ((parent[rows, None] + 1) * r + np.arange(r)).ravel()
        room = np.concatenate([capacity, shares.whole.ravel()])
        columns = _divide(
            room,
            group,
            need[rows].ravel(),
            guaranteed[rows].ravel(),
            np.broadcast_to(weight[rows], (len(rows), r)).ravel(),
            np.repeat(priority[rows], r),
        )
        for column, found in zip(shares, columns, strict=True):
            column[rows] = found.reshape(len(rows), r)
    shares.exact[:, ~divisible] = shares.whole[:, ~divisible]
    return shares


def _divide(
    room: IntArray,
    group: IntArray,
    need: IntArray,
    guaranteed: IntArray,
    weight: IntArray,
    priority: IntArray,
) -> Shares:
    """The shares of siblings; ``room[group]`` is what the siblings of a group have together."""
    share = np.minimum(guaranteed, need)
    exact = share.astype(np.float64)
    over = _sums(share, group, room) > room
    if over.any():
        cut = over[group] & (share > 0)
        first = np.lexsort((-weight[cut], -priority[cut]))
        share[cut], exact[cut] = fill(room, share[cut], guaranteed[cut], group[cut], first)
    kept = share.copy()
    for turn, turn_weight in _turns(weight, priority):
        want = need[turn] - share[turn]
        if want.any():
            rest = room - _sums(share, group, room)
            first = np.argsort(-turn_weight, kind="stable")
            more, more_exact = fill(rest, want, turn_weight, group[turn], first)
            share[turn] += more
            exact[turn] += more_exact
    needed = np.bincount(group, need, len(room))  # floats: amounts may be absurd
    return Shares(share, exact, kept, (needed > room)[group])


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


def fill(
    room: IntArray, want: IntArray, weight: IntArray, group: IntArray, first: IntArray
) -> tuple[IntArray, FloatArray]:
    """Water-filling within each group: (n,) whole units, at most ``want`` each; and not rounded.

    Args:
        room: (g,) what each group divides.
        want: (n,).
        weight: (n,) above 0.
        group: (n,) an index into ``room``.
        first: (n,) indices in the order in which equal remainders get a unit.
    """
    order = np.lexsort((want / weight, group))
    wants, weights, groups = want[order], weight[order], group[order]
    begin = np.searchsorted(groups, groups)
    before = _before(wants, begin)
    total = np.bincount(groups, weights, len(room))
    standing = total[groups] - _before(weights, begin)
    # Multiplied out: a division would round.
    full = wants * standing <= (room[groups] - before) * weights
    satisfied = np.bincount(groups[full], wants[full], len(room))
    thirsty = np.bincount(groups[~full], weights[~full], len(room))
    level = (room - satisfied) / np.maximum(thirsty, 1)
    shares = want.copy()
    below = np.sort(order[~full])
    flowing = level[group[below]] * weight[below]
    shares[below] = np.clip(np.floor(flowing), 0, want[below])
    exact = shares.astype(np.float64)
    exact[below] = flowing
    _hand_out(shares, room - _sums(shares, group, room), group, below, flowing, first)
    return shares, exact


def _hand_out(
    shares: IntArray,
    left: IntArray,
    group: IntArray,
    below: IntArray,
    flowing: FloatArray,
    first: IntArray,
) -> None:
    """Add one unit each to as many ``below`` as ``left[group]`` says.

    Less than nothing is left where a product of floats was rounded up to a whole number; then the
    smallest remainders give one back.
    """
    rank = np.empty(len(shares), np.int64)
    rank[first] = np.arange(len(first))
    remainder = np.round(flowing - shares[below], 6)
    order = np.lexsort((rank[below], -remainder, group[below]))
    ordered = below[order]
    groups = group[ordered]
    begin, end = np.searchsorted(groups, groups), np.searchsorted(groups, groups, "right")
    position = np.arange(len(ordered))
    shares[ordered[position - begin < left[groups]]] += 1
    shares[ordered[end - 1 - position < -left[groups]]] -= 1


def _before(amounts: IntArray, first: IntArray) -> FloatArray:
    """The sum of the elements before each element of a group; ``first`` is the group's start.

    In whole numbers: other groups count bytes, beside which single devices would be rounded away.
    """
    running = np.cumsum(amounts) - amounts
    before: FloatArray = (running - running[first]).astype(np.float64)
    return before

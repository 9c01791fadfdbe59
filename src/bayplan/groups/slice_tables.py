"""Knapsack: what a number of slices costs at least, by domain, on a tree of levels.

For each domain there is a table of what 0, 1, 2... slices cost there (`Table.cost`). A cost is a
number whose highest digits count domains of the widest level, whose next ones count those of the
level below, and so on; the last ones are the room of the leaves. The table of a domain is made of
those of the domains within, one joined after the other.

Example: slices of 8 in racks, two outer slices of 16 in blocks. Block b1 has racks for 3 and 1
slices, b2 has racks for 2, 1 and 1. Outer slices are two each: b1 holds (3 + 1) / 2 = 2, b2 holds 2
as well. One block is enough; two racks of b1 hold four slices, in b2 it takes three: b1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.groups.slice_problem import Chosen, SliceProblem, by_domain, held_in, product

NEVER = 1 << 61
"""The cost of what cannot be; two of them can be added."""
_CELLS_AT_ONCE = 1 << 21


class TooLargeError(Exception):
    """The exact answer would take too long."""


class Weights:
    """What one more domain of each level costs, the leaves' last; see the module's docstring.

    Args:
        room: ``(m,)`` of all leaves.
        levels: how many domains each level has, the widest first, the leaves last.
        inner: how many of the innermost slices there are; no more domains are ever used.
    """

    def __init__(self, room: IntArray, levels: Sequence[int], inner: int) -> None:
        self.most = [min(number, inner) for number in levels]
        digits = int(np.prod([number + 1 for number in self.most], dtype=object))
        used = np.sort(room)[::-1][: self.most[-1]].astype(object)
        self._shift = 0
        while (int(sum(room >> self._shift for room in used)) + 1) * digits >= NEVER:
            self._shift += 1
        weight = int(sum(room >> self._shift for room in used)) + 1
        self.levels: list[int] = []
        for number in reversed(self.most):
            self.levels.insert(0, weight)
            weight *= number + 1

    def leaves(self, room: IntArray) -> IntArray:
        """``(m,)`` what each leaf costs."""
        return (room >> self._shift) + self.levels[-1]

    def number_of_leaves(self, cost: IntArray) -> IntArray:
        """How many leaves there are in a cost."""
        return cost // self.levels[-1] % (self.most[-1] + 1)

    def numbers(self, cost: int) -> int:
        """The cost without the room."""
        return cost // self.levels[-1]


class Table(ABC):
    """What a number of slices costs in a set of leaves.

    Attributes:
        cost: ``(n,)`` by number of slices; never less for more slices.
    """

    cost: IntArray

    @abstractmethod
    def chosen(self, number: int) -> Chosen:
        """The leaves for so many slices."""


class _Leaves(Table):
    """Leaves of one parent: whatever is taken of a leaf costs the same.

    Of leaves that hold equally many slices only the cheapest matter, as many as could be used.
    """

    def __init__(self, leaves: IntArray, slices: IntArray, cost: IntArray, most: int) -> None:
        slices = np.minimum(slices, most)
        order = np.lexsort((leaves, cost, slices))
        _, first = np.unique(slices[order], return_index=True)
        rank = np.arange(len(order)) - np.repeat(first, np.diff([*first, len(order)]))
        order = order[rank * slices[order] < most]
        self._leaves, self._slices = leaves[order].tolist(), slices[order].tolist()
        self._taken = np.zeros((len(order), most + 1), np.bool_)
        best = np.full(most + 1, NEVER, np.int64)
        best[0] = 0
        with_leaf = np.empty_like(best)
        pairs = zip(self._slices, cost[order].tolist(), strict=True)
        for index, (holds, price) in enumerate(pairs):
            with_leaf[:holds] = price
            np.add(best[: most + 1 - holds], price, out=with_leaf[holds:])
            np.less(with_leaf, best, out=self._taken[index])
            np.minimum(with_leaf, best, out=best)
        self.cost = best

    def chosen(self, number: int) -> Chosen:
        leaves = []
        for index in reversed(range(len(self._leaves))):
            if number and self._taken[index, number]:
                leaves.append(self._leaves[index])
                number = max(number - self._slices[index], 0)
        return Chosen(leaves, [])


class _Whole(Table):
    """A domain of a level: one more of these if used, and whole slices if the level has any."""

    def __init__(
        self, within: Table, weight: int, ratio: int, too_few: Callable[[IntArray], BoolArray]
    ) -> None:
        self._within, self._ratio = within, ratio
        cost = within.cost[:: ratio or 1].copy()
        if ratio:
            cost[too_few(cost)] = NEVER
        cost[1:] = np.minimum(cost[1:] + weight, NEVER)
        self.cost = cost

    def chosen(self, number: int) -> Chosen:
        amount = number * (self._ratio or 1)
        chosen = self._within.chosen(amount)
        return Chosen([], chosen.closed(amount)) if self._ratio else chosen


class _AnyOf(Table):
    """Domains of one parent, of which one is enough for all slices: the best one, then."""

    def __init__(self, tables: Sequence[Table], most: int) -> None:
        costs = np.full((len(tables), most + 1), NEVER, np.int64)
        for row, table in zip(costs, tables, strict=True):
            row[: len(table.cost)] = table.cost[: most + 1]
        self._tables, self._at = tables, costs.argmin(axis=0)
        self.cost = costs.min(axis=0)

    def chosen(self, number: int) -> Chosen:
        return self._tables[int(self._at[number])].chosen(number)


class _Joined(Table):
    """Domains of one parent: the best split of slices among them."""

    def __init__(self, tables: Sequence[Table], most: int) -> None:
        self._tables = tables
        self._splits: list[IntArray] = []
        best = np.full(most + 1, NEVER, np.int64)
        best[0] = 0
        for table in tables:
            cost = table.cost[: most + 1]
            cost = cost[: int(np.flatnonzero(cost < NEVER)[-1]) + 1]
            best, split = _join(best, cost)
            self._splits.append(split)
        self.cost = best

    def chosen(self, number: int) -> Chosen:
        all_ = Chosen([], [])
        for table, split in zip(reversed(self._tables), reversed(self._splits), strict=True):
            if share := int(split[number]):
                chosen = table.chosen(share)
                all_.open.extend(chosen.open)
                all_.shares.extend(chosen.shares)
                number -= share
        return all_


def _join(best: IntArray, cost: IntArray) -> tuple[IntArray, IntArray]:
    """The least cost of each number of slices with one more domain, and how many that gets."""
    size, width = len(best), len(cost)
    padded = np.concatenate((np.full(width - 1, NEVER, np.int64), best))
    windows, reverse = sliding_window_view(padded, width), cost[::-1]
    joined, split = np.empty(size, np.int64), np.empty(size, np.int64)
    step = max(_CELLS_AT_ONCE // width, 1)
    for start in range(0, size, step):
        sums = windows[start : start + step] + reverse
        at = sums.argmin(axis=1)
        split[start : start + step] = width - 1 - at
        joined[start : start + step] = sums[np.arange(len(at)), at]
    return np.minimum(joined, NEVER), split


class Knapsack:
    """The tables of one problem; ``cells`` is how many numbers may still be looked at."""

    def __init__(self, problem: SliceProblem, weights: Weights, cells: int) -> None:
        self._problem, self._weights, self.cells = problem, weights, cells
        self._prices = weights.leaves(problem.room)
        self._first = len(weights.levels) - len(problem.above) - 1

    def table(self, least: int) -> Table:
        """The table of all leaves that hold at least ``least`` slices.

        Raises:
            TooLargeError: that takes too long.
        """
        self._least = least
        leaves = np.flatnonzero(self._problem.slices >= least)
        return self._table(leaves, 0, self._problem.number)

    def _table(self, leaves: IntArray, depth: int, most: int) -> Table:
        problem = self._problem
        most = min(most, held_in(problem, leaves, depth))
        if depth == len(problem.above):
            self._spend(len(leaves) * most)
            return _Leaves(leaves, problem.slices[leaves], self._prices[leaves], most)
        ratio, weight = problem.ratios[depth], self._weights.levels[self._first + depth]
        inner = product(problem.ratios[depth:])

        def too_few(cost: IntArray) -> BoolArray:
            needed: IntArray = self._weights.number_of_leaves(cost) * self._least
            return needed > np.arange(len(cost)) * inner

        tables = [
            _Whole(self._table(inside, depth + 1, most * (ratio or 1)), weight, ratio, too_few)
            for inside in by_domain(problem.above[depth], leaves)
        ]
        if any(len(table.cost) > most for table in tables):
            return _AnyOf(tables, most)
        self._spend(sum(len(table.cost) for table in tables) * most)
        return _Joined(tables, most)

    def _spend(self, cells: int) -> None:
        self.cells -= cells
        if self.cells < 0:
            raise TooLargeError

"""Guarantees: which Pods are covered by what their queue is guaranteed.

A guarantee is an amount, Pods come in sizes. So that everybody can tell who is safe, the Pods of a
queue stand in a line, and go through it once:

1. those that are never evicted,
2. those that are covered by the guarantee of a child of the queue,
3. then by priority, the highest first,
4. then by age on their node: who started first stands first.

A Pod is *covered* if it fits into what is left of the guarantee, in every resource that the
guarantee names and the Pod asks for (it asks for one at least); what it asks for is taken off then.
Who does not fit is passed over. Members of a group that are of no use without each other stand and
fit together; those beyond the minimum of their group are covered only where the minimum is.

What is guaranteed on nodes of a kind covers Pods there: each kind has a line of its own, and whom
it covers stands with those of 1. in the line for all nodes. So what is guaranteed on all nodes
includes what is guaranteed on kinds.

An example: 5 GPUs are guaranteed, the Pods take 3, 3 and 2, the oldest first. The first is covered
(2 are left), the second is not, the third is. What is promised is the amount: where one Pod can
take the place of another in the guarantee, either may go. A Pod of 8 that was placed in a queue
with a guarantee of 4, as nobody else wanted the room, is not covered: it borrows all that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import Structure

_ABOVE_ALL = np.iinfo(np.int64).max
"""More than each priority."""


class Line(NamedTuple):
    """Pods as columns.

    Attributes:
        leaves: (p,) their queues; negative for none.
        requests: (p, r)
        priorities: (p,)
        starts: (p,) when they started, for comparison.
        units: (p,) a number that Pods have in common that are of no use without each other.
        bases: (p,) the unit without which the Pod is not covered, such as the minimum of its group;
            where it needs none, or that one is not there, its own.
        never: (p,) whether they are never evicted.
    """

    leaves: IntArray
    requests: IntArray
    priorities: IntArray
    starts: IntArray
    units: IntArray
    bases: IntArray
    never: BoolArray

    def within(self, inside: IntArray) -> Line:
        """Some of the Pods."""
        return Line(*(column[inside] for column in self))  # type: ignore[arg-type]


class Guarantees:
    """Who is covered, by queue; each queue is looked at once.

    Args:
        structure: the queues.
        guaranteed: (q, r)
        line: the Pods.
    """

    def __init__(self, structure: Structure, guaranteed: IntArray, line: Line) -> None:
        self._structure, self._guaranteed, self._line = structure, guaranteed, line
        self._covered: dict[int, BoolArray] = {}
        self._by_line: dict[int, BoolArray] = {}
        self._nobody = np.zeros(len(line.leaves), np.bool_)

    def covered(self, row: int) -> BoolArray:
        """(p,) who is covered by what the queue at ``row`` is guaranteed."""
        if row not in self._covered:
            self._covered[row] = np.logical_or.reduce(self.by_line(row))
        return self._covered[row]

    def by_line(self, row: int) -> BoolArray:
        """(l, p) the same for each of `Structure.lines`."""
        if row not in self._by_line:
            nobody, lines = self._nobody, self._structure.lines
            on_kinds = [self._go_through(row, columns, nobody) for columns in lines[1:]]
            before: BoolArray = np.logical_or.reduce([nobody, *on_kinds])
            self._by_line[row] = np.array([self._go_through(row, lines[0], before), *on_kinds])
        return self._by_line[row]

    def protected(self, path: tuple[int, ...]) -> BoolArray:
        """(p,) who is covered by one of these queues at least."""
        covered = self._nobody
        for row in path:
            if self._guaranteed[row].any():
                covered = covered | self.covered(row)
        return covered

    def less_covered(
        self, paths: Iterable[tuple[int, ...]], without: IntArray
    ) -> tuple[int, ...] | None:
        """The first path with a queue in which less is covered without some Pods; None if none.

        Others may take their place. Counted from each priority upwards: a lower priority is no
        substitute.
        """
        rest, lines = self._without(without), range(len(self._structure.lines))
        levels = np.unique(self._line.priorities[without]).tolist()
        for path in paths:
            for at in product(path, lines, levels):
                if (rest.amounts_covered(*at) < self.amounts_covered(*at)).any():
                    return path
        return None

    def loser(self, chain: tuple[int, ...], without: IntArray) -> int | None:
        """The queue in which less is covered if the last Pod takes the place of some; None if none.

        The first difference counts: from the first queue of ``chain`` on, on kinds of nodes before
        all nodes, from those that are never evicted to the lowest priority.
        """
        last = len(self._line.leaves) - 1
        before, after = self._without(np.array([last])), self._without(without)
        levels = [_ABOVE_ALL, *np.unique(self._line.priorities)[::-1].tolist()]
        for row in chain:
            for line in reversed(range(len(self._structure.lines))):
                for level in levels if self._guaranteed[row].any() else ():
                    had, has = (some.amounts_covered(row, line, level) for some in (before, after))
                    if (has != had).any():
                        return None if (has >= had).all() else row
        return None

    def _without(self, pods: IntArray) -> Guarantees:
        left = np.setdiff1d(np.arange(len(self._line.leaves)), pods)
        return Guarantees(self._structure, self._guaranteed, self._line.within(left))

    def kept_beside_last(self, chain: tuple[int, ...]) -> BoolArray:
        """(p,) who may have to stay so that `loser` finds nobody.

        Where that one is covered, a lower priority may go: what is covered above it stays.
        """
        priorities = self._line.priorities
        kept: BoolArray = self._nobody
        for row in chain:
            if self._guaranteed[row].any():
                covered = self.covered(row)
                if covered[-1]:
                    covered = covered & (priorities >= priorities[-1])
                kept = kept | covered
                if covered[-1]:
                    break
        return kept

    def amounts_covered(self, row: int, line: int, level: int) -> IntArray:
        """(c,) what a line covers of the priority ``level`` or a higher one.

        What is never evicted is included.
        """
        columns, pods = self._structure.lines[line], self._line
        counts = self.by_line(row)[line] & ((pods.priorities >= level) | pods.never)
        named = columns[self._guaranteed[row, columns] > 0]
        amounts: IntArray = pods.requests[np.ix_(counts, named)].sum(axis=0)
        return amounts

    def _go_through(self, row: int, columns: IntArray, before: BoolArray) -> BoolArray:
        """(p,) who is covered in some columns; those ``before`` stand first."""
        structure, line = self._structure, self._line
        covered = np.zeros(len(line.leaves), np.bool_)
        named = columns[self._guaranteed[row, columns] > 0]
        if not len(named):
            return covered
        inside = np.flatnonzero(structure.is_below(row)[line.leaves] & (line.leaves >= 0))
        asked = line.requests[np.ix_(inside, named)]
        asking = asked.any(axis=1)
        inside, asked = inside[asking], asked[asking]
        room = self._guaranteed[row, named]
        if (asked.sum(axis=0) <= room).all():
            covered[inside] = True
            return covered
        first = before.copy()
        for child in np.flatnonzero(structure.parent == row).tolist():
            first |= self.covered(child)
        some = line.within(inside)
        names, unit = np.unique(some.units, return_inverse=True)
        together = np.zeros((len(names), len(room)), np.int64)
        np.add.at(together, unit, asked)
        keys = (
            _of_units(unit, some.starts, len(names), np.minimum),
            -_of_units(unit, some.priorities, len(names), np.maximum),
            -_of_units(unit, first[inside].astype(np.int64), len(names), np.maximum),
            -_of_units(unit, some.never.astype(np.int64), len(names), np.maximum),
        )
        order = np.lexsort(keys)
        base = np.arange(len(names))
        there = np.isin(some.bases, names)
        base[unit[there]] = np.searchsorted(names, some.bases[there])
        covered[inside] = _fit_after_bases(room, together, order, base)[unit]
        return covered


def _fit_after_bases(
    room: IntArray, together: IntArray, order: IntArray, base: IntArray
) -> BoolArray:
    """(u,) which units fit, one by one, where the base of a unit fits, too.

    A base comes before the units that need it, so the first unit that is here without its base is
    here in vain whatever comes later.
    """
    while True:
        fitting = np.zeros(len(base), np.bool_)
        fitting[order[fit_one_by_one(room, together[order])]] = True
        in_vain = fitting[order] & ~fitting[base[order]]
        if not in_vain.any():
            return fitting
        first = base[order[in_vain.argmax()]]
        order = order[(base[order] != first) | (order == first)]


def _of_units(unit: IntArray, values: IntArray, number: int, of_two: np.ufunc) -> IntArray:
    """(u,) one value for each unit: the smallest or largest of its Pods."""
    result = np.full(number, np.iinfo(np.int64).max if of_two is np.minimum else -(2**62))
    of_two.at(result, unit, values)
    return result


def fit_one_by_one(room: IntArray, requests: IntArray) -> IntArray:
    """The Pods that fit into ``room`` one after the other; who does not fit is passed over.

    Args:
        room: (c,)
        requests: (n, c) in their order.

    Returns:
        Indices, in that order.
    """
    chosen: list[IntArray] = []
    left = np.flatnonzero((requests <= room).all(axis=1))
    while len(left):
        sums = requests[left].cumsum(axis=0)
        number = np.count_nonzero((sums <= room).all(axis=1))  # sums only grow
        chosen.append(left[:number])
        room, left = room - sums[number - 1], left[number:]
        if len(left):
            left = left[(requests[left] <= room).all(axis=1)]
    return np.concatenate(chosen) if chosen else left

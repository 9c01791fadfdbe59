"""LoadGroups: the rows that are equally full, for Pods of sizes not asked about before.

To evaluate all nodes for a Pod of a new size takes some 35 passes over all rows. But answers by
load (`LiveNodeTable.load`) are the same for equal loads, and of a million nodes many are equal:
all empty ones of a kind are. So the rows are grouped by load, one row of each group is evaluated,
and what it says holds for the group. A row whose Pods have changed goes to another group.

Example: three nodes have one Pod of 1 CPU, one has two, all others none. For a Pod of 700m three
rows are evaluated; with LeastAllocated the empty ones have the highest score. The fourth of these
(index 3) is a look into the sorted rows of their group.

The answers are kept for nobody: `GroupedAnswers` hold for one attempt.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, Load
from bayplan.engine.row_answers.joined import RowAnswers
from bayplan.engine.row_answers.part import PartAnswers, far_behind, masked
from bayplan.engine.ties import Ties

_NONE = -1
_SPARE = 64
"""Groups for which there is room."""
_LEAST = 8
"""Groups must have so many rows on average, else to evaluate all rows takes no longer."""


class LoadGroups:
    """The rows with a node that ``others``, the parts not by load, accept; grouped by load.

    Attributes:
        wanted: how often somebody would have used the groups.
    """

    def __init__(self) -> None:
        self.wanted = 0
        self._accepted: BoolArray = np.empty(0, np.bool_)
        self._codes: IntArray = np.empty(0, np.int32)
        """The group of each row."""
        self._of_load: dict[Load, int] = {}
        self._members: list[array[int]] = []
        """The rows of each group, ascending."""
        self._sizes = self._first = np.empty(0, np.int64)
        """By group, how many members there are, and the first one; longer than there are groups."""
        self._node_position = self._pod_position = -1
        self._generations: list[int] = []

    def refresh(self, nodes: LiveNodeTable, others: Sequence[PartAnswers]) -> None:
        """Bring the groups up to date with ``nodes``; ``others`` are up to date."""
        moved = nodes.node_journal.since(self._node_position)
        moved_pods = nodes.pod_journal.since(self._pod_position)
        generations = [part.generation for part in others]
        if (
            moved is None
            or moved_pods is None
            or generations != self._generations
            or len(nodes) != len(self._codes)
            or far_behind(len(moved) + len(moved_pods), len(nodes))
            or len(self._members) > 2 * len(self.present()) + _SPARE
        ):
            self._start_over(nodes, others)
        else:
            for row in {*moved, *moved_pods}:
                accepted = nodes.exists.item(row) and all(part.fits.item(row) for part in others)
                self._move(row, self._group(nodes.load(row)) if accepted else _NONE)
        self._generations = generations
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position

    def _start_over(self, nodes: LiveNodeTable, others: Sequence[PartAnswers]) -> None:
        self._accepted = nodes.exists.copy()
        for part in others:
            self._accepted &= part.fits
        rows = self._accepted.nonzero()[0]
        codes = _equal([column[rows] for column in nodes.load_columns()], len(rows))
        order = codes.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        self._codes = np.full(len(nodes), _NONE, np.int32)
        self._codes[rows] = codes
        sorted_rows = rows[order].astype(np.int32)
        self._members = [array("i", each.tobytes()) for each in np.split(sorted_rows, starts)[1:]]
        self._sizes = np.array([len(members) for members in self._members], np.int64)
        self._first = np.array([members[0] for members in self._members], np.int64)
        self._of_load = {nodes.load(row): code for code, row in enumerate(self._first.tolist())}

    def _group(self, load: Load) -> int:
        group = self._of_load.get(load)
        if group is None:
            group = self._of_load[load] = len(self._members)
            self._members.append(array("i"))
            if group == len(self._sizes):
                more = np.zeros(group + _SPARE, np.int64)
                self._sizes = np.concatenate([self._sizes, more])
                self._first = np.concatenate([self._first, more])
        return group

    def _move(self, row: int, group: int) -> None:
        before = self._codes.item(row)
        if before == group:
            return
        self._codes[row], self._accepted[row] = group, group != _NONE
        for each, sign in ((before, -1), (group, 1)):
            if each != _NONE:
                members = self._members[each]
                at = bisect_left(members, row)
                members.insert(at, row) if sign > 0 else members.pop(at)
                self._sizes[each] += sign
                self._first[each] = members[0] if members else 0

    # What is asked

    @property
    def nbytes(self) -> int:
        """Bytes that the groups take, roughly."""
        return 2 * self._codes.nbytes + self._accepted.nbytes

    def present(self) -> IntArray:
        """The groups that have rows."""
        return self._sizes.nonzero()[0]

    @property
    def are_few(self) -> bool:
        """Whether it is faster to evaluate groups than rows."""
        return len(self.present()) * _LEAST <= len(self._codes)

    def examples(self, groups: IntArray) -> IntArray:
        """One row of each of ``groups``."""
        return self._first[groups]

    def count(self, groups: IntArray) -> int:
        """How many rows ``groups`` have."""
        return int(self._sizes[groups].sum())

    def members(self, group: int) -> array[int]:
        """The rows of ``group``, ascending. Read only."""
        return self._members[group]

    def but(self, groups: IntArray) -> BoolArray:
        """``(n,)`` the rows of all groups but these."""
        rows = self._accepted.copy()
        for group in groups.tolist():
            rows[np.array(self._members[group])] = False
        return rows

    def spread(self, groups: IntArray, numbers: IntArray) -> IntArray:
        """``(n,)`` the number of each row's group, -1 of other rows."""
        by_group = np.full(len(self._sizes) + 1, -1, numbers.dtype)
        by_group[groups] = numbers
        return by_group[self._codes]


class GroupedAnswers(RowAnswers):
    """The answers for one attempt, by groups; `refresh` is never asked for.

    Args:
        parts: of the Pod; the first one answers by load, the others have the same for all rows.
        groups: up to date.

    Raises:
        AttemptFault: a plugin broke.
    """

    def __init__(
        self,
        parts: Sequence[PartAnswers],
        unconcerned: frozenset[str],
        groups: LoadGroups,
        pod: Pod,
        nodes: LiveNodeTable,
    ) -> None:
        super().__init__(parts, None, unconcerned)
        present = groups.present()
        fits, scores = parts[0].ask_by_load(pod, nodes.take(groups.examples(present)))
        self.fits = groups.but(present[~fits])
        self._groups, self._fitting = groups, present[fits]
        self.count = groups.count(self._fitting)
        totals = np.zeros(len(self._fitting), self._totals.dtype)
        if scores is not None:
            totals += scores[fits]
        totals += sum(part.kept.constant for part in parts)
        self._by_group: IntArray = totals

    def totals(self, feasible: BoolArray | None = None) -> IntArray:
        """See `RowAnswers.totals`."""
        totals = self._groups.spread(self._fitting, self._by_group)
        return totals if feasible is None else masked(feasible, totals)

    def best(self) -> Ties:
        """See `RowAnswers.best`."""
        total = np.maximum.reduce(self._by_group, initial=-1)
        tied = self._fitting[self._by_group == total]
        return _GroupTies([self._groups.members(group) for group in tied.tolist()], total)


class _GroupTies(Ties):
    """The rows of some groups, listed only when all are asked for."""

    def __init__(self, members: Sequence[array[int]], total: int) -> None:
        self._members, self.total = members, total
        self.count = sum(map(len, members))

    @cached_property
    def rows(self) -> IntArray:
        """See `Ties.rows`."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *map(np.array, self._members)]))

    def row(self, index: int) -> int:
        """See `Ties.row`."""
        if len(self._members) == 1:
            return self._members[0][index]
        *small, larger, largest = sorted(self._members, key=len)
        others = sorted(chain(*small))
        last = max(self._members, key=lambda members: members[-1])[-1]

        def up_to(row: int) -> int:
            return sum([bisect_right(each, row) for each in (others, larger, largest)])

        return bisect_left(range(last), index + 1, key=up_to)


def _equal(columns: Sequence[IntArray], n: int) -> IntArray:
    """``(n,)`` numbers from 0 on, the same where all columns have the same number."""
    differing = [column for column in columns if n and (column != column[0]).any()]
    multiplier = 0x9E3779B97F4A7C15
    while True:
        hashes = np.zeros(n, np.uint64)
        for column in differing:
            hashes = (hashes ^ column.view(np.uint64)) * np.uint64(multiplier)
            hashes ^= hashes >> np.uint64(29)
        _, first, codes = np.unique(hashes, return_index=True, return_inverse=True)
        if all(np.array_equal(column[first][codes], column) for column in differing):
            return codes
        multiplier += 2  # two different ones have one hash

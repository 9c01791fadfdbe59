"""Capacity: how many Pods of a preemptor nodes could take if units were gone, by resources alone.

Three questions of `bayplan.preemption.shortest_prefix` are answered here, with arrays over all
nodes. How many Pods fit where so much is free is `bayplan.preemption.member_fit`, an upper bound.

**How many units have to go at least?** (`shortest`). A prefix of the units is enough where

- in one domain as many Pods fit as the preemptor's minimum, in whole slices if it has any, and
- for each ceiling (a limit, wherever its Pods are) the prefix frees at least its excess.

Both sides only grow with the prefix, so the shortest one is found by halving; a prefix shorter than
that cannot be the answer, whatever plugins say.

**Where could the members go then?** (`fill`). One place for each member of the minimum, in the
domain where most fit. What a member takes is subtracted before the next one, so this is exact for
resources; kinds that compete for a node may leave it with fewer places than the bound promised.

**Which units of a prefix may stay after all?** Beside members in given places (`spared`), which is
exact for resources; or wherever members may go (`spared_anywhere`), which is a bound again. Units
are put back one by one, the one that should yield last first. After each step hold

- nothing is overdrawn on the nodes of the members, or the minimum fits somewhere: room, and
- for each ceiling the units that still go free at least its excess: the slack is not negative.

So what goes in the end is enough by both measures, if what went at first was; a plan proves it.

An example: nodes n1 and n2 of 4 CPU, members of 3 CPU, minimum 1, a ceiling of excess 1 that counts
CPUs of team a. Units: u0 (n1, 1 CPU, team b), u1 (n1, 3 CPU, team a), u2 (n2, 2 CPU, team a); n2
has another 2 CPU in use. Prefixes: u0 frees 1 CPU on n1: no copy. u0 u1: 4 CPU free on n1, one
copy, and 3 of 1 freed: ``shortest`` is 2. ``fill`` puts the member on n1. ``spared``: u1 first; 3
CPU are not there beside the member, so it goes. u0: 1 CPU is there, and the ceiling asks nothing of
it, so it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from operator import ge, gt, sub
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray
from bayplan.preemption.eviction_units import EvictionUnits
from bayplan.preemption.member_fit import PODS, Free, MemberFit, OnRow, amounts_of

_FIRST_UNITS = 64


class Ceiling(NamedTuple):
    """A limit independent of nodes, exceeded by the preemptor until enough Pods go.

    Attributes:
        excess: as much has to be freed.
        freed: what it makes of that if a Pod goes.
        by_node: whether that depends on the Pod's node.
    """

    excess: int
    freed: Callable[[Pod], int]
    by_node: bool = False


class _Anywhere:
    """How many Pods of a preemptor fit while Pods are added, one unit after the other.

    Args:
        fit: the preemptor.
        free: what is free; changes before each call of `has_room`.
    """

    def __init__(self, fit: MemberFit, free: Free) -> None:
        self._fit, self._free = fit, free
        self._copies = [fit.copies(need, free.columns) for need in fit.needs]
        self._sums = [fit.sums(copies) for copies in self._copies]

    def has_room(self, added: Sequence[OnRow]) -> bool:
        """Whether the minimum fits beside these, too. If not, they are to be removed again."""
        fit = self._fit
        rows = np.unique(np.array([row for row, _ in added], np.intp))
        copies = [fit.copies(need, self._free.columns, rows) for need in fit.needs]
        sums = [
            total + fit.sums(now - before[rows], rows)
            for total, now, before in zip(self._sums, copies, self._copies, strict=True)
        ]
        if not fit.is_minimum(fit.at_most(sums)):
            return False
        self._sums = sums
        for before, now in zip(self._copies, copies, strict=True):
            before[rows] = now
        return True


class FreedCapacity:
    """Room on all nodes for one preemptor when units are gone.

    Args:
        fit: what fits, and what is free with nobody gone.
        units: who may yield.
        ceilings: what has to be freed beside room on nodes.
    """

    def __init__(
        self, fit: MemberFit, units: EvictionUnits, ceilings: Sequence[Ceiling] = ()
    ) -> None:
        self._fit, self._free, self._units = fit, fit.free, units
        self.ceilings = ceilings
        self._amounts = {name: np.zeros(0, np.int64) for name in fit.free.columns}
        """Of as many Pods of the units as have been asked for."""
        self._freed = [np.zeros(0, np.int64) for _ in ceilings]
        """The same, by ceiling."""

    def shortest(self) -> int | None:
        """How many units have to go at least; None where all of them are not enough.

        More units never make less room, so the number is found by halving. What they free is looked
        up for no more of them than are tried.
        """
        # 1. Double the prefix until it is enough
        low, high = 0, min(_FIRST_UNITS, len(self._units))
        while not self._is_enough(high):
            if high == len(self._units):
                return None
            low, high = high + 1, min(2 * high, len(self._units))
        # 2. Halve what is left between too short and long enough
        while low < high:
            middle = (low + high) // 2
            if self._is_enough(middle):
                high = middle
            else:
                low = middle + 1
        return high

    def _is_enough(self, units: int) -> bool:
        if not self._fit.is_enough(self._free_without(units)):
            return False
        pods = int(self._units.ends[units - 1]) if units else 0
        freed = (int(amounts[:pods].sum()) for amounts in self._freed)
        return all(map(ge, freed, (ceiling.excess for ceiling in self.ceilings)))

    def _free_without(self, units: int) -> dict[str, IntArray]:
        """What is free on each row when the first ``units`` are gone."""
        pods = int(self._units.ends[units - 1]) if units else 0
        self._look_up(pods)
        rows, n = self._units.rows[:pods], len(self._free.columns[PODS])
        return {
            name: self._free.columns[name]
            + np.bincount(rows, amounts[:pods], minlength=n).astype(np.int64)
            for name, amounts in self._amounts.items()
        }

    def _look_up(self, pods: int) -> None:
        known = len(self._amounts[PODS])
        more = [amounts_of(pod) for pod in self._units.pods[known:pods]]
        for name, column in self._amounts.items():
            added = np.fromiter((amounts.get(name, 0) for amounts in more), np.int64, len(more))
            self._amounts[name] = np.concatenate([column, added])
        for index, ceiling in enumerate(self.ceilings):
            added = np.fromiter(map(ceiling.freed, self._units.pods[known:pods]), np.int64)
            self._freed[index] = np.concatenate([self._freed[index], added])

    # Where members could go, and who can stay then

    def fill(self, units: int) -> list[OnRow]:
        """The minimum of the group on rows that have room when the first ``units`` are gone.

        They are in the domain that most Pods fit in, with slices in cells that hold some. Rows with
        room for nothing come first, then those whose units yield first.
        """
        fit, free = self._fit, self._free_without(units)
        outside = (fit.domains != fit.by_domain(free).argmax()) | ~fit.holds_slices(free)
        latest = np.full(len(free[PODS]), -1)
        pods = int(self._units.ends[units - 1]) if units else 0
        np.maximum.at(latest, self._units.rows[:pods], self._units.unit_of_pods()[:pods])
        members: list[OnRow] = []
        for need in fit.needs:
            unpaid = fit.copies(need, self._free.columns) == 0
            copies = fit.copies(need, free)
            copies[outside] = 0
            rows = np.lexsort((latest, unpaid))
            chosen = np.repeat(rows, copies[rows])[: min(need.count, fit.minimum - len(members))]
            for name, amount in need.amounts.items():
                np.subtract.at(free[name], chosen, amount)
            members += [(row, need.pod) for row in chosen.tolist()]
        return members

    def spared(self, gone: Iterable[int], members: Sequence[OnRow]) -> set[int]:
        """The units of ``gone`` that may stay beside ``members``, by resources alone.

        Where there is a choice, those that should yield last stay. Members above the minimum of a
        group are asked after all others: they have to go if the rest does.
        """
        used = {row for row, _ in members}
        touching = {unit: self._placed(unit) for unit in self._touching(used).intersection(gone)}
        free = self._free_with(touching)
        free.take(members)
        return self._spared(gone, touching, free, lambda pods: not free.is_overdrawn(pods, used))

    def spared_anywhere(self, gone: Iterable[int]) -> set[int]:
        """The units of ``gone`` that may stay if members go where there is room, as `spared`."""
        placed = {unit: self._placed(unit) for unit in gone}
        free = self._free_with(placed)
        return self._spared(gone, placed, free, _Anywhere(self._fit, free).has_room)

    def _free_with(self, gone: Mapping[int, Sequence[OnRow]]) -> Free:
        """What is free when these Pods, by unit, are gone."""
        free = deepcopy(self._free)
        for placed in gone.values():
            free.take(placed, -1)
        return free

    def _spared(
        self,
        gone: Iterable[int],
        placed: Mapping[int, Sequence[OnRow]],
        free: Free,
        has_room: Callable[[Sequence[OnRow]], bool],
    ) -> set[int]:
        """The units spared by ``has_room``; each is checked together with earlier spared ones."""
        units = self._units
        elastic = {unit: key for key, surplus in units.surplus.items() for unit in surplus}
        slacks = self._slacks(gone)
        spared: set[int] = set()
        ended: set[str | int] = set()
        for unit in sorted(gone, key=lambda unit: (unit in elastic, -unit)):
            # 1. What is leaving goes anyway, and what a group has above a minimum that goes
            if unit < units.leaving or elastic.get(unit, unit) in ended:
                continue
            # 2. Put it back
            freed, pods = self._freed_by([unit]), placed.get(unit, ())
            free.take(pods)
            # 3. It goes after all if a ceiling demands it, or if there is no room beside it
            if any(map(gt, freed, slacks)) or not has_room(pods):
                free.take(pods, -1)
                ended.add(units.rest.get(unit, ""))
            else:
                slacks = list(map(sub, slacks, freed))
                spared.add(unit)
        return spared

    def demanded(self, gone: Iterable[int]) -> set[int]:
        """The units of ``gone`` that a ceiling demands, each checked alone while the others go."""
        slacks = self._slacks(gone)
        return {unit for unit in gone if any(map(gt, self._freed_by([unit]), slacks))}

    def _slacks(self, gone: Iterable[int]) -> list[int]:
        """By how much these units free more than each ceiling demands."""
        excesses = (ceiling.excess for ceiling in self.ceilings)
        return [max(slack, 0) for slack in map(sub, self._freed_by(gone), excesses)]

    def _freed_by(self, units: Iterable[int]) -> list[int]:
        """What these units free of each ceiling."""
        if not self.ceilings:
            return []
        pods = self._units.pods_of(units)
        return [sum(map(ceiling.freed, pods)) for ceiling in self.ceilings]

    def _touching(self, rows: Iterable[int]) -> set[int]:
        """The units with a Pod on one of these rows."""
        used = np.zeros(len(self._free.columns[PODS]), np.bool_)
        used[list(rows)] = True
        touching = np.unique(self._units.unit_of_pods()[used[self._units.rows]])
        return set(touching.tolist())

    def _placed(self, unit: int) -> list[OnRow]:
        where = self._units.slice(unit)
        rows = self._units.rows[where].tolist()
        return list(zip(rows, self._units.pods[where], strict=True))

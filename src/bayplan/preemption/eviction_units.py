"""EvictionUnits: the Pods that yield together, and the order of eviction.

A Pod alone is a unit of eviction. Of a group, the members above its minimum are units of their own,
unless a sub-group needs them; the rest is one unit, as no part of it is of use without the others.
Of a PodGroup of Kubernetes with disruption mode "all" no member is above the minimum, and a basic
one has no minimum: its Pods are alone (`bayplan.preemption.gangs`). `EvictionUnits.closed` keeps to
this: where the minimum of a group goes, the members above it go, too. So no group is left running
with fewer Pods than its minimum. The order:

1. Pods that are leaving anyway: they cost nothing.
2. The class that the rule gives a Pod (`bayplan.preemption.rule`).
3. Pods whose eviction violates no PodDisruptionBudget.
4. Lower priority. It comes before 5, so an elastic group of high priority does not pay for a Pod of
   low priority that runs beside it.
5. Members above the minimum of their group, then Pods alone, then what ends a group.
6. The youngest: least work is lost.

Units that have no Pod on a node that the preemptor can use come after all others. Where Pods of a
unit differ, the most protected one counts. A group some of whose members may not yield keeps its
minimum: only the members above it are units then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.sub_groups import Surplus, sub_group_of
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.running_pods import RunningPods

SURPLUS, ALONE, REST = 0, 1, 2


@dataclass(frozen=True, eq=False)
class EvictionUnits:
    """The units, in the order of eviction.

    Attributes:
        pods: of all units, one unit after the other.
        rows: their nodes, ``(len(pods),)``.
        ends: (u,) where each unit ends in ``pods``.
        leaving: as many units at the beginning are leaving anyway.
        surplus: by group, the units that it can do without.
        rest: by unit that ends a group, the uid of that group.
    """

    pods: list[Pod]
    rows: IntArray
    ends: IntArray
    leaving: int
    surplus: Mapping[str, Sequence[int]]
    rest: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.ends)

    def slice(self, unit: int) -> slice:
        """Where the Pods of ``unit`` are in `pods`."""
        return slice(int(self.ends[unit - 1]) if unit else 0, int(self.ends[unit]))

    def unit_of_pods(self) -> IntArray:
        """The unit of each of `pods`."""
        return np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0))

    def pods_of(self, units: Iterable[int]) -> list[Pod]:
        """The Pods of these units, in the order of eviction."""
        return [pod for unit in sorted(units) for pod in self.pods[self.slice(unit)]]

    def closed(self, units: Iterable[int]) -> set[int]:
        """These units, and the surplus of every group ended by one of these units."""
        closed = set(units)
        for unit in closed & self.rest.keys():
            closed.update(self.surplus.get(self.rest[unit], ()))
        return closed


def make_units(
    running: RunningPods,
    classes: IntArray,
    useful: BoolArray,
    gangs: Gangs,
    budgets: Budgets,
) -> EvictionUnits:
    """The units of all Pods whose class is not negative.

    Args:
        running: all Pods.
        classes: (p,) what the rule says of each: lower classes yield first, negative ones do not.
        useful: (p,) whether its node is one that the preemptor can use.
        gangs: the groups of the Pods.
        budgets: the PodDisruptionBudgets.
    """
    leaving = np.flatnonzero((classes >= 0) & running.leaving)
    staying = np.flatnonzero((classes >= 0) & ~running.leaving)
    starts = running.starts[staying]
    order = np.lexsort((-starts, running.priorities[staying], classes[staying]))
    staying, starts = staying[order], starts[order]
    pods = [running.pods[i] for i in staying.tolist()]
    partition = _Partition(len(pods))
    if gangs.any:
        partition.split(staying, running, gangs)
    keys = (
        -starts,
        partition.kinds,
        running.priorities[staying],
        _violations(pods, budgets),
        classes[staying],
    )
    unit_of = partition.ranked(keys, useful[staying])
    by_unit = np.argsort(unit_of, kind="stable")[int((unit_of < 0).sum()) :]
    sizes = np.concatenate([np.ones(len(leaving), np.int64), np.bincount(unit_of[by_unit])])
    unit_of += len(leaving)
    return EvictionUnits(
        [running.pods[i] for i in leaving.tolist()] + [pods[i] for i in by_unit.tolist()],
        np.concatenate([running.rows[leaving], running.rows[staying][by_unit]]),
        np.cumsum(sizes),
        len(leaving),
        {key: unit_of[indices].tolist() for key, indices in partition.surplus.items()},
        {int(unit_of[index]): key for index, key in partition.rest.items()},
    )


class YieldOrder:
    """The order of eviction among Pods of one tenant, with gangs as units.

    As the order of units of one class, among all Pods; each answer costs something only if asked.

    Args:
        running: all Pods.
        useful: (p,) see `make_units`.
        gangs: the groups of the Pods.
        budgets: the PodDisruptionBudgets.
    """

    def __init__(
        self, running: RunningPods, useful: BoolArray, gangs: Gangs, budgets: Budgets
    ) -> None:
        self._running, self._useful, self._gangs, self._budgets = running, useful, gangs, budgets

    @cached_property
    def _of_gangs(self) -> tuple[IntArray, IntArray, IntArray, dict[str, int]]:
        running = self._running
        units, kinds = np.arange(len(running)), np.full(len(running), ALONE)
        bases, rests = units.copy(), {}
        if self._gangs.any:
            staying = np.flatnonzero(~running.leaving)
            staying = staying[np.lexsort((-running.starts[staying], running.priorities[staying]))]
            partition = _Partition(len(staying))
            partition.split(staying, running, self._gangs)
            kinds[staying] = partition.kinds
            units[staying] = staying[partition.unit]
            bases[staying] = units[staying]
            for index, uid in partition.rest.items():
                rests[uid] = int(staying[index])
                bases[staying[partition.surplus[uid]]] = rests[uid]
        return units, kinds, bases, rests

    @property
    def units(self) -> IntArray:
        """(p,) one number for all Pods of a unit."""
        return self._of_gangs[0]

    @property
    def bases(self) -> IntArray:
        """(p,) the unit of the minimum of the Pod's group; of a Pod alone, the Pod's own unit."""
        return self._of_gangs[2]

    @property
    def kinds(self) -> IntArray:
        """(p,) SURPLUS, ALONE or REST."""
        return self._of_gangs[1]

    @property
    def is_alone(self) -> BoolArray:
        """(p,) whether no other Pod has to go with the Pod."""
        size = len(self._running)
        with_it = np.bincount(self.bases, minlength=size)[self.units]
        together = np.bincount(self.units, minlength=size)[self.units]
        alone: BoolArray = (with_it <= 1) & (together == 1)
        return alone

    def base_of(self, pod: Pod) -> int | None:
        """The unit of the minimum of a waiting Pod's group; None where nobody of it runs."""
        group = self._gangs.group_of(pod) if self._gangs.any else None
        return None if group is None else self._of_gangs[3].get(group.uid)

    def sorted(self, candidates: IntArray) -> IntArray:
        """``candidates`` in the order of eviction."""
        running = self._running
        starts, priorities = running.starts[candidates], running.priorities[candidates]
        order = np.lexsort((-starts, priorities))
        candidates, starts, priorities = candidates[order], starts[order], priorities[order]
        pods = [running.pods[i] for i in candidates.tolist()] if not self._budgets.is_empty else ()
        violations = _violations(pods, self._budgets) if pods else np.zeros(len(candidates), int)
        kinds = self._of_gangs[1][candidates]
        useless = ~self._useful[candidates]
        keys = (-starts, kinds, priorities, violations, useless)
        ordered: IntArray = candidates[np.lexsort(keys)]
        return ordered


class _Partition:
    """Groups Pods that may be evicted into units; each Pod is alone at first.

    Attributes:
        unit: (m,) of each Pod, named by one of its Pods; negative where it may not yield after all.
        kinds: (m,) SURPLUS, ALONE or REST.
        surplus: by group, the Pods that it can do without.
        rest: by unit that ends a group, the uid of that group.
    """

    def __init__(self, size: int) -> None:
        self.unit: IntArray = np.arange(size)
        self.kinds: IntArray = np.full(size, ALONE)
        self.surplus: dict[str, list[int]] = {}
        self.rest: dict[int, str] = {}

    def split(self, staying: IntArray, running: RunningPods, gangs: Gangs) -> None:
        """Join the members of each group into one unit, except for the surplus above its minimum.

        ``staying`` are the Pods, as indices into ``running``.
        """
        groups, numbers = gangs.groups_of(running)
        names = [sub_group_of(shape) for shape in running.shapes]
        sizes = [Counter[str]() for _ in groups]
        for index in np.flatnonzero((numbers >= 0) & ~running.leaving).tolist():
            sizes[numbers[index]][names[running.codes[index]]] += 1
        members: defaultdict[int, list[int]] = defaultdict(list)
        for index in np.flatnonzero(numbers[staying] >= 0).tolist():
            members[numbers[staying[index]]].append(index)
        for number, indices in members.items():
            uid, surplus = groups[number].uid, Surplus(groups[number], sizes[number])
            above = [i for i in indices if surplus.take(names[running.codes[staying[i]]])]
            rest = sorted(set(indices).difference(above))
            self.surplus[uid] = above
            self.kinds[above], self.kinds[rest] = SURPLUS, REST
            self.unit[rest] = -1
            if rest and len(indices) == sizes[number].total():
                self.unit[rest] = rest[-1]
                self.rest[rest[-1]] = uid

    def ranked(self, keys: Sequence[IntArray], useful: BoolArray) -> IntArray:
        """The rank of each Pod's unit, negative for none; the last key counts most."""
        yielding = np.flatnonzero(self.unit >= 0)
        unit = self.unit[yielding]
        highest = []
        for key in keys:
            of_unit = key.copy()
            if self.rest:
                np.maximum.at(of_unit, unit, key[yielding])
            highest.append(of_unit)
        useless = np.ones(len(self.unit), np.bool_)
        useless[unit[useful[yielding]]] = False
        units = np.unique(unit) if self.rest else unit
        rank = np.full(len(self.unit) + 1, -1)
        rank[units[np.lexsort([key[units] for key in (*highest, useless)])]] = range(len(units))
        return rank[np.where(self.unit >= 0, self.unit, -1)]


def _violations(pods: Sequence[Pod], budgets: Budgets) -> IntArray:
    """1 for each Pod whose eviction, after all before it, violates a budget."""
    if budgets.is_empty:
        return np.zeros(len(pods), np.int64)
    violating = budgets.violations(pods)
    return np.fromiter((pod.uid in violating for pod in pods), np.int64, len(pods))

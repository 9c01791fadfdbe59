"""One victim in place of several: who may go alone so that the preemptor has room.

The shortest prefix (`bayplan.preemption.shortest_prefix`) keeps to an order, so it may take two
Pods although one would do that comes later. Where several would go, each Pod that makes room alone
is compared with all of these, by what is lost: budgets that are violated, the highest priority,
groups that end, then the number of Pods. Resources say of all Pods at once who makes room; of those
that do, the first few are tried: the rule must not refuse them, and a plan of all plugins proves
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.framework.room import Room, RoomRequest
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.eviction_units import REST, YieldOrder
from bayplan.preemption.member_fit import MemberFit, amounts_of
from bayplan.preemption.rule import Yielding
from bayplan.preemption.running_pods import RunningPods

TRIED = 8
"""Pods that are tried for one preemptor at most."""

Loss = tuple[int, int, int, int]
"""Budgets that are violated, the highest priority, groups that end, and Pods; less is better."""


class SingleVictim:
    """See the module's docstring.

    Args:
        request: the preemptor, and plans.
        fit: the same as columns.
        running: all Pods.
        order: of eviction.
        budgets: the PodDisruptionBudgets.
    """

    def __init__(
        self,
        request: RoomRequest,
        fit: MemberFit,
        running: RunningPods,
        order: YieldOrder,
        budgets: Budgets,
    ) -> None:
        self._request, self._fit, self._running = request, fit, running
        self._order, self._budgets = order, budgets

    def find(self, several: Room, yielding: Yielding) -> Room | None:
        """Room by one of ``yielding``, if less is lost than by ``several``."""
        running = self._running
        leaving = np.flatnonzero(running.leaving & (yielding.classes >= 0))
        candidates = np.flatnonzero(
            (yielding.classes >= 0)
            & ~running.leaving
            & self._order.is_alone
            & self._useful(leaving)
        )
        if not len(candidates):
            return None
        gone = [running.pods[i] for i in leaving.tolist()]
        less = self._that_lose_less(several, candidates, yielding.classes)
        on_nodes = self._fit.is_enough(self._free_without(leaving))
        for victim in islice(self._within_ceilings(less, gone, yielding), TRIED):
            if yielding.refusal((victim,)):
                continue
            plan = self._request.plan_without([*gone, victim])
            if plan is not None:
                return Room(
                    plan,
                    (victim,),
                    yielding.sentence(len(plan), (victim,)),
                    anywhere=bool(yielding.ceilings) and on_nodes,
                    violations=len(self._budgets.violations((victim,))),
                )
        return None

    @cached_property
    def _amounts(self) -> Mapping[str, IntArray]:
        """(p,) by resource, what each Pod takes of its node."""
        running = self._running
        of_shape = [amounts_of(pod) for pod in running.examples]
        return {
            name: np.array([some.get(name, 0) for some in of_shape], np.int64)[running.codes]
            for name in self._fit.free.columns
        }

    def _free_without(self, pods: IntArray) -> dict[str, IntArray]:
        rows, amounts = self._running.rows[pods], self._amounts
        free = {name: column.copy() for name, column in self._fit.free.columns.items()}
        for name, column in free.items():
            np.add.at(column, rows, amounts[name][pods])
        return free

    def _useful(self, leaving: IntArray) -> BoolArray:
        """(p,) whether there is room on nodes without the Pod, beside those leaving."""
        return self._fit.is_enough_without_each(
            self._free_without(leaving), self._running.rows, self._amounts
        )

    def _that_lose_less(
        self, several: Room, candidates: IntArray, classes: IntArray
    ) -> Iterator[Pod]:
        """Pods by whom less is lost than by all victims of ``several``, the least first."""
        running = self._running
        ends = self._order.kinds == REST
        uids = {victim.uid for victim in several.victims}
        going = np.array([pod.uid in uids for pod in running.pods], np.bool_)
        most: Loss = (
            several.violations,
            int(running.priorities[going].max()),
            len(np.unique(self._order.units[going & ends])),
            len(several.victims),
        )
        first = self._order.sorted(candidates)
        losses: list[tuple[Loss, int]] = []
        for i in first.tolist():
            violations = len(self._budgets.violations((running.pods[i],)))
            loss = violations, int(running.priorities[i]), int(ends[i]), 1
            if loss < most:
                losses.append((loss, i))
        losses.sort(key=lambda one: (one[0], classes[one[1]]))
        return (running.pods[i] for _, i in losses)

    def _within_ceilings(
        self, pods: Iterator[Pod], gone: list[Pod], yielding: Yielding
    ) -> Iterator[Pod]:
        """Pods without which each limit is kept to, beside ``gone``."""
        left = [ceiling.excess - sum(map(ceiling.freed, gone)) for ceiling in yielding.ceilings]
        for pod in pods:
            if all(c.freed(pod) >= rest for c, rest in zip(yielding.ceilings, left, strict=True)):
                yield pod

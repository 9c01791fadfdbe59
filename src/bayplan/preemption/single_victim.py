"""One victim in place of several: who may go alone so that the preemptor has room.

The shortest prefix (`bayplan.preemption.shortest_prefix`) keeps to an order, so it may take two
Pods although one would do that comes later. Where several would go, each Pod that makes room alone
is compared with all of these, by what is lost: budgets that are violated, the highest priority,
groups that end, then the number of Pods. Resources say of all Pods at once who makes room; of those
that do, the first few are tried: the rule must not refuse them, and a plan of all plugins proves
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.framework.room import Room, RoomRequest
from bayplan.preemption.losses import Loss, Losses
from bayplan.preemption.rule import Yielding

TRIED = 8
"""Pods that are tried for one preemptor at most."""


class SingleVictim:
    """See the module's docstring.

    Args:
        request: the preemptor, and plans.
        losses: what is lost by whom.
    """

    def __init__(self, request: RoomRequest, losses: Losses) -> None:
        self._request, self._losses = request, losses

    def find(self, several: Room, yielding: Yielding) -> Room | None:
        """Room by one of ``yielding``, if less is lost than by ``several``."""
        losses, running = self._losses, self._losses.running
        leaving = np.flatnonzero(running.leaving & (yielding.classes >= 0))
        candidates = np.flatnonzero(
            (yielding.classes >= 0)
            & ~running.leaving
            & losses.order.is_alone
            & self._useful(leaving)
        )
        if not len(candidates):
            return None
        gone = [running.pods[i] for i in leaving.tolist()]
        less = self._that_lose_less(several, candidates, yielding.classes)
        on_nodes = losses.fit.is_enough(losses.free_without(leaving))
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
                    violations=len(losses.budgets.violations((victim,))),
                )
        return None

    def _useful(self, leaving: IntArray) -> BoolArray:
        """(p,) whether there is room on nodes without the Pod, beside those leaving."""
        losses = self._losses
        return losses.fit.is_enough_without_each(
            losses.free_without(leaving), losses.running.rows, losses.amounts
        )

    def _that_lose_less(
        self, several: Room, candidates: IntArray, classes: IntArray
    ) -> Iterator[Pod]:
        """Pods by whom less is lost than by all victims of ``several``, the least first."""
        losses, running = self._losses, self._losses.running
        most = losses.of(several.victims)
        first = losses.order.sorted(candidates)
        less: list[tuple[Loss, int]] = []
        for i in first.tolist():
            violations = len(losses.budgets.violations((running.pods[i],)))
            loss = Loss(violations, int(running.priorities[i]), int(losses.ends_group[i]), 1)
            if loss < most:
                less.append((loss, i))
        less.sort(key=lambda one: (one[0], classes[one[1]]))
        return (running.pods[i] for _, i in less)

    def _within_ceilings(
        self, pods: Iterator[Pod], gone: list[Pod], yielding: Yielding
    ) -> Iterator[Pod]:
        """Pods without which each limit is kept to, beside ``gone``."""
        left = [ceiling.excess - sum(map(ceiling.freed, gone)) for ceiling in yielding.ceilings]
        for pod in pods:
            if all(c.freed(pod) >= rest for c, rest in zip(yielding.ceilings, left, strict=True)):
                yield pod

"""Another set of victims by which less is lost: fewer budgets violated, then fewer groups ended.

The shortest prefix (`bayplan.preemption.shortest_prefix`) keeps to an order, in which what a budget
protects comes last. Where not all of these Pods can stay, the order may take two although one would
do that comes later, on another node or beside Pods that violate nothing. So the search is repeated
with some Pods that stay. Of a set that was found, any by which less is lost lacks a Pod that has a
budget or ends a group: for each of them, the next look has that one stay, too. When no look is left
to be made, no set of Pods is better. A look is made only where by resources there could be a better
one among the Pods that are left; so none is made where a node needs as many violations as there
are.

Before that, a look at those of whom few of each node violate a budget: of many nodes with equal
Pods, the one that needs the fewest violations is found so.

Bounds: nothing is looked for where more than `VICTIMS` would go; `LOOKS` looks are made at most,
and fewer of them among thousands of Pods (`WORK`). What is best by then is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.framework.room import NoRoom, Room
from bayplan.preemption.losses import Loss, Losses
from bayplan.preemption.rule import Yielding

VICTIMS = 16
LOOKS = 64
WORK = 100_000
"""As many Pods may be victims in all looks together."""


class LesserLoss:
    """See the module's docstring.

    Args:
        losses: what is lost by whom.
        yielding: the Pods that may go in place of others.
        look: room by some of these.
    """

    def __init__(
        self, losses: Losses, yielding: Yielding, look: Callable[[Yielding], Room | NoRoom]
    ) -> None:
        self._losses, self._yielding, self._look = losses, yielding, look
        may_go = yielding.classes >= 0
        self._violates = np.zeros(len(may_go), np.bool_)
        """(p,) whether a budget is violated by the Pod alone."""
        pods = np.flatnonzero(may_go & ~losses.running.leaving)
        budgets, of = losses.budgets, losses.running.pods
        if not budgets.is_empty:
            self._violates[pods] = [bool(budgets.violations((of[i],))) for i in pods.tolist()]
        self._left = min(LOOKS, WORK // max(len(pods), 1))

    def find(self, room: Room) -> Room:
        """``room``, or one by which less is lost."""
        best, least = room, self._losses.of(room.victims)
        nobody = np.zeros(len(self._violates), np.bool_)
        waiting = deque([*self._few_of_each_node(least), *self._one_more(nobody, room)])
        seen: set[bytes] = set()
        while waiting and self._left:
            stays = self._with_minimums(waiting.popleft())
            if stays.tobytes() in seen or not self._may_lose_less(least, stays):
                continue
            seen.add(stays.tobytes())
            self._left -= 1
            classes = np.where(stays, -1, self._yielding.classes)
            found = self._look(replace(self._yielding, classes=classes))
            if isinstance(found, Room):
                loss = self._losses.of(found.victims)
                if loss < least:
                    best, least = found, loss
                waiting.extend(self._one_more(stays, found))
        return best

    def _few_of_each_node(self, least: Loss) -> Iterator[BoolArray]:
        """Who stays so that 1, 2, and so on of each node violate a budget."""
        classes, rows = self._yielding.classes, self._losses.running.rows
        pods = np.flatnonzero(self._violates)
        pods = pods[np.lexsort((classes[pods], rows[pods]))]
        number = _number_on_row(rows[pods])
        for few in range(1, least.violations):
            stays = np.zeros(len(classes), np.bool_)
            stays[pods[number >= few]] = True
            yield stays

    def _one_more(self, stays: BoolArray, room: Room) -> Iterator[BoolArray]:
        """For each victim with a budget or without whom a group ends: that one stays as well."""
        losses = self._losses
        for index in losses.index_of(room.victims).tolist():
            if losses.ends_group[index] or losses.budgets.has(losses.running.pods[index]):
                more = stays.copy()
                more[index] = True
                yield more

    def _with_minimums(self, stays: BoolArray) -> BoolArray:
        """These, and the minimum of their groups, as nobody of that goes without all members."""
        order = self._losses.order
        kept = np.zeros_like(stays)
        kept[order.bases[stays]] = True
        return stays | kept[order.units]

    def _may_lose_less(self, least: Loss, stays: BoolArray) -> bool:
        """Whether by resources less may be lost if these stay; ``stays`` is (p,)."""
        may_go = (self._yielding.classes >= 0) & ~stays
        if least.violations and self._is_room(may_go, least.violations - 1):
            return True
        if not least.groups:
            return False
        may_go &= self._losses.running.priorities <= least.priority
        if least.groups == 1:
            may_go &= ~self._losses.ends_group
        return self._is_room(may_go, least.violations)

    def _is_room(self, pods: BoolArray, violations: int) -> bool:
        """Whether there is room without these, but so many of a node at most that violate."""
        losses, rows = self._losses, self._losses.running.rows
        free = losses.free_without(np.flatnonzero(pods & ~self._violates))
        violating = np.flatnonzero(pods & self._violates)
        for name, column in free.items():
            amounts = losses.amounts[name]
            largest = violating[np.lexsort((-amounts[violating], rows[violating]))]
            some = largest[_number_on_row(rows[largest]) < violations]
            np.add.at(column, rows[some], amounts[some])
        return losses.fit.is_enough(free)


def _number_on_row(rows: IntArray) -> IntArray:
    """(p,) how many come before on the same row; ``rows`` are sorted."""
    _, begins = np.unique(rows, return_index=True)
    number: IntArray = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    return number

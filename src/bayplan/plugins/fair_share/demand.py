"""Demand: what a preemptor asks of queues at one target, and the limits in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Charge, Limit, total
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree import QueueTree, Structure
from bayplan.framework.preemptor import Preemptor
from bayplan.plugins.fair_share.promised import Promised
from bayplan.plugins.fair_share.targets import Target
from bayplan.preemption.capacity import Ceiling


class Demand:
    """See the module's docstring.

    Args:
        queues: the tree.
        promised: what is promised to nominated Pods.
        preemptor: who needs room.
        target: on these nodes.
    """

    def __init__(
        self, queues: QueueTree, promised: Promised, preemptor: Preemptor, target: Target
    ) -> None:
        self._queues, self._promised = queues, promised
        self._preemptor, self._target = preemptor, target
        self._sums = queues.sums

    def is_of(self, preemptor: Preemptor, target: Target) -> bool:
        """Whether this is the demand of a preemptor at a target, and queues are as they were."""
        same = self._preemptor is preemptor and self._target is target
        return same and self._sums is self._queues.sums

    @cached_property
    def charges(self) -> Sequence[Charge[Structure]]:
        """The charge of each Pod with a queue, at the target."""
        queues, target, pods = self._queues, self._target, self._preemptor.pods
        at_kind = bool(queues.structure.kind_columns)
        return [
            queues.charge_on(pod, target[pod.shape]) if at_kind else charge
            for pod, charge in zip(pods, queues.charges(pods), strict=True)
            if charge is not None
        ]

    @property
    def needed(self) -> IntArray:
        """(r,) what the minimum asks for."""
        return np.array(total(Counter(self.charges[: self._preemptor.minimum])), np.int64)

    @property
    def within(self) -> int | None:
        """The queue whose limit is in the way, the nearest one; None where no limit is."""
        return next((self._queue_row(link) for link, *_ in self.excesses()), None)

    def excesses(self) -> Iterator[tuple[int, int, int]]:
        """Row and column of each limit the preemptor would exceed, and by how much; leaf first.

        Any of its Pods may be those of its minimum, so the smallest count. Of a user, as many as
        the minimum needs beside all Pods of others.
        """
        promised = self._promised.besides(self._preemptor.pods)
        charges, used = self.charges, self._sums.used_rows
        limits = {
            (limit.row, limit.column): limit
            for charge in dict.fromkeys(charges)
            for limit in charge.limits_on(charge.requests)
        }
        for link, column, limit in sorted(limits.values(), key=self._leaf_first):
            asked = sorted(c.requests[column] for c in charges if link in c.links)
            others = len(charges) - len(asked)
            needed = sum(asked[: max(self._preemptor.minimum - others, 0)])
            excess = used[link][column] + needed - limit
            if promised is not None:
                excess += promised[link][column]
            if needed and excess > 0:
                yield link, column, excess

    def _leaf_first(self, limit: Limit) -> tuple[int, int]:
        row = self._queue_row(limit.row)
        return -len(self._queues.structure.links[row]), row

    def _queue_row(self, link: int) -> int:
        """The row of the queue; for the row of a user, of the queue with the limit."""
        user = self._sums.user_at(link)
        return link if user is None else user.row

    def ceilings(self) -> Sequence[Ceiling]:
        """The usage below each limit that the preemptor would exceed."""
        bases = len(self._queues.structure.bases)
        return [
            Ceiling(excess, partial(self._freed, link, column), column >= bases)
            for link, column, excess in self.excesses()
        ]

    def _freed(self, link: int, column: int, pod: Pod) -> int:
        """What the queue or the user at row ``link`` uses less when ``pod`` goes."""
        charge = self._queues.charge(pod)
        return 0 if charge is None or link not in charge.links else charge.requests[column]

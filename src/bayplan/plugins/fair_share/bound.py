"""Bound: what each node could get at most while no queue gives more than it may.

Where each of many queues may give little, a search for victims is long and ends with nothing: there
are enough Pods that may yield, but nowhere enough of them together. From one node nobody gets more
than the sum, over the queues, of what the queue has there or may give, whichever is less. If that
is too little on every node, no search finds room. It says nothing where it is enough.

An example: a Pod needs 3; on n1 queue A has Pods of 2 and 2, on n2 A has 1, B has 1 and C has 1. A
may give 2, B and C 1 each. n1 gets 2 at most, n2 gets 3: only n2 could do.

- Pods that their queue keeps do not count, nor do those that are larger than what it may give.
- Who is leaving, or yields by priority, is not bounded.
- A resource that no queue counts is not bounded. Nor is a node where the Pods take something else
  than others of their shape, as a Pod does while it is resized.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.preemption.member_fit import MemberFit
from bayplan.preemption.running_pods import RunningPods


class Bound:
    """See the module's docstring.

    Args:
        fit: what the preemptor needs.
        running: all Pods.
        queues: (p,) of each; -1 for none.
        requests: (p,) of each, by resource.
        yields: (p,) whether it may yield whatever its queue may give.
        kept: (p,) whether it may not, however much its queue may give.
        most: (q,) what a queue may give, by resource; less than nothing where it is not a giver.

    Attributes:
        bounded: (n,) what is free at most, by resource.
        whole: the same if queues could give all that they have, and kept nothing.
    """

    def __init__(
        self,
        fit: MemberFit,
        running: RunningPods,
        queues: IntArray,
        requests: Mapping[str, IntArray],
        yields: BoolArray,
        kept: BoolArray,
        most: Mapping[str, IntArray],
    ) -> None:
        self._fit, n = fit, len(fit.domains)
        is_giver = np.logical_and.reduce([amounts >= 0 for amounts in most.values()])
        giving = np.flatnonzero((queues >= 0) & is_giver[queues] & ~yields)
        of, rows = queues[giving], running.rows[giving]
        small = ~kept[giving]
        for name in most:
            small &= requests[name][giving] <= most[name][of]
        # A pair is a queue and a node where it has Pods.
        pairs, pair = np.unique(rows * len(is_giver) + of, return_inverse=True)
        self._rows, self._queues = np.divmod(pairs, len(is_giver))
        self._held_back = np.zeros(len(pairs), np.bool_)
        self.bounded: dict[str, IntArray] = {}
        self.whole: dict[str, IntArray] = {}
        for name, column in fit.free.columns.items():
            requested = fit.free.requested[name]
            if name not in requests:
                self.bounded[name] = self.whole[name] = column + requested
                continue
            amounts = requests[name]
            going = np.bincount(running.rows[yields], amounts[yields], minlength=n)
            as_counted = np.bincount(running.rows, amounts, minlength=n) == requested
            has = np.bincount(pair.ravel(), amounts[giving], minlength=len(pairs))
            gives = np.bincount(pair.ravel(), amounts[giving] * small, minlength=len(pairs))
            gives = np.minimum(gives, most[name][self._queues])
            self._held_back |= gives < has
            for free, by_pair in ((self.bounded, gives), (self.whole, has)):
                freed = going + np.bincount(self._rows, by_pair, minlength=n)
                free[name] = column + np.where(as_counted, freed.astype(np.int64), requested)

    def in_the_way(self) -> set[int]:
        """The queues that would have to give more, on nodes where more Pods would fit then."""
        more = np.zeros(len(self._fit.domains), np.bool_)
        for need in self._fit.needs:
            more |= self._fit.copies(need, self.whole) > self._fit.copies(need, self.bounded)
        return set(self._queues[self._held_back & more[self._rows]].tolist())

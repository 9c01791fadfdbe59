"""Turns of queues: stride by weight over attempts, and share over resources, in one number.

At each level of the tree that child is next whose *rank* is the lowest::

    rank = saturation + attempts
    saturation   the largest ``used / share`` of any resource
    attempts     each attempt counts ``attempt_share`` percent, divided by the weight

So the queue that has least of what it is entitled to comes first. If its Pods cannot be placed, its
attempts add up and the others get theirs: with the default of 1 percent, a queue that uses nothing
comes 100 attempts before one that has its share, and from then on they take turns by weight,
however many Pods either has. A queue that has had nothing to try for a while joins at the level of
the others: nobody saves up attempts.

Pods without a queue are one more queue, of weight 1, that is never saturated.

Saturations are a little old: they are computed when there was nothing to try, and again after as
many attempts as there are queues.
"""

from __future__ import annotations

import numpy as np

from bayplan.api.queues import Order
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.cache.queue_tree.shares import FloatArray, IntArray

LEAST_REFRESH = 64
"""Attempts between two computations of the shares, at least."""
IDLE_WEIGHT = 0.1
"""What a weight of 0 means for attempts: such a queue is tried seldom, but it is tried."""
WITHOUT_SHARE = 1e6
"""The saturation of a queue that uses something and is entitled to nothing."""


class Turns:
    """Whose turn it is; see the module's docstring. The last element of each column is NO_QUEUE's.

    Args:
        queues: the tree.
        attempt_share: percent of a share that an attempt counts as.
    """

    def __init__(self, queues: QueueTree, attempt_share: int) -> None:
        self._queues = queues
        self._step = attempt_share / 100
        self.restart()

    def restart(self) -> None:
        """Begin anew, for the tree as it is now."""
        structure = self._queues.structure
        n = len(structure)
        weights = np.maximum(structure.weight.astype(np.float64), IDLE_WEIGHT)
        self._cost: FloatArray = self._step / np.concatenate([weights, [1.0]])
        self._attempts: FloatArray = np.zeros(n + 1)
        self._saturation: FloatArray = np.zeros(n + 1)
        self._ready: IntArray = np.zeros(n + 1, np.int64)
        self._reached: FloatArray = np.zeros(n + 1)
        """Of each parent, the attempts of the child that was tried last; roots' in the last one."""
        self._rank: FloatArray = np.full(n + 1, np.inf)
        """Of those that have Pods to be tried; infinite for the others."""
        self._parent = [*structure.parent.tolist(), NO_QUEUE]
        self._links = [*structure.links, (NO_QUEUE,)]
        self._orders: list[Order | None] = [*(q.spec.order for q in structure.queues), None]
        children = [np.flatnonzero(structure.parent == row) for row in range(n)]
        self._children = [*children, np.append(np.flatnonzero(structure.parent < 0), NO_QUEUE)]
        self._until_refresh = 0

    def order(self, row: int) -> Order | None:
        """The order within the queue."""
        return self._orders[row]

    def enters(self, row: int) -> None:
        """The queue has Pods to be tried."""
        if not self._ready.any():
            self._until_refresh = 0
        for link in self._links[row]:
            if self._ready[link] == 0:
                reached = self._reached[self._parent[link]]
                self._attempts[link] = max(self._attempts[link], reached)
                self._rank[link] = self._attempts[link] + self._saturation[link]
            self._ready[link] += 1

    def leaves(self, row: int) -> None:
        """It has none any more."""
        for link in self._links[row]:
            self._ready[link] -= 1
            if self._ready[link] == 0:
                self._rank[link] = np.inf

    def next_row(self) -> int:
        """The leaf whose turn it is."""
        if self._until_refresh <= 0:
            self._refresh()
        parent = row = NO_QUEUE
        while True:
            children = self._children[parent]
            row = int(children[self._rank[children].argmin()])
            if row == NO_QUEUE or not len(self._children[row]):
                return row
            parent = row

    def tried(self, row: int, pods: int) -> None:
        """So many Pods of the leaf are being tried."""
        self._until_refresh -= pods
        for link in self._links[row]:
            self._reached[self._parent[link]] = self._attempts[link]
            self._attempts[link] += pods * self._cost[link]
            self._rank[link] = self._attempts[link] + self._saturation[link]

    def _refresh(self) -> None:
        sums = self._queues.refresh_shares()
        self._saturation[:-1] = np.minimum(saturation(sums.used, sums.share), WITHOUT_SHARE)
        rank = self._attempts + self._saturation
        self._rank = np.where(self._ready > 0, rank, np.inf)
        self._until_refresh = max(LEAST_REFRESH, len(self._attempts))


def saturation(used: IntArray, share: IntArray) -> FloatArray:
    """The largest ``used / share`` of any resource, ``(q,)``; infinite for use without a share."""
    ratio = np.divide(used, share, out=np.full(used.shape, np.inf), where=share > 0)
    largest: FloatArray = np.where(used > 0, ratio, 0.0).max(axis=-1, initial=0.0)
    return largest

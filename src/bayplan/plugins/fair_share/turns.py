"""Turns of queues: stride by weight over attempts, and share over resources, in one number.

At each level of the tree that child is next whose *rank* is the lowest::

    rank = saturation + attempts
    saturation   the largest ``used / share`` of any resource
    attempts     each attempt counts ``attempt_share`` percent, divided by the weight

So the queue that has least of what it is entitled to comes first. If its Pods cannot be placed, its
attempts add up and the others get theirs: with the default of 1 percent, a queue that uses nothing
comes 100 attempts before one that has its share, and from then on they take turns by weight,
however many Pods either has. A queue that has had nothing to try for a while joins at the level of
the others: no tenant saves up attempts.

Pods without a queue are one more queue, of weight 1, that is never saturated.

Saturations are a little old: they are computed when there was nothing to try, and again after twice
as many attempts as there are queues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.api.queues import Order
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.cache.queue_tree.shares import FloatArray
from bayplan.framework.turns import Ranking

LEAST_REFRESH = 256
"""Attempts between two computations of the shares, at least."""
IDLE_WEIGHT = 0.1
"""What a weight of 0 means for attempts: such a queue is tried seldom, but it is tried."""
WITHOUT_SHARE = 1e6
"""The saturation of a queue that uses something and is entitled to nothing."""
_ROOT = -1
"""The parent of queues without parent: the last element of what is listed by row."""


class _Step(NamedTuple):
    """A row on the way to the root, the parent's children, and the cost of one attempt."""

    row: int
    parent: int
    siblings: Ranking[int]
    cost: float


class QueueTurns:
    """Whose turn it is; see the module's docstring, and `bayplan.framework.turns.Turns`.

    A tenant is the row of a leaf, or the number of rows for Pods without a queue.

    Args:
        queues: the tree.
        attempt_share: percent of a share that an attempt counts as.
        ageing: see `bayplan.framework.turns.Turns`.
        now: seconds since the epoch.
    """

    def __init__(
        self, queues: QueueTree, attempt_share: int, ageing: float, now: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._step = attempt_share / 100
        self.ageing = ageing
        self.now = now
        self.restart()

    @property
    def active(self) -> bool:
        """Whether there are Queues."""
        return self._queues.active

    @property
    def version(self) -> int:
        """Changes with Queues and the labels of namespaces."""
        return self._queues.version

    def restart(self) -> None:
        """Start over with the present tree."""
        structure = self._queues.structure
        n = self._without_queue = len(structure)
        weights = np.maximum(structure.weight.astype(np.float64), IDLE_WEIGHT)
        costs: list[float] = [*(self._step / weights).tolist(), self._step]
        self._attempts = [0.0] * (n + 1)
        self._saturation = [0.0] * (n + 1)
        self._ready = [0] * (n + 1)
        """How many leaves below have Pods to be tried."""
        self._orders: list[Order | None] = [*(q.spec.order for q in structure.queues), None]
        self._reached = [0.0] * (n + 2)
        """Of each parent, the attempts of the child that was tried last."""
        self._children: list[Ranking[int]] = [Ranking() for _ in range(n + 2)]
        """Of each parent, those that have Pods to be tried."""
        parents = [*structure.parent.tolist(), _ROOT]
        steps = [
            _Step(row, parents[row], self._children[parents[row]], costs[row])
            for row in range(n + 1)
        ]
        self._paths = [[steps[link] for link in links] for links in (*structure.links, (n,))]
        """Of each row, from itself to the root."""
        inner = set(parents)
        self._is_leaf = [row not in inner for row in range(n + 1)]
        self._until_refresh = 0

    def tenant(self, pod: Pod) -> int:
        """The leaf that the Pod belongs to."""
        row = self._queues.leaf(pod)
        return self._without_queue if row == NO_QUEUE else row

    def order(self, tenant: int) -> Order | None:
        """The order of the queue's Pods; of Pods without a queue, that of QueueSort."""
        return self._orders[tenant]

    def enters(self, tenant: int) -> None:
        """The queue has Pods to be tried."""
        if not self._children[_ROOT]:
            self._until_refresh = 0
        for row, parent, siblings, _ in self._paths[tenant]:
            if self._ready[row] == 0:
                self._attempts[row] = max(self._attempts[row], self._reached[parent])
                siblings.put(row, self._rank(row))
            self._ready[row] += 1

    def leaves(self, tenant: int) -> None:
        """It has none any more."""
        for row, _, siblings, _ in self._paths[tenant]:
            self._ready[row] -= 1
            if self._ready[row] == 0:
                siblings.discard(row)

    def next_tenant(self) -> int:
        """The leaf whose turn it is."""
        if self._until_refresh <= 0:
            self._refresh()
        row = self._children[_ROOT].first()
        while not self._is_leaf[row]:
            row = self._children[row].first()
        return row

    def tried(self, tenant: int, pods: int) -> None:
        """So many Pods of the leaf are being tried."""
        self._until_refresh -= pods
        for row, parent, siblings, cost in self._paths[tenant]:
            before = self._reached[parent] = self._attempts[row]
            after = self._attempts[row] = before + pods * cost
            siblings.put(row, after + self._saturation[row])

    def _rank(self, row: int) -> float:
        return self._attempts[row] + self._saturation[row]

    def _refresh(self) -> None:
        sums = self._queues.refresh_shares()
        saturations = np.minimum(saturation(sums.used, sums.share), WITHOUT_SHARE)
        self._saturation[: len(saturations)] = saturations.tolist()
        for children in filter(None, self._children):
            children.rerank(self._rank)
        self._until_refresh = max(LEAST_REFRESH, 2 * self._without_queue)


def saturation(used: IntArray, share: IntArray) -> FloatArray:
    """The largest ``used / share`` of any resource, ``(q,)``; infinite for use without a share."""
    ratio = np.divide(used, share, out=np.full(used.shape, np.inf), where=share > 0)
    largest: FloatArray = np.where(used > 0, ratio, 0.0).max(axis=-1, initial=0.0)
    return largest

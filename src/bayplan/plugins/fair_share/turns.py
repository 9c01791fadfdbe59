"""Turns of queues: stride by weight over attempts, and share over resources, in one number.

At each level of the tree that child is next whose *rank* is the lowest::

    rank = saturation + attempts - claim - late
    saturation   the largest ``used / share`` of a resource that the Pod asks for which is next in
                 it, and of which siblings need more than there is; as large as can be without share
    attempts     each attempt counts ``attempt_share`` percent, divided by the weight
    claim        1 if what is guaranteed to the child covers the Pod that is next in it, else 0
    late         `LATE` if the oldest Pod of the child that can run waits longer than the Queue's
                 target, and the Pod that is next in it fits into the child's share, else 0

So what is guaranteed is placed before what is lent, and else the queue that has least of what it is
entitled to comes first: who is placed is not evicted for those that wait. If the Pods of a queue
cannot be placed, its attempts add up and the others get theirs: with the default of 1 percent, a
queue that uses nothing comes 100 attempts before one that has its share, and from then on they take
turns by weight, however many Pods either has. A queue that has had nothing to try for a while joins
at the level of the others: no tenant saves up attempts.

A late queue is not entitled to more: above its share it has no earlier turn, as what it got would
be taken back. A Pod that a limit holds back, or that can never run, makes no queue late.

Pods without a queue are one more queue, of weight 1, that is never saturated.

What is used is as of now for the queue that was tried last. Shares, and what others use, are a
little old: they are looked at again after as many attempts as there are queues, and soon after a
queue has had nothing to try.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.api.queues import Order
from bayplan.cache.amounts import Amounts
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.cache.queue_tree.shares import Shares
from bayplan.framework.turns import Place, Ranking, Waiting
from bayplan.plugins.fair_share.known_shares import KnownShares
from bayplan.plugins.fair_share.precedence import Precedence

LEAST_REFRESH = 32
"""Attempts between two computations of the shares, at least."""
SOON = 4
"""The same after a queue has had nothing to try."""
IDLE_WEIGHT = 0.1
"""What a weight of 0 means for attempts: such a queue is tried seldom, but it is tried."""
MOST_AHEAD = 100
"""Attempts that a queue may have had more than another one and still come before it, as it could
take room back."""
LATE = 0.5
"""By how much of a share, or how many attempts as a part of it, a late queue comes earlier."""
LOOK_SECONDS = 1.0
"""Between two looks at who is late, at least: all Pods that wait are looked at."""
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
        precedence: says who could take room back; None where nobody asks.
    """

    def __init__(
        self,
        queues: QueueTree,
        attempt_share: int,
        ageing: float,
        now: Callable[[], float],
        precedence: Precedence | None = None,
    ) -> None:
        self._queues, self._precedence = queues, precedence
        self._attempt_share = attempt_share
        self.ageing = ageing
        self.now = now
        self._nothing = self._latest = KnownShares(queues, Shares.none(0, 0))
        """What was looked at last, by a turn or by somebody who asked about rivals."""
        self.restart(lambda _: None)

    @property
    def active(self) -> bool:
        """Whether there are Queues."""
        return self._queues.active

    @property
    def version(self) -> int:
        """Changes with Queues and the labels of namespaces."""
        return self._queues.version

    def restart(self, first: Callable[[int], Pod | None]) -> None:
        """Start over with the present tree."""
        self._first = first
        structure = self._queues.structure
        n = self._without_queue = len(structure)
        weights = np.maximum(structure.weight.astype(np.float64), IDLE_WEIGHT)
        step = self._attempt_share / 100
        costs: list[float] = [*(step / weights).tolist(), step]
        self._most_ahead = [MOST_AHEAD * cost for cost in costs]
        self._links = structure.links
        self._attempts = [0.0] * (n + 1)
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
        self._targets: list[list[tuple[int, int]]] = [
            [
                (row, target)
                for row in links
                if (target := structure.queues[row].spec.waiting_target_seconds)
                and not structure.own[row]
            ]
            for links in structure.links
        ]
        """By leaf, who has a target for waiting, and how many seconds it is."""
        self._late: set[int] = set()
        self._next_look = 0.0
        self._until_refresh = 0
        self._questions = 0
        self.compares = False
        self._unranked = False
        """Whether ranks are to be made anew, from what was learnt."""
        self._known = self._nothing
        self._learnt = -1
        """What turns have learnt last, and the version of the tree then."""
        self._started = self._queues.version
        """The version of the tree whose rows these are."""
        self._rated = [False] * (n + 1)
        """By row, whether its rank may be another number than its attempts."""
        self._tried = -1
        """The tenant that was tried last."""

    def tenant(self, pod: Pod) -> int:
        """The leaf that the Pod belongs to."""
        row = self._queues.leaf(pod)
        return self._without_queue if row == NO_QUEUE else row

    def are_rivals(self, one: Pod, other: Pod) -> bool:
        """Whether they are of different queues, or what is guaranteed covers the first one alone.

        A Pod without a queue is nobody's rival.
        """
        known = self._known_by_rivals()
        row, its = self._queues.leaf(one), self._queues.leaf(other)
        if NO_QUEUE in (row, its) or row != its:
            return NO_QUEUE not in (row, its)
        requests = self._queues.requests(one), self._queues.requests(other)
        links = self._queues.structure.links[row]
        first, second = (any(known.covers(link, r) for link in links) for r in requests)
        return first and not second

    def rivalry(self, other: Pod) -> Hashable:
        """The queue; where no guarantee covers the Pod, also what guarantees and their use are."""
        known = self._known_by_rivals()
        row = self._queues.leaf(other)
        links = () if row == NO_QUEUE else self._queues.structure.links[row]
        guarantees = [link for link in links if known.guaranteed[link]]
        requests = self._queues.requests(other) if guarantees else None
        if requests is None or any(known.covers(link, requests) for link in guarantees):
            return self.version, row
        used = self._queues.sums.used_rows
        amounts = [
            (tuple(used[link]), tuple(map(tuple, known.guaranteed[link]))) for link in guarantees
        ]
        return self.version, row, tuple(amounts)

    def order(self, tenant: int) -> Order | None:
        """The order of the queue's Pods; of Pods without a queue, that of QueueSort."""
        return self._orders[tenant]

    def enters(self, tenant: int) -> None:
        """The queue has Pods to be tried."""
        soon = min(SOON, self._without_queue // SOON) if self._children[_ROOT] else 0
        self._until_refresh = min(self._until_refresh, soon)
        for row, parent, siblings, _ in self._paths[tenant]:
            if self._ready[row] == 0:
                self._attempts[row] = max(self._attempts[row], self._reached[parent])
            self._ready[row] += 1
            siblings.put(row, self._rank(row))

    def leaves(self, tenant: int) -> None:
        """It has none any more."""
        for row, _, siblings, _ in self._paths[tenant]:
            self._ready[row] -= 1
            if self._ready[row] == 0:
                siblings.discard(row)

    def next_tenant(self) -> int:
        """The leaf whose turn it is."""
        if self._until_refresh <= 0:
            self._learn()
        if self._unranked:
            self._rank_all()
        elif self._tried >= 0:
            self._look_at(self._tried)
        row = self._children[_ROOT].first()
        while not self._is_leaf[row]:
            row = self._children[row].first()
        return row

    def is_exposed(self, first: Pod) -> bool:
        """See `Turns`. With a few queues shares are as of now, with more they are a little old."""
        self._questions += 1
        if self._questions * SOON > self._without_queue or self._learnt != self._queues.version:
            self._questions = 0
            self._learn()
        precedence, known = self._precedence, self._known
        if precedence is None or self._learnt != self._started:
            return False
        precedence.look(known.shares, known.contended, self._is_ahead)
        return bool(precedence.exposed(first))

    def takers(self, first: Pod, waiting: Waiting) -> Iterator[tuple[int, Pod]]:
        """See `Turns`."""
        return iter(()) if self._precedence is None else self._precedence.takers(first, waiting)

    def _is_ahead(self, row: int, other: int) -> bool:
        return self._attempts[row] - self._attempts[other] >= self._most_ahead[row]

    def tried(self, tenant: int, pods: int) -> None:
        """So many Pods of the leaf are being tried; a rated row is ranked by `next_tenant`."""
        self._until_refresh -= pods
        for row, parent, siblings, cost in self._paths[tenant]:
            before = self._reached[parent] = self._attempts[row]
            self._attempts[row] = rank = before + pods * cost
            if self._rated[row]:
                self._tried = tenant
            else:
                siblings.put(row, rank)

    def _look_at(self, tenant: int) -> None:
        """Rank a tenant by what it uses now."""
        self._tried = -1
        for row, _, siblings, _ in self._paths[tenant]:
            if self._ready[row] and self._rated[row]:
                siblings.put(row, self._rank(row))

    def _rank(self, row: int) -> float:
        if not self._rated[row]:
            return self._attempts[row]
        leaf = row
        while not self._is_leaf[leaf]:
            if not self._children[leaf]:
                return self._attempts[row]
            leaf = self._children[leaf].first()
        pod = self._first(leaf)
        charge = self._queues.charge(pod) if pod is not None else None
        if charge is None:
            return self._attempts[row]
        first = charge.requests
        rank = self._attempts[row]
        known = self._known
        if known.contended[row]:
            rank += self._saturation(row, first)
        for link in self._links[leaf]:
            if known.covers(link, first):
                rank -= 1
                break
            if link == row:
                break
        return rank - LATE if row in self._late and known.is_within_share(row, first) else rank

    def _saturation(self, row: int, first: Amounts) -> float:
        sums = self._queues.sums
        used, compared = sums.used_rows[row], sums.structure.compared_for(first)
        ratios = [
            min(used[column] / share, WITHOUT_SHARE) if share else WITHOUT_SHARE
            for column, share in self._known.contended[row]
            if first[column] and column in compared
        ]
        return max(ratios, default=0.0)

    def _known_by_rivals(self) -> KnownShares:
        """What turns know; where these are due to learn, how things are now. Turns learn nothing.

        While one tenant waits alone, nobody asks for the next one, and turns do not learn.
        """
        if self._until_refresh > 0 and self._learnt == self._queues.version:
            return self._known
        return self._look()

    def _look(self) -> KnownShares:
        shares = self._queues.shares()
        if self._latest.shares is not shares:
            self._latest = KnownShares(self._queues, shares)
        return self._latest

    def _learn(self) -> None:
        """What is guaranteed, and the rest that ranks are made of, as of now."""
        self._until_refresh = max(LEAST_REFRESH, self._without_queue)
        known = self._look()
        self._learnt = self._queues.version
        if self._known is not known:
            self._known = known
            self._rate()
        if any(self._targets) and self._learnt == self._started:
            self._find_late(self.now())
            self._rate()
        self._unranked = self._unranked or any(self._rated)

    def _rate(self) -> None:
        """Find out where attempts alone do not make the rank."""
        self._unranked = self._unranked or any(self._rated)
        late = self._late
        self._rated = [bool(some) or row in late for row, some in enumerate(self._known.contended)]
        for row, links in enumerate(self._queues.structure.links):
            if self._known.guaranteed[row]:
                for link in links:
                    self._rated[link] = True
        self.compares = self._precedence is not None and any(self._rated)

    def _rank_all(self) -> None:
        self._unranked = False
        self._tried = -1
        for row in range(self._without_queue - 1, _ROOT - 1, -1):  # children come after parents
            if self._children[row]:
                self._children[row].rerank(self._rank)

    def places(self) -> dict[str, Place]:
        """See `Turns`; of a queue above others, the turn of the first one below.

        A Pod that may run counts, whether or not it is ready to be tried.
        """
        first = self._first_of_each()
        turns = QueueTurns(self._queues, self._attempt_share, self.ageing, self.now)
        turns.restart(first.get)
        if turns._started == self._started:
            turns._attempts, turns._reached = self._attempts.copy(), self._reached.copy()
        for tenant in first:
            turns.enters(tenant)
        ahead = turns._ahead()
        structure = self._queues.structure
        places: dict[str, Place] = {}
        for number in range(1, len(first) + 1):
            tenant = turns.next_tenant()
            turns.leaves(tenant)
            for row in structure.links[tenant]:
                places.setdefault(structure.name(row), Place(number, ahead[row]))
        return places

    def _first_of_each(self) -> dict[int, Pod]:
        now = self.now()
        first: dict[int, Pod] = {}
        for pod, charge, demand in self._queues.waiting():
            if demand and charge.is_within_limits:
                before = first.get(charge.row)
                if before is None or _precedence(pod, now) < _precedence(before, now):
                    first[charge.row] = pod
        return first

    def _ahead(self) -> list[float]:
        """By row, attempts since the sibling with the fewest."""
        ahead = [0.0] * len(self._attempts)
        for siblings in self._children if self._attempt_share else ():
            least = min((self._attempts[row] for row in siblings), default=0.0)
            for row in siblings:
                ahead[row] = (self._attempts[row] - least) * 100 / self._attempt_share
        return ahead

    def _find_late(self, now: float) -> None:
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        self._late.clear()
        for pod, charge, demand in self._queues.waiting():
            targets = self._targets[charge.row]
            if targets and demand and charge.is_within_limits and pod.created is not None:
                waited = now - pod.created.timestamp()
                self._late.update(row for row, target in targets if waited > target)


def _precedence(pod: Pod, now: float) -> tuple[int, float]:
    """The order of the Pods of a queue, but for ageing and the turns of its namespaces."""
    return -pod.priority, now if pod.created is None else pod.created.timestamp()

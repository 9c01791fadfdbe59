"""Reclaim: the Pods to evict for a queue below its share.

The preemptor is a Pod or a group of one queue, the givers are the other queues. Both are compared
where they part: as children of their lowest common ancestor, and only by the resources that the
preemptor needs. Who may yield, in this order:

0. Pods of the preemptor's own queue with a lower priority.
1. Pods of queues that use more than is guaranteed to them, while the preemptor stays within what is
   guaranteed to it.
2. Pods of queues that use more than their share, while the preemptor, after the move, is no more
   saturated (used / share) than the giver.

Within 1 and 2 Pods come first whose queue is furthest above its share, without those that come
before (to a tenth of the share), so several givers pay in turn. Never: Pods of queues that
are not reclaimable, that run for less than their queue's minRuntimeSeconds, that have no queue; and
no Pod without which its queue, or an ancestor up to the common one, would be below what is
guaranteed to it (1) or below its share (2). So what is taken cannot be taken back by the same rule:
the giver would have to be less saturated than the preemptor is, and it is not. The tests count
moves.

Which of its Pods a queue gives is open as long as that holds. The first of them by age may be on
many nodes, and none of these has room then. So where they are not enough, all Pods of the givers
may yield, and the victims are judged together (`Yielding.wider`, `Yielding.refusal`). That not even
these could be enough is often known from a bound (`bayplan.plugins.fair_share.bound`).

Where a limit holds the preemptor back, the rules are the same. What has to go counts for that
limit, on whichever nodes it is (`Yielding.ceilings`); where the limit is that of the preemptor's
own queue, these are Pods of rule 0.

What is used is what will be: without Pods that are leaving, with those that are nominated. So Pods
of one queue that are tried one after the other do not each take the same room.

An example: room 12, queues A and B with weights 1 and 1, B runs 12 Pods of 1, a group of 4 of A
waits. The shares are 4 and 8 (A needs no more). B has 4 Pods above its share; they are the class 2,
the youngest of the lowest priority first. A then has 4 / 4, B has 8 / 8.

`ReclaimRule.judge`, in steps:

1. Find the parties: the preemptor's queue, and the givers with what each may give.
2. Rule the preemptor out by sums: of limits, then of what is free at most on each node.
3. Give rule 0 its class: the preemptor's own Pods of lower priority, and Pods that are leaving.
4. Giver by giver, the one that deserves least first, choose Pods one after the other while the
   giver stays above what it keeps; what is chosen counts for the next giver.
5. Sort the chosen Pods into classes: guarantees before shares, then the most oversaturated first.
6. If these are not enough, `Yielding.wider`: all Pods that a giver could give alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Rows
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.cache.queue_tree.shares import FloatArray
from bayplan.framework.handle import PodNominator
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom
from bayplan.plugins.fair_share.bound import Bound
from bayplan.plugins.fair_share.givers import MOST_OVER, SHARE, Giver, find_givers
from bayplan.plugins.fair_share.promised import Promised
from bayplan.plugins.fair_share.turns import saturation
from bayplan.preemption.capacity import Ceiling, MemberFit
from bayplan.preemption.rule import NOT_ENOUGH, Yielding
from bayplan.preemption.running_pods import RunningPods

PRIORITY = "priority"
MOST_NAMED = 8
"""Queues that are named in one sentence."""


class _Parties(NamedTuple):
    """Who takes and who may give, and what Pods of each shape are to that.

    Attributes:
        row: the preemptor's queue.
        leaves: (s,) the queue of each shape.
        requests: (s, c) of each shape.
        used: (q, c) what queues will use.
        givers: the one that deserves least comes first.
    """

    row: int
    leaves: IntArray
    requests: IntArray
    used: Rows
    givers: Sequence[Giver]


class _Gift(NamedTuple):
    """The chosen Pods of one giver.

    Attributes:
        pods: (n,)
        before: (n, c) what its branch uses before each of them goes.
        share: (c,) of that branch.
    """

    pods: IntArray
    before: IntArray
    share: Sequence[int]


class ReclaimRule:
    """See the module's docstring, and `bayplan.preemption.rule.Yields`.

    Attributes:
        refusals: why Pods of queues above their share may not yield, by queue; of the last search.
    """

    def __init__(
        self,
        queues: QueueTree,
        nominator: PodNominator,
        counters: DomainCounters,
        promised: Promised,
        now: Callable[[], float],
    ) -> None:
        self._counters = counters
        self._columns: IntArray = np.zeros(0, np.int64)
        """The resources that the last preemptor needs."""
        self._queues, self._nominator, self._promised = queues, nominator, promised
        self._now = now
        self._rules: dict[str, str] = {}
        self.refusals: dict[str, str] = {}

    def has_victims(self, preemptor: Preemptor) -> bool:
        """See `Yields`: what queues use says whether there is a giver."""
        self.refusals = {}
        row = self._queues.leaf(preemptor.pods[0])
        namespaces = self._queues.namespaces(row)
        if self._counters.any_leaving or self._counters.any_below(preemptor.priority, namespaces):
            return True
        within, *_ = next(self._excesses(preemptor), (None,))
        if within == row:
            return False
        return bool(self._givers(preemptor, row, self._used(preemptor), within))

    def judge(
        self, preemptor: Preemptor, running: RunningPods, fit: MemberFit
    ) -> Yielding | NoRoom:
        """See `Yields`."""
        if not len(running):
            return Yielding(np.zeros(0, np.int64), self._describe)
        # 1. The parties
        parties = self._ask(preemptor, running)
        # 2. Bounds
        impossible = self._rules_out(preemptor, running, fit, parties)
        if impossible is not None:
            return impossible
        # 3. to 6. Classes
        return self._yielding(preemptor, running, parties)

    def _rules_out(
        self, preemptor: Preemptor, running: RunningPods, fit: MemberFit, parties: _Parties
    ) -> NoRoom | None:
        structure = self._queues.structure
        names = [structure.resources[column] for column in self._columns.tolist()]
        leaves = parties.leaves[running.codes]
        own = (leaves == parties.row) & (running.priorities < preemptor.priority)
        yields = running.leaving | own
        if not names or not (parties.givers or yields.any()):
            return None
        most = np.full((len(structure), len(names)), -1)
        for giver in parties.givers:
            most[giver.leaf] = giver.most
        if self._is_held(preemptor, running, parties, yields, most):
            return NOT_ENOUGH
        bound = Bound(
            fit,
            running,
            leaves,
            dict(zip(names, parties.requests[running.codes].T, strict=True)),
            yields,
            dict(zip(names, most.T, strict=True)),
        )
        if fit.is_enough(bound.bounded):
            return None
        if not fit.is_enough(bound.whole):
            return NOT_ENOUGH
        in_the_way = bound.in_the_way()
        first = next(giver.leaf for giver in parties.givers if giver.leaf in in_the_way)
        return NoRoom(f"would be undone by queue {structure.name(first)}")

    def _is_held(
        self,
        preemptor: Preemptor,
        running: RunningPods,
        parties: _Parties,
        yields: BoolArray,
        most: IntArray,
    ) -> bool:
        """Whether a limit holds the preemptor back even if all possible victims go.

        Args:
            preemptor: who needs room.
            running: all Pods.
            parties: who takes and gives.
            yields: (p,) who may go, whatever its queue may give.
            most: (q, c) what a queue may give; less than nothing where it is not a giver.
        """
        sums = self._queues.sums
        structure, columns = sums.structure, self._columns.tolist()
        leaves = parties.leaves[running.codes]
        for link, column, excess in self._excesses(preemptor):
            index = columns.index(column)
            amounts = parties.requests[running.codes, index]
            below = [leaf for leaf in structure.leaves if link in structure.links[leaf]]
            inside = np.isin(leaves, below)
            going = int(amounts[inside & yields].sum())
            going += sum(max(int(most[leaf, index]), 0) for leaf in below)
            as_counted = int(amounts[inside].sum()) == sums.used_rows[link][column]
            if as_counted and going < excess:
                return True
        return False

    def _excesses(self, preemptor: Preemptor) -> Iterator[tuple[int, int, int]]:
        """Row and column of each limit the preemptor would exceed, and by how much; leaf first.

        Any of its Pods may be those of its minimum, so the smallest count.
        """
        queues = self._queues
        asked = np.sort([queues.requests(pod) for pod in preemptor.pods], axis=0)
        needed: list[int] = asked[: preemptor.minimum].sum(axis=0).tolist()
        promised, sums = self._promised.besides(preemptor.pods), queues.sums
        for link, column, limit in sums.structure.limits[queues.leaf(preemptor.pods[0])]:
            excess = sums.used_rows[link][column] + needed[column] - limit
            if promised is not None:
                excess += promised[link][column]
            if needed[column] and excess > 0:
                yield link, column, excess

    def _ceilings(self, preemptor: Preemptor) -> Sequence[Ceiling]:
        """The usage below each limit that the preemptor would exceed."""
        return [
            Ceiling(excess, partial(self._freed, link, column))
            for link, column, excess in self._excesses(preemptor)
        ]

    def _freed(self, link: int, column: int, pod: Pod) -> int:
        """What the queue at row ``link`` uses less when ``pod`` goes."""
        leaf = self._queues.leaf(pod)
        inside = leaf != NO_QUEUE and link in self._queues.structure.links[leaf]
        return self._queues.requests(pod)[column] if inside else 0

    def _ask(self, preemptor: Preemptor, running: RunningPods) -> _Parties:
        self._rules, self.refusals = {}, {}
        queues, pods = self._queues, running.examples
        row = queues.leaf(preemptor.pods[0])
        leaves = np.array([queues.leaf(pod) for pod in pods], np.int64)
        each = np.array([queues.requests(pod) for pod in pods])
        all_used = self._used(preemptor)
        givers = sorted(self._givers(preemptor, row, all_used), key=_deserves_least)
        used: Rows = all_used[:, self._columns].tolist()
        return _Parties(row, leaves, each[:, self._columns], used, givers)

    def _yielding(self, preemptor: Preemptor, running: RunningPods, parties: _Parties) -> Yielding:
        givers, used = parties.givers, list(parties.used)
        leaves: IntArray = parties.leaves[running.codes]
        requests: IntArray = parties.requests[running.codes]
        # 3. The preemptor's own Pods
        own = (leaves == parties.row) & (running.priorities < preemptor.priority)
        classes: IntArray = np.where(own, 0, -1)
        classes[running.leaving] = 0
        # 4. Giver by giver
        sums = self._queues.sums
        shares = sums.share[:, self._columns].tolist()
        candidates_of = _by_leaf(leaves, running)
        by_share = np.zeros(len(running), np.bool_)
        alone = np.zeros(len(running), np.bool_)
        rooms = [(giver, giver.room(used)) for giver in givers]
        gifts: list[_Gift] = []
        for giver, room in rooms:
            candidates = self._old_enough(giver, candidates_of(giver.leaf), running)
            amounts = requests[candidates]
            alone[candidates[(amounts <= np.min(room, axis=0)).all(axis=1)]] = True
            within = _within(np.min(giver.room(used), axis=0), amounts)
            chosen, going = candidates[within], amounts[within]
            branch = giver.path[-1]
            together = going.cumsum(axis=0)
            gifts.append(_Gift(chosen, np.array(used[branch]) - together + going, shares[branch]))
            by_share[chosen] = giver.rule == SHARE
            if len(chosen):
                for link in giver.path:
                    used[link] = (used[link] - together[-1]).tolist()
            name = sums.structure.name(giver.leaf)
            self._rules[name] = giver.rule
            if not len(chosen):
                self.refusals.setdefault(name, f"would be undone by queue {name}")
        # 5. Classes of the chosen Pods
        over = _oversaturation(gifts, len(running))
        given = over > 0
        steps = -np.round(np.minimum(over[given], MOST_OVER), 1)
        order = np.unique(np.stack([by_share[given], steps]), axis=1, return_inverse=True)[1]
        classes[given] = order.ravel() + 1
        # 6. More, judged together
        ceilings = self._ceilings(preemptor)

        def wider() -> Yielding:
            more = np.where(alone & ~given, len(running), classes)
            return Yielding(more, self._describe, ceilings, partial(self._refusal, rooms))

        return Yielding(classes, self._describe, ceilings, wider=wider)

    def _used(self, preemptor: Preemptor) -> IntArray:
        """What queues will use: less what is leaving, and what nominated Pods wait for."""
        sums, queues = self._queues.sums, self._queues
        used, chains = sums.used - sums.leaving, sums.structure.chains
        own = {pod.uid for pod in preemptor.pods}
        for node in self._nominator.nominated_nodes():
            for pod in self._nominator.nominated_pods(node):
                leaf = queues.leaf(pod)
                if leaf != NO_QUEUE and pod.uid not in own:
                    used[chains[leaf]] += queues.requests(pod)
        return used

    def _needed(self, preemptor: Preemptor) -> IntArray:
        pods = preemptor.pods[: preemptor.minimum]
        needed: IntArray = np.array([self._queues.requests(pod) for pod in pods]).sum(axis=0)
        return needed

    # Queues

    def _givers(
        self, preemptor: Preemptor, row: int, all_used: IntArray, within: int | None = None
    ) -> list[Giver]:
        """The givers for a preemptor of the queue at ``row``, while queues use ``(q, r)``.

        ``within``: only those that are part of the queue at that row, None for all.
        """
        structure, shares = self._queues.structure, self._queues.refresh_shares().share
        needed = self._needed(preemptor)
        columns = self._columns = np.flatnonzero(needed)
        givers, undone = find_givers(
            structure,
            row,
            needed[columns],
            all_used[:, columns],
            structure.guaranteed[:, columns],
            shares[:, columns],
        )
        if within is not None:
            givers = [giver for giver in givers if within in structure.links[giver.leaf]]
            undone = [leaf for leaf in undone if within in structure.links[leaf]]
        for name in map(structure.name, undone):
            self.refusals[name] = f"would be undone by queue {name}"
        return givers

    # Pods

    def _old_enough(self, giver: Giver, pods: IntArray, running: RunningPods) -> IntArray:
        """The Pods in ``pods`` that have run for the minimum runtime."""
        spec = self._queues.structure.queues[giver.leaf].spec
        if spec.min_runtime_seconds:
            ran = self._now() - running.starts[pods] / 1e6
            kept = ran >= spec.min_runtime_seconds
            if not kept.any() and len(pods):
                name = self._queues.structure.name(giver.leaf)
                self.refusals[name] = f"Pods of queue {name} run for less than minRuntimeSeconds"
            pods = pods[kept]
        return pods

    # What is said

    def _refusal(
        self, rooms: Sequence[tuple[Giver, list[list[int]]]], victims: Sequence[Pod]
    ) -> str:
        """Why a giver must not give all of ``victims`` together; "" if there is no reason."""
        structure = self._queues.structure
        going = np.zeros_like(structure.guaranteed)
        for victim in victims:
            leaf = self._queues.leaf(victim)
            if leaf != NO_QUEUE:
                going[structure.chains[leaf]] += self._queues.requests(victim)
        for giver, room in rooms:
            if (going[list(giver.path)][:, self._columns] > np.array(room)).any():
                return f"would be undone by queue {structure.name(giver.leaf)}"
        return ""

    def _describe(self, victims: Sequence[Pod]) -> str:
        counts = self.by_rule(victims)
        own = sum(count for (queue, _), count in counts.items() if not queue)
        texts = [f"{own} Pods of lower priority"] if own else []
        others = [f"{count} Pods of queue {queue}" for (queue, _), count in counts.items() if queue]
        if len(others) > MOST_NAMED:
            others = [f"{len(victims) - own} Pods of {len(others)} queues"]
        return " and ".join([*texts, *others])

    def by_rule(self, victims: Sequence[Pod]) -> Counter[tuple[str, str]]:
        """How many are evicted, by queue ("" for the preemptor's own) and rule."""
        counts: Counter[tuple[str, str]] = Counter()
        for victim in victims:
            row = self._queues.leaf(victim)
            name = self._queues.structure.name(row) if row != NO_QUEUE else ""
            rule = self._rules.get(name, PRIORITY)
            counts["" if rule == PRIORITY else name, rule] += 1
        return counts


def _within(room: IntArray, requests: IntArray) -> IntArray:
    """The Pods that fit into ``room`` one after the other; too large Pods are skipped.

    Args:
        room: (c,)
        requests: (n, c) in the order in which they go.

    Returns:
        Indices, in that order.
    """
    chosen: list[IntArray] = []
    left = np.flatnonzero((requests <= room).all(axis=1))
    while len(left):
        sums = requests[left].cumsum(axis=0)
        number = np.count_nonzero((sums <= room).all(axis=1))  # sums only grow
        chosen.append(left[:number])
        room, left = room - sums[number - 1], left[number:]
        if len(left):
            left = left[(requests[left] <= room).all(axis=1)]
    return np.concatenate(chosen) if chosen else left


def _oversaturation(gifts: Sequence[_Gift], pods: int) -> FloatArray:
    """``(p,)`` the saturation of each Pod's giver before the Pod goes; 0 for Pods that stay."""
    over = np.zeros(pods)
    if gifts:
        counts = [len(gift.pods) for gift in gifts]
        shares = np.repeat([gift.share for gift in gifts], counts, axis=0)
        before = np.concatenate([gift.before for gift in gifts])
        over[np.concatenate([gift.pods for gift in gifts])] = saturation(before, shares)
    return over


def _deserves_least(giver: Giver) -> tuple[bool, float]:
    return giver.rule == SHARE, -giver.over


def _by_leaf(leaves: IntArray, running: RunningPods) -> Callable[[int], IntArray]:
    """The Pods of a leaf that stay: by priority, the youngest first."""
    staying = np.flatnonzero(~running.leaving)
    of = leaves[staying]
    order = np.lexsort((-running.starts[staying], running.priorities[staying], of))
    ordered, of = staying[order], of[order]

    def pods(leaf: int) -> IntArray:
        begin, end = of.searchsorted((leaf, leaf + 1))
        return ordered[begin:end]

    return pods

"""Reclaim: which Pods yield to a queue that is entitled to more than it has.

The taker is a Pod or a group of one queue, the givers are the other queues. Both are compared where
they part: as children of their lowest common ancestor, and only by the resources that the taker
needs. Who may yield, in this order:

0. Pods of the taker's own queue with a lower priority.
1. Pods of queues that use more than is guaranteed to them, while the taker stays within what is
   guaranteed to it.
2. Pods of queues that use more than their share, while the taker, after the move, is no more
   saturated (used / share) than the giver.

Within 1 and 2 Pods come first whose queue is furthest above its share, without those that come
before (to a tenth of the share), so several givers pay in turn. Never: Pods of queues that
are not reclaimable, that run for less than their queue's minRuntimeSeconds, that have no queue; and
no Pod without which its queue, or an ancestor up to the common one, would be below what is
guaranteed to it (1) or below its share (2). So what is taken cannot be taken back by the same rule:
the giver would have to be less saturated than the taker is, and it is not. The tests count moves.

Which of its Pods a queue gives is open as long as that holds. The first of them by age may be on
many nodes, and none of these has room then. So where they are not enough, all Pods of the givers
may yield, and the victims are judged together (`ReclaimRule.wider`, `ReclaimRule.refusal`).

What is used is what will be: without Pods that are leaving, with those that are nominated. So Pods
of one queue that are tried one after the other do not each take the same room.

An example: room 12, queues A and B with weights 1 and 1, B runs 12 Pods of 1, a group of 4 of A
waits. The shares are 4 and 8 (A needs no more). B has 4 Pods above its share; they are the class 2,
the youngest of the lowest priority first. A then has 4 / 4, B has 8 / 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.cache.queue_tree.shares import FloatArray
from bayplan.framework.handle import PodNominator
from bayplan.framework.room import Taker
from bayplan.plugins.fair_share.turns import saturation
from bayplan.preemption.running_pods import RunningPods

PRIORITY, GUARANTEED, SHARE = "priority", "guaranteed", "share"
MOST_NAMED = 8
"""Queues that are named in one sentence."""
_MOST_OVER = 1e6


class _Giver(NamedTuple):
    """A queue, some of whose Pods may yield.

    Attributes:
        leaf: its row.
        rule: GUARANTEED or SHARE.
        over: used / share.
        path: the rows from the leaf to below the common ancestor.
        floors: (path, r) what has to stay in use; -1 where that does not matter.
    """

    leaf: int
    rule: str
    over: float
    path: IntArray
    floors: IntArray


class ReclaimRule:
    """See the module's docstring, and `bayplan.preemption.rule.YieldRule`.

    Attributes:
        refusals: why Pods of queues that use more than their share may not yield, by queue.
        wider: the same for all Pods of the givers, not only as many as may yield together.
    """

    def __init__(
        self,
        queues: QueueTree,
        nominator: PodNominator,
        now: Callable[[], float],
        *,
        wide: bool = False,
    ) -> None:
        self._wide = wide
        self.wider = None if wide else ReclaimRule(queues, nominator, now, wide=True)
        self._asked: list[tuple[_Giver, IntArray]] = []
        self._queues, self._nominator = queues, nominator
        self._now = now
        self._rules: dict[str, str] = {}
        self.refusals: dict[str, str] = {}

    def classes(self, taker: Taker, running: RunningPods) -> IntArray:
        """See `YieldRule`."""
        self._rules, self.refusals = {}, {}
        pods = running.examples
        leaves = np.array([self._queues.leaf(pod) for pod in pods], np.int64)[running.codes]
        row = self._queues.leaf(taker.pods[0])
        own = (leaves == row) & (running.priorities < taker.priority)
        classes: IntArray = np.where(own, 0, -1)
        classes[running.leaving] = 0
        if row == NO_QUEUE:
            return classes
        sums = self._queues.refresh_shares()
        needed = self._needed(taker)
        requests = np.array([self._queues.requests(pod) for pod in pods])
        gone = np.flatnonzero(running.leaving & (leaves != NO_QUEUE))
        used = self._used(taker, zip(leaves[gone], requests[running.codes[gone]], strict=True))
        present = np.unique(leaves)
        givers = sorted(self._givers(used, row, needed, present), key=_deserves_least)
        candidates_of = _by_leaf(leaves, present, running)
        over = np.zeros(len(running))
        by_share = np.zeros(len(running), np.bool_)
        others = np.zeros(len(running), np.bool_)
        self._asked = [(giver, _room(giver, used)) for giver in givers]
        for giver, room in self._asked:
            candidates = self._old_enough(giver, candidates_of[giver.leaf], running)
            amounts = requests[running.codes[candidates]]
            if self._wide:
                others[candidates[(amounts <= room.min(axis=0)).all(axis=1)]] = True
            chosen, going = self._within(giver, candidates, amounts, used)
            branch = giver.path[-1]
            before = used[branch] - np.cumsum(going, axis=0) + going
            over[chosen] = _saturation(before, sums.share[branch : branch + 1], needed > 0)
            by_share[chosen] = giver.rule == SHARE
            used[giver.path] -= going.sum(axis=0)
            name = sums.structure.name(giver.leaf)
            self._rules[name] = giver.rule
            if not len(chosen):
                self.refusals.setdefault(name, f"would be undone by queue {name}")
        yielding = over > 0
        steps = -np.round(np.minimum(over[yielding], _MOST_OVER), 1)
        order = np.unique(np.stack([by_share[yielding], steps]), axis=1, return_inverse=True)[1]
        classes[yielding] = order.ravel() + 1
        classes[others & ~yielding] = len(running)
        return classes

    def _used(self, taker: Taker, leaving: Iterable[tuple[int, IntArray]]) -> IntArray:
        """What queues will use: less what is leaving, and what nominated Pods wait for."""
        sums, queues = self._queues.sums, self._queues
        used, chains = sums.used.copy(), sums.structure.chains
        for leaf, requests in leaving:
            used[chains[leaf]] -= requests
        own = {pod.uid for pod in taker.pods}
        for node in self._nominator.nominated_nodes():
            for pod in self._nominator.nominated_pods(node):
                leaf = queues.leaf(pod)
                if leaf != NO_QUEUE and pod.uid not in own:
                    used[chains[leaf]] += queues.requests(pod)
        return used

    def _needed(self, taker: Taker) -> IntArray:
        pods = taker.pods[: taker.minimum]
        needed: IntArray = np.array([self._queues.requests(pod) for pod in pods]).sum(axis=0)
        return needed

    # Queues

    def _givers(
        self, used: IntArray, row: int, needed: IntArray, leaves: IntArray
    ) -> Iterator[_Giver]:
        structure, matters = self._queues.structure, needed > 0
        shares = self._queues.sums.share
        taking = structure.chains[row]
        above = set(taking.tolist())
        takers: dict[int, tuple[bool, float]] = {}
        """By how many ancestors both have: whether it is guaranteed, and how saturated after."""
        for leaf in leaves[(leaves != NO_QUEUE) & (leaves != row)].tolist():
            if not structure.queues[leaf].spec.reclaimable:
                continue
            giving = structure.chains[leaf]
            common = sum(link in above for link in giving.tolist())
            path, up_to = giving[: len(giving) - common], taking[: len(taking) - common]
            if common not in takers:
                after = used[up_to] + needed
                within = bool((after <= structure.guaranteed[up_to])[:, matters].all())
                takers[common] = within, float(_saturation(after, shares[up_to], matters)[-1])
            is_guaranteed, taker = takers[common]
            over = float(_saturation(used[path], shares[path], matters)[-1])
            if is_guaranteed:
                floors = _floors(used[path], structure.guaranteed[path], matters)
                if floors is not None:
                    yield _Giver(leaf, GUARANTEED, over, path, floors)
                    continue
            if over <= 1:
                continue
            floor = np.minimum(shares[path] * min(max(taker, 1.0), _MOST_OVER), 2.0**62)
            # The saturations are compared where the two part; below, the share is the floor.
            floor[:-1] = shares[path[:-1]]
            floors = _floors(used[path], np.ceil(floor).astype(np.int64), matters)
            if floors is None or taker > _MOST_OVER:
                name = structure.name(leaf)
                self.refusals[name] = f"would be undone by queue {name}"
            else:
                yield _Giver(leaf, SHARE, over, path, floors)

    # Pods

    def _old_enough(self, giver: _Giver, pods: IntArray, running: RunningPods) -> IntArray:
        """Those of ``pods`` that run for long enough."""
        spec = self._queues.structure.queues[giver.leaf].spec
        if spec.min_runtime_seconds:
            ran = self._now() - running.starts[pods] / 1e6
            kept = ran >= spec.min_runtime_seconds
            if not kept.any() and len(pods):
                name = self._queues.structure.name(giver.leaf)
                self.refusals[name] = f"Pods of queue {name} run for less than minRuntimeSeconds"
            pods = pods[kept]
        return pods

    def _within(
        self, giver: _Giver, pods: IntArray, requests: IntArray, used: IntArray
    ) -> tuple[IntArray, IntArray]:
        """As many as can go until a floor is reached; those that are too large are left out."""
        room = _room(giver, used).min(axis=0)
        chosen = np.zeros(len(pods), np.bool_)
        left = np.flatnonzero((requests <= room).all(axis=1))
        while len(left):
            sums = np.cumsum(requests[left], axis=0)
            enough = (sums > room).any(axis=1)
            number = int(enough.argmax()) if enough.any() else len(left)
            chosen[left[:number]] = True
            room = room - sums[number - 1]
            left = left[number:]
            left = left[(requests[left] <= room).all(axis=1)]
        return pods[chosen], requests[chosen]

    # What is said

    def refusal(self, _taker: Taker, victims: Sequence[Pod]) -> str:
        """See `YieldRule`: some of those that may yield together may always yield."""
        structure = self._queues.structure
        going = np.zeros_like(structure.guaranteed)
        for victim in victims if self._wide else ():
            leaf = self._queues.leaf(victim)
            if leaf != NO_QUEUE:
                going[structure.chains[leaf]] += self._queues.requests(victim)
        for giver, room in self._asked if self._wide else ():
            if (going[giver.path] > room).any():
                return f"would be undone by queue {structure.name(giver.leaf)}"
        return ""

    def describe(self, victims: Sequence[Pod]) -> str:
        """See `YieldRule`."""
        counts = self.by_rule(victims)
        own = sum(count for (queue, _), count in counts.items() if not queue)
        texts = [f"{own} Pods of lower priority"] if own else []
        others = [f"{count} Pods of queue {queue}" for (queue, _), count in counts.items() if queue]
        if len(others) > MOST_NAMED:
            others = [f"{len(victims) - own} Pods of {len(others)} queues"]
        return " and ".join([*texts, *others])

    def by_rule(self, victims: Sequence[Pod]) -> Counter[tuple[str, str]]:
        """How many are evicted, by queue ("" for the taker's own) and rule."""
        counts: Counter[tuple[str, str]] = Counter()
        for victim in victims:
            row = self._queues.leaf(victim)
            name = self._queues.structure.name(row) if row != NO_QUEUE else ""
            rule = self._rules.get(name, PRIORITY)
            counts["" if rule == PRIORITY else name, rule] += 1
        return counts


def _room(giver: _Giver, used: IntArray) -> IntArray:
    """(path, r) what may go before a floor is reached."""
    room: IntArray = np.where(giver.floors >= 0, used[giver.path] - giver.floors, 2**62)
    return room


def _deserves_least(giver: _Giver) -> tuple[bool, float]:
    return giver.rule == SHARE, -giver.over


def _by_leaf(leaves: IntArray, present: IntArray, running: RunningPods) -> dict[int, IntArray]:
    """The Pods of each leaf that stay: by priority, the youngest first."""
    staying = np.flatnonzero(~running.leaving)
    of = leaves[staying]
    order = np.lexsort((-running.starts[staying], running.priorities[staying], of))
    ends = np.searchsorted(of[order], present, side="right").tolist()
    begins = [0, *ends][: len(ends)]
    ordered = staying[order]
    return {
        leaf: ordered[begin:end]
        for leaf, begin, end in zip(present.tolist(), begins, ends, strict=True)
    }


def _saturation(used: IntArray, share: IntArray, matters: BoolArray) -> FloatArray:
    return saturation(used[:, matters], share[:, matters])


def _floors(used: IntArray, floor: IntArray, matters: BoolArray) -> IntArray | None:
    """What has to stay, of what is above ``floor``; None if nothing is above it at some level."""
    above = (used > floor) & matters
    if not above.any(axis=1).all():
        return None
    return np.where(above, floor, -1)

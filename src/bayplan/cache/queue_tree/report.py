"""Report: the state of every queue as plain values, for people and for metrics."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from bayplan.api.queues import State
from bayplan.cache.amounts import UNLIMITED, Sums, User
from bayplan.cache.queue_tree.past_use import Past
from bayplan.cache.queue_tree.structure import Structure
from bayplan.cache.queue_tree.tree import QueueTree


class Amounts(NamedTuple):
    """One resource of one queue, in units of `bayplan.api.quantity.of`; no limit is None."""

    guaranteed: int
    limit: int | None
    used: int
    demand: int
    share: int

    @property
    def borrowed(self) -> int:
        """What is used above what is guaranteed."""
        return max(self.used - self.guaranteed, 0)


class QueueReport(NamedTuple):
    """One queue.

    Attributes:
        name: of the Queue.
        depth: 0 for a queue without parent.
        amounts: by resource.
        saturation: by resource of which the queue and those beside it need more than there is, how
            much of its share it uses; infinite where it uses something without a share.
        pending: Pods that wait for a node.
        oldest: seconds since the oldest of them was created; None where none waits.
        state: whether it takes Pods; a part of a queue is no more open than the queue.
        target: seconds that its Pods should wait at most; 0 where it has no target.
        late: whether a Pod waits longer that could run within the limits.
        kinds: the kinds of nodes that its Pods prefer, in their order.
        never_evicted: by resource, what of `used` is that of Pods that are never evicted.
        past: by resource, what it has used before, where that counts.
        users: where users have limits, what they use of these resources, by user; first those who
            have most of a limit.
    """

    name: str
    depth: int
    amounts: dict[str, Amounts]
    saturation: dict[str, float]
    pending: int
    oldest: float | None
    state: State
    target: int
    late: bool
    kinds: tuple[str, ...]
    never_evicted: dict[str, int]
    past: dict[str, Past]
    users: dict[str, dict[str, int]]


def reports(tree: QueueTree, now: float) -> list[QueueReport]:
    """Every queue, children below their parents, shares as of now. Scheduling thread only.

    Args:
        tree: the queues.
        now: seconds since the epoch.
    """
    sums = tree.refresh_shares()
    structure, shares = sums.structure, tree.shares()
    saturation = shares.ratios(sums.used)
    pending: Counter[int] = Counter()
    oldest: dict[int, float] = {}
    late: set[int] = set()
    for pod, charge, demand in tree.waiting():
        may_run = demand and charge.is_within_limits
        for row in structure.links[charge.row]:
            pending[row] += 1
            if pod.created is not None:
                created = pod.created.timestamp()
                oldest[row] = min(created, oldest.get(row, now))
                target = structure.queues[row].spec.waiting_target_seconds
                if may_run and target and now - created > target:
                    late.add(row)
    past: dict[str, dict[str, Past]] = defaultdict(dict)
    for (name, resource), its in tree.past_use.shown.items() if tree.past_use is not None else ():
        past[name][resource] = its
    users: dict[int, dict[str, dict[str, int]]] = defaultdict(dict)
    never_evicted: dict[int, dict[str, int]] = defaultdict(dict)
    for user, used in sorted(sums.of_users("used_rows").items(), key=_most_first):
        if user.never_evicted:
            pairs = zip(structure.resources, used, strict=True)
            never_evicted[user.row] = {name: amount for name, amount in pairs if amount}
        else:
            users[user.row][user.name] = {
                structure.resources[column]: used[column] for column, _ in user.limits
            }
    return [
        QueueReport(
            structure.name(row),
            len(structure.links[row]) - 1,
            dict(amounts(sums, row)),
            {
                structure.resources[column]: float(saturation[row, column])
                for column in shares.contended[row].nonzero()[0].tolist()
            },
            pending[row],
            now - oldest[row] if row in oldest else None,
            structure.state(row),
            structure.queues[row].spec.waiting_target_seconds,
            row in late,
            structure.preferred(row),
            never_evicted[row],
            past[structure.name(row)],
            users[row],
        )
        for row in _in_tree_order(structure)
    ]


def _most_first(pair: tuple[User, tuple[int, ...]]) -> tuple[float, User]:
    user, used = pair
    return -max((used[column] / max(most, 1) for column, most in user.limits), default=0.0), user


def percent(saturation: float) -> str:
    """How much of a share is used, as people read it."""
    return "no share" if math.isinf(saturation) else f"{saturation:.0%}"


def amounts(sums: Sums[Structure], row: int) -> Iterator[tuple[str, Amounts]]:
    """What there is to say about a queue, by resource."""
    structure = sums.structure
    for column, resource in enumerate(structure.resources):
        limit = int(structure.limit[row, column])
        yield (
            resource,
            Amounts(
                int(structure.guaranteed[row, column]),
                None if limit == UNLIMITED else limit,
                sums.used_rows[row][column],
                sums.demand_rows[row][column],
                int(sums.share[row, column]),
            ),
        )


def _in_tree_order(structure: Structure) -> Iterator[int]:
    """The rows of Queues, children below their parents."""
    children: dict[int, list[int]] = defaultdict(list)
    for row in range(len(structure) - 1, -1, -1):
        if not structure.own[row]:
            children[int(structure.parent[row])].append(row)
    left = children[-1]
    while left:
        row = left.pop()
        yield row
        left += children[row]

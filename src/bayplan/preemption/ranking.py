"""Ranking: compares candidate nodes by the victims on them, and the victims of one node.

Every possible preemption is a `Candidate`; its rank is a row of integers, so that thousands can be
compared in a few array operations. The criteria and their order are those of kube-scheduler's
``pickOneNodeForPreemption``; groups, which it does not know, come before all of them.

A Pod whose eviction is decided already (`bayplan.framework.evictions`) is the least important one,
and to evict it again costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray
from bayplan.cache.node_table.pod_table import MICROSECONDS, NOT_STARTED, start

_PRIORITY_SHIFT = 2**31
"""Makes every priority positive, so that fewer victims of negative priority are better."""

Rank = tuple[int, int, int, int, int]
"""Groups that fall below their minimum and PDB violations, highest priority, sum of priorities,
victims, start in microseconds."""
_NOTHING_TO_DO: Rank = (0, -_PRIORITY_SHIFT - 1, 0, 0, NOT_STARTED)
"""Of a node where all victims are leaving."""
_GROUP_SHIFT = 2**31
"""Makes one group that falls below its minimum worse than any number of violations."""


@dataclass(frozen=True)
class Candidate:
    """A node on which the Pod would fit if some Pods were gone.

    Attributes:
        row: of the node in the full table.
        victims: who has to go, the most important first.
        violations: how many of them a PodDisruptionBudget protects.
        broken: how many groups fall below their minimum without them.
        leaving: uids of those whose eviction is decided already.
    """

    row: int
    node_name: str
    victims: tuple[Pod, ...]
    violations: int
    broken: int = 0
    leaving: frozenset[str] = frozenset()

    @property
    def rank(self) -> Rank:
        """The lower the first difference the better; of start times, the higher."""
        victims: Sequence[Pod] = self.victims
        if self.leaving:
            victims = [p for p in victims if p.uid not in self.leaving]
        if not victims:
            return _NOTHING_TO_DO
        harm = self.violations + _GROUP_SHIFT * self.broken
        if len(victims) == 1:  # so it is on most of many thousands of nodes
            priority = victims[0].priority
            return harm, priority, priority + _PRIORITY_SHIFT, 1, start(victims[0])
        priorities = [p.priority for p in victims]
        highest = max(priorities)
        shifted = sum(priorities) + _PRIORITY_SHIFT * len(priorities)
        earliest = min(start(p) for p in victims if p.priority == highest)
        return harm, priorities[0], shifted, len(priorities), earliest


def most_important_first(pods: Iterable[Pod]) -> list[Pod]:
    """The Pods by importance, each alone; see `by_importance`."""
    return [pod for (pod,) in by_importance((pod,) for pod in pods)]


def in_a_group(pod: Pod) -> int:
    """The rank of a Pod that goes alone: 1 in a PodGroup of Kubernetes, else 0."""
    return bool(pod.pod_group)


def by_importance(
    victims: Iterable[tuple[Pod, ...]],
    leaving: Collection[str] = (),
    rank: Callable[[Pod], int] = in_a_group,
) -> list[tuple[Pod, ...]]:
    """Higher priority first, then a higher rank, larger, longer running.

    A Pod that has not started counts as started when it is looked at, so of such Pods the one that
    came to the node first is the more important one. Pods that are leaving come last.

    Args:
        victims: Pods that go together, in the order in which the first of them came to the node.
        leaving: uids of Pods whose eviction is decided already.
        rank: of the group that a Pod goes with, if it is in a PodGroup of Kubernetes; see
            `bayplan.preemption.gangs.Gangs.rank`.
    """
    ordered = list(victims)
    if len(ordered) < 2:
        return ordered

    def key(pods: tuple[Pod, ...]) -> tuple[bool, int, int, int, int]:
        first, n = pods[0], len(pods)
        leaves = bool(leaving) and all(pod.uid in leaving for pod in pods)
        started = start(first) if n == 1 else min(map(start, pods))
        return leaves, -first.priority, -rank(first) if first.pod_group else 0, -n, started

    return sorted(ordered, key=key)


def best(ranks: IntArray, now: float) -> IntArray:
    """Indices of the best ranks; several where no criterion decides between them.

    Args:
        ranks: (m, 5), one `Rank` per line; m > 0.
        now: seconds since the epoch.
    """
    left = np.arange(len(ranks))
    for criterion in range(4):
        values = ranks[left, criterion]
        left = left[values == values.min()]
    starts = ranks[left, 4]
    starts = np.where(starts == NOT_STARTED, int(now * MICROSECONDS), starts)
    latest: IntArray = left[starts == starts.max()]
    return latest


def best_candidates(candidates: Sequence[Candidate], now: float) -> list[Candidate]:
    """The best of ``candidates``, by node name; several where no criterion decides."""
    ranks = np.array([c.rank for c in candidates], np.int64)
    best_candidates = [candidates[index] for index in best(ranks, now).tolist()]
    return sorted(best_candidates, key=lambda c: c.node_name)

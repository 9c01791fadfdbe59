"""Ranking: compares candidate nodes by the victims on them.

Every possible preemption is a `Candidate`; its rank is a row of integers, so that thousands can be
compared in a few array operations. The criteria and their order are those of kube-scheduler's
``pickOneNodeForPreemption``; groups, which it does not know, come before all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """

    row: int
    node_name: str
    victims: tuple[Pod, ...]
    violations: int
    broken: int = 0

    @property
    def rank(self) -> Rank:
        """The lower the first difference the better; of start times, the higher."""
        priorities = [p.priority for p in self.victims]
        shifted = sum(priorities) + _PRIORITY_SHIFT * len(priorities)
        earliest = min(start(p) for p in self.victims if p.priority == max(priorities))
        harm = self.violations + _GROUP_SHIFT * self.broken
        return harm, priorities[0], shifted, len(priorities), earliest


def most_important_first(pods: Iterable[Pod]) -> list[Pod]:
    """The Pods by importance, each alone; see `by_importance`."""
    return [pod for (pod,) in by_importance((pod,) for pod in pods)]


def by_importance(victims: Iterable[tuple[Pod, ...]]) -> list[tuple[Pod, ...]]:
    """Higher priority first, then members of a PodGroup of Kubernetes, larger, longer running.

    kube-scheduler reads the clock again for each comparison of Pods that have not started, which
    makes the one that came to the node later the more important one.

    Args:
        victims: Pods that go together, in the order in which the first of them came to the node.
    """

    def key(entry: tuple[int, tuple[Pod, ...]]) -> tuple[int, bool, int, int, int]:
        place, pods = entry
        started = min(map(start, pods))
        order = -place if started == NOT_STARTED else place
        return -pods[0].priority, not pods[0].pod_group, -len(pods), started, order

    return [pods for _, pods in sorted(enumerate(victims), key=key)]


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

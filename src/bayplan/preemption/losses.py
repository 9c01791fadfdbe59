"""Losses: what is lost by an eviction, and where there is room without some of all Pods.

Less is lost where fewer budgets are violated, then where the highest priority is lower, then where
fewer groups end, then where fewer Pods go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.eviction_units import REST, YieldOrder
from bayplan.preemption.member_fit import MemberFit, amounts_of
from bayplan.preemption.running_pods import RunningPods


class Loss(NamedTuple):
    """What is lost; less is better.

    Attributes:
        violations: Pods whose eviction violates a budget.
        priority: the highest one.
        groups: how many end.
        pods: how many go.
    """

    violations: int
    priority: int
    groups: int
    pods: int


class Losses:
    """What is lost by evictions for one preemptor.

    Args:
        fit: the preemptor as columns.
        running: all Pods.
        order: of eviction.
        budgets: the PodDisruptionBudgets.

    Attributes:
        fit, running, order, budgets: as given.
    """

    def __init__(
        self, fit: MemberFit, running: RunningPods, order: YieldOrder, budgets: Budgets
    ) -> None:
        self.fit, self.running, self.order, self.budgets = fit, running, order, budgets

    @cached_property
    def amounts(self) -> Mapping[str, IntArray]:
        """(p,) by resource, what each Pod takes of its node."""
        of_shape = [amounts_of(pod) for pod in self.running.examples]
        return {
            name: np.array([some.get(name, 0) for some in of_shape], np.int64)[self.running.codes]
            for name in self.fit.free.columns
        }

    @cached_property
    def ends_group(self) -> BoolArray:
        """(p,) whether a group ends if the Pod goes."""
        ends: BoolArray = self.order.kinds == REST
        return ends

    def free_without(self, pods: IntArray) -> dict[str, IntArray]:
        """What is free on each row if these Pods are gone; ``pods`` are indices."""
        rows = self.running.rows[pods]
        free = {name: column.copy() for name, column in self.fit.free.columns.items()}
        for name, column in free.items():
            np.add.at(column, rows, self.amounts[name][pods])
        return free

    def index_of(self, victims: Sequence[Pod]) -> IntArray:
        """Which of all Pods these are, in the order of all Pods."""
        uids = {victim.uid for victim in victims}
        return np.flatnonzero([pod.uid in uids for pod in self.running.pods])

    def of(self, victims: Sequence[Pod]) -> Loss:
        """What is lost by these."""
        going = self.index_of(victims)
        return Loss(
            len(self.budgets.violations(victims)),
            int(self.running.priorities[going].max()),
            len(np.unique(self.order.units[going[self.ends_group[going]]])),
            len(victims),
        )

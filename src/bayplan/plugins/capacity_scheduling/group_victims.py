"""QuotaRule: which Pods may be evicted for a group, where namespaces have quotas.

The table is that of `bayplan.plugins.capacity_scheduling.victims`, with the requests of as many
Pods as the group needs, and those of the namespace's nominated Pods that are at least as important:
room is being made for them already. That quotas admit the group without the victims is proven by
the exact plan (`bayplan.preemption.shortest_prefix`), whose attempts ask PreFilter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import BoolArray
from bayplan.framework.handle import PodNominator
from bayplan.framework.preemptor import Preemptor
from bayplan.plugins.capacity_scheduling.amounts import add, request
from bayplan.plugins.capacity_scheduling.quotas import Quota, Quotas
from bayplan.preemption.capacity import MemberFit
from bayplan.preemption.ranking import most_important_first
from bayplan.preemption.rule import Yielding
from bayplan.preemption.running_pods import RunningPods


class QuotaRule:
    """See the module's docstring; implements `bayplan.preemption.rule.YieldRule`."""

    def __init__(self, quotas: Quotas, counters: DomainCounters, nominator: PodNominator) -> None:
        self._quotas, self._counters, self._nominator = quotas, counters, nominator

    def has_victims(self, preemptor: Preemptor) -> bool:
        """See `YieldRule`."""
        quota = self._quotas.by_namespace.get(preemptor.pods[0].namespace)
        if quota is None or quota.exceeds_minimum_with(self._needed(preemptor)):
            return self._counters.any_below(preemptor.priority)
        return any(
            other.exceeds_minimum(other.used) for other in self._quotas.by_namespace.values()
        )

    def judge(self, preemptor: Preemptor, running: RunningPods, _fit: MemberFit) -> Yielding:
        """See `YieldRule`."""
        quotas, namespace = self._quotas.by_namespace, preemptor.pods[0].namespace
        lower = running.priorities < preemptor.priority
        quota = quotas.get(namespace)
        if quota is None:
            victims = lower & (running.by_shape(lambda shape: shape.namespace in quotas) == 0)
        elif quota.exceeds_minimum_with(self._needed(preemptor)):
            victims = lower & (running.by_shape(lambda shape: shape.namespace == namespace) == 1)
        else:
            victims = self._borrowers(running, quota)
        return Yielding(np.where(victims, 0, -1), _described)

    def _needed(self, preemptor: Preemptor) -> dict[str, int]:
        total: dict[str, int] = {}
        for pod in preemptor.pods[: preemptor.minimum]:
            add(total, request(pod))
        own, namespace = {pod.uid for pod in preemptor.pods}, preemptor.pods[0].namespace
        for node in self._nominator.nominated_nodes():
            for pod in self._nominator.nominated_pods(node):
                important = pod.priority >= preemptor.priority and pod.uid not in own
                if important and pod.namespace == namespace:
                    add(total, request(pod))
        return total

    def _borrowers(self, running: RunningPods, lender: Quota) -> BoolArray:
        """The least important Pods of others, as far as they are above their minimum."""
        borrowed: set[str] = set()
        by_namespace: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in running.pods:
            by_namespace[pod.namespace].append(pod)
        for quota in self._quotas.by_namespace.values():
            left = dict(quota.staying)
            pods = [] if quota is lender else by_namespace[quota.namespace]
            borrowed.update(pod.uid for pod in pods if pod.is_preempted)
            staying = (pod for pod in pods if not pod.is_preempted)
            for pod in reversed(most_important_first(staying)):
                if not quota.exceeds_minimum(left):
                    break
                borrowed.add(pod.uid)
                add(left, request(pod), -1)
        return np.array([pod.uid in borrowed for pod in running.pods], np.bool_)


def _described(victims: Sequence[Pod]) -> str:
    return f"{len(victims)} Pods, as quotas permit,"

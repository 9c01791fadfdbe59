"""QuotaVictims: which Pods may be evicted for a Pod, where namespaces have quotas.

| the preemptor's namespace | victims |
|---|---|
| has a quota, and would be above its minimum | Pods of the same namespace, of lower priority |
| has a quota, and would not be | Pods of other namespaces above their minimum, of any priority |
| has none | Pods of namespaces without a quota, of lower priority |

So a Pod of a namespace without a quota is never evicted for one of a namespace that has one.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.plugins.capacity_scheduling.admission import Admission
from bayplan.plugins.capacity_scheduling.amounts import add, request
from bayplan.plugins.capacity_scheduling.quotas import Quotas
from bayplan.preemption.policy import LowerPriorityVictims
from bayplan.preemption.ranking import most_important_first

KEY = "CapacityScheduling"
"""Of the `Admission` in the CycleState; there is none for a Pod of a namespace without a quota."""


class QuotaVictims:
    """See the module's docstring; implements `bayplan.preemption.policy.VictimPolicy`."""

    refusal = Status.unschedulable("global quota max exceeded")

    def __init__(self, quotas: Quotas, lower: LowerPriorityVictims) -> None:
        self._quotas = quotas
        self._lower = lower

    def has_victims(self, state: CycleState, pod: Pod) -> bool:
        """Whether anybody may have to go for ``pod``."""
        if pod.namespace not in self._quotas.by_namespace:
            return self._lower.has_victims(state, pod)
        admission = state.get(KEY, Admission)
        return admission is not None  # None: another PreFilter plugin has rejected the Pod

    def is_row_local(self, _state: CycleState, _pod: Pod) -> bool:
        """Not where there are quotas."""
        return not self._quotas.by_namespace

    def is_awaited(self, state: CycleState, pod: Pod, leaving: Pod) -> bool:
        """Whether ``leaving`` may have been evicted for ``pod``, by this or another scheduler."""
        quota = self._quotas.by_namespace.get(leaving.namespace)
        admission = state.get(KEY, Admission)
        if leaving.namespace == pod.namespace or (quota is None and admission is None):
            return leaving.priority < pod.priority
        if quota is None or admission is None:
            return False
        return not admission.above_minimum and quota.exceeds_minimum(quota.used)

    def evictable(self, state: CycleState, pod: Pod, on_node: Iterable[Pod]) -> list[Pod]:
        """The Pods in the table of the module's docstring."""
        admission = state.get(KEY, Admission)
        quotas = self._quotas.by_namespace
        if admission is None:
            lower = self._lower.evictable(state, pod, on_node)
            return [other for other in lower if other.namespace not in quotas]
        if admission.above_minimum:
            lower = self._lower.evictable(state, pod, on_node)
            return [other for other in lower if other.namespace == pod.namespace]
        return self._borrowers(pod, on_node)

    def _borrowers(self, pod: Pod, on_node: Iterable[Pod]) -> list[Pod]:
        """The least important Pods of others, as long as their namespaces are above the minimum."""
        quotas = self._quotas.by_namespace
        others = [p for p in on_node if p.namespace != pod.namespace and p.namespace in quotas]
        used: dict[str, dict[str, int]] = {}
        evictable = []
        for other in reversed(most_important_first(others)):
            quota = quotas[other.namespace]
            left = used.setdefault(other.namespace, dict(quota.staying))
            if other.is_preempted:
                evictable.append(other)
            elif quota.exceeds_minimum(left):
                evictable.append(other)
                add(left, request(other), -1)
        return evictable

    def admits(self, state: CycleState, *, beside_nominated: bool) -> BoolArray | None:
        """Where the quotas leave room for the Pod."""
        admission = state.get(KEY, Admission)
        return admission.rows(beside_nominated=beside_nominated) if admission is not None else None

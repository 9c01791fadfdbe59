"""QuotaRule: who is admitted and who may be evicted, where namespaces have quotas.

Beside a Pod, nominated Pods count: those of its namespace that are at least as important, and for
the sum those of other namespaces that are not above their minimum. A group counts with as many Pods
as it needs.

| the preemptor's namespace | who may be evicted |
|---|---|
| has a quota, and would be above its minimum | Pods of the same namespace, of lower priority |
| has a quota, and would not be | Pods of other namespaces above their minimum, of any priority |
| has none | Pods of namespaces without a quota, of lower priority |

So a Pod of a namespace without a quota is never evicted for one of a namespace that has one. That
quotas admit a group without the victims is proven by the exact plan
(`bayplan.preemption.shortest_prefix`), whose attempts ask PreFilter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import NO_ROW, Amounts, Charge, add_amounts
from bayplan.cache.node_table import BoolArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.status import Status
from bayplan.plugins.capacity_scheduling.admission import Admission, Need
from bayplan.plugins.capacity_scheduling.quotas import Quotas
from bayplan.preemption.eviction_units import YieldOrder
from bayplan.preemption.member_fit import MemberFit
from bayplan.preemption.ranking import most_important_first
from bayplan.preemption.rule import LowerPriority, Yielding
from bayplan.preemption.running_pods import RunningPods

KEY = "CapacityScheduling"
"""Of the `Admission` in the CycleState; there is none for a Pod of a namespace without a quota."""


class QuotaRule(LowerPriority):
    """See the module's docstring; implements `bayplan.preemption.rule.YieldsOnNodes`."""

    refusal = Status.unschedulable("global quota max exceeded")

    def __init__(self, quotas: Quotas, handle: InTreeHandle) -> None:
        super().__init__(handle.counters)
        self._quotas = quotas
        self._nominator, self._nodes = handle.nominator, handle.nodes

    # Who is admitted

    def admission(self, pods: Sequence[Pod], minimum: int = 1) -> Admission | None:
        """What quotas say about ``minimum`` of these Pods together; None without a quota."""
        quotas = self._quotas
        charge = quotas.charge(pods[0]) if quotas.active else None
        if charge is None:
            return None
        if minimum == 1 and not self._nominator.nominated_nodes():
            return Admission(quotas, charge)
        needing, nominated = pods[:minimum], self._nominated(pods)
        charges = quotas.charges([*needing, *nominated])[minimum:]
        amounts: Counter[str] = Counter()
        for pod in needing:
            amounts.update(quotas.amounts(pod))
        charge = Charge(quotas.sums, charge.row, quotas.sum_of(needing), amounts)
        own, total, named = list(charge.requests), list(charge.requests), {*charge.amounts}
        priority, sums = min(pod.priority for pod in pods), quotas.sums
        for pod, other in zip(nominated, charges, strict=True):
            if other is None:
                continue
            if other.row == charge.row and pod.priority >= priority:
                add_amounts([own, total], (0, 1), other.requests)
                named.update(other.amounts)
            elif other.row != charge.row and not sums.structure.is_above_minimum(
                other.row, sums.staying(other.row)
            ):
                add_amounts([total], (0,), other.requests)
        return Admission(quotas, charge, Need(own, total, named))

    def _nominated(self, pods: Sequence[Pod]) -> list[Pod]:
        """The Pods nominated to existing nodes, without ``pods``."""
        uids = {pod.uid for pod in pods}
        return [
            pod
            for name in self._nominator.nominated_nodes()
            if self._nodes.row(name) is not None
            for pod in self._nominator.promised_pods(name)
            if pod.uid not in uids
        ]

    # Who may be evicted

    def has_victims(self, preemptor: Preemptor) -> bool:
        """See `Yields`."""
        admission = self.admission(preemptor.pods, preemptor.minimum)
        if admission is None or admission.above_minimum:
            return super().has_victims(preemptor)
        if self._counters.any_leaving:
            return True
        rows, sums = self._quotas.structure, self._quotas.sums
        return any(rows.is_above_minimum(row, sums.used_rows[row]) for row in rows.row_of.values())

    def judge(
        self, preemptor: Preemptor, running: RunningPods, fit: MemberFit, order: YieldOrder
    ) -> Yielding:
        """See `Yields`."""
        admission = self.admission(preemptor.pods, preemptor.minimum)
        leaves = np.array([self._quotas.leaf(pod) for pod in running.examples], np.int64)
        if admission is None or admission.above_minimum:
            row = NO_ROW if admission is None else admission.row
            lower = super().judge(preemptor, running, fit, order).classes
            return Yielding(np.where(leaves[running.codes] == row, lower, -1), _described)
        borrowers = {pod.uid for pod in self._borrowers(admission.row, running.pods)}
        yields = np.array([pod.uid in borrowers for pod in running.pods], np.bool_)
        return Yielding(np.where(yields, 0, -1), _described)

    def is_row_local(self, _state: CycleState, _pod: Pod) -> bool:
        """Not where there are quotas."""
        return not self._quotas.active

    def is_awaited(self, state: CycleState, pod: Pod, leaving: Pod) -> bool:
        """Whether ``leaving`` may have been evicted for ``pod``, by this or another scheduler."""
        row, admission = self._quotas.leaf(leaving), state.get(KEY, Admission)
        if leaving.namespace == pod.namespace or (row == NO_ROW and admission is None):
            return leaving.priority < pod.priority
        if row == NO_ROW or admission is None or admission.above_minimum:
            return False
        sums = self._quotas.sums
        return sums.structure.is_above_minimum(row, sums.used_rows[row])

    def evictable(self, state: CycleState, pod: Pod, on_node: Iterable[Pod]) -> list[Pod]:
        """The Pods in the table of the module's docstring."""
        row, admission = self._quotas.leaf(pod), state.get(KEY, Admission)
        if row != NO_ROW and admission is None:
            return []  # another PreFilter plugin has rejected the Pod
        if admission is not None and not admission.above_minimum:
            return self._borrowers(row, on_node)
        lower = super().evictable(state, pod, on_node)
        return [other for other in lower if self._quotas.leaf(other) == row]

    def _borrowers(self, lender: int, pods: Iterable[Pod]) -> list[Pod]:
        """The least important Pods of others, as long as their namespaces are above the minimum."""
        sums, leaf = self._quotas.sums, self._quotas.leaf
        left: dict[int, Amounts] = {}
        others = (pod for pod in pods if leaf(pod) not in (NO_ROW, lender))
        evictable = []
        for other in reversed(most_important_first(others)):
            row = leaf(other)
            used = left[row] if row in left else sums.staying(row)
            if other.is_preempted:
                evictable.append(other)
            elif sums.structure.is_above_minimum(row, used):
                evictable.append(other)
                requests = self._quotas.requests(other)
                used = [amount - less for amount, less in zip(used, requests, strict=True)]
            left[row] = used
        return evictable

    def admits(self, state: CycleState, *, beside_nominated: bool) -> BoolArray | None:
        """Where the quotas leave room for the Pod."""
        admission = state.get(KEY, Admission)
        return admission.rows(beside_nominated=beside_nominated) if admission is not None else None


def _described(victims: Sequence[Pod]) -> str:
    return f"{len(victims)} Pods, as quotas permit,"

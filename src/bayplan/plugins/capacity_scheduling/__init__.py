"""CapacityScheduling: ElasticQuotas, by the rules and under the names of scheduler-plugins.

A namespace is guaranteed the minimum of its quota, and may borrow up to its maximum what others
leave of theirs. PreFilter rejects a Pod that would go above a limit; PostFilter evicts as in
`bayplan.preemption`, with the victims of `QuotaRule`. It stands in place of DefaultPreemption.

What namespaces use is kept from the cache (`Quotas`), which counts a Pod from the moment when its
node is chosen, so there is nothing to do in Reserve and Unreserve.
"""

from __future__ import annotations

from bayplan.api.kinds import ELASTIC_QUOTA, POD_DISRUPTION_BUDGET
from bayplan.api.pod import Pod
from bayplan.cache.amounts import NO_ROW
from bayplan.cache.node_table import NodeTable
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, PostFilterResult
from bayplan.framework.points import (
    MovesElsewhere,
    PodGroupPostFilter,
    PreFilter,
)
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.capacity_scheduling.admission import Admission
from bayplan.plugins.capacity_scheduling.quotas import Quotas
from bayplan.plugins.capacity_scheduling.rule import KEY, QuotaRule
from bayplan.preemption.evaluator import TERMINATING
from bayplan.preemption.plugin import PreemptionPlugin
from bayplan.preemption.shortest_prefix import ShortestPrefix

CHECK_INTERVAL = 300.0
"""Least seconds between two self-checks that rejections cause; one takes 30 ms for 30,000 Pods."""
_NOT_YET = PostFilterResult(Status.unschedulable(f"preemption: {TERMINATING}"))
_AWAITING = PostFilterResult(
    Status.unschedulable("preemption: not eligible due to terminating pods that quotas count.")
)


class CapacityScheduling(PreemptionPlugin, PreFilter, MovesElsewhere, PodGroupPostFilter):
    """See the module's docstring."""

    kinds = (POD_DISRUPTION_BUDGET, ELASTIC_QUOTA)

    def __init__(self, args: None, handle: InTreeHandle) -> None:
        self._quotas = handle.objects.shared(Quotas, handle.pods, handle.objects)
        self._rule = QuotaRule(self._quotas, handle)
        super().__init__(args, handle, self._rule, lambda nodes: nodes)
        self._strategy = ShortestPrefix(handle, self._rule)
        self._metrics = PluginMetrics(handle.instrument, self.name)
        self._clock = handle.monotonic
        self._next_check = self._clock() + CHECK_INTERVAL
        handle.services.object_faults.append(lambda: self._quotas.known_faults)
        handle.services.recounts[self.name] = self.recount

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status | None:
        """Reject a Pod above the maximum of its quota, or above the sum of all minimums."""
        admission = self._rule.admission((pod,))
        if admission is None:
            return SKIP
        state.write(KEY, admission)
        if admission.above_maximum:
            why = f"ElasticQuota {pod.namespace} is more than Max"
        elif admission.above_total:
            why = "total ElasticQuota used is more than min"
        else:
            return None
        if self._clock() >= self._next_check:
            self.recount()
        return Status.unschedulable(f"Pod {pod.key} is rejected in PreFilter because {why}")

    def add_pod(
        self, state: CycleState, _pod: Pod, other: Pod, _nodes: NodeTable, row: int
    ) -> None:
        """What if ``other`` were on ``row``?"""
        state.read(KEY, Admission).move(other, row, 1)

    def remove_pod(
        self, state: CycleState, _pod: Pod, other: Pod, _nodes: NodeTable, row: int
    ) -> None:
        """What if ``other`` were gone from ``row``?"""
        state.read(KEY, Admission).move(other, row, -1)

    def move_elsewhere(
        self, pods: int, state: CycleState, _pod: Pod, other: Pod, _nodes: NodeTable, row: int
    ) -> None:
        """What if ``pods`` more Pods like ``other`` were on its node? All count for quotas."""
        state.read(KEY, Admission).move(other, row, pods)

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """See `PreemptionPlugin`. A profile that has PreEnqueue off does not evict twice either."""
        if self._evictions.hold(pod.uid) is not None:
            return _NOT_YET
        admission = state.get(KEY, Admission)
        if admission is not None and admission.is_awaiting:
            return _AWAITING
        return super().post_filter(state, pod, failure)

    def pod_group_post_filter(self, request: RoomRequest) -> Room | NoRoom:
        """Make room for a group, if that is possible."""
        return self._groups.make_room(request, self._strategy)

    def recount(self) -> dict[str, int]:
        """In how many places sums differed from a count of all Pods, by sum."""
        self._next_check = self._clock() + CHECK_INTERVAL
        differences = self._quotas.recount()
        self._metrics.set("used_differences", self._quotas.difference)
        if differences:
            self.handle.logger.error("What namespaces use was wrong", **differences)
        return differences

    def events_to_register(self) -> list[EventRegistration]:
        """Events: Pods deleted in namespaces with a quota, and any change of quotas."""
        less = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, less), self._leaves_room),
            EventRegistration(ClusterEvent(ELASTIC_QUOTA, Action.ALL)),
        ]

    def _leaves_room(self, _pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        gone = old or new
        counts = gone is not None and self._quotas.leaf(gone) != NO_ROW
        return Hint.QUEUE if counts else Hint.SKIP

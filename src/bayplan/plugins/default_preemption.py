"""DefaultPreemption: evicts Pods of lower priority to make room for a Pod that fits nowhere.

How it does so is `bayplan.preemption`. PodGroupPostFilter makes room for a group.
"""

from __future__ import annotations

from typing import ClassVar

from bayplan.config.args import DefaultPreemptionArgs
from bayplan.framework.handle import InTreeHandle
from bayplan.framework.points import (
    PodGroupPostFilter,
)
from bayplan.framework.room import NoRoom, Room, RoomRequest, WorkloadRoomRequest
from bayplan.preemption.group import GroupPreemption
from bayplan.preemption.plugin import PreemptionPlugin
from bayplan.preemption.policy import LowerPriorityVictims
from bayplan.preemption.rule import LowerPriority
from bayplan.preemption.workload_group import WorkloadPreemption


class DefaultPreemption(PreemptionPlugin, PodGroupPostFilter):
    """See the module's docstring."""

    Args: ClassVar[type | None] = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: InTreeHandle) -> None:
        victims = LowerPriorityVictims(handle.counters)
        super().__init__(args, handle, victims, args.enough_candidates)
        self._counters = handle.counters
        self._groups = GroupPreemption(handle, LowerPriority(handle.counters), self._executor)
        self._workload_groups = WorkloadPreemption(handle, self.name, self._executor)

    def pod_group_post_filter(self, request: RoomRequest) -> Room | NoRoom:
        """Make room for a group, if that is possible."""
        if isinstance(request, WorkloadRoomRequest):
            return self._workload_groups.make_room(request)
        if not self._counters.any_below(request.taker.priority):
            return NoRoom()
        return self._groups.make_room(request)

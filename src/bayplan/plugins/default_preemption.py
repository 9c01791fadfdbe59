"""DefaultPreemption: evicts Pods of lower priority to make room for a Pod that fits nowhere.

How it does so is `bayplan.preemption`. PodGroupPostFilter makes room for a group.
"""

from __future__ import annotations

from bayplan.config.args import DefaultPreemptionArgs
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.points import PodGroupPostFilter
from bayplan.framework.preemptor import Victims
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.preemption.group import Strategy
from bayplan.preemption.plugin import PreemptionPlugin
from bayplan.preemption.reprieve import Reprieve
from bayplan.preemption.rule import LowerPriority
from bayplan.preemption.shortest_prefix import ShortestPrefix


class DefaultPreemption(PreemptionPlugin, PodGroupPostFilter):
    """See the module's docstring."""

    Args = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: InTreeHandle) -> None:
        rule = LowerPriority(handle.counters)
        super().__init__(args, handle, rule, args.enough_candidates)
        self._strategies: dict[Victims, Strategy] = {
            Victims.FEWEST: ShortestPrefix(handle, rule),
            Victims.REPRIEVED: Reprieve(handle, self.name),
        }

    def pod_group_post_filter(self, request: RoomRequest) -> Room | NoRoom:
        """Make room for a group, if that is possible."""
        return self._groups.make_room(request, self._strategies[request.preemptor.victims])

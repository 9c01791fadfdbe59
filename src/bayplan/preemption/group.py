"""GroupPreemption: makes room for groups, as a plugin of the point PodGroupPostFilter does.

One search (`bayplan.preemption.room`), and its victims are evicted; the caller nominates the nodes.
While victims are leaving the group keeps its nodes, and nobody else is evicted for it.
"""

from __future__ import annotations

from time import perf_counter

from bayplan.framework.handle import InTreeHandle
from bayplan.framework.room import NoRoom, Room, RoomRequest, Taker
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.executor import Executor, kind_of
from bayplan.preemption.gangs import gangs_of
from bayplan.preemption.room import RoomSearch
from bayplan.preemption.rule import YieldRule

NEVER = NoRoom("not eligible due to preemptionPolicy=Never")


class GroupPreemption:
    """Evicts by one rule, for the groups of one profile."""

    def __init__(self, handle: InTreeHandle, rule: YieldRule, executor: Executor) -> None:
        self._rule = rule
        self._executor, self._evictions = executor, handle.evictions
        self._nominator, self._instrument = handle.nominator, handle.instrument
        self._budgets = handle.objects.shared(Budgets, handle.objects)
        self._search = RoomSearch(handle.nodes, handle.nominator, gangs_of(handle), self._budgets)

    def make_room(self, request: RoomRequest) -> Room | NoRoom:
        """Have Pods evicted for a group, unless this is only a question.

        Raises:
            AttemptFault: a plugin broke.
        """
        taker = request.taker
        if any(pod.spec.preemption_policy == "Never" for pod in taker.pods):
            return NEVER
        if self._evictions.hold(taker.uid) is not None or self._search.is_under_way(taker):
            return Room(self._nominations(taker), (), "", self._evictions.eviction(taker.uid))
        started = perf_counter()
        room = self._search.find(request, self._rule)
        if request.dry_run:
            return room
        self._instrument.preemption(kind_of(taker), str(room.code), perf_counter() - started)
        if isinstance(room, Room):
            violations = len(self._budgets.violations(room.victims))
            return self._executor.evict_for_group(taker, room, 0, violations)
        return room

    def _nominations(self, taker: Taker) -> dict[str, str]:
        nodes = ((pod.uid, self._nominator.nominated_node(pod.uid)) for pod in taker.pods)
        return {uid: node for uid, node in nodes if node}

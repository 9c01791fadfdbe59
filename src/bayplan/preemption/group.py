"""GroupPreemption: makes room for groups, as a plugin of the point PodGroupPostFilter does.

A `Strategy` finds the victims; that they are evicted is an effect, and the caller nominates the
nodes. While victims are leaving the group keeps its nodes, and nobody else is evicted for it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from bayplan.api.pod import PREEMPTED, Pod
from bayplan.framework.effects import CountSearch, Evict
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.framework.status import Code
from bayplan.preemption.evaluator import NEVER


class Strategy(Protocol):
    """How victims are chosen for a group, or for a Pod that a limit holds back.

    Attributes:
        under_way: what is said while earlier victims are leaving.
    """

    under_way: str

    def awaits(self, preemptor: Preemptor, leaving: Pod, /) -> bool:
        """Whether the preemptor waits for a terminating Pod of its nominated node."""

    def find(self, request: RoomRequest, /) -> Room | NoRoom:
        """Whom to evict for a preemptor that fits nowhere; changes nothing.

        Raises:
            AttemptFault: a plugin broke.
        """


def preempt(
    plugin: str, preemptor: Preemptor, room: Room, cause: str = "a higher priority {}"
) -> Evict:
    """Evict the victims of ``room``; ``cause`` gives the reason for a pod or a podgroup."""
    scheduler = preemptor.pods[0].spec.scheduler_name
    return Evict(
        plugin,
        room.victims,
        f"{scheduler}: preempting to accommodate {cause.format(preemptor.kind)}",
        PREEMPTED,
        preemptor,
        frozenset(room.nodes.values()),
        room.anywhere,
        room.groups,
        room.violations,
    )


class GroupPreemption:
    """Makes room for the groups of one profile.

    Args:
        plugin: the name of the plugin that evicts.
        cause: what says of a pod or podgroup why it may have the room.
    """

    def __init__(
        self, handle: InTreeHandle, plugin: str, cause: str = "a higher priority {}"
    ) -> None:
        self._plugin, self._cause = plugin, cause
        self._nodes, self._nominator = handle.nodes, handle.nominator
        self._evictions = handle.evictions

    def make_room(self, request: RoomRequest, strategy: Strategy) -> Room | NoRoom:
        """Find room for a preemptor; the eviction of the victims is an effect of the request.

        Raises:
            AttemptFault: a plugin broke.
        """
        preemptor, effects = request.preemptor, request.effects
        kind = preemptor.kind
        settled = self._settled(preemptor, strategy)
        if settled is not None:
            effects.append(CountSearch(self._plugin, kind, str(settled.code), None))
            return settled
        started, code = perf_counter(), str(Code.ERROR)
        try:
            answer = strategy.find(request)
            code = str(answer.code)
        finally:
            effects.append(CountSearch(self._plugin, kind, code, perf_counter() - started))
        if isinstance(answer, Room):
            effects.append(preempt(self._plugin, preemptor, answer, self._cause))
        return answer

    def _settled(self, preemptor: Preemptor, strategy: Strategy) -> Room | NoRoom | None:
        """The answer where no victims have to be looked for."""
        if any(pod.spec.preemption_policy == "Never" for pod in preemptor.pods):
            return NoRoom(NEVER)
        nodes = {pod.uid: self._nominator.nominated_node(pod.uid) for pod in preemptor.pods}
        rows = [self._nodes.row(name) for name in set(nodes.values()) - {""}]
        on_nodes = (pod for r in rows if r is not None for pod in self._nodes.pods[r].values())
        waits = self._evictions.hold(preemptor.uid) is not None
        if waits or any(strategy.awaits(preemptor, pod) for pod in on_nodes):
            return Room(nodes, (), strategy.under_way)
        return None

"""GroupPreemption: makes room for groups, as a plugin of the point PodGroupPostFilter does.

A `Strategy` finds the victims; that they are evicted is an effect, and the caller nominates the
nodes. While victims are leaving the group keeps its nodes, and nobody else is evicted for it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.engine.faults import AttemptFault
from bayplan.framework.effects import Effect
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.room import NoRoom, Room, RoomRequest, Taker
from bayplan.framework.status import Code
from bayplan.preemption.evaluator import NEVER
from bayplan.preemption.executor import Executor, kind_of


class Strategy(Protocol):
    """How victims are chosen for a group, or for a Pod that a limit holds back.

    Attributes:
        under_way: what is said while earlier victims are leaving.
    """

    under_way: str

    def awaits(self, taker: Taker, leaving: Pod, /) -> bool:
        """Whether the taker waits for a terminating Pod of its nominated node."""

    def find(self, request: RoomRequest, /) -> Room | NoRoom:
        """Whom to evict for a taker that fits nowhere; changes nothing.

        Raises:
            AttemptFault: a plugin broke.
        """


class Evict(Effect, frozen=True, eq=False):
    """Evict the victims of a group, if there are any, and count the search for them.

    Attributes:
        taker: the group, or the Pod.
        room: what the search has found; None for nothing.
        code: its answer, in words.
        seconds: how long it took; None where there was no need to search.
    """

    taker: Taker
    room: Room | None
    code: str
    seconds: float | None


class GroupPreemption:
    """Makes room for the groups of one profile.

    Args:
        plugin: the name of the plugin that evicts.
        executor: of the plugin.
    """

    def __init__(self, handle: InTreeHandle, plugin: str, executor: Executor) -> None:
        self._plugin, self._executor = plugin, executor
        self._nodes, self._nominator = handle.nodes, handle.nominator
        self._instrument, self._evictions = handle.instrument, handle.evictions

    def make_room(self, request: RoomRequest, strategy: Strategy) -> Room | NoRoom:
        """Find room for a taker; the eviction of the victims is an effect of the request.

        Raises:
            AttemptFault: a plugin broke.
        """
        taker = request.taker
        answer, seconds = self._settled(taker, strategy), None
        if answer is None:
            started = perf_counter()
            try:
                answer = strategy.find(request)
            except AttemptFault:
                seconds = perf_counter() - started
                effect = Evict(self._plugin, taker, None, str(Code.ERROR), seconds)
                request.effects.append(effect)
                raise
            seconds = perf_counter() - started
        room = answer if isinstance(answer, Room) else None
        request.effects.append(Evict(self._plugin, taker, room, str(answer.code), seconds))
        return answer

    def _settled(self, taker: Taker, strategy: Strategy) -> Room | NoRoom | None:
        """The answer where no victims have to be looked for."""
        if any(pod.spec.preemption_policy == "Never" for pod in taker.pods):
            return NoRoom(NEVER)
        nodes = {pod.uid: self._nominator.nominated_node(pod.uid) for pod in taker.pods}
        rows = [self._nodes.row(name) for name in set(nodes.values()) - {""}]
        on_nodes = (pod for r in rows if r is not None for pod in self._nodes.pods[r].values())
        waits = self._evictions.hold(taker.uid) is not None
        if waits or any(strategy.awaits(taker, pod) for pod in on_nodes):
            return Room(nodes, (), strategy.under_way)
        return None

    def carry_out(self, effect: Evict) -> None:
        """The decision that ``effect`` is part of is applied."""
        taker, room = effect.taker, effect.room
        self._instrument.preemption(kind_of(taker), effect.code, effect.seconds)
        if room is not None and effect.seconds is not None:
            self._executor.evict_for_group(taker, room)

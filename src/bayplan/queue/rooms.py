"""Rooms: what is kept on nodes for Pods that are about to move there.

A plan of moves (`bayplan.improve`) is applied from outside: one step after the other, its Pods are
evicted, and their owners make them again. From before the first eviction until the last Pod is
bound, a stand-in is nominated to each next node, so other Pods are kept off as by any nominated
Pod: those of a higher priority are not. A new Pod of the same owner and shape as one that is
leaving takes its room: it is nominated in place of the stand-in, and tried there first. Pods of the
plan do not keep each other off: that they fit, step by step, is proven.

The Pods of the goal get their rooms last (`turn_to_goal`), when all moves are made.

Nothing of it is stored; who holds the rooms, and for how long, is the matter of
`bayplan.app.improvement`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.queue.scheduling_queue import SchedulingQueue


class Room(msgspec.Struct, eq=False):
    """Room for one Pod.

    Attributes:
        pod: it runs, and is to move; or it waits, and is what the moves are for.
        node: where the room is.
        goal: whether ``pod`` waits.
        taker: ``namespace/name`` of the Pod that is to use the room; "" for none yet.
        placed: whether that one was bound, and there; one that waited may be bound anywhere.
    """

    pod: Pod
    node: str
    goal: bool = False
    taker: str = ""
    placed: bool = False


class Rooms:
    """See the module's docstring. Scheduling thread only.

    Attributes:
        failure: the first deviation, as a sentence; "" for none.
        keeper: called from time to time while rooms are held.
    """

    def __init__(self, queue: SchedulingQueue, cache: Cache) -> None:
        self._queue, self._cache, self._nominator = queue, cache, queue.nominator
        self._rooms: dict[str, Room] = {}
        """By the uid of `Room.pod`."""
        self._taken: dict[str, Room] = {}
        self.failure = ""
        self.keeper: Callable[[], None] = lambda: None

    def __bool__(self) -> bool:
        return bool(self._rooms)

    def check(self) -> None:
        """From time to time: a node may be gone."""
        if not self._rooms:
            return
        for room in self._rooms.values():
            if not room.placed and self._cache.nodes.row(room.node) is None:
                self._fail(f"node {room.node}, where {room.pod.key} is to go, is gone")
        self.keeper()

    @property
    def made(self) -> dict[str, str]:
        """By uid of the Pods of the plan, which Pods are there in their place."""
        return {uid: room.taker for uid, room in self._rooms.items() if room.taker}

    @property
    def placed(self) -> dict[str, str]:
        """The part of `made` with a node."""
        return {uid: room.taker for uid, room in self._rooms.items() if room.placed}

    def hold(self, targets: Iterable[tuple[Pod, str]]) -> None:
        """Keep room: for Pods that run or wait, on their next nodes."""
        rooms = [Room(pod, node, goal=not pod.node_name) for pod, node in targets]
        self._rooms = {room.pod.uid: room for room in rooms}
        for room in rooms:
            self._stand_in(room)

    def free(self) -> None:
        """Keep nothing any more."""
        rooms, self._rooms, self._taken, self.failure = self._rooms, {}, {}, ""
        self._nominator.admit(frozenset())
        for room in rooms.values():
            stand_in = room.pod.stand_in()
            if self._nominator.nominated_node(stand_in.uid):
                self._queue.end_nomination(stand_in)

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """As if no room were kept for anybody who is still to come."""
        left = [room for room in self._rooms.values() if not room.taker]
        for room in left:
            self._nominator.remove(room.pod.stand_in().uid)
        yield
        for room in left:
            self._stand_in(room)

    def turn_to_goal(self) -> None:
        """All moves are made: the Pods of the goal are tried now, each on its room first."""
        goal = [room for room in self._rooms.values() if room.goal and not room.placed]
        for room in goal:
            self._give(room, room.pod)
            self._queue.update(room.pod, room.pod.nominated_to(room.node))
        self._queue.activate([room.pod for room in goal])

    # What becomes of Pods

    def seen(self, pod: Pod, *, is_new: bool) -> Pod:
        """A Pod is new or has changed; returns the Pod with its room, if any."""
        own = self._rooms.get(pod.uid)
        if own is not None:
            own.pod = pod
        room = own if own is not None and own.goal else self._room_of(pod, is_new=is_new)
        if room is None:
            return pod
        if pod.node_name:
            self._bound(room, pod)
        elif room.taker:
            return pod.nominated_to(room.node)
        return pod

    def gone(self, pod: Pod) -> None:
        """A Pod has ended or was deleted."""
        room = self._rooms.get(pod.uid)
        if room is not None and room.goal and not room.placed:
            self._fail(f"{pod.key}, which is to go to {room.node}, is gone")
        elif room is not None and not room.taker:
            self._stand_in(room)
        taken = self._taken.get(pod.uid)
        if taken is not None and not taken.placed and not taken.goal:
            self._fail(f"{pod.key}, made again for {taken.pod.key}, is gone without a node")

    def _room_of(self, pod: Pod, *, is_new: bool) -> Room | None:
        room = self._taken.get(pod.uid)
        if room is not None or not is_new:
            return room
        siblings = [
            room
            for room in self._rooms.values()
            if not (room.goal or room.taker)
            and _are_siblings(room.pod, pod)
            and self._is_leaving(room.pod)
        ]
        for room in siblings:
            if _are_alike(room.pod, pod):
                self._give(room, pod)
                return room
        for room in siblings:
            if room.pod.key == pod.key or room.pod.spec != pod.spec:
                self._fail(f"{pod.key}, made again for {room.pod.key}, is not like that one")
                break
        return None

    def _bound(self, room: Room, pod: Pod) -> None:
        if room.placed:
            return
        room.placed, room.taker = room.goal or pod.node_name == room.node, pod.key
        self._nominator.remove(room.pod.stand_in().uid)
        if not room.placed:
            text = f"was bound to {pod.node_name}, and not to its room on {room.node}"
            self._fail(f"{pod.key}, made again for {room.pod.key}, {text}")

    def _give(self, room: Room, pod: Pod) -> None:
        room.taker, self._taken[pod.uid] = pod.key, room
        self._nominator.remove(room.pod.stand_in().uid)
        self._nominator.admit(frozenset(self._taken))

    def _stand_in(self, room: Room) -> None:
        promised = not room.goal and self._cache.pod(room.pod.uid) is None
        self._nominator.stand_in(room.pod.stand_in(), room.node, promised=promised)

    def _is_leaving(self, pod: Pod) -> bool:
        return pod.deleted is not None or self._cache.pod(pod.uid) is None

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why


def _are_siblings(one: Pod, other: Pod) -> bool:
    return (one.namespace, one.controller) == (other.namespace, other.controller)


def _are_alike(one: Pod, other: Pod) -> bool:
    return one.shape is other.shape or (one.labels, one.spec) == (other.labels, other.spec)

"""Improvement: the running scheduler's part in applying a plan of moves.

`bayplan improve --apply` writes an order into a Lease (`bayplan.improve.orders`) and renews it. The
scheduler that leads watches this one Lease. Before each step it proves that the moves that are left
can be made from the state of that moment, and holds the rooms of all Pods that are still to come
(`bayplan.queue.rooms`); then it answers, and only then the Pods of the step are evicted. It says
which Pods were bound, and the first deviation.

The rooms are free as soon as the Lease is given up, or was not renewed for its duration by this
process's own clock, so whoever is killed leaves nothing held. A scheduler that begins to lead does
not go on with an order that another one has answered: it refuses, and the process stops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import structlog

from bayplan.api.kinds import LEASE, Kind
from bayplan.api.meta import GenericObject
from bayplan.app.assembly import Core, Ports
from bayplan.client.connection import MERGE_PATCH
from bayplan.client.errors import Forbidden
from bayplan.improve.orders import (
    ANSWER,
    MOVED,
    ORDER,
    SUFFIX,
    Answer,
    Moved,
    Order,
    read,
    written,
)
from bayplan.improve.standing import Standing

log = structlog.get_logger("improvement")


class Improvement:
    """See the module's docstring. Scheduling thread only.

    Args:
        core: the scheduler.
        ports: of the same.
        lease: ``(namespace, name)`` of the scheduler's own Lease.

    Attributes:
        kind: the one Lease, to be watched.
        moved: what Queues had carried out of late, as the Lease says.
        identity: what this process is called.
        where: namespace and name of the Lease.
    """

    def __init__(self, core: Core, ports: Ports, lease: tuple[str, str], identity: str) -> None:
        self._core, self._ports, self.identity = core, ports, identity
        self._rooms = core.world.rooms
        namespace, name = lease[0], lease[1] + SUFFIX
        selector = f"metadata.name={name}"
        self.kind: Kind[GenericObject] = replace(
            LEASE, field_selector=selector, namespace=namespace
        )
        self.where = namespace, name
        self._path = LEASE.path(namespace, name)
        self.moved: tuple[Moved, ...] = ()
        self._answer: Answer | None = None
        self._said: Answer | None = None
        self._until = 0.0
        self._forbidden = False
        core.world.cache.objects.on_change(self.kind, self._changed)
        self._rooms.keeper = self._check

    def unwatched(self, _kind: object, error: Exception | None) -> None:
        """The Lease cannot be watched, or can be again (None). Any thread."""
        forbidden = isinstance(error, Forbidden)
        if forbidden and not self._forbidden:
            log.warning(
                "No plan of moves can be applied: the Role of this scheduler has to grant list, "
                "watch and patch of this Lease, which is named by leaderElection.resourceName",
                lease=self._path.rpartition("/")[2],
                namespace=self.kind.namespace,
            )
        self._forbidden = forbidden

    def _changed(self, _old: GenericObject | None, lease: GenericObject | None) -> None:
        annotations = {} if lease is None else lease.metadata.annotations
        self.moved = read(annotations, MOVED, tuple[Moved, ...]) or ()
        if not self._core.scheduler.active:
            return
        spec: dict[str, Any] = {} if lease is None else lease.data.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        order = read(annotations, ORDER, Order)
        if not holder or order is None:
            self._end()
            return
        self._said = read(annotations, ANSWER, Answer)
        self._until = self._ports.clock() + float(spec.get("leaseDurationSeconds") or 0)
        if self._answer is None or self._answer.order != (order.token, holder):
            self._begin(order, holder, self._said)
        elif not self._answer.failed and order.step != self._answer.step:
            self._go_on(order)
        self._say()

    def _begin(self, order: Order, holder: str, said: Answer | None) -> None:
        self._rooms.free()
        self._answer = Answer(self.identity, (order.token, holder))
        if said is not None and said.order == self._answer.order:
            self._fail(
                "the Lease was not renewed in time, so its rooms were free"
                if said.by == self.identity
                else f"scheduler {said.by}, which held the rooms, does not lead any more"
            )
            return
        self._go_on(order)
        if not self._answer.failed:
            targets = Standing(self._core, self._ports.now()).pods([*order.moves, *order.goal])
            self._rooms.hold((pod, target.to) for pod, target in targets)
            log.info("Rooms are held for a plan of moves", token=order.token, holder=holder)

    def _go_on(self, order: Order) -> None:
        """Prove the order from its step on; at the end, let the Pods of the goal take theirs."""
        assert self._answer is not None
        if order.step > len(order.steps):
            self._rooms.turn_to_goal()
        else:
            with self._rooms.set_aside():
                why = Standing(self._core, self._ports.now()).deviation(order)
            if why:
                self._fail(why)
                return
        self._answer = msgspec.structs.replace(self._answer, step=order.step)

    def _fail(self, why: str) -> None:
        assert self._answer is not None
        self._see_rooms()
        self._answer = msgspec.structs.replace(self._answer, failed=why)
        self._rooms.free()

    def _check(self) -> None:
        """While rooms are held, from time to time."""
        if self._ports.clock() > self._until:
            log.warning("Rooms are free: the Lease of the plan of moves was not renewed")
            self._end()
        elif self._rooms.failure:
            self._fail(self._rooms.failure)
            self._say()
        else:
            self._see_rooms()
            self._say()

    def _see_rooms(self) -> None:
        made, placed = self._rooms.made, self._rooms.placed
        if self._answer is not None and (self._answer.made, self._answer.placed) != (made, placed):
            self._answer = msgspec.structs.replace(self._answer, made=made, placed=placed)

    def _end(self) -> None:
        self._rooms.free()
        self._answer = self._said = None

    def _say(self) -> None:
        """Write the answer, if it is another one."""
        answer, writer = self._answer, self._ports.writer
        if answer is None or answer == self._said or writer is None:
            return
        self._said = answer
        body = {"metadata": {"annotations": {ANSWER: written(answer)}}}
        writer.patch_later(self._path, msgspec.json.encode(body), MERGE_PATCH, _log_trouble)


def _log_trouble(error: Exception | None) -> None:
    if error is not None:
        log.warning("the Lease of the plan of moves was not answered", error=str(error))

"""SelfImprovement: the scheduler that leads carries out plans of moves for Queues with `improve`.

From time to time `bayplan.improve.rounds` is asked for a plan. A thread of its own carries the plan
out exactly as `bayplan improve --apply` would (`bayplan.improve.applying`): it takes the same
Lease, which this scheduler answers (`bayplan.app.improvement`), so there is one way for Pods to be
moved, one at a time in the whole cluster, and whoever is killed leaves nothing held. How many Pods
a Queue has moved of late is in that Lease, for whoever leads next.

What became of a plan is said by an event on the Queue, one on each Pod that was evicted, metrics
and the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from bayplan.api.kinds import POD, QUEUE
from bayplan.api.meta import ObjectReference
from bayplan.app.assembly import Core, Ports
from bayplan.app.improvement import Improvement
from bayplan.improve.applying import Application, Plan, RefusedError, StoppedError
from bayplan.improve.orders import MOVED, Moved, written
from bayplan.improve.rounds import HOUR, Planned, Rounds
from bayplan.inbox.messages import Command
from bayplan.support.text import error_text

log = structlog.get_logger("improvement")

WAIT_SECONDS = 60.0
"""How long a Pod may take to be bound, after the evicted one has ended."""
_MOST_NAMED = 4
"""Moves that an event names."""

Make = Callable[[Plan, Mapping[str, str], Callable[[float], None]], Application]
"""Makes the application of a plan, with more annotations, and with what waits for it."""


class Outcome(NamedTuple):
    """What became of a plan.

    Attributes:
        result: ``made``, ``stopped`` or ``refused``.
        text: as a sentence.
        evicted: the Pods that were evicted, as ``namespace/name``.
    """

    result: str
    text: str
    evicted: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Ended(Command):
    """A plan has ended, on its way to the scheduling thread."""

    end: Callable[[Outcome], None] = field(repr=False)
    outcome: Outcome

    def run(self) -> None:
        """See `Command`."""
        self.end(self.outcome)


class SelfImprovement:
    """See the module's docstring. Scheduling thread only, but for `stop`.

    Args:
        core: the scheduler.
        ports: of the same.
        improvement: its part in applying plans.
        make: see `Make`.
    """

    def __init__(self, core: Core, ports: Ports, improvement: Improvement, make: Make) -> None:
        self._core, self._ports, self._improvement, self._make = core, ports, improvement, make
        self._rounds = Rounds(core)
        self._moved: frozenset[Moved] = frozenset()
        self._planned: Planned | None = None
        self._counted: Moved | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def look(self) -> None:
        """From time to time, while this scheduler leads."""
        if self._planned is not None or self._stop.is_set():
            return
        now = self._ports.now()
        moved = {*self._moved, *self._improvement.moved}
        self._moved = frozenset(it for it in moved if it.at > now - HOUR)
        planned = self._rounds.next(now, self._moved)
        if planned is None:
            return
        if planned.plan is None:
            self._ports.instrument.improved(planned.queue, "none", 0)
            return
        self._planned = planned
        self._counted = Moved(planned.queue, now, len(planned.plan.moves))
        self._moved |= {self._counted}
        log.info("Moves are made for a Queue", queue=planned.queue, plan=planned.plan.sentence)
        notes = {MOVED: written(sorted(self._moved, key=lambda it: it.at))}
        application = self._make(planned.plan, notes, self._sleep)
        self._thread = threading.Thread(
            target=self._apply, args=(application,), name="improve", daemon=True
        )
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Make no further move; waits for so long until nothing is held. Not for the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)

    # On the thread

    def _apply(self, application: Application) -> None:
        outcome = outcome_of(application)
        self._ports.inbox.post(_Ended(self._ended, outcome))

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds) or self._core.scheduler.stopping:
            raise StoppedError("the scheduler ends")

    # Back on the scheduling thread

    def _ended(self, outcome: Outcome) -> None:
        planned, self._planned = self._planned, None
        assert planned is not None
        assert planned.plan is not None
        if outcome.result == "stopped":
            self._rounds.stopped(planned.goal)
        elif outcome.result == "refused":
            self._moved -= {self._counted}
        self._ports.instrument.improved(planned.queue, outcome.result, len(outcome.evicted))
        log.info("Moves for a Queue have ended", queue=planned.queue, **outcome._asdict())
        moves = [move for move in planned.plan.moves if move.pod in outcome.evicted]
        named = [f"{move.pod} from {move.from_} to {move.to}" for move in moves[:_MOST_NAMED]]
        named += ["..."] if len(moves) > _MOST_NAMED else []
        text = outcome.text.rstrip(".") + (f"; evicted: {', '.join(named)}" if named else "")
        queue = self._core.world.cache.objects.get(QUEUE, planned.queue)
        if queue is not None:
            good = outcome.result == "made"
            reason = "Improved" if good else "ImproveEnded"
            self._say(QUEUE.reference(queue), "Normal" if good else "Warning", reason, text)
        for move in moves:
            namespace, name = move.pod.split("/")
            pod = ObjectReference(POD.name, namespace, name, move.uid)
            why = f"Moved from {move.from_} to {move.to} for Queue {planned.queue}"
            self._say(pod, "Normal", "Moved", f"{why}, so that {planned.plan.goal}")

    def _say(self, regarding: ObjectReference, type_: str, reason: str, text: str) -> None:
        self._ports.events.event(regarding, None, type_, reason, "Improving", text)


def outcome_of(application: Application) -> Outcome:
    """Apply a plan; whatever goes wrong is an outcome, too."""
    try:
        return Outcome("made", application.run(), tuple(application.evicted))
    except RefusedError as error:
        return Outcome("refused", f"Nothing was touched: {error}")
    except StoppedError as error:
        text = f"Stopped: {error}. No room is held any more"
        return Outcome("stopped", text, tuple(application.evicted))
    except Exception as error:
        log.exception("a plan of moves could not be carried out")
        text = f"Stopped: {error_text(error)}. No room is held any more"
        return Outcome("stopped", text, tuple(application.evicted))

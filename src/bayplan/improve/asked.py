"""Asked: a question of moves as data, of a command or of the scheduler's port."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bayplan.improve.deciders import Deciders
from bayplan.improve.gains import saving, surviving, unstranding
from bayplan.improve.goals import Goal, GoalError, empty, fitting
from bayplan.improve.plan import MOST_MOVES, SECONDS, improve

LIVE_SECONDS = 0.5
"""How long the running scheduler looks for a plan: it waits meanwhile."""


class Asked(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What is to be improved.

    Attributes:
        goal: the command.
        subject: its argument; "" where it has none.
        namespace: of a name without one.
        moves: Pods to be moved, at most.
        seconds: how long to look for a plan.
    """

    goal: Literal["for", "empty", "survive", "cost", "packing"]
    subject: str = ""
    namespace: str = "default"
    moves: int = MOST_MOVES
    seconds: float = SECONDS

    def answer(self, core: Deciders, now: float) -> dict[str, Any]:
        """The plan, or what stands against it. Scheduling thread only.

        Raises:
            GoalError: there is no such goal.
        """
        return improve(core, self._of(core), now, most=self.moves, seconds=self.seconds)

    def _of(self, core: Deciders) -> Goal:
        match self.goal:
            case "for":
                return fitting(core, self.subject, self.namespace)
            case "empty":
                return empty(core, self.subject)
            case "survive":
                return surviving(core)
            case "cost":
                return saving(core, self._amount)
            case "packing":
                return unstranding(core, self._amount)

    @property
    def _amount(self) -> float:
        try:
            return float(self.subject)
        except ValueError:
            raise GoalError(f"{self.subject!r} is no number") from None

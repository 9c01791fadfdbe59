"""Rules: which Pods may be evicted for a preemptor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import IntArray
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom
from bayplan.preemption.capacity import Ceiling, MemberFit
from bayplan.preemption.running_pods import RunningPods

NOT_ENOUGH = NoRoom("evicting others would not make room")


def _accept(_victims: Sequence[Pod]) -> str:
    return ""


@dataclass(frozen=True)
class Yielding:
    """A rule's judgement: which Pods may be evicted for one preemptor.

    Attributes:
        classes: ``(p,)`` by Pod: negative for a Pod that stays, else lower classes yield first.
        describe: victims in words, for events: ``6 Pods of lower priority``.
        ceilings: what has to be freed in addition to room on nodes.
        refusal: why victims must stay although their eviction suffices; "" if there is no reason.
        wider: the same with more Pods, for where these are not enough; None for none.
    """

    classes: IntArray
    describe: Callable[[Sequence[Pod]], str]
    ceilings: Sequence[Ceiling] = ()
    refusal: Callable[[Sequence[Pod]], str] = _accept
    wider: Callable[[], Yielding] | None = None


class YieldRule(Protocol):
    """Says who may be evicted for a preemptor; `ShortestPrefix` finds out who has to be."""

    def has_victims(self, preemptor: Preemptor) -> bool:
        """Whether any Pod may yield; a quick look that saves the columns of all Pods."""

    def judge(
        self, preemptor: Preemptor, running: RunningPods, fit: MemberFit
    ) -> Yielding | NoRoom:
        """The Pods of ``running`` that may yield; `NoRoom` if, by bounds, no search finds room.

        The bounds must never rule out what a search, also among `Yielding.wider`, would find.
        """


class LowerPriority:
    """Pods yield to Pods of higher priority."""

    def __init__(self, counters: DomainCounters) -> None:
        self._counters = counters

    def has_victims(self, preemptor: Preemptor) -> bool:
        """See `YieldRule`."""
        return self._counters.any_below(preemptor.priority)

    def judge(self, preemptor: Preemptor, running: RunningPods, _fit: MemberFit) -> Yielding:
        """See `YieldRule`."""
        return Yielding(np.where(running.priorities < preemptor.priority, 0, -1), _described)


def _described(victims: Sequence[Pod]) -> str:
    return f"{len(victims)} Pods of lower priority"

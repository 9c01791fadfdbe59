"""Rules: who may be asked to yield to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import IntArray
from bayplan.framework.room import NoRoom, Taker
from bayplan.preemption.capacity import Ceiling, MemberFit
from bayplan.preemption.running_pods import RunningPods

NOT_ENOUGH = NoRoom("evicting others would not make room")


class YieldRule(Protocol):
    """Says who may be evicted for a taker; `ShortestPrefix` finds out who has to be.

    Attributes:
        wider: a rule that names more Pods, where those of this one are not enough; None for none.
    """

    @property
    def wider(self) -> YieldRule | None:
        """See above."""

    def has_victims(self, taker: Taker) -> bool:
        """Whether anybody at all may yield; a quick look that saves the columns of all Pods."""

    def rules_out(self, taker: Taker, running: RunningPods, fit: MemberFit) -> NoRoom | None:
        """The answer where bounds show that no search can find room; None where one might.

        It must never rule out what a search by this rule or by `wider` would find.
        """

    def ceilings(self, taker: Taker) -> Sequence[Ceiling]:
        """What has to be freed for ``taker``, beside room on nodes."""

    def classes(self, taker: Taker, running: RunningPods) -> IntArray:
        """(len(running),) by Pod: negative for one that stays, else lower classes yield first."""

    def refusal(self, taker: Taker, victims: Sequence[Pod]) -> str:
        """Why ``victims`` must stay although their eviction suffices; "" if there is no reason."""

    def describe(self, victims: Sequence[Pod]) -> str:
        """``victims`` in words, for events: ``6 Pods of lower priority``."""


class LowerPriority:
    """Pods yield to those of higher priority."""

    wider = None

    def __init__(self, counters: DomainCounters) -> None:
        self._counters = counters

    def has_victims(self, taker: Taker) -> bool:
        """See `YieldRule`."""
        return self._counters.any_below(taker.priority)

    def rules_out(self, _taker: Taker, _running: RunningPods, _fit: MemberFit) -> NoRoom | None:
        """See `YieldRule`."""
        return None

    def ceilings(self, _taker: Taker) -> Sequence[Ceiling]:
        """See `YieldRule`."""
        return ()

    def classes(self, taker: Taker, running: RunningPods) -> IntArray:
        """See `YieldRule`."""
        return np.where(running.priorities < taker.priority, 0, -1)

    def refusal(self, _taker: Taker, _victims: Sequence[Pod]) -> str:
        """See `YieldRule`."""
        return ""

    def describe(self, victims: Sequence[Pod]) -> str:
        """See `YieldRule`."""
        return f"{len(victims)} Pods of lower priority"

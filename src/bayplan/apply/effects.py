"""Carries out the effects of decisions, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bayplan.decide.deciding import Decision
from bayplan.engine.runtime import Framework
from bayplan.framework.effects import CountSearch, Effect, Evict
from bayplan.groups.decision import GroupDecision
from bayplan.telemetry.instrument import Instrument


class Evicts(Protocol):
    """Evicts Pods: `bayplan.apply.executor.Executor`."""

    def carry_out(self, effect: Evict, profile: str) -> None:
        """Evict the victims; ``profile`` is the schedulerName that events name."""


class Effects:
    """See the module's docstring. Scheduling thread only."""

    def __init__(self, executor: Evicts, instrument: Instrument) -> None:
        self._executor, self._instrument = executor, instrument

    def apply(self, framework: Framework, decision: Decision | GroupDecision) -> None:
        """Keep the decision: Pods stay on their nodes, and the effects are carried out."""
        decision.keep()
        self.carry_out(framework, decision.effects)

    def carry_out(self, framework: Framework, effects: Iterable[Effect]) -> None:
        """Do what the plugins of ``framework`` want done. Never raises."""
        for effect in effects:
            match effect:
                case Evict():
                    self._executor.carry_out(effect, framework.name)
                case CountSearch():
                    self._instrument.preemption(effect.kind, effect.code, effect.seconds)
                case _:
                    framework.plugins.carry_out(effect)

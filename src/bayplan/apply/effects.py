"""Carries out the effects of decisions, in their order."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.decide.deciding import Decision
from bayplan.engine.runtime import Framework
from bayplan.framework.effects import Activate, Effect
from bayplan.inbox import messages
from bayplan.inbox.inbox import Inbox


class Effects:
    """See the module's docstring. Scheduling thread only."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def apply(self, decision: Decision) -> None:
        """Keep the decision: the Pod stays on the node, and the effects are carried out."""
        decision.keep()
        if decision.effects:
            self.carry_out(decision.framework, decision.effects)

    def carry_out(self, framework: Framework, effects: Iterable[Effect]) -> None:
        """Do what the plugins of ``framework`` want done. Never raises."""
        for effect in effects:
            match effect:
                case Activate():
                    self._inbox.post(messages.ActivatePods(effect.pods))
                case _:
                    framework.plugins.carry_out(effect)

"""Conditions: each Pod of a workload says whether enough of the workload would survive.

A condition is written where too few would survive for long, and again when enough would. Pods of
workloads that were never at risk have none. What is written follows from what Pods say, so a write
that fails is repeated, and a scheduler that starts anew finds what another one has said.
"""

from __future__ import annotations

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.framework.effects import Effect
from bayplan.plugins.blast_radius.rules import Rule

SURVIVES = "bayplan.dev/Survives"


class Say(Effect, frozen=True, eq=False):
    """Write a condition of a Pod."""

    pod: Pod
    condition: Condition


def says_too_few(pod: Pod) -> bool:
    """Whether the Pod's condition is that too few would survive."""
    return any(c.type == SURVIVES and c.status == "False" for c in pod.status.conditions)


def survives(plugin: str, pod: Pod, rule: Rule | None, *, enough: bool) -> Say:
    """The condition of ``pod``; ``rule`` is None where the Pod has no rule any more.

    The message has no number that changes with each Pod: all Pods would be written again.
    """
    reason, message = "EnoughSurvivors", "the Pod has no rule any more"
    if rule is not None:
        reason = "EnoughSurvivors" if enough else "TooFewSurvivors"
        what = f"{rule.lose} of {rule.domain}"
        left = f"at least {rule.need}" if enough else f"fewer than {rule.need}"
        message = f"the loss of {what} would leave {left} of {rule.size} Pods"
    condition = Condition(
        type=SURVIVES,
        status="True" if enough else "False",
        reason=reason,
        message=message,
        observed_generation=pod.generation,
    )
    return Say(plugin, pod, condition)

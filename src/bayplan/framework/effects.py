"""Effects: what a decision wants to have done outside of it, as data.

A decision changes nothing but a trial, which is rolled back unless it is applied. What a plugin
wants done beyond that (evict Pods, write to the API server, remember something for the next Pod) it
appends to the ``effects`` of what it was asked with: `CycleState.effects` for a Pod,
`RoomRequest.effects` for a group. `bayplan.apply` carries effects out, in their order, when the
scheduler applies the decision. Who only asks (``explain``, ``simulate``) drops them.

A plugin may have effects of its own: subclasses of `Effect`, for its method ``carry_out``
(`bayplan.framework.points.CarriesOut`).
"""

from __future__ import annotations

import msgspec

from bayplan.api.pod import PREEMPTED, Pod
from bayplan.framework.preemptor import Preemptor


class Effect(msgspec.Struct, frozen=True, eq=False):
    """Something to be done when a decision is applied.

    Attributes:
        plugin: the name of the plugin that wants it.
    """

    plugin: str


class CountSearch(Effect, frozen=True, eq=False):
    """Count a search for victims.

    Attributes:
        kind: of the preemptor.
        code: the answer, as a status code.
        seconds: how long the search took; None where there was no need for one.
    """

    kind: str
    code: str
    seconds: float | None


class Evict(Effect, frozen=True, eq=False):
    """Evict Pods, without Pods that are leaving already.

    Attributes:
        victims: the Pods.
        message: of the condition DisruptionTarget.
        reason: of that condition.
        preemptor: for whom there will be room, and who waits for it; None for nobody.
        nodes: where there will be room.
        anywhere: see `bayplan.framework.room.Room`.
        groups: how many groups leave as a whole.
        violations: how many of the victims a PodDisruptionBudget protects.
    """

    victims: tuple[Pod, ...]
    message: str
    reason: str = PREEMPTED
    preemptor: Preemptor | None = None
    nodes: frozenset[str] = frozenset()
    anywhere: bool = False
    groups: int = 0
    violations: int = 0

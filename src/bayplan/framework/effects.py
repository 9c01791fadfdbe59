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

from bayplan.api.pod import Pod


class Effect(msgspec.Struct, frozen=True, eq=False):
    """Something to be done when a decision is applied.

    Attributes:
        plugin: the name of the plugin that wants it.
    """

    plugin: str


class Activate(Effect, frozen=True, eq=False):
    """Move waiting Pods to the active queue.

    Attributes:
        pods: the Pods; those that do not wait are left alone.
    """

    pods: tuple[Pod, ...]

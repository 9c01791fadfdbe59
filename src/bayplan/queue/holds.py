"""Holds: Pods wait after a plugin did not return for one of them; all other Pods go on.

Each further attempt of such a Pod might stop the scheduling thread again, or the next replica that
leads. A held Pod is gated as by a PreEnqueue plugin. The hold ends after `HOLD_SECONDS`, when the
Pod's spec, labels or annotations change, and with a reload. A hold counts for all Pods that one
owner made alike: those of a ReplicaSet are all poison or none.

The condition PodScheduled has a reason of its own (`PLUGIN_TIMEOUT`), by which another replica
knows such a Pod when it leads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from bayplan.api.pod import Pod
from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.framework.status import Status

HOLD_SECONDS = 900.0
"""How long. An attempt that a deadline ends stops everything for 30 s: a thirtieth of the time."""


class Holds:
    """The held Pods, by content.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._holds: dict[Hashable, tuple[float, Status]] = {}

    def add(self, pod: Pod, reason: str) -> None:
        """Hold the Pod and equal Pods from now on."""
        now = self._clock()
        self._holds = {key: hold for key, hold in self._holds.items() if hold[0] > now}
        status = Status.unresolvable(reason).by(PLUGIN_TIMEOUT)
        self._holds[_key(pod)] = now + HOLD_SECONDS, status

    def of(self, pod: Pod) -> Status | None:
        """Why the Pod is held; None if it is not."""
        if not self._holds:
            return None
        until, status = self._holds.get(_key(pod), (0.0, None))
        return status if until > self._clock() else None

    def clear(self) -> None:
        """Hold nothing: the plugins are others."""
        self._holds.clear()


def timeout_of(pod: Pod) -> str:
    """What a scheduler has said on a Pod that a plugin did not return for; "" on all others."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == PLUGIN_TIMEOUT:
            return condition.message
    return ""


def _key(pod: Pod) -> Hashable:
    """Equal for an unchanged Pod, and for Pods of the same owner with the same content."""
    uid = "" if pod.shape.owner[1] else pod.uid
    return uid, pod.shape, frozenset(pod.annotations.items())

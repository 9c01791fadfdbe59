"""Timeline: how many Pods were bound, waited and were evicted, look by look."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from bayplan.api.pod import Pod

MOMENTS = 1200
"""Looks that are remembered: ten minutes at two a second."""


class History(NamedTuple):
    """What happened in a recording, any moment of which can be shown.

    Attributes:
        since: seconds since the epoch: before it nothing is known.
        until: likewise, the end.
        moments: the time line of all of it, as of docs/view.md.
    """

    since: int
    until: int
    moments: list[list[int]]


class Timeline:
    """The moments at which something changed, as of docs/view.md.

    Attributes:
        moments: the newest `MOMENTS`: time, bindings, Pods that wait, evictions.
    """

    def __init__(self) -> None:
        self.moments: deque[list[int]] = deque(maxlen=MOMENTS)
        self._bound, self._evicted = 0, 0
        """How many Pods were since the last look."""
        self._leaving = set[str]()
        """Uids of Pods whose eviction was counted."""
        self._waited: int | None = None
        """How many waited then; None before the first."""

    def continued(self) -> Timeline:
        """The same moments, and the next look is a first one."""
        timeline = Timeline()
        timeline.moments = self.moments
        return timeline

    def count(self, pod: Pod, *, bound: bool) -> None:
        """A Pod is new or has changed, and got its node if ``bound``."""
        self._bound += bound
        if pod.uid not in self._leaving and any(
            c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions
        ):
            self._leaving.add(pod.uid)
            self._evicted += 1

    def forget(self, uid: str) -> None:
        """A Pod is gone."""
        self._leaving.discard(uid)

    def look(self, at: int, waiting: int) -> list[int]:
        """The moment of this look; empty at first, and if nothing is new.

        Args:
            at: seconds since the epoch.
            waiting: how many Pods wait.
        """
        moment = [at, self._bound, waiting, self._evicted]
        self._bound = self._evicted = 0
        waited, self._waited = self._waited, waiting
        if waited is None or (waiting == waited and not moment[1] and not moment[3]):
            return []
        self.moments.append(moment)
        return moment

"""Records: what came of the last attempt of each Pod, for those who ask later.

At least half of the newest `MOST` Pods are remembered, by uid. A record has the text that was
written on the Pod, or how its node was chosen in numbers, not the arrays it was made of: some 500
bytes, most of them the text, which equal records share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.engine.ties import NO_CHOICE, Choice

MOST = 10_000
"""Pods that are remembered: about 5 MB."""


class Record(NamedTuple):
    """The end of an attempt.

    Attributes:
        key: ``namespace/name`` of the Pod.
        profile: the schedulerName that decided.
        at: seconds since the epoch.
        reason: ``Scheduled``, or the reason of the condition PodScheduled.
        message: of that condition; "" for a Pod that was bound.
        node: where it was bound, or what it was nominated to; "" for neither.
        choice: how the node was chosen of a Pod that was bound.
    """

    key: str
    profile: str
    at: float
    reason: str
    message: str
    node: str
    choice: Choice


class Records:
    """See the module's docstring. Scheduling thread only.

    Two halves: when the young one is full, it takes the place of the old one. So a record costs a
    handful of calls.

    Args:
        now: seconds since the epoch.
        most: Pods that are remembered at most; half of these at least.
    """

    def __init__(self, now: Callable[[], float], most: int = MOST) -> None:
        self._now, self._half = now, most // 2
        self._young: dict[str, tuple[str, str, float, str, str, str, Choice]] = {}
        self._old = self._young

    def add(
        self,
        pod: Pod,
        profile: str,
        reason: str,
        message: str = "",
        node: str = "",
        choice: Choice = NO_CHOICE,
    ) -> None:
        """An attempt for ``pod`` has ended."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        text = sys.intern(message) if message else ""
        self._young[pod.uid] = (pod.key, profile, self._now(), reason, text, node, choice)

    def of(self, uid: str) -> Record | None:
        """The last attempt of the Pod."""
        record = self._young.get(uid) or self._old.get(uid)
        return None if record is None else Record(*record)

    def named(self, key: str) -> Record | None:
        """The last attempt of the newest Pod of that ``namespace/name``."""
        every = [*self._old.values(), *self._young.values()]
        found = [record for record in every if record[0] == key]
        return Record(*max(found, key=lambda record: record[2])) if found else None

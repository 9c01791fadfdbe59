"""Records: what came of the last attempt of each Pod, for those who ask later.

The ring holds the newest `MOST` Pods, by uid. A record has the text that was written on the Pod,
not the arrays it was made of: some 500 bytes, most of them the text, which equal records share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from bayplan.api.pod import Pod

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
    """

    key: str
    profile: str
    at: float
    reason: str
    message: str
    node: str


class Records:
    """See the module's docstring. Scheduling thread only.

    Args:
        now: seconds since the epoch.
        most: Pods that are remembered.
    """

    def __init__(self, now: Callable[[], float], most: int = MOST) -> None:
        self._now, self._most = now, most
        self._records: dict[str, Record] = {}

    def add(self, pod: Pod, profile: str, reason: str, message: str = "", node: str = "") -> None:
        """An attempt for ``pod`` has ended."""
        records = self._records
        records.pop(pod.uid, None)
        if len(records) >= self._most:
            del records[next(iter(records))]
        text = sys.intern(message)
        records[pod.uid] = Record(pod.key, profile, self._now(), reason, text, node)

    def of(self, uid: str) -> Record | None:
        """The last attempt of the Pod."""
        return self._records.get(uid)

    def named(self, key: str) -> Record | None:
        """The last attempt of the newest Pod of that ``namespace/name``."""
        records = reversed(self._records.values())
        return next((record for record in records if record.key == key), None)

    def __len__(self) -> int:
        return len(self._records)

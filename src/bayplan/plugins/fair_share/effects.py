"""What FairShare wants done when a decision is applied."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import Queue
from bayplan.framework.effects import Effect
from bayplan.framework.room import NoRoom


class Held(Effect, frozen=True, eq=False):
    """Remember whether a limit holds a Pod back.

    Attributes:
        pod: the Pod.
        is_held: whether one does.
    """

    pod: Pod
    is_held: bool


class PassOn(Effect, frozen=True, eq=False):
    """Let a held Pod of the same queue try in place of one that fits on no node.

    That one is remembered, to be woken when it is entitled to room. One that a limit holds back
    leaves no room under that limit to others: it is remembered only.

    Attributes:
        pod: the one that finds no room, or the first Pod of such a group.
        due: when a potential victim will have run for long enough, in seconds since the epoch.
    """

    pod: Pod
    due: float


class TryAgain(Effect, frozen=True, eq=False):
    """Wake Pods that may be entitled to room now.

    Attributes:
        pods: which.
    """

    pods: Sequence[Pod]


class Refused(Effect, frozen=True, eq=False):
    """Remember that no room can be made for Pods of a shape.

    Attributes:
        shape: of the Pods.
        answer: the refusal.
        due: when a potential victim will have run for long enough, in seconds since the epoch.
        until: when it is out of date at the latest, in seconds of the monotonic clock.
    """

    shape: PodShape
    answer: NoRoom
    due: float
    until: float


class AboveLimit(Effect, frozen=True, eq=False):
    """Tell a Queue about usage above the limit, and count the Pods evicted for it.

    Attributes:
        queue: the Queue.
        note: what it is told.
        pods: how many are evicted now.
    """

    queue: Queue
    note: str
    pods: int


class Reclaimed(Effect, frozen=True, eq=False):
    """Count Pods that were taken from a queue.

    Attributes:
        queue: the name of the queue.
        rule: by which they had to go.
        pods: how many they are.
        preemptor: for whom; the first Pod of a group.
    """

    queue: str
    rule: str
    pods: int
    preemptor: Pod

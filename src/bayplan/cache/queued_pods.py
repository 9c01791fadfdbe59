"""QueuedPods: the queue, as seen by the cache and by plugins (the queue is a layer above)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.cache.subscription import Subscription


class QueueListener(Protocol):
    """Someone who keeps count of the Pods in the queue. Entries of groups are no Pods."""

    def pod_waits(self, pod: Pod) -> None:
        """``pod`` is in the queue from now on, or has changed there."""

    def pod_left(self, uid: str) -> None:
        """The Pod is not in the queue any more: it is bound or gone. Also of entries of groups."""


class QueuedPods(Protocol):
    """The Pods in the queue, those in flight included."""

    def waiting_pods(self) -> Iterable[Pod]:
        """All of them."""

    def __contains__(self, uid: str, /) -> bool:
        """Whether the Pod with this uid is in the queue."""

    def listen(self, listener: QueueListener) -> Subscription:
        """Tell ``listener`` of every Pod that comes, changes and goes; see `Subscribers`."""

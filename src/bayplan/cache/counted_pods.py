"""CountedPods: the Pods on nodes, for readers that keep sums over Pods."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.cache.subscription import Subscription


class PodListener(Protocol):
    """Someone who keeps sums over the Pods that count, whether or not their node exists.

    A change of what a Pod counts for is reported as: uncounted, then counted.
    """

    def pod_counted(self, pod: Pod) -> None:
        """``pod`` counts on a node from now on, assumed or bound."""

    def pod_uncounted(self, pod: Pod) -> None:
        """``pod`` counts no longer."""


class CountedPods(Protocol):
    """The Pods that count on a node, assumed ones included."""

    def pods(self) -> Collection[Pod]:
        """All of them."""

    def pod(self, uid: str, /) -> Pod | None:
        """The Pod with this uid; None if the Pod does not count."""

    def listen(self, listener: PodListener) -> Subscription:
        """Tell ``listener`` of every Pod that comes and goes, in trials, too; see `Subscribers`."""

"""What the queue tells about itself: moves and rejections, for metrics and logs."""

from __future__ import annotations

from typing import Protocol

from bayplan.api.pod import Pod


class QueueRecorder(Protocol):
    """Told at every step; calls must be cheap and must not come back to the queue."""

    def incoming(self, queue: str, event: str, pod: Pod) -> None:
        """``pod`` entered ``queue`` (active, backoff, unschedulable) because of ``event``.

        The metric scheduler_queue_incoming_pods_total counts these.
        """

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """One Pod more (1) or less (-1) is in the queue that ``plugin`` has rejected.

        The metric scheduler_unschedulable_pods is their sum.
        """


class NoRecorder:
    """Remembers nothing; for simulation and tests."""

    def incoming(self, queue: str, event: str, pod: Pod) -> None:
        """Do nothing."""

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """Do nothing."""

"""Settings of the queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QueueSettings:
    """Times in seconds.

    Attributes:
        initial_backoff: podInitialBackoffSeconds: after the first failure.
        max_backoff: podMaxBackoffSeconds: where doubling stops; 0 switches backoff off.
        max_unschedulable: how long a rejected Pod waits when no event wakes it.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0

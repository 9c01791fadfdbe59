"""Client-side rate limit: ``clientConnection.qps`` and ``burst``.

The bucket of client-go: it starts full with ``burst`` tokens and gains ``qps`` a second; each
request takes one. A qps of zero or less means no limit (kube-scheduler's config turns 0 into its
default before it comes here).
"""

from __future__ import annotations

import math


class TokenBucket:
    """Says how long a request has to wait; times are seconds of a monotonic clock."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._filled_at = -math.inf

    def wait(self, now: float) -> float:
        """Seconds until a request may go; 0 if it may go now."""
        if self._qps <= 0:
            return 0.0
        gained = (now - self._filled_at) * self._qps
        self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_at = now
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / self._qps

    def take(self) -> None:
        """A request goes, right after `wait` gave 0."""
        self._tokens -= 1

"""Recent: what the metrics have counted in the last minute, for those who look without Prometheus.

A sample of the counters is kept every few seconds, on a thread that looks around anyway; a question
takes the difference between now and the oldest sample. So nothing is done for each Pod.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bayplan.telemetry.metrics import Metrics

SECONDS = 60.0
"""The time that is looked back upon."""
STEP_SECONDS = 5.0
"""Between two samples."""
SLOW_SECONDS = 0.1
"""A plugin is slow of which one call in a hundred takes longer, as the alert has it."""


class Sample(NamedTuple):
    """The counters at a time, as `Metrics` has them; plugins by name and extension point."""

    at: float
    attempts: Mapping[tuple[str, ...], int]
    failures: Mapping[tuple[str, ...], int]
    calls: Mapping[tuple[str, ...], list[int]]


class PluginRecord(NamedTuple):
    """What a plugin did at an extension point.

    Attributes:
        failures: since the process started.
        recent: the same in the time that is looked back upon.
        calls: in that time; 0 where calls are not timed.
        over: seconds that one in 100 of these calls took longer than; the lower bound of a bucket.
    """

    plugin: str
    point: str
    failures: int
    recent: int
    calls: int
    over: float


class Recent:
    """See the module's docstring. One thread calls `look`, any thread asks."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics, self._clock = metrics, clock
        self._samples = deque([self._sample()], maxlen=int(SECONDS / STEP_SECONDS) + 1)

    def look(self) -> None:
        """Keep a sample, if it is time."""
        if self._clock() - self._samples[-1].at >= STEP_SECONDS:
            self._samples.append(self._sample())

    def _sample(self) -> Sample:
        metrics = self._metrics
        return Sample(self._clock(), metrics.attempts(), metrics.failures(), metrics.calls()[0])

    def rates(self) -> dict[str, float]:
        """Attempts a second, by their result; and ``seconds``, the time that was looked at."""
        before, now = self._samples[0], self._sample()
        seconds = max(now.at - before.at, 1.0)
        rates = dict.fromkeys(("scheduled", "unschedulable", "error"), 0.0)
        for (result, profile), count in now.attempts.items():
            rates[result] += (count - before.attempts.get((result, profile), 0)) / seconds
        return {"seconds": round(seconds), **{name: round(n, 2) for name, n in rates.items()}}

    def plugins(self) -> list[PluginRecord]:
        """Plugins that have failed, or are slow; by name."""
        before, now = self._samples[0], self._sample()
        bounds = self._metrics.calls()[1]
        records = []
        for key in sorted({*now.failures, *now.calls}):
            failures = now.failures.get(key, 0)
            counts, old = now.calls.get(key, [0]), before.calls.get(key, [0] * len(bounds))
            recent = [count - was for count, was in zip(counts, old, strict=False)]
            calls = recent[-1]
            bucket = sum(count < 0.99 * calls for count in recent)
            if failures or bounds[bucket] > SLOW_SECONDS:
                lately = failures - before.failures.get(key, 0)
                over = bounds[bucket - 1] if bucket else 0.0
                records.append(PluginRecord(key[0], key[1], failures, lately, calls, over))
        return records

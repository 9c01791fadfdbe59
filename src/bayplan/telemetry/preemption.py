"""Metrics of preemption, for single Pods and for groups, as kube-scheduler has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import Counter

from bayplan.telemetry.histogram import Histogram, exponential

CounterMaker = Callable[[str, str, Sequence[str]], Counter]
"""Makes and registers a counter: name, description and labels."""
HistogramMaker = Callable[[str, str, Sequence[str], list[float]], Histogram]
"""Makes and registers a histogram: the same and upper bounds."""


class PreemptionMetrics:
    """The metrics for `Instrument.preemption`, ``eviction`` and ``evicted``."""

    def __init__(self, counter: CounterMaker, histogram: HistogramMaker) -> None:
        self._attempts = counter(
            "scheduler_preemption_attempts_total", "Attempts to preempt for a single Pod.", ()
        )
        self._group_attempts = counter(
            "scheduler_workload_preemption_attempts_total",
            "Attempts to preempt for a group, by result.",
            ("result",),
        )
        self._search_seconds = histogram(
            "scheduler_preemption_evaluation_duration_seconds",
            "Duration of the search for victims.",
            ("preemptor", "result"),
            exponential(0.001, 2, 16),
        )
        self._victims = histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption for a single Pod.",
            (),
            exponential(1, 2, 7),
        ).labels()
        self._group_victims = histogram(
            "scheduler_workload_preemption_victims",
            "Victims of a preemption for a group.",
            (),
            exponential(1, 2, 11),
        ).labels()
        self._disruptions = histogram(
            "scheduler_preemption_workload_disruptions",
            "PodGroups of Kubernetes that leave as a whole, of preemptions that take any.",
            ("preemptor",),
            exponential(1, 2, 11),
        )
        self._violations = counter(
            "scheduler_preemption_pdb_violations_total",
            "Victims that a PodDisruptionBudget protects.",
            ("preemptor",),
        )
        self._eviction_seconds = histogram(
            "scheduler_preemption_execution_duration_seconds",
            "From the first request to evict the victims to the last answer.",
            ("preemptor", "result"),
            exponential(0.001, 2, 16),
        )
        self._background_seconds = histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "The same, by result alone.",
            ("result",),
            exponential(0.01, 2, 20),
        )
        self._background = counter(
            "scheduler_preemption_goroutines_execution_total",
            "Evictions for a preemptor that ended, by result.",
            ("result",),
        )

    def tried(self, preemptor: str, result: str, seconds: float | None) -> None:
        """A preemption was tried."""
        if preemptor == "pod":
            self._attempts.inc()
        else:
            self._group_attempts.labels(result).inc()
        if seconds is not None:
            self._search_seconds.labels(preemptor, result).observe(seconds)

    def began(self, preemptor: str, victims: int, groups: int, violations: int) -> None:
        """Pods are to leave."""
        (self._victims if preemptor == "pod" else self._group_victims).observe(victims)
        if groups:
            self._disruptions.labels(preemptor).observe(groups)
        if violations:
            self._violations.labels(preemptor).inc(violations)

    def ended(self, preemptor: str, *, success: bool, seconds: float) -> None:
        """All requests of an eviction were answered."""
        result = "success" if success else "error"
        self._eviction_seconds.labels(preemptor, result).observe(seconds)
        self._background_seconds.labels(result).observe(seconds)
        self._background.labels(result).inc()

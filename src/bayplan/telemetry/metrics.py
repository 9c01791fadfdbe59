"""Metrics with kube-scheduler's names, labels and buckets, for kube-scheduler's dashboards.

Source of the names: ``pkg/scheduler/metrics/metrics.go``, the stable and beta ones. What has no
counterpart there begins with ``bayplan_``. `Metrics` is an `Instrument`. Label children are cached,
because their lookup costs more than the counting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from bayplan.api.pod import Pod
from bayplan.telemetry.eviction_audit import EvictionAudit
from bayplan.telemetry.histogram import Histogram, exponential
from bayplan.telemetry.instrument import Instrument
from bayplan.telemetry.polled import ATTEMPTS, EVALUATED, Collector, Polled, Values
from bayplan.telemetry.preemption import PreemptionMetrics


class Metrics(Instrument):
    """All metrics of one scheduler.

    Args:
        clock: monotonic seconds.

    Attributes:
        registry: what ``/metrics`` serves.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(
            name: str, text: str, labels: Sequence[str], buckets: list[float]
        ) -> Histogram:
            family = Histogram(name, text, labels, buckets)
            registry.register(family)
            return family

        seconds = exponential(0.001, 2, 15)
        self._attempt_seconds = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt: choosing a node and binding.",
            ("result", "profile"),
            seconds,
        )
        self.poll(ATTEMPTS, self._attempt_seconds.counts)
        self._algorithm_seconds = histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of choosing a node.",
            (),
            seconds,
        ).labels()
        self._evaluated = 0
        self.poll(EVALUATED, lambda: {(): self._evaluated})
        self._pod_attempts = histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a Pod needed.",
            (),
            exponential(1, 2, 5),
        ).labels()
        self._sli_seconds = histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a Pod's entry into the queue to its binding, over all attempts.",
            ("attempts",),
            exponential(0.01, 2, 20),
        )
        self._after_flush = counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods scheduled after no event but the flush of leftover Pods had woken them.",
        )
        self._point_seconds = histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of all plugins of an extension point.",
            ("extension_point", "status", "profile"),
            exponential(0.0001, 2, 12),
        )
        self._call_seconds = histogram(
            "bayplan_plugin_call_duration_seconds",
            "Duration of a call of a user's plugin.",
            ("plugin", "extension_point"),
            exponential(0.00001, 3, 14),
        )
        self._incoming = counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by queue and event.",
            ("queue", "event"),
        )
        self._incoming_entities = counter(
            "scheduler_queue_incoming_entities_total",
            "Pods and groups of Pods that entered a queue, by queue, event and type.",
            ("queue", "event", "type"),
        )
        self._permit_seconds = histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time that Pods waited in Permit.",
            ("result",),
            seconds,
        )
        self._unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Waiting Pods by the plugins that rejected them.",
            ("plugin", "profile"),
            registry=registry,
        )
        self._group_attempts = counter(
            "bayplan_group_attempts_total",
            "Attempts to place groups, by result (scheduled, unschedulable or error) and reason.",
            ("result", "reason", "profile"),
        )
        self._group_plan_seconds = histogram(
            "bayplan_group_plan_duration_seconds",
            "Duration of the search for nodes for all Pods of a group.",
            (),
            seconds,
        ).labels()
        self._group_bound_seconds = histogram(
            "bayplan_group_bound_duration_seconds",
            "From the attempt that placed a group to its last binding.",
            (),
            seconds,
        ).labels()
        self._kubernetes_group_attempts = counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to place PodGroups of Kubernetes, by result.",
            ("result", "profile"),
        )
        self._kubernetes_group_seconds = histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Duration of attempts to place PodGroups of Kubernetes, by result.",
            ("result", "profile"),
            exponential(0.001, 2, 15),
        )
        self._kubernetes_group_plan_seconds = histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Duration of the search for nodes for all Pods of a PodGroup of Kubernetes.",
            (),
            exponential(0.001, 2, 15),
        ).labels()
        self._generated_placements = counter(
            "scheduler_generated_placements_total",
            "Sets of nodes to try for PodGroups of Kubernetes.",
            ("profile",),
        )
        self._placement_evaluations = counter(
            "scheduler_placement_evaluations_total",
            "Sets of nodes that were tried for PodGroups of Kubernetes, by result.",
            ("result", "profile"),
        )
        self._placement_evaluation_seconds = histogram(
            "scheduler_placement_evaluation_duration_seconds",
            "Duration of trying one set of nodes for a PodGroup of Kubernetes, by result.",
            ("result", "profile"),
            exponential(0.001, 2, 15),
        )
        self._improve_plans = counter(
            "bayplan_improve_plans_total",
            "Plans of moves that Queues had made by themselves, by Queue and what became of them.",
            ("queue", "result"),
        )
        self._improve_moves = counter(
            "bayplan_improve_moves_total",
            "Pods that were evicted for these plans, by Queue.",
            ("queue",),
        )
        self._reclaimed = counter(
            "bayplan_queue_evictions_total",
            "Pods evicted where Queues are, by their Queue and rule: priority, guaranteed, share.",
            ("queue", "rule"),
        )
        self._preemption = PreemptionMetrics(counter, histogram)
        self._evictions = EvictionAudit(counter, histogram, clock)
        self._claims = counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Attempts to create ResourceClaims, by status, admin access and kind of the owner.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )
        self._awaited = counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices with binding conditions that bindings waited for, by outcome.",
            ("profile", "driver", "status"),
        )
        self._awaited_seconds = histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time that bindings waited for binding conditions, for each device of the Pod.",
            ("profile", "driver", "status"),
            exponential(0.1, 2, 14),
        )
        self._failures = counter(
            "bayplan_plugin_failures_total",
            "Exceptions raised by plugins, and answers that they must not give.",
            ("plugin", "extension_point"),
        )
        self._rejected_by_node = counter(
            "bayplan_pods_rejected_by_node_total",
            "Pods that a kubelet rejected, by its reason, their schedulerName and that of the Pod "
            "that took the room at the same time (empty: none did).",
            ("reason", "scheduler", "taken_by"),
        )
        self._plugin_events = counter(
            "bayplan_plugin_events_total",
            "What a plugin counts itself, by a name that it chooses.",
            ("plugin", "name"),
        )
        self._plugin_values = Gauge(
            "bayplan_plugin_value",
            "A number that a plugin reports itself, by a name that it chooses.",
            ("plugin", "name"),
            registry=registry,
        )
        self._plugin_seconds = histogram(
            "bayplan_plugin_seconds",
            "Durations that a plugin reports itself, by a name that it chooses.",
            ("plugin", "name"),
            seconds,
        )
        self._requests = counter(
            "rest_client_requests_total",
            "Requests to the API server by method and status code, or <error> without an answer.",
            ("code", "method", "host"),
        )
        ProcessCollector(registry=registry)
        self._requests_of = cache(self._requests.labels)
        self._incoming_of = cache(self._incoming.labels)
        self._incoming_entities_of = cache(self._incoming_entities.labels)
        self._unschedulable_of = cache(self._unschedulable.labels)

    def poll(self, family: Polled, values: Callable[[], Values]) -> None:
        """Serve ``family``: its values are asked for, on another thread, at every scrape."""
        self.registry.register(Collector(family, values))

    def poll_by(self, family: Polled, values: Callable[[], Mapping[str, float]]) -> None:
        """Like `poll`, for a family with one label."""
        self.poll(family, lambda: {(key,): value for key, value in values().items()})

    def attempts(self) -> dict[tuple[str, ...], int]:
        """How many attempts have ended, by result and profile."""
        return self._attempt_seconds.counts()

    def failures(self) -> dict[tuple[str, ...], int]:
        """How often plugins have failed, by plugin and extension point."""
        return {
            (sample.labels["plugin"], sample.labels["extension_point"]): int(sample.value)
            for family in self._failures.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def calls(self) -> tuple[dict[tuple[str, ...], list[int]], list[float]]:
        """How many calls of plugins have lasted no longer than each bound, and the bounds.

        Calls by plugin and extension point, as far as these are timed; bounds in seconds.
        """
        return self._call_seconds.cumulative(), self._call_seconds.bounds

    def render(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self.registry)

    # What the pipeline reports

    def attempt(self, pod: Pod, profile: str, result: str, seconds: float) -> None:
        """An attempt ended."""
        self._attempt_seconds.labels(result, profile).observe(seconds)
        if self._evictions.follows and result == "scheduled":
            self._evictions.bound(pod)

    def algorithm(self, seconds: float, evaluated: int) -> None:
        """A node was chosen, or was not, among so many that were evaluated."""
        self._algorithm_seconds.observe(seconds)
        self._evaluated += evaluated

    def scheduled(self, attempts: int, waited: float | None, flushed: bool) -> None:
        """See `Instrument`."""
        self._pod_attempts.observe(attempts)
        if waited is not None:
            self._sli_seconds.labels(str(attempts) if attempts < 15 else "15+").observe(waited)
        if flushed:
            self._after_flush.inc()

    def extension_point(self, point: str, profile: str, status: str, seconds: float) -> None:
        """All plugins of an extension point ran."""
        self._point_seconds.labels(point, status, profile).observe(seconds)

    def plugin_called(self, plugin: str, point: str, _: str, seconds: float) -> None:
        """A call of a plugin ended."""
        self._call_seconds.labels(plugin, point).observe(seconds)

    def plugin_failed(self, plugin: str, point: str) -> None:
        """A plugin raised an exception."""
        self._failures.labels(plugin, point).inc()

    def incoming(self, queue: str, event: str, _: Pod, members: int | None = None) -> None:
        """A Pod, or a group of Pods, entered a queue."""
        self._incoming_of(queue, event).inc(1 if members is None else members)
        self._incoming_entities_of(queue, event, "pod" if members is None else "podgroup").inc()

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """One waiting Pod more or less that a plugin rejected."""
        self._unschedulable_of(plugin, profile).inc(change)

    def rejected_by_node(self, reason: str, scheduler: str, taken_by: str) -> None:
        """A kubelet rejected a Pod."""
        self._rejected_by_node.labels(reason, scheduler, taken_by).inc()

    def permit_waited(self, _: Pod, result: str, seconds: float) -> None:
        """A Pod waited in Permit."""
        self._permit_seconds.labels(result).observe(seconds)

    def plugin_counted(self, plugin: str, name: str, amount: float) -> None:
        """A user's plugin adds to its counter."""
        self._plugin_events.labels(plugin, name).inc(amount)

    def plugin_set(self, plugin: str, name: str, value: float) -> None:
        """A user's plugin sets its gauge."""
        self._plugin_values.labels(plugin, name).set(value)

    def plugin_observed(self, plugin: str, name: str, seconds: float) -> None:
        """A user's plugin adds a duration."""
        self._plugin_seconds.labels(plugin, name).observe(seconds)

    def claim_created(self, *, success: bool) -> None:
        """A ResourceClaim for a Pod's extended resources was created, or not."""
        self._claims.labels("success" if success else "failure", "false", "", "Pod").inc()

    def device_awaited(
        self, profile: str, driver: str, outcome: str, seconds: float, *, conditions: bool
    ) -> None:
        """A binding has waited until the devices of its Pod are ready."""
        self._awaited_seconds.labels(profile, driver, outcome).observe(seconds)
        if conditions:
            self._awaited.labels(profile, driver, outcome).inc()

    def request(self, host: str, method: str, code: str) -> None:
        """A request to the API server ended; a watch counts once, when it is answered."""
        self._requests_of(code, method, host).inc()

    def group_planned(self, seconds: float) -> None:
        """The search for nodes for a group ended."""
        self._group_plan_seconds.observe(seconds)

    def group_attempt(self, profile: str, result: str, reason: str, seconds: float) -> None:
        """An attempt of a group ended."""
        self._group_attempts.labels(result, reason, profile).inc()
        if result == "scheduled":
            self._group_bound_seconds.observe(seconds)

    def kubernetes_group_planned(self, seconds: float) -> None:
        """The search for nodes for a PodGroup of Kubernetes ended."""
        self._kubernetes_group_plan_seconds.observe(seconds)

    def kubernetes_group_attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt of a PodGroup of Kubernetes ended."""
        self._kubernetes_group_attempts.labels(result, profile).inc()
        self._kubernetes_group_seconds.labels(result, profile).observe(seconds)

    def placements_generated(self, profile: str, number: int) -> None:
        """See `Instrument`."""
        self._generated_placements.labels(profile).inc(number)

    def placement_evaluated(self, profile: str, result: str, seconds: float) -> None:
        """See `Instrument`."""
        self._placement_evaluations.labels(result, profile).inc()
        self._placement_evaluation_seconds.labels(result, profile).observe(seconds)

    def improved(self, queue: str, result: str, moves: int) -> None:
        """See `Instrument`."""
        self._improve_plans.labels(queue, result).inc()
        self._improve_moves.labels(queue).inc(moves)

    def reclaimed(self, queue: str, rule: str, pods: int) -> None:
        """See `Instrument`."""
        self._reclaimed.labels(queue, rule).inc(pods)

    def preemption(self, preemptor: str, result: str, seconds: float | None) -> None:
        """See `Instrument`."""
        self._preemption.tried(preemptor, result, seconds)

    def eviction(self, preemptor: str, victims: int, groups: int, violations: int) -> None:
        """See `Instrument`."""
        self._preemption.began(preemptor, victims, groups, violations)

    def leaving(
        self, preemptors: Sequence[Pod], nodes: Collection[str] | None, victims: Sequence[Pod]
    ) -> None:
        """See `Instrument`."""
        self._evictions.evicted(preemptors, nodes, victims)

    def evicted(self, preemptor: str, *, success: bool, seconds: float) -> None:
        """See `Instrument`."""
        self._preemption.ended(preemptor, success=success, seconds=seconds)

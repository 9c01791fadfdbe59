"""Polled metrics: their values are read from other parts at each scrape of /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Values = Mapping[tuple[str, ...], float]
"""Samples of one family by the values of its labels."""


@dataclass(frozen=True)
class Polled:
    """One family: a counter's name ends in ``_total``, every other is a gauge."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["counter", "gauge"]:
        """Its type."""
        return "counter" if self.name.endswith("_total") else "gauge"


ATTEMPTS = Polled(
    "scheduler_schedule_attempts_total",
    "Attempts to schedule Pods, by result: scheduled, unschedulable or error.",
    ("result", "profile"),
)
EVALUATED = Polled(
    "bayplan_evaluated_nodes_total", "Nodes that were looked at for Pods, kept results included."
)
PENDING_PODS = Polled("scheduler_pending_pods", "Pods in the queue, by part.", ("queue",))
QUEUED_ENTITIES = Polled(
    "scheduler_queued_entities",
    "Pods and groups of Pods in the queue, by part and type.",
    ("queue", "type"),
)
INFLIGHT_EVENTS = Polled(
    "scheduler_inflight_events",
    "Events kept for Pods in flight, by event; PodPopped counts those Pods.",
    ("event",),
)
CACHE_SIZE = Polled("scheduler_cache_size", "Objects in the cache, by type.", ("type",))
OVERCOMMIT = Polled(
    "bayplan_node_overcommit",
    "What the Pods of a node request beyond what it has, in cores, bytes or counts; only nodes "
    "where that is so.",
    ("node", "resource"),
)
FEATURES = Polled(
    "kubernetes_feature_enabled", "Whether a feature gate is on, 1 or 0.", ("name", "stage")
)
ATTEMPT_AGE = Polled(
    "bayplan_running_attempt_seconds",
    "How long the scheduling thread has been at its present step; 0 while it waits for work.",
)
ATTEMPT_IN_PROGRESS = Polled(
    "bayplan_attempt_in_progress", "1 while the scheduling thread looks for a node for a Pod."
)
BUILD_INFO = Polled(
    "bayplan_build_info",
    "1, with the version of bayplan, of Python, and of the kube-scheduler that it agrees with.",
    ("version", "python", "kubernetes"),
)
PERMIT_WAITING = Polled(
    "bayplan_permit_waiting_pods", "Pods that wait in Permit, by the plugins they wait for.",
    ("plugin",),
)  # fmt: skip
BLIND_PODS = Polled(
    "bayplan_autoscaler_blind_pods",
    "Unschedulable Pods for which nodes were rejected by a plugin that autoscalers do not know.",
    ("plugin",),
)
GATED_PODS = Polled(
    "bayplan_gated_pods", "Pods that a PreEnqueue plugin holds, by plugin.", ("plugin",)
)
SURVIVORS = Polled(
    "bayplan_survivors",
    "Pods of a workload with a rule of BlastRadius that are left on nodes if a domain is lost.",
    ("namespace", "workload", "domain"),
)
SURVIVORS_NEEDED = Polled(
    "bayplan_survivors_needed", "How many of these Pods are to be left.", SURVIVORS.labels
)
QUEUE_USED = Polled("bayplan_queue_used", "What the Pods of a Queue use.", ("queue", "resource"))
QUEUE_DEMAND = Polled(
    "bayplan_queue_demand", "What the Pods of a Queue use and wait for.", ("queue", "resource")
)
QUEUE_SHARE = Polled(
    "bayplan_queue_share", "What a Queue is entitled to, of late.", ("queue", "resource")
)
QUEUE_GUARANTEED = Polled(
    "bayplan_queue_guaranteed", "What is guaranteed to a Queue.", ("queue", "resource")
)
QUEUE_LIMIT = Polled(
    "bayplan_queue_limit", "What a Queue may use at most, where that is limited.",
    ("queue", "resource"),
)  # fmt: skip
QUEUE_PAST_USE = Polled(
    "bayplan_queue_past_use", "What a Queue has used of late, where that counts.",
    ("queue", "resource"),
)  # fmt: skip
QUEUE_WEIGHT = Polled(
    "bayplan_queue_weight", "The weight of a Queue, lowered by past use, where that counts.",
    ("queue", "resource"),
)  # fmt: skip
QUEUE_DIFFERENCE = Polled(
    "bayplan_queue_usage_difference",
    "Sums of Queues that differed from a count from scratch, at the last dump (SIGUSR2).",
)
WAITING_GROUPS = Polled(
    "bayplan_waiting_groups",
    "Groups of Pods in the queue, by place; gated means that Pods are missing.",
    ("place",),
)
LOAD_POLLS = Polled(
    "bayplan_load_polls_total",
    "How often a source of load or prices was asked, and answered (success) or did not (failure).",
    ("source", "result"),
)
LOAD_SAMPLES = Polled(
    "bayplan_load_samples_total",
    "Samples of the load, or prices, of nodes: used, invalid, stale, or of an unknown node.",
    ("source", "result"),
)
LOAD_AGE = Polled(
    "bayplan_load_sample_age_seconds", "Age of a source's newest sample that was used.", ("source",)
)
LOAD_NODES = Polled(
    "bayplan_load_nodes", "Nodes whose load or price is known, from a sample that is not stale.",
    ("source",),
)  # fmt: skip
EVENTS = Polled(
    "bayplan_events_total",
    "Kubernetes events: sent, failed (refused by the API server), dropped (too many waited).",
    ("result",),
)
REQUESTS_WAITING = Polled(
    "bayplan_requests_waiting",
    "Writes that wait to be sent: bindings, Pod status, events, and those to be tried again.",
    ("lane",),
)
REQUESTS_IN_FLIGHT = Polled(
    "bayplan_requests_in_flight", "Writes that were sent and not answered yet.", ("lane",)
)
REQUESTS_SENT = Polled("bayplan_requests_sent_total", "Writes sent, each try counted.", ("lane",))
REQUEST_FAULTS = Polled(
    "bayplan_request_faults_total",
    "Writes that were retried (retried) or failed in the end (failed), and exceptions in callbacks "
    "(callback_error).",
    ("fault",),
)
INFORMER_EVENTS = Polled(
    "bayplan_informer_events_total",
    "What the informers did, by kind: lists, watches, events, undecodable objects.",
    ("kind", "event"),
)
INFORMER_SYNCED = Polled(
    "bayplan_informer_synced", "1 once the first list of the kind is there.", ("kind",)
)
INFORMER_FAILING = Polled(
    "bayplan_informer_failing", "1 while the kind cannot be listed or watched.", ("kind",)
)
MASTER_STATUS = Polled(
    "leader_election_master_status",
    "1 while this process holds the Lease of that name, else 0.",
    ("name",),
)
LEADER = Polled(
    "bayplan_leader_info", "1 for the identity that holds the Lease.", ("name", "holder")
)
LEASE_FAILING = Polled(
    "bayplan_lease_failing", "1 while the Lease can be neither read nor written.", ("name",)
)
RELOADS = Polled("bayplan_reloads_total", "Reloads of the configuration.", ("result",))
RELOAD_FAILING = Polled(
    "bayplan_reload_failing", "1 while the files say something that could not be used."
)
SHADOW_DECISIONS = Polled(
    "bayplan_shadow_decisions_total",
    "Decisions of the other scheduler that a shadow compared, by what came of it.",
    ("outcome",),
)
SHADOW_NOT_COMPARED = Polled(
    "bayplan_shadow_not_compared_total",
    "Decisions of the other scheduler that a shadow could not compare, by reason.",
    ("reason",),
)
SHADOW_DIFFERENCES = Polled(
    "bayplan_shadow_differences_total",
    "Differences by the plugin that makes them: it prefers our node, or rejects theirs.",
    ("plugin", "because"),
)
SHADOW_BEHIND = Polled(
    "bayplan_shadow_behind_seconds", "How late a shadow is, beyond its lookahead."
)

POLLED = tuple(value for value in list(globals().values()) if isinstance(value, Polled))


class Collector:
    """Serves one family to a prometheus_client registry."""

    def __init__(self, family: Polled, values: Callable[[], Values]) -> None:
        self._family, self._values = family, values

    def describe(self) -> Iterable[Metric]:
        """The family without samples: nothing is asked when it is registered."""
        yield self._empty()

    def collect(self) -> Iterable[Metric]:
        """The family with a sample for each combination of labels."""
        family = self._empty()
        for labels, value in self._values().items():
            family.add_metric(labels, value)
        yield family

    def _empty(self) -> CounterMetricFamily | GaugeMetricFamily:
        about = self._family
        cls = CounterMetricFamily if about.kind == "counter" else GaugeMetricFamily
        return cls(about.name, about.text, labels=about.labels)

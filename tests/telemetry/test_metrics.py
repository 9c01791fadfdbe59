"""Names, labels and buckets of the metrics are kube-scheduler's."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.telemetry import polled
from bayplan.telemetry.instrument import Instrument, Instruments
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import make_pod


def family(metrics: Metrics, name: str) -> dict[str, float]:
    """Samples of a metric: ``name{labels}`` without the buckets."""
    return {
        sample.name + "".join(f" {k}={v}" for k, v in sorted(sample.labels.items())): sample.value
        for found in text_string_to_metric_families(metrics.render().decode())
        if found.name == name
        for sample in found.samples
        if not sample.name.endswith("_bucket")
    }


def bounds(metrics: Metrics, name: str) -> list[float]:
    found = {
        float(sample.labels["le"])
        for found in text_string_to_metric_families(metrics.render().decode())
        if found.name == name
        for sample in found.samples
        if sample.name.endswith("_bucket") and sample.labels["le"] != "+Inf"
    }
    return sorted(found)


def used() -> Metrics:
    """Metrics after one of everything."""
    metrics = Metrics()
    metrics.attempt(make_pod("p").obj(), "default-scheduler", "scheduled", 0.5)
    metrics.algorithm(0.25, 40)
    metrics.extension_point("Filter", "default-scheduler", "Success", 0.01)
    metrics.plugin_failed("Mine", "Score")
    metrics.incoming("active", "PodAdd", make_pod().obj())
    metrics.incoming("active", "PodAdd", make_pod().obj(), 3)
    metrics.rejected("NodeName", "default-scheduler", 1)
    metrics.rejected("NodeName", "default-scheduler", 1)
    metrics.rejected("NodeName", "default-scheduler", -1)
    metrics.permit_waited(make_pod("p").obj(), "Success", 2.0)
    metrics.request("server:6443", "POST", "201")
    metrics.request("server:6443", "POST", "<error>")
    metrics.claim_created(success=True)
    metrics.claim_created(success=False)
    metrics.device_awaited("default-scheduler", "gpu", "timeout", 3.0, conditions=True)
    metrics.device_awaited("default-scheduler", "gpu", "timeout", 3.0, conditions=False)
    metrics.preemption("pod", "Success", 0.5)
    metrics.eviction("pod", 3, 0, 2)
    metrics.evicted("pod", success=True, seconds=0.25)
    metrics.preemption("pod", "Unschedulable", 0.5)
    metrics.preemption("podgroup", "Success", 1.0)
    metrics.eviction("podgroup", 40, 4, 0)
    metrics.evicted("podgroup", success=False, seconds=2.0)
    metrics.preemption("podgroup", "Success", None)
    return metrics


P = "profile=default-scheduler"
SEARCH = "scheduler_preemption_evaluation_duration_seconds"
ENTITIES = "scheduler_queue_incoming_entities_total event=PodAdd queue=active"
EVICTION = "scheduler_preemption_execution_duration_seconds"
AWAITED = f"driver=gpu {P} status=timeout"
CLAIMS = "dynamic_resource_allocation_resourceclaim_creates_total admin_access=false"


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        (
            "rest_client_requests",
            {
                "rest_client_requests_total code=201 host=server:6443 method=POST": 1,
                "rest_client_requests_total code=<error> host=server:6443 method=POST": 1,
            },
        ),
        (
            "scheduler_schedule_attempts",
            {f"scheduler_schedule_attempts_total {P} result=scheduled": 1},
        ),
        (
            "scheduler_scheduling_attempt_duration_seconds",
            {
                f"scheduler_scheduling_attempt_duration_seconds_count {P} result=scheduled": 1,
                f"scheduler_scheduling_attempt_duration_seconds_sum {P} result=scheduled": 0.5,
            },
        ),
        (
            "scheduler_scheduling_algorithm_duration_seconds",
            {
                "scheduler_scheduling_algorithm_duration_seconds_count": 1,
                "scheduler_scheduling_algorithm_duration_seconds_sum": 0.25,
            },
        ),
        (
            "scheduler_framework_extension_point_duration_seconds",
            {
                "scheduler_framework_extension_point_duration_seconds_count "
                f"extension_point=Filter {P} status=Success": 1,
                "scheduler_framework_extension_point_duration_seconds_sum "
                f"extension_point=Filter {P} status=Success": 0.01,
            },
        ),
        ("bayplan_evaluated_nodes", {"bayplan_evaluated_nodes_total": 40}),
        (
            "bayplan_plugin_failures",
            {"bayplan_plugin_failures_total extension_point=Score plugin=Mine": 1},
        ),
        (
            "scheduler_queue_incoming_pods",
            {"scheduler_queue_incoming_pods_total event=PodAdd queue=active": 4},
        ),
        (
            "scheduler_queue_incoming_entities",
            {
                f"{ENTITIES} type=pod": 1,
                f"{ENTITIES} type=podgroup": 1,
            },
        ),
        (
            "scheduler_unschedulable_pods",
            {f"scheduler_unschedulable_pods plugin=NodeName {P}": 1},
        ),
        (
            "scheduler_permit_wait_duration_seconds",
            {
                "scheduler_permit_wait_duration_seconds_count result=Success": 1,
                "scheduler_permit_wait_duration_seconds_sum result=Success": 2,
            },
        ),
        (
            "dynamic_resource_allocation_resourceclaim_creates",
            {
                f"{CLAIMS} owner_api_group= owner_api_kind=Pod status=success": 1,
                f"{CLAIMS} owner_api_group= owner_api_kind=Pod status=failure": 1,
            },
        ),
        (
            "scheduler_dra_bindingconditions_allocations",
            {f"scheduler_dra_bindingconditions_allocations_total {AWAITED}": 1},
        ),
        (
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            {
                f"scheduler_dra_bindingconditions_wait_duration_seconds_count {AWAITED}": 2,
                f"scheduler_dra_bindingconditions_wait_duration_seconds_sum {AWAITED}": 6,
            },
        ),
        ("scheduler_preemption_attempts", {"scheduler_preemption_attempts_total": 2}),
        (
            "scheduler_preemption_victims",
            {"scheduler_preemption_victims_count": 1, "scheduler_preemption_victims_sum": 3},
        ),
        (
            "scheduler_workload_preemption_attempts",
            {"scheduler_workload_preemption_attempts_total result=Success": 2},
        ),
        (
            "scheduler_workload_preemption_victims",
            {
                "scheduler_workload_preemption_victims_count": 1,
                "scheduler_workload_preemption_victims_sum": 40,
            },
        ),
        (
            "scheduler_preemption_workload_disruptions",
            {
                "scheduler_preemption_workload_disruptions_count preemptor=podgroup": 1,
                "scheduler_preemption_workload_disruptions_sum preemptor=podgroup": 4,
            },
        ),
        (
            "scheduler_preemption_pdb_violations",
            {"scheduler_preemption_pdb_violations_total preemptor=pod": 2},
        ),
        (
            "scheduler_preemption_evaluation_duration_seconds",
            {
                f"{SEARCH}_count preemptor=pod result=Success": 1,
                f"{SEARCH}_sum preemptor=pod result=Success": 0.5,
                f"{SEARCH}_count preemptor=pod result=Unschedulable": 1,
                f"{SEARCH}_sum preemptor=pod result=Unschedulable": 0.5,
                f"{SEARCH}_count preemptor=podgroup result=Success": 1,
                f"{SEARCH}_sum preemptor=podgroup result=Success": 1,
            },
        ),
        (
            "scheduler_preemption_execution_duration_seconds",
            {
                f"{EVICTION}_count preemptor=pod result=success": 1,
                f"{EVICTION}_sum preemptor=pod result=success": 0.25,
                f"{EVICTION}_count preemptor=podgroup result=error": 1,
                f"{EVICTION}_sum preemptor=podgroup result=error": 2,
            },
        ),
        (
            "scheduler_preemption_goroutines_duration_seconds",
            {
                "scheduler_preemption_goroutines_duration_seconds_count result=success": 1,
                "scheduler_preemption_goroutines_duration_seconds_sum result=success": 0.25,
                "scheduler_preemption_goroutines_duration_seconds_count result=error": 1,
                "scheduler_preemption_goroutines_duration_seconds_sum result=error": 2,
            },
        ),
        (
            "scheduler_preemption_goroutines_execution",
            {
                "scheduler_preemption_goroutines_execution_total result=success": 1,
                "scheduler_preemption_goroutines_execution_total result=error": 1,
            },
        ),
    ],
)
def test_what_is_counted_appears_under_its_name(name: str, samples: dict[str, float]) -> None:
    assert family(used(), name) == samples


@pytest.mark.parametrize(
    ("name", "start", "factor", "count"),
    [
        ("scheduler_scheduling_attempt_duration_seconds", 0.001, 2, 15),
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 2, 15),
        ("scheduler_pod_scheduling_attempts", 1, 2, 5),
        ("scheduler_framework_extension_point_duration_seconds", 0.0001, 2, 12),
        ("scheduler_permit_wait_duration_seconds", 0.001, 2, 15),
        ("scheduler_preemption_victims", 1, 2, 7),
        ("scheduler_workload_preemption_victims", 1, 2, 11),
        ("scheduler_preemption_workload_disruptions", 1, 2, 11),
        ("scheduler_preemption_evaluation_duration_seconds", 0.001, 2, 16),
        ("scheduler_preemption_execution_duration_seconds", 0.001, 2, 16),
        ("scheduler_preemption_goroutines_duration_seconds", 0.01, 2, 20),
    ],
)
def test_buckets_are_those_of_its_dashboards(
    name: str, start: float, factor: int, count: int
) -> None:
    expected = [start * factor**i for i in range(count)]
    assert bounds(used(), name) == pytest.approx(expected)


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_the_time_that_pods_wait_is_told_by_attempts(attempts: int, label: str) -> None:
    metrics = Metrics()
    metrics.scheduled(attempts, 2.5, False)
    name = "scheduler_pod_scheduling_sli_duration_seconds"
    assert family(metrics, name) == {
        f"{name}_count attempts={label}": 1,
        f"{name}_sum attempts={label}": 2.5,
    }
    assert bounds(metrics, name) == pytest.approx([0.01 * 2**i for i in range(20)])
    tries = "scheduler_pod_scheduling_attempts"
    assert family(metrics, tries) == {f"{tries}_count": 1, f"{tries}_sum": attempts}


def test_a_pod_that_only_the_flush_woke_is_counted_apart() -> None:
    metrics = Metrics()
    metrics.scheduled(1, None, False)
    name = "scheduler_pod_scheduled_after_flush"
    assert family(metrics, name) == {f"{name}_total": 0}
    metrics.scheduled(2, 2.5, True)
    assert family(metrics, name) == {f"{name}_total": 1}


def test_sizes_are_asked_for_when_they_are_read() -> None:
    metrics, sizes = Metrics(), {"active": 1, "backoff": 2}
    metrics.poll_by(polled.PENDING_PODS, lambda: sizes)
    name = "scheduler_pending_pods"
    assert family(metrics, name) == {f"{name} queue=active": 1, f"{name} queue=backoff": 2}
    sizes["active"] = 5
    assert family(metrics, name)[f"{name} queue=active"] == 5


def test_counting_and_reading_may_happen_at_once() -> None:
    metrics, pod = Metrics(), make_pod("p").obj()

    def count() -> None:
        for i in range(300):
            metrics.attempt(pod, f"p{i % 7}", "scheduled", 0.1)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.render()
    assert sum(family(metrics, "scheduler_schedule_attempts").values()) == 900


def test_several_instruments_receive_the_same() -> None:
    class Timings(Instrument):
        times_plugins = times_calls = True

        def __init__(self) -> None:
            self.calls: list[tuple[str, str]] = []

        def plugin_called(self, plugin: str, point: str, profile: str, seconds: float) -> None:
            self.calls.append((plugin, point))

    first, second, timings = used(), Metrics(), Timings()
    both = Instruments(first, second, timings)
    both.preemption("pod", "Success", 0.1)
    both.plugin_called("Mine", "Filter", "p", 0.1)
    assert (both.times_plugins, both.times_calls) == (True, True)
    assert timings.calls == [("Mine", "Filter")]
    name = "scheduler_preemption_attempts"
    assert family(first, name) == {f"{name}_total": 3}
    assert family(second, name) == {f"{name}_total": 1}

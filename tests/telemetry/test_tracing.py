"""Attempts as spans: what is below what, and whose trace it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.api.pod import Pod
from bayplan.framework import WAIT, Plugin, Status
from bayplan.telemetry import tracing
from bayplan.telemetry.tracing import Tracing
from bayplan.testing import cluster as testing
from bayplan.testing import make_node, make_pod

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
POD = make_pod("p").uid("p").obj()
PATH = "/api/v1/namespaces/default/pods/p"
MS = 1_000_000


class Traced:
    """A `Tracing`, its clock, and the spans that have ended."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self.now = 1_000_000 * MS
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.instrument = Tracing(provider.get_tracer("test"), lambda: self.now)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def tree(self) -> dict[str, str]:
        """Name of each span -> name of its parent, empty for none that ended here."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        return {
            span.name: names.get(span.parent.span_id, "") if span.parent else ""
            for span in self.spans
        }

    def span(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture
def traced() -> Traced:
    return Traced()


def annotated(value: str) -> Pod:
    """A Pod that names its trace."""
    builder = make_pod("p").uid("other")
    builder.json["metadata"]["annotations"] = {"traceparent": value}
    return builder.obj()


def begin(traced: Traced) -> Tracing:
    traced.instrument.attempt_began(POD, "bayplan", 2)
    return traced.instrument


def test_an_attempt_has_its_extension_points_and_its_binding_below_it(traced: Traced) -> None:
    it = begin(traced)
    for point in ("PreFilter", "Filter"):
        traced.now += 5 * MS
        it.extension_point(point, "bayplan", "Success", 0.005)
    it.binding_began(POD)
    traced.now += 10 * MS
    it.called("POST", f"{PATH}/binding", "201", 0.004)
    it.attempt(POD, "bayplan", "scheduled", 0.02)
    assert traced.tree() == {
        "PreFilter": "Schedule",
        "Filter": "Schedule",
        "POST": "Bind",
        "Bind": "Schedule",
        "Schedule": "",
    }
    post = traced.span("POST")
    assert post.end_time == traced.now
    assert post.start_time == traced.now - 4 * MS
    assert post.kind is trace.SpanKind.CLIENT
    assert traced.span("Schedule").attributes == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "p",
        "k8s.pod.uid": "p",
        "profile": "bayplan",
        "attempt": 2,
        "result": "scheduled",
    }


def test_a_slow_call_of_a_plugin_is_below_the_extension_point_that_it_belongs_to(
    traced: Traced,
) -> None:
    it = begin(traced)
    traced.now += 20 * MS
    it.plugin_called("Slow", "Filter", "bayplan", 0.01)
    it.plugin_called("Quick", "Filter", "bayplan", tracing.SLOW_SECONDS / 2)
    it.extension_point("Filter", "bayplan", "Success", 0.012)
    it.plugin_called("Late", "Reserve", "bayplan", 0.01)
    it.binding_began(POD)
    it.attempt(POD, "bayplan", "scheduled", 0.02)
    assert traced.tree() == {
        "Slow": "Filter",
        "Filter": "Schedule",
        "Late": "Schedule",
        "Bind": "Schedule",
        "Schedule": "",
    }
    assert traced.span("Slow").attributes == {"extension_point": "Filter"}


@pytest.mark.parametrize(("result", "failed"), [("unschedulable", False), ("error", True)])
def test_only_an_error_makes_a_span_one_that_failed(
    traced: Traced, result: str, failed: bool
) -> None:
    begin(traced).attempt(POD, "bayplan", result, 0.02)
    status = traced.span("Schedule").status.status_code
    assert (status is trace.StatusCode.ERROR) is failed


def test_a_worker_says_for_whom_it_works(traced: Traced) -> None:
    it = begin(traced)
    it.binding_began(POD)

    def work() -> None:
        it.worker_serves(POD)
        it.plugin_called("VolumeBinding", "PreBind", "bayplan", 0.01)
        it.called("PATCH", "/api/v1/persistentvolumes/v", "200", 0.01)
        it.worker_serves(None)
        it.plugin_called("Other", "PreBind", "bayplan", 0.01)
        it.called("GET", "/version", "200", 0.01)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    it.permit_waited(POD, "Success", 0.01)
    it.attempt(POD, "bayplan", "scheduled", 0.02)
    below = {name for name, parent in traced.tree().items() if parent == "Bind"}
    assert below == {"VolumeBinding", "PATCH", "WaitOnPermit"}
    assert "Other" not in traced.tree()
    assert "GET" not in traced.tree()


def test_an_attempt_belongs_to_the_trace_that_its_pod_names(traced: Traced) -> None:
    pod = annotated(f"00-{TRACE}-{PARENT}-01")
    traced.instrument.attempt_began(pod, "bayplan", 1)
    traced.instrument.attempt(pod, "bayplan", "scheduled", 0.1)
    span = traced.span("Schedule")
    assert span.context
    assert span.parent
    assert trace.format_trace_id(span.context.trace_id) == TRACE
    assert trace.format_span_id(span.parent.span_id) == PARENT


@pytest.mark.parametrize("value", ["", "rubbish", f"00-{'0' * 32}-{PARENT}-01"])
def test_an_annotation_that_names_no_trace_is_ignored(traced: Traced, value: str) -> None:
    pod = annotated(value)
    traced.instrument.attempt_began(pod, "bayplan", 1)
    traced.instrument.attempt(pod, "bayplan", "scheduled", 0.1)
    assert traced.span("Schedule").parent is None


@pytest.mark.parametrize(("flags", "spans"), [("01", 2), ("00", 0)])
def test_the_sampling_of_a_pods_trace_is_followed(flags: str, spans: int) -> None:
    traced = Traced(ParentBased(ALWAYS_OFF))
    pod = annotated(f"00-{TRACE}-{PARENT}-{flags}")
    for each in (pod, POD):
        traced.instrument.attempt_began(each, "bayplan", 1)
        traced.instrument.extension_point("Filter", "bayplan", "Success", 0.1)
        traced.instrument.attempt(each, "bayplan", "scheduled", 0.1)
    assert len(traced.spans) == spans
    assert not traced.instrument._attempts


def test_a_pod_of_the_same_name_has_an_attempt_of_its_own(traced: Traced) -> None:
    it = begin(traced)
    it.binding_began(POD)
    again = make_pod("p").uid("later").obj()
    it.attempt_began(again, "bayplan", 1)
    it.attempt(POD, "bayplan", "error", 0.1)
    assert len(traced.spans) == 0
    it.attempt(again, "bayplan", "scheduled", 0.1)
    assert [span.name for span in traced.spans] == ["Schedule"]


def test_what_belongs_to_no_attempt_is_no_span(traced: Traced) -> None:
    it = traced.instrument
    it.extension_point("Filter", "bayplan", "Success", 0.1)
    it.plugin_called("Mine", "Filter", "bayplan", 0.1)
    it.called("GET", PATH, "200", 0.1)
    it.binding_began(POD)
    it.permit_waited(POD, "Success", 0.1)
    it.attempt(POD, "bayplan", "scheduled", 0.1)
    assert traced.spans == ()


class Slow(Plugin):
    """A Filter plugin that takes its time."""

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        end = time.perf_counter() + 2 * tracing.SLOW_SECONDS
        while time.perf_counter() < end:
            pass
        return None


def test_the_pipeline_reports_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced()
    traced.instrument._clock = time.time_ns
    monkeypatch.setattr(testing, "Metrics", lambda: traced.instrument)
    cluster = Cluster(Slow, scripted("Waits", permit=(WAIT, 60.0)))
    cluster.add(make_node("n").capacity(cpu="1", pods=9), make_pod("p").uid("p"))
    cluster.run()
    [waiting] = cluster.core.world.waiting
    waiting.allow("Waits")
    cluster.take_in()
    tree = traced.tree()
    assert tree["Slow"] == "Filter"
    assert tree["Filter"] == "Schedule"
    assert tree["WaitOnPermit"] == "Bind"
    assert tree["Bind"] == "Schedule"

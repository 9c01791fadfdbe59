"""The file of --tracing-config-file, and spans that arrive at a collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.otlp_collector import Collector, serving
from tests.waiting import SOON

from bayplan.app.tracing_config import Traces, TracingConfiguration, TracingError, load
from bayplan.testing import make_pod

KUBERNETES = """
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: localhost:4317
samplingRatePerMillion: 100
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "tracing.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "endpoint", "rate"),
    [
        pytest.param(KUBERNETES, "localhost:4317", 100, id="as for kube-apiserver"),
        pytest.param("samplingRatePerMillion: 1000000", None, 1_000_000, id="all"),
        pytest.param("", None, 0, id="nothing"),
    ],
)
def test_the_file_is_kubernetes_own(
    tmp_path: Path, text: str, endpoint: str | None, rate: int
) -> None:
    config = load(written(tmp_path, text))
    assert (config.endpoint, config.sampling_rate_per_million) == (endpoint, rate)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("samplingRatePerMillion: 1000001", "samplingRatePerMillion: ", id="rate"),
        pytest.param("samplingRatePerMillion: -1", "samplingRatePerMillion: ", id="negative"),
        pytest.param("endpoints: a", "endpoints: ", id="unknown field"),
        pytest.param("kind: Pod", "kind: ", id="another kind"),
        pytest.param("[", "expected", id="no YAML"),
    ],
)
def test_what_is_wrong_with_the_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TracingError, match=f"{path}: (.|\n)*{fault}"):
        load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TracingError, match="No such file"):
        load(tmp_path / "nothing")


def everything_to(endpoint: str) -> TracingConfiguration:
    document = {"endpoint": endpoint, "samplingRatePerMillion": 1_000_000}
    return TracingConfiguration.model_validate(document)


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    with serving() as (made, endpoint):
        yield made, endpoint


def test_spans_arrive_at_the_collector_when_the_process_ends(
    collector: tuple[Collector, str],
) -> None:
    made, endpoint = collector
    pod = make_pod("p").obj()
    traces = Traces(everything_to(endpoint))
    traces.instrument.attempt_began(pod, "bayplan", 1)
    traces.instrument.attempt(pod, "bayplan", "unschedulable", 0.1)
    traces.close()
    assert made.arrived.wait(SOON)
    [resource] = made.requests[0].resource_spans
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert names["service.name"] == "bayplan"
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["Schedule"]


def test_no_collector_is_no_reason_to_wait() -> None:
    pod = make_pod("p").obj()
    traces = Traces(everything_to("127.0.0.1:1"))
    traces.instrument.attempt_began(pod, "bayplan", 1)
    traces.instrument.attempt(pod, "bayplan", "error", 0.1)
    before = threading.active_count()
    traces.close()
    assert threading.active_count() <= before + 1

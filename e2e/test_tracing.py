"""Traces of a scheduler on a real API server, as a collector gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.otlp_collector import Collector, serving

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    with serving() as (made, endpoint):
        yield made, endpoint


def test_a_pod_that_names_its_trace_is_seen_from_the_attempt_to_the_binding(
    cluster: Cluster,
    start: Callable[..., Bayplan],
    collector: tuple[Collector, str],
    tmp_path: Path,
) -> None:
    made, endpoint = collector
    file = tmp_path / "tracing.yaml"
    # Nothing is sampled but what the Pod's own trace asks for.
    file.write_text(f"endpoint: {endpoint}\nsamplingRatePerMillion: 0\n")
    bayplan = start(cluster.config(OTHER), flags=[f"--tracing-config-file={file}"])
    cluster.nodes(NodeSpec("n1"))
    traced = pod("traced", OTHER)
    traced["metadata"]["annotations"] = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    cluster.create(traced, pod("other", OTHER))
    cluster.wait_bound("traced")
    cluster.wait_bound("other")

    def arrived() -> dict[str, Any]:
        spans = {span.name: span for span in made.of_trace(TRACE)}
        return spans if {"Schedule", "Filter", "Bind", "POST"} <= spans.keys() else {}

    spans = wait_until(arrived, SOON, "the spans")
    names = {span.span_id: span.name for span in spans.values()}
    assert spans["Schedule"].parent_span_id.hex() == PARENT
    assert names[spans["Filter"].parent_span_id] == "Schedule"
    assert names[spans["Bind"].parent_span_id] == "Schedule"
    assert names[spans["POST"].parent_span_id] == "Bind"
    path = {a.key: a.value.string_value for a in spans["POST"].attributes}["url.path"]
    assert path.endswith("/pods/traced/binding")
    assert len([s for s in made.of_trace(TRACE) if s.name == "Schedule"]) == 1
    assert bayplan.running

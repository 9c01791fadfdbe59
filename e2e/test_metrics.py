"""The metrics are those of a kube-scheduler that runs beside it: names, types, labels, buckets.

What is missing is what docs/differences.md says, and nothing of that is served.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster import NAME, Bayplan, Cluster, pod
from e2e.provider import NodeSpec
from e2e.provider.golang import ROOT
from e2e.provider.programs import OTHER_KUBE_SCHEDULER, is_reference

pytestmark = pytest.mark.e2e

SCHEDULER = re.compile(
    r"scheduler_|kubernetes_feature_enabled|leader_election_|rest_client_requests$"
)
"""kube-scheduler's own metrics; the others are of the libraries that it is built on."""


@dataclass(frozen=True)
class Form:
    """What a dashboard depends on: the type, the names of the labels, and the buckets' bounds."""

    kind: str
    labels: frozenset[str]
    bounds: frozenset[float]


def form(family: Metric) -> Form:
    labels = frozenset(key for sample in family.samples for key in sample.labels)
    bounds = frozenset(float(s.labels["le"]) for s in family.samples if "le" in s.labels)
    return Form(family.type, labels, bounds)


def families(text: bytes) -> dict[str, Metric]:
    """The families of kube-scheduler's own metrics that have samples."""
    found = text_string_to_metric_families(text.decode())
    return {
        family.name: family for family in found if family.samples and SCHEDULER.match(family.name)
    }


@pytest.fixture(scope="module")
def served(shared: Cluster, deployed: Bayplan) -> Iterator[tuple[dict[str, Metric], ...]]:
    """The families of kube-scheduler and of bayplan, after the same Pods."""
    if not shared.plane.owns_parts or not is_reference():
        pytest.skip(OTHER_KUBE_SCHEDULER)
    kube_scheduler = shared.plane.start_kube_scheduler()
    assert kube_scheduler is not None
    shared.nodes(NodeSpec("n0", cpu="4"), NodeSpec("n1", cpu="4"))
    for by in ("default-scheduler", NAME):
        fits, never, gated = (f"{by}-{end}" for end in ("fits", "never", "gated"))
        shared.create(
            pod(fits, cpu="1", schedulerName=by),
            pod(never, cpu="100", schedulerName=by),
            pod(gated, schedulerName=by, schedulingGates=[{"name": "e2e/held"}]),
        )
        shared.wait_bound(fits)
        shared.wait_condition(never)
    yield tuple(families(part.endpoint.get("/metrics")) for part in (kube_scheduler, deployed))
    kube_scheduler.stop()
    shared.clear()


def not_served() -> set[str]:
    """The metrics that docs/differences.md lists as missing."""
    page = (ROOT / "docs" / "differences.md").read_text()
    section = page.partition("## Metrics\n")[2].partition("\n## ")[0]
    listed = section.partition("Missing:")[2].partition("\n\nThose of")[0]
    return {name.removesuffix("_total") for name in re.findall(r"`(\w+)`", listed)}


def test_what_is_missing_is_what_the_page_says(served: tuple[dict[str, Metric], ...]) -> None:
    theirs, ours = served
    assert len(theirs) > 20
    assert theirs.keys() - ours.keys() <= not_served()
    assert not ours.keys() & (not_served() - {"rest_client_requests"})


def test_metrics_of_one_name_have_one_form(served: tuple[dict[str, Metric], ...]) -> None:
    theirs, ours = served
    common = sorted(theirs.keys() & ours.keys())
    assert len(common) > 15
    assert {name: form(ours[name]) for name in common} == {
        name: form(theirs[name]) for name in common
    }


@pytest.mark.parametrize(
    ("family", "label"),
    [
        ("scheduler_pending_pods", "queue"),
        ("scheduler_schedule_attempts", "result"),
        ("scheduler_unschedulable_pods", "plugin"),
        ("scheduler_cache_size", "type"),
        ("scheduler_queue_incoming_pods", "event"),
    ],
)
def test_labels_have_the_same_values(
    served: tuple[dict[str, Metric], ...], family: str, label: str
) -> None:
    theirs, ours = ({sample.labels[label] for sample in f[family].samples} for f in served)
    assert theirs <= ours

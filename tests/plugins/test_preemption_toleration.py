"""PreemptionToleration: which Pods of lower priority stay."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.kinds import PRIORITY_CLASS
from bayplan.plugins.preemption_toleration import MINIMUM, SECONDS
from bayplan.testing import Cluster, PodBuilder, make_node, make_pod
from bayplan.testing.builder import make_object

PROFILE = {
    "schedulerName": "bayplan",
    "plugins": {
        "multiPoint": {
            "enabled": [{"name": "PreemptionToleration"}],
            "disabled": [{"name": "DefaultPreemption"}],
        }
    },
}
NOON = "2026-01-01T12:00:00Z"
AT_NOON = 1_767_268_800.0


def running(scheduled: str | None = NOON) -> PodBuilder:
    victim = make_pod("victim").req(cpu="4").priority(10).node("n")
    if scheduled is not None:
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}
        victim.status(conditions=[condition])
    return victim.spec(priorityClassName="tolerant")


def cluster_with(annotations: dict[str, str], victim: PodBuilder, now: float) -> Cluster:
    cluster = Cluster(config={"profiles": [PROFILE]})
    cluster.clock.time = now
    cluster.add(make_node("n").capacity(cpu="4", pods=10), victim)
    tolerant = make_object(PRIORITY_CLASS, "tolerant").top(value=10)
    for key, value in annotations.items():
        tolerant.annotation(key, value)
    cluster.add(tolerant)
    return cluster


@pytest.mark.parametrize(
    ("annotations", "priority", "seconds_later", "evicted"),
    [
        pytest.param({}, 11, 0, True, id="no-annotation"),
        pytest.param({MINIMUM: "100"}, 11, 0, True, id="for-no-time"),
        pytest.param({MINIMUM: "100", SECONDS: "-1"}, 99, 9e9, False, id="for-ever"),
        pytest.param({MINIMUM: "100", SECONDS: "-1"}, 100, 0, True, id="not-from-the-minimum-on"),
        pytest.param({MINIMUM: "100", SECONDS: "60"}, 50, 59, False, id="within-the-time"),
        pytest.param({MINIMUM: "100", SECONDS: "60"}, 50, 60, True, id="after-the-time"),
        pytest.param({SECONDS: "-1"}, 11, 0, True, id="the-minimum-is-one-more-than-the-value"),
        pytest.param({MINIMUM: "much", SECONDS: "-1"}, 50, 0, True, id="no-number"),
    ],
)
def test_who_is_evicted(
    annotations: dict[str, str], priority: int, seconds_later: float, evicted: bool
) -> None:
    cluster = cluster_with(annotations, running(), AT_NOON + seconds_later)
    verdict = cluster.explain(make_pod("p").req(cpu="1").priority(priority))
    assert ("victims" in verdict["postFilter"]) is evicted


def test_a_pod_whose_time_of_scheduling_is_not_known_is_tolerated() -> None:
    cluster = cluster_with({MINIMUM: "100", SECONDS: "1"}, running(None), AT_NOON)
    assert "victims" not in cluster.explain(make_pod("p").req(cpu="1").priority(50))["postFilter"]


@pytest.mark.parametrize("change", ["annotations", "class"])
def test_what_is_said_later_counts_at_once(change: str) -> None:
    cluster = cluster_with({MINIMUM: "100", SECONDS: "-1"}, running(), AT_NOON)
    preemptor: Any = make_pod("p").req(cpu="1").priority(50)
    assert "victims" not in cluster.explain(preemptor)["postFilter"]
    tolerant = make_object(PRIORITY_CLASS, "tolerant").top(value=10)
    if change == "annotations":
        cluster.add(tolerant)
    else:
        cluster.remove(tolerant)
    assert cluster.explain(preemptor)["postFilter"]["victims"] == ["default/victim"]

"""Explaining one Pod: what Reserve and Permit say is part of it, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster, profile
from tests.scripted import scripted

from bayplan.explain.explanation import explain
from bayplan.framework import WAIT, PostFilterResult, Status
from bayplan.testing import PodBuilder, make_node, make_pod


def cluster_with(*plugins: Any, **settings: Any) -> Cluster:
    cluster = Cluster(*plugins, **settings)
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    return cluster


def explained(cluster: Cluster, pod: PodBuilder, *, details: bool = False) -> dict[str, Any]:
    """The explanation of ``pod``, which the cluster has been shown."""
    cluster.add(pod)
    core = cluster.core
    framework = core.profiles["bayplan"]
    return explain(framework, core.placers, pod.obj(), details=details)


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_refusal_by_reserve_or_permit_is_the_answer(point: str) -> None:
    no = scripted("No", **{point: Status.unschedulable("not now")})
    verdict = explained(cluster_with(no, bare=True), make_pod("p"))
    assert verdict["message"] == "0/1 nodes are available: 1 not now."
    assert verdict[point] == {"code": "Unschedulable", "plugin": "No", "reasons": ["not now"]}
    assert "best" not in verdict
    assert verdict["nodes"] == {"n1": {"code": "Success"}}


def test_a_wait_in_permit_is_told_with_its_limit() -> None:
    verdict = explained(
        cluster_with(scripted("Hold", permit=(WAIT, 60.0)), bare=True), make_pod("p")
    )
    assert verdict["best"] == ["n1"]
    assert verdict["permit"] == {"code": "Wait", "seconds": {"Hold": 60.0}}
    assert "message" not in verdict


def test_an_error_of_permit_is_the_answer() -> None:
    verdict = explained(
        cluster_with(scripted("Bad", permit=RuntimeError("oh")), bare=True), make_pod("p")
    )
    assert verdict["message"] == 'running Permit plugin "Bad": RuntimeError: oh'
    assert "best" not in verdict


def test_where_all_score_plugins_skip_a_pod_the_totals_are_zero() -> None:
    cluster = Cluster(profiles=[profile("NodeAffinity", bare=True)])
    cluster.add(*(make_node(name).capacity(cpu="4", memory="8Gi", pods=10) for name in ("a", "b")))
    verdict = explained(cluster, make_pod("p"))
    assert verdict["totals"] == {"a": 0, "b": 0}


def test_an_explanation_leaves_nothing_behind() -> None:
    keeps = scripted("Keeps", reserve=None, unreserve=None, permit=(WAIT, 60.0))
    cluster = cluster_with(keeps, bare=True)
    pod = make_pod("p").req(cpu="1").nominated("n1")
    verdict = explained(cluster, pod)
    assert verdict["nominated"] == "n1"
    assert cluster.plugin(keeps).calls == ["reserve", "permit", "unreserve"]
    assert cluster.counted_on(pod) == ""
    assert cluster.cache.nodes.recount() == {}
    assert cluster.nominated(pod) == ["n1"]
    assert cluster.recorder.events == []
    assert cluster.metrics.render().count(b"scheduler_schedule_attempts_total{") == 0
    text = cluster.metrics.render()
    assert text.count(b"scheduler_framework_extension_point_duration_seconds_bucket{") == 0


def test_what_preemption_would_do_is_told_and_not_done() -> None:
    cluster = cluster_with()
    victim = make_pod("victim").req(cpu="3").priority(1).node("n1")
    cluster.add(victim)
    verdict = explained(cluster, make_pod("p").req(cpu="3").priority(9))
    assert verdict["postFilter"]["nominatedNode"] == "n1"
    assert verdict["postFilter"]["victims"] == ["default/victim"]
    assert cluster.metric("scheduler_preemption_attempts_total") == 0
    assert cluster.counted_on(victim) == "n1"


@pytest.mark.parametrize("is_pure", [True, False], ids=["pure", "acts by itself"])
def test_a_post_filter_plugin_may_explain_its_answer_if_it_does_nothing_by_itself(
    is_pure: bool,
) -> None:
    class MakesRoom(scripted("MakesRoom", filter=None, post_filter=None)):  # type: ignore[misc]
        pure = is_pure

        def filter(self, state: Any, pod: Any, node: Any) -> Status:
            return Status.unschedulable("full")

        def post_filter(self, state: Any, pod: Any, failure: Any) -> PostFilterResult:
            return PostFilterResult(Status(), "n1", lambda: {"rented": "a larger node"})

    cluster = cluster_with(MakesRoom, profiles=[profile("MakesRoom", bare=True)])
    verdict = explained(cluster, make_pod("p"))
    answer = {"nominatedNode": "n1", "rented": "a larger node"}
    assert verdict.get("postFilter") == (answer if is_pure else None)


@pytest.mark.parametrize("fits", [True, False], ids=["placed", "rejected"])
def test_a_filter_is_asked_about_every_node_once(fits: bool) -> None:
    class Counts(scripted("Counts", filter=None)):  # type: ignore[misc]
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            self.calls.append(node.name)
            return None if fits and node.name == "n1" else Status.unschedulable("no")

    cluster = cluster_with(Counts, profiles=[profile("Counts", bare=True)])
    cluster.add(make_node("n2").capacity(cpu="4", memory="8Gi", pods=10))
    verdict = explained(cluster, make_pod("p"))
    assert sorted(verdict["nodes"]) == ["n1", "n2"]
    assert verdict.get("best") == (["n1"] if fits else None)
    assert sorted(cluster.plugin(Counts).calls) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("answer", "details"),
    [
        pytest.param(["it is Monday"], ["it is Monday"], id="sentences"),
        pytest.param(OSError("disk"), [], id="an exception"),
        pytest.param("it is Monday", [], id="no list"),
    ],
)
def test_a_plugin_of_a_user_may_say_more_of_its_rejections(answer: Any, details: list[str]) -> None:
    class Moody(scripted("Moody", filter=Status.unschedulable("not today"))):  # type: ignore[misc]
        def explain_filter(self, *_: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    cluster = cluster_with(Moody, bare=True)
    verdict = explained(cluster, make_pod("p"), details=True)
    assert verdict["details"] == details
    assert verdict["message"] == "0/1 nodes are available: 1 not today."
    failures = cluster.metric(
        "bayplan_plugin_failures_total", plugin="Moody", extension_point="Filter"
    )
    assert bool(failures) is not bool(details)

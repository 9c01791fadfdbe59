"""The search as a whole: nominated Pods and nodes, and who wins where plugins disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.core_harness import Cluster, profile
from tests.scripted import scripted

from bayplan.engine.search import Fit
from bayplan.framework import Plugin, PreFilterResult, Status
from bayplan.framework.cycle_state import CycleState
from bayplan.testing import (
    PROFILE,
    NodeBuilder,
    PodBuilder,
    expressions,
    fields,
    labels_are,
    make_node,
    make_pod,
    requirement,
)

HOST = "kubernetes.io/hostname"


def node(name: str, cpu: str = "4") -> NodeBuilder:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10).label(HOST, name)


def pod(name: str, cpu: str = "1", priority: int = 0) -> PodBuilder:
    return make_pod(name).req(cpu=cpu).priority(priority).spec(schedulerName=PROFILE)


def find(cluster: Cluster, asks: PodBuilder) -> Fit:
    return cluster.core.profiles[PROFILE].search.find(CycleState(), asks.obj())


def feasible(cluster: Cluster, asks: PodBuilder) -> list[str]:
    fit = find(cluster, asks)
    return [i.name for i in cluster.cache.nodes if fit.feasible[i.row]]


def nominate(cluster: Cluster, rival: PodBuilder, node_name: str) -> None:
    """``rival`` waits for room on that node."""
    cluster.queue.nominator.nominate(rival.obj(), node_name)


# Pods that are nominated to nodes


@pytest.mark.parametrize(
    ("priority", "fits"), [(5, False), (4, False), (3, True)], ids=["higher", "equal", "lower"]
)
def test_room_is_left_for_nominated_pods_of_no_lower_priority(priority: int, fits: bool) -> None:
    cluster = Cluster()
    cluster.add(node("n1"), node("n2"))
    nominate(cluster, pod("rival", "3", priority), "n1")
    asks = pod("asks", "2", 4)
    assert feasible(cluster, asks) == (["n1", "n2"] if fits else ["n2"])


def test_a_pod_does_not_leave_room_for_itself() -> None:
    cluster = Cluster()
    cluster.add(node("n1"))
    asks = pod("asks", "3")
    nominate(cluster, asks, "n1")
    assert feasible(cluster, asks) == ["n1"]


def test_nominations_to_unknown_nodes_do_not_matter() -> None:
    cluster = Cluster()
    cluster.add(node("n1"))
    nominate(cluster, pod("rival", "3"), "gone")
    assert feasible(cluster, pod("asks", "3")) == ["n1"]


def test_a_node_must_do_without_its_nominated_pods_too() -> None:
    cluster = Cluster()
    cluster.add(node("n1"), node("n2"))
    friend = pod("friend").label("app", "web")
    nominate(cluster, friend, "n1")
    asks = pod("asks").pod_affinity(HOST, labels_are({"app": "web"}))
    assert feasible(cluster, asks) == [], "the friend may never come"
    cluster.add(friend.node("n1"))
    assert feasible(cluster, asks) == ["n1"]


def test_the_reason_is_that_of_the_try_with_nominated_pods() -> None:
    cluster = Cluster(profiles=[profile("NodeResourcesFit", "InterPodAffinity", bare=True)])
    cluster.add(node("n1"), node("n2", cpu="1"))
    nominate(cluster, pod("rival", "3").label("app", "web"), "n1")
    asks = pod("asks", "2").pod_anti_affinity(HOST, labels_are({"app": "web"}))
    fit = find(cluster, asks)
    assert fit.diagnosis is not None
    assert fit.diagnosis.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert feasible(cluster, pod("p", "1").pod_anti_affinity(HOST, labels_are({"app": "web"}))) == [
        "n2"
    ]


def test_an_error_beside_nominated_pods_ends_the_attempt() -> None:
    class Picky(Plugin):
        """Breaks where more than one Pod is on a node."""

        def filter(self, state: Any, asks: Any, node: Any) -> Status | None:
            return Status.error("crowd") if node.pods else None

    cluster = Cluster(Picky, bare=True)
    cluster.add(node("n1"), node("n2"))
    waits = pod("asks")
    nominate(cluster, pod("rival"), "n1")
    cluster.add(waits)
    cluster.run()
    assert cluster.verdict == ("SchedulerError", 'running "Picky" filter plugin: crowd')


def test_a_plugin_with_state_is_told_of_the_pods_that_are_tried() -> None:
    told: list[tuple[str, str]] = []

    class Counting(Plugin):
        def pre_filter(self, state: Any, asks: Any, nodes: Any) -> None:
            return None

        def add_pod(self, state: Any, asks: Any, other: Any, nodes: Any, row: int) -> None:
            told.append((other.name, nodes.names[row]))

        def remove_pod(self, *_: Any) -> None:
            raise NotImplementedError

        def filter(self, state: Any, asks: Any, node: Any) -> Status | None:
            return None

    cluster = Cluster(Counting, bare=True)
    cluster.add(node("n1"), node("n2"))
    nominate(cluster, pod("rival"), "n2")
    assert feasible(cluster, pod("asks")) == ["n1", "n2"]
    assert told == [("rival", "n2")]


# Nodes that a Pod is nominated to


def test_a_nominated_node_that_fits_is_taken_unscored() -> None:
    cluster = Cluster()
    cluster.add(node("n1", cpu="64"), node("n2"))
    fit = find(cluster, pod("asks").nominated("n2"))
    assert (fit.count, fit.evaluated) == (1, 1)
    assert fit.nominated == cluster.cache.nodes.row("n2")


@pytest.mark.parametrize("nominated", ["gone", "full"])
def test_where_the_nominated_node_does_not_do_all_others_are_looked_at(nominated: str) -> None:
    cluster = Cluster()
    cluster.add(node("n1"), node("n2"), node("full", cpu="500m"))
    fit = find(cluster, pod("asks").nominated(nominated))
    assert fit.nominated is None
    assert fit.count == 2


def test_a_nominated_node_may_be_one_that_pre_filter_excludes() -> None:
    cluster = Cluster(scripted("Only", pre_filter=PreFilterResult(frozenset({"n1"}))))
    cluster.add(node("n1"), node("n2"))
    fit = find(cluster, pod("asks").nominated("n2"))
    assert fit.nominated == cluster.cache.nodes.row("n2")


def test_an_excluded_nominated_node_keeps_the_status_of_its_try() -> None:
    cluster = Cluster(
        scripted("Only", pre_filter=PreFilterResult(frozenset({"n1"}))),
        profiles=[profile("Only", "NodeResourcesFit", bare=True)],
    )
    cluster.add(node("n1"), node("n2"), node("n3"))
    fit = find(cluster, pod("asks", "9").nominated("n2"))
    assert fit.diagnosis is not None
    # Whoever rejected the nominated node is named among those that exclude the others, too.
    excluded = "1 node(s) didn't satisfy plugin(s) [NodeResourcesFit Only]"
    text = f"0/3 nodes are available: {excluded}, 2 Insufficient cpu."
    assert fit.diagnosis.message == text


def test_a_nominated_node_leaves_room_for_rivals_too() -> None:
    cluster = Cluster()
    cluster.add(node("n1"), node("n2"))
    nominate(cluster, pod("rival", "3", priority=9), "n1")
    fit = find(cluster, pod("asks", "2").nominated("n1"))
    assert fit.nominated is None
    assert [i.name for i in cluster.cache.nodes if fit.feasible[i.row]] == ["n2"]


# Scores


def test_scores_add_up_plugin_by_plugin_in_the_profiles_order() -> None:
    plugins = {
        "multiPoint": {
            "enabled": [{"name": n} for n in ("PrioritySort", "A", "B", "DefaultBinder")],
            "disabled": [{"name": "*"}],
        },
        "score": {"enabled": [{"name": "A", "weight": 3}]},
    }
    cluster = Cluster(
        scripted("A", score=10),
        scripted("B", score_nodes=lambda: np.full(64, 7)),
        profiles=[{"schedulerName": PROFILE, "plugins": plugins}],
    )
    cluster.add(node("n1"), node("n2"))
    search, state, asks = cluster.core.profiles[PROFILE].search, CycleState(), pod("p").obj()
    fit = search.find(state, asks)
    parts = search.score_parts(state, asks, fit)
    assert {p.plugin: p.scores.tolist() for p in parts} == {"A": [30, 30], "B": [7, 7]}
    assert search.score(state, asks, fit)[:3].tolist() == [37, 37, -1]


def test_a_preference_that_is_no_integer_fails_the_whole_attempt() -> None:
    cluster = Cluster()
    term = expressions(requirement("size", "Gt", "big"))
    cluster.add(node("n1"), node("n2"), pod("asks").preferred_node_affinity(5, term))
    cluster.run()
    reason, message = cluster.verdict
    assert reason == "SchedulerError"
    assert message.startswith('running PreScore plugin "NodeAffinity": ')


def test_one_feasible_node_is_not_scored() -> None:
    cluster = Cluster(scripted("Never", score=RuntimeError("asked")), bare=True)
    cluster.add(node("n1"), pod("asks"))
    cluster.run()
    assert cluster.bound == [("asks", "n1")]


def test_match_fields_leave_the_other_nodes_without_a_plugin() -> None:
    cluster = Cluster(profiles=[profile("NodeAffinity", "NodeUnschedulable", bare=True)])
    cluster.add(node("n1").unschedulable(), node("n2"))
    cluster.add(pod("p").node_affinity(fields(requirement("metadata.name", "In", "n1"))))
    cluster.run()
    assert cluster.verdict[1] == (
        "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 node(s) "
        "were unschedulable."
    )


# Plugins that a Pod does not concern


@pytest.mark.parametrize("concerns", [False, True])
def test_a_plugin_is_asked_about_pods_that_concern_it_only(concerns: bool) -> None:
    methods = ["pre_filter", "filter", "pre_score", "reserve", "pre_bind", "pre_bind_pre_flight"]
    kind = scripted("Mine", concerns=concerns, score=1, **dict.fromkeys(methods))
    cluster = Cluster(kind)
    cluster.add(node("n1"), node("n2"))
    cluster.add(pod("first"), pod("second"))
    cluster.run()
    calls = cluster.plugin(kind).calls
    assert len(cluster.bound) == 2
    assert calls.count("concerns") == 1
    assert set(calls) == {"concerns", *([*methods, "score"] if concerns else [])}

"""Joined answers: one row that moved, several, and what its highest score does to the others."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from tests.core_harness import Cluster

from bayplan.engine.row_answers.kept_scores import KeptScores
from bayplan.framework.cycle_state import CycleState
from bayplan.testing import PROFILE, NodeBuilder, PodBuilder, make_node, make_pod

SOFT = "PreferNoSchedule"


def node(name: str, *taints: str) -> NodeBuilder:
    built = make_node(name).capacity(cpu="4", memory="4Gi", pods=2)
    for taint in taints:
        built.taint(taint, effect=SOFT)
    return built


def small(name: str) -> PodBuilder:
    return make_pod(name).req(cpu="1", memory="1Gi")


def totals(cluster: Cluster) -> dict[str, int]:
    """The total of every feasible node, from answers that are kept."""
    pod = small("asks").uid("asks").spec(schedulerName=PROFILE).obj()
    search, state = cluster.core.profiles[PROFILE].search, CycleState()
    fit = search.find(state, pod)
    scores = search.score(state, pod, fit)
    return {i.name: int(scores[i.row]) for i in cluster.cache.nodes if fit.feasible[i.row]}


@pytest.mark.parametrize(
    "placed",
    [
        pytest.param([("p", "a")], id="one row"),
        pytest.param([("p", "a"), ("q", "b")], id="two rows"),
        pytest.param([("p", "b"), ("q", "b")], id="the row with the highest raw score is full"),
        pytest.param([(f"{n}{i}", n) for n in "abcd" for i in (1, 2)], id="most rows are full"),
    ],
)
def test_totals_after_pods_came_equal_those_of_a_new_scheduler(
    placed: list[tuple[str, str]],
) -> None:
    nodes = [node("a"), node("b", "x", "y"), node("c", "x"), node("d")]
    nodes += [node(f"more{i}") for i in range(20)]
    kept, fresh = Cluster(), Cluster()
    kept.add(*nodes)
    before = totals(kept)
    assert before["b"] < before["c"] < before["a"]
    pods = [small(name).node(where) for name, where in placed]
    for pod in pods:
        kept.add(pod)
        after = totals(kept)
    fresh.add(*nodes, *pods)
    assert after == totals(fresh)
    for pod in pods:
        kept.remove(pod)
    assert totals(kept) == before


def test_scores_are_measured_anew_only_when_another_row_fits() -> None:
    cluster = Cluster()
    cluster.add(node("a"), node("b", "x"), *(node(f"more{i}") for i in range(20)))
    totals(cluster)
    with patch.object(KeptScores, "measures", autospec=True, side_effect=KeptScores.measures) as of:
        cluster.add(small("p").node("a"))
        totals(cluster)
        assert not of.called
        cluster.add(small("q").node("a"))
        assert "a" not in totals(cluster)
        assert of.called

"""Kept answers: what is asked again after which change, and what a failure leaves behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.core_harness import Cluster

from bayplan.api.pod import Pod
from bayplan.engine.faults import AttemptFault
from bayplan.engine.row_answers import part
from bayplan.engine.search import Fit
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Normalizer, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.testing import PROFILE, NodeBuilder, make_node, make_pod

NODE, PODS, CLUSTER = Depends.NODE, Depends.PODS, Depends.CLUSTER
RESOURCES = Depends.RESOURCES


class Asked(Plugin):
    """Says yes everywhere and gives each node the score of its label; writes down who was asked."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.filtered: list[str] = []
        self.scored: list[str] = []
        self.broken = False

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if self.broken:
            raise RuntimeError("broken")
        self.filtered.append(node.name)
        return Status.unschedulable("no") if "no" in node.labels else None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        self.scored.append(node.name)
        return int(node.labels.get("score", 0))

    def news(self) -> tuple[list[str], list[str]]:
        """Who was asked since the last time."""
        said = sorted(self.filtered), sorted(self.scored)
        self.filtered, self.scored = [], []
        return said


def kind(filters: Depends, scores: Depends, **members: Any) -> type[Asked]:
    """Such a plugin with these dependencies."""
    return type("Mine", (Asked,), {"filter_depends": filters, "score_depends": scores, **members})


def node(i: int, **labels: str) -> NodeBuilder:
    return make_node(f"n{i:02}").capacity(cpu="4", pods=10).labels(labels)


class Bench:
    """Twenty nodes and one such plugin."""

    def __init__(self, cls: type[Asked], nodes: int = 20) -> None:
        self.cluster = Cluster(cls, bare=True)
        self.cluster.add(*(node(i) for i in range(nodes)))
        self.plugin = self.cluster.plugin(cls)
        self.search = self.cluster.core.profiles[PROFILE].search
        self.pod = make_pod("asks").uid("asks").spec(schedulerName=PROFILE).obj()
        self.all = [f"n{i:02}" for i in range(nodes)]

    def ask(self, pod: Pod | None = None) -> tuple[list[str], list[str]]:
        """One decision; whom it asked about."""
        self.decide(pod)
        return self.plugin.news()

    def decide(self, pod: Pod | None = None) -> dict[str, int]:
        """Total score by feasible node."""
        state, pod = CycleState(), pod or self.pod
        fit: Fit = self.search.find(state, pod)
        if fit.count == 0:
            return {}
        totals = self.search.score(state, pod, fit)
        nodes = self.cluster.cache.nodes
        return {i.name: int(totals[i.row]) for i in nodes if fit.feasible[i.row]}


def test_a_second_pod_of_a_shape_asks_nobody() -> None:
    bench = Bench(kind(NODE | PODS, NODE | PODS))
    assert bench.ask() == (bench.all, bench.all)
    assert bench.ask() == ([], [])
    sibling = make_pod("sibling").spec(schedulerName=PROFILE).obj()
    assert bench.ask(sibling) == ([], [])
    other = make_pod("other").priority(1).spec(schedulerName=PROFILE).obj()
    assert bench.ask(other) == (bench.all, bench.all)


@pytest.mark.parametrize(
    ("filters", "scores", "after_pod", "after_node"),
    [
        pytest.param(NODE, NODE, ([], []), (["n03"], ["n03"]), id="nodes"),
        pytest.param(PODS, PODS, (["n03"], ["n03"]), (["n03"], ["n03"]), id="pods"),
        pytest.param(NODE, PODS, ([], ["n03"]), (["n03"], ["n03"]), id="one each"),
        pytest.param(
            NODE | PODS, NODE, (["n03"], []), (["n03"], ["n03"]), id="filter on both, score on one"
        ),
    ],
)
def test_a_row_that_moved_is_asked_about_again_by_whom_it_concerns(
    filters: Depends,
    scores: Depends,
    after_pod: tuple[list[str], list[str]],
    after_node: tuple[list[str], list[str]],
) -> None:
    bench = Bench(kind(filters, scores))
    bench.ask()
    bench.cluster.add(make_pod("p").node("n03"))
    assert bench.ask() == after_pod
    bench.cluster.add(node(3, a="b"))
    assert bench.ask() == after_node
    assert bench.ask() == ([], [])


def test_a_row_as_full_as_one_before_is_not_asked_about() -> None:
    bench = Bench(kind(RESOURCES, RESOURCES))
    bench.ask()
    pods = [make_pod(f"p{i}").req(cpu="1").node(f"n{i:02}") for i in (3, 4, 5)]
    for pod, asked in zip(pods, (["n03"], [], []), strict=True):
        bench.cluster.add(pod)
        assert bench.ask() == (asked, asked)
    bench.cluster.add(make_pod("large").req(cpu="2").node("n06"))
    assert bench.ask() == (["n06"], ["n06"])
    bench.cluster.remove(pods[0])
    assert bench.ask() == (["n03"], ["n03"])
    bench.cluster.remove(pods[1])
    assert bench.ask() == ([], [])
    bench.cluster.add(node(7).capacity(cpu="8", pods=10))
    assert bench.ask() == (["n07"], ["n07"])


def test_a_row_as_full_as_another_differs_where_more_than_that_counts() -> None:
    bench = Bench(kind(NODE | RESOURCES, RESOURCES))
    bench.ask()
    for i in (3, 4):
        bench.cluster.add(make_pod(f"p{i}").req(cpu="1").node(f"n{i:02}"))
        assert bench.ask()[0] == [f"n{i:02}"]


def test_what_a_full_row_was_not_asked_is_not_taken_for_an_answer() -> None:
    bench = Bench(kind(RESOURCES, NODE))
    bench.plugin.filter = lambda _s, _p, info: Status.unschedulable("no") if info.pods else None  # type: ignore[method-assign,assignment]
    bench.ask()
    for i in (3, 4):
        pod = make_pod(f"p{i}").node(f"n{i:02}")
        bench.cluster.add(pod)
        assert bench.ask()[1] == []
        bench.cluster.remove(pod)
        assert bench.ask()[1] == [f"n{i:02}"], "every node's own score is asked for"


def test_a_failure_is_not_remembered_for_rows_as_full(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(kind(RESOURCES, RESOURCES))
    bench.ask()
    no = Status.error("no idea")
    monkeypatch.setattr(bench.plugin, "filter", lambda _s, _p, info: no if info.pods else None)
    bench.cluster.add(make_pod("p3").node("n03"))
    with pytest.raises(AttemptFault, match="no idea"):
        bench.decide()
    with pytest.raises(AttemptFault, match="no idea"):
        bench.decide()


def test_loads_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "MAX_LOADS", 2)
    bench = Bench(kind(RESOURCES, RESOURCES))
    bench.ask()
    asked = []
    for i, milli in enumerate((100, 200, 100, 300, 100)):
        bench.cluster.add(make_pod(f"p{i}").req(cpu=f"{milli}m").node(f"n{i:02}"))
        asked.append(bool(bench.ask()[0]))
    assert asked == [True, True, False, True, True]


def test_a_second_node_that_fills_up_with_equal_pods_is_not_asked_about() -> None:
    """As many loads as a kubelet allows Pods by default are remembered."""
    bench = Bench(kind(RESOURCES, RESOURCES))
    bench.ask()
    for name, asked in (("n03", [["n03"]] * 110), ("n04", [[]] * 110)):
        answers = []
        for i in range(110):
            bench.cluster.add(make_pod(f"{name}-{i}").req(cpu="1m").node(name))
            answers.append(bench.ask()[0])
        assert answers == asked


@pytest.mark.parametrize("score", [200, 70_000, 5_000_000_000])
def test_scores_of_any_size_are_kept(score: int) -> None:
    bench = Bench(kind(NODE, NODE, normalizer=Normalizer()))
    bench.ask()
    bench.cluster.add(node(3, score="100"))
    assert bench.decide()["n03"] == 100
    bench.cluster.add(node(4, score=str(score)))
    kept = bench.decide()
    assert (kept["n03"], kept["n04"]) == (100 * 100 // score, 100)


def test_what_depends_on_the_cluster_is_asked_every_time() -> None:
    bench = Bench(kind(CLUSTER, NODE))
    assert bench.ask() == bench.ask() == (bench.all, bench.all)


def test_nodes_that_do_not_fit_are_not_scored_until_they_do() -> None:
    bench = Bench(kind(PODS, NODE))
    bench.cluster.add(node(3, no=""))
    assert bench.ask()[1] == [n for n in bench.all if n != "n03"]
    bench.plugin.filter = lambda *_: None  # type: ignore[method-assign]
    pod = make_pod("p").node("n03")
    bench.cluster.add(pod)
    assert bench.ask()[1] == ["n03"], "only its Pods changed, but it was never scored"


def test_a_node_that_comes_and_one_that_goes_move_their_rows() -> None:
    bench = Bench(kind(NODE, NODE))
    bench.ask()
    bench.cluster.add(node(20, score="7"))
    assert bench.ask() == (["n20"], ["n20"])
    assert bench.decide()["n20"] == 7
    bench.cluster.remove(node(20))
    assert "n20" not in bench.decide()


def test_many_rows_that_moved_are_asked_about_all_at_once() -> None:
    bench = Bench(kind(NODE, NODE))
    bench.ask()
    bench.cluster.add(*(node(i, score="1") for i in range(20)))
    assert bench.ask() == (bench.all, bench.all)


@pytest.mark.parametrize("reverse", [False, True])
def test_normalizing_follows_the_highest_score(reverse: bool) -> None:
    bench = Bench(kind(NODE, NODE, normalizer=Normalizer(reverse=reverse)))
    assert set(bench.decide().values()) == {100 if reverse else 0}
    bench.cluster.add(node(3, score="5"))
    assert bench.decide()["n03"] == (0 if reverse else 100)
    bench.cluster.add(node(4, score="10"))
    kept = bench.decide()
    assert (kept["n03"], kept["n04"]) == ((50, 0) if reverse else (50, 100))
    bench.cluster.add(node(4, score="10", no=""))
    assert bench.decide()["n03"] == (0 if reverse else 100)
    bench.cluster.add(*(node(i) for i in range(20)))
    assert set(bench.decide().values()) == {100 if reverse else 0}


def test_scores_that_were_all_zero_in_an_empty_cluster_count_later() -> None:
    bench = Bench(kind(NODE, NODE, normalizer=Normalizer()), nodes=0)
    bench.decide()
    bench.cluster.add(node(1, score="5"), node(2))
    assert bench.decide() == {"n01": 100, "n02": 0}


def test_a_part_of_the_feasible_nodes_is_normalized_by_itself() -> None:
    bench = Bench(kind(NODE, NODE, normalizer=Normalizer()))
    bench.cluster.add(node(3, score="5"), node(4, score="10"))
    assert bench.decide()["n03"] == 50
    nodes, state = bench.cluster.cache.nodes, CycleState()
    fit = bench.search.find(state, bench.pod)
    part = fit.feasible.copy()
    part[nodes.row("n04")] = False
    fewer = Fit(part, 19, 20, answers=fit.answers)
    totals = bench.search.score(state, bench.pod, fewer)
    assert totals[nodes.row("n03")] == 100
    assert totals[nodes.row("n04")] == -1
    assert bench.decide()["n03"] == 50, "the others are as they were"


def test_an_epoch_that_changed_makes_every_answer_old() -> None:
    epochs = iter([1, 1, 2])
    bench = Bench(kind(NODE, NODE, epoch=lambda _self, _pod: next(epochs)))
    bench.ask()
    assert bench.ask() == ([], [])
    assert bench.ask() == (bench.all, bench.all)


def test_an_epoch_that_changed_makes_what_is_remembered_by_load_old() -> None:
    epochs = iter([1, 1, 1, 2, 2])
    bench = Bench(kind(RESOURCES, RESOURCES, epoch=lambda _self, _pod: next(epochs)))
    bench.ask()
    for i, asked in (3, ["n03"]), (4, []), (5, bench.all), (6, ["n06"]):
        bench.cluster.add(make_pod(f"p{i}").node(f"n{i:02}"))
        assert bench.ask() == (asked, asked)


@pytest.mark.parametrize("moved", [1, 20], ids=["some rows", "all rows"])
def test_after_a_failure_every_answer_is_old(moved: int) -> None:
    bench = Bench(kind(NODE | PODS, NODE | PODS))
    bench.ask()
    bench.plugin.broken = True
    bench.cluster.add(*(node(i, score="3") for i in range(moved)))
    for _ in range(2):
        with pytest.raises(AttemptFault, match="RuntimeError: broken"):
            bench.decide()
    bench.plugin.broken = False
    assert bench.ask() == (bench.all, bench.all)
    assert bench.decide()["n00"] == 3


def test_an_epoch_that_breaks_ends_the_attempt() -> None:
    def epoch(_self: Any, _pod: Any) -> int:
        raise RuntimeError("no epoch")

    with pytest.raises(AttemptFault, match=r"running Score plugin .*: no epoch"):
        Bench(kind(NODE, NODE, epoch=epoch)).decide()


def test_row_local_pre_filter_and_pre_score_are_asked_once_per_shape() -> None:
    asked: list[str] = []

    def note(name: str, answer: Any = None) -> Any:
        def method(*_: object) -> Any:
            asked.append(name)
            return answer

        return method

    cls = kind(NODE, NODE, pre_filter=note("pre_filter"), pre_score=note("pre_score"))
    bench = Bench(cls)
    bench.decide()
    bench.decide()
    assert asked == ["pre_filter", "pre_score"]


def test_row_local_plugins_may_skip() -> None:
    bench = Bench(kind(NODE, NODE, pre_filter=lambda *_: SKIP, pre_score=lambda *_: SKIP))
    bench.cluster.add(node(3, no="", score="5"))
    assert bench.ask() == ([], [])
    assert bench.decide()["n03"] == 0


def test_a_row_local_rejection_of_all_nodes_asks_about_none() -> None:
    bench = Bench(kind(NODE, NODE, pre_filter=lambda *_: Status.unresolvable("never")))
    fit = bench.search.find(CycleState(), bench.pod)
    assert fit.count == 0
    assert fit.diagnosis is not None
    assert fit.diagnosis.message == "0/20 nodes are available: never."
    assert bench.plugin.news() == ([], [])


def test_a_row_local_pre_score_error_comes_when_it_matters() -> None:
    bench = Bench(kind(NODE, NODE, pre_score=lambda *_: Status.error("no list")))
    fit = bench.search.find(CycleState(), bench.pod)
    assert fit.count == 20
    with pytest.raises(AttemptFault, match=r'^running PreScore plugin "Mine": no list$'):
        bench.search.score(CycleState(), bench.pod, fit)


def test_a_profile_without_scores_has_totals_of_zero() -> None:
    cluster = Cluster(bare=True)
    cluster.add(node(1))
    search = cluster.core.profiles[PROFILE].search
    pod = make_pod("p").spec(schedulerName=PROFILE).obj()
    fit = search.find(CycleState(), pod)
    assert not search.scores_anything
    assert search.score(CycleState(), pod, fit)[fit.feasible].tolist() == [0]
    assert np.count_nonzero(fit.feasible) == 1


@pytest.mark.parametrize("depends", [PODS, CLUSTER, NODE])
def test_scores_in_narrow_integers_are_weighted_without_overflow(depends: Depends) -> None:
    class Narrow(Plugin):
        score_depends = depends

        def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            scores = np.full(len(nodes), 80, np.uint8)
            scores[nodes.row("better") or 0] = 100
            return scores

    weighted = {"name": "Narrow", "weight": 3}  # 100 * 3 is 44 in eight bits, 80 * 3 is 240
    bare = [{"name": "PrioritySort"}, {"name": "DefaultBinder"}, weighted]
    points = {"multiPoint": {"enabled": bare, "disabled": [{"name": "*"}]}}
    cluster = Cluster(Narrow, profiles=[{"schedulerName": PROFILE, "plugins": points}])
    cluster.add(make_node("another").capacity(pods=9), make_node("better").capacity(pods=9))
    cluster.add(make_pod("p"))
    cluster.run()
    assert cluster.bound == [("p", "better")]

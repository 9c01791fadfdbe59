"""From the nodes that fit to the one that is taken: sampling, ties, extenders, log of scores."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import structlog
from tests.core_harness import Cluster, only
from tests.plugins.harness import table_of
from tests.scripted import scripted

from bayplan.support import logs
from bayplan.attempt import selection
from bayplan.attempt.selection import Selection, pick_at_random
from bayplan.engine.faults import AttemptFault
from bayplan.engine.ties import Ties
from bayplan.extenders.extenders import Extenders
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.simulation.name_order import NameOrder
from bayplan.testing import PROFILE, NodeBuilder, make_node, make_pod


def node(name: str, **labels: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="4", pods=10).labels(labels)


def select(cluster: Cluster, nominated: str = "") -> Selection:
    asks = make_pod("asks").uid("asks").spec(schedulerName=PROFILE).nominated(nominated).obj()
    return cluster.core.placers.selector.select(cluster.core.profiles[PROFILE], CycleState(), asks)


def names(cluster: Cluster, rows: Any) -> list[str]:
    return sorted(cluster.cache.nodes.names[row] or "" for row in rows)


def test_all_nodes_with_the_highest_total_are_equally_good() -> None:
    class ByLabel(scripted("ByLabel", score=0)):  # type: ignore[misc]
        def score(self, state: Any, pod: Any, node: Any) -> int:
            return int(node.labels["s"])

    cluster = Cluster(ByLabel, bare=True)
    cluster.add(node("c", s="5"), node("a", s="1"), node("b", s="5"))
    chosen = select(cluster)
    assert chosen.best is not None
    assert names(cluster, chosen.best.rows) == ["b", "c"]
    assert chosen.node_name == "b"
    assert chosen.fit is not None
    assert (chosen.fit.evaluated, chosen.fit.count) == (3, 3)


def test_without_score_plugins_all_nodes_are_equally_good() -> None:
    cluster = Cluster(bare=True)
    cluster.add(node("b"), node("a"))
    chosen = select(cluster)
    assert chosen.best is not None
    assert names(cluster, chosen.best.rows) == ["a", "b"]


def test_a_tie_is_broken_by_name_or_by_chance() -> None:
    nodes = table_of(node("b"), node("a"), node("c"))
    assert NameOrder()(nodes, Ties(np.array([0, 1, 2]))) == nodes.row("a")
    counts = Counter(pick_at_random(nodes, Ties(np.array([0, 2]))) for _ in range(400))
    assert set(counts) == {0, 2}
    assert min(counts.values()) > 100


def test_no_nodes_are_no_reason_to_ask_anybody() -> None:
    chosen = select(Cluster(scripted("Never", pre_filter=RuntimeError("asked"))))
    assert chosen.node_name == ""
    assert chosen.diagnosis is None
    assert chosen.rejection == Status.unresolvable("no nodes available to schedule pods")


@pytest.mark.parametrize(
    ("settings", "looked_at"),
    [
        pytest.param({}, 150, id="not set: all"),
        pytest.param({"percentageOfNodesToScore": 0}, 150, id="0: all"),
        pytest.param({"percentageOfNodesToScore": 10}, 100, id="at least a hundred"),
        pytest.param({"percentageOfNodesToScore": 80}, 120, id="a part"),
    ],
)
def test_a_percentage_limits_the_search(settings: dict[str, Any], looked_at: int) -> None:
    cluster = Cluster(bare=True, **settings)
    cluster.add(*(node(f"n{i:03}") for i in range(150)))
    fit = select(cluster).fit
    assert fit is not None
    assert (fit.evaluated, fit.count) == (looked_at, looked_at)


def test_the_percentage_of_a_profile_goes_before_that_of_the_configuration() -> None:
    profile = only("PrioritySort", "DefaultBinder") | {"percentageOfNodesToScore": 80}
    cluster = Cluster(profiles=[profile], percentageOfNodesToScore=10)
    cluster.add(*(node(f"n{i:03}") for i in range(150)))
    fit = select(cluster).fit
    assert fit is not None
    assert fit.evaluated == 120


def test_searches_of_all_pods_take_turns_over_the_nodes() -> None:
    cluster = Cluster(bare=True, percentageOfNodesToScore=10)
    cluster.add(*(node(f"n{i:03}") for i in range(300)))
    firsts = [select(cluster).node_name for _ in range(4)]
    assert firsts == ["n000", "n100", "n200", "n000"]


class Choosy(Extenders):
    """Extenders that keep only some nodes, and give scores."""

    def __init__(self, *keep: str, scores: dict[str, int] | None = None) -> None:
        super().__init__()
        self.keep = keep
        self.scores = scores or {}
        self.broken = False
        self.asked: list[list[str]] = []

    def __bool__(self) -> bool:
        return True

    def filter(self, pod: Any, nodes: Any, fit: Any) -> dict[int, Status]:
        rows = np.flatnonzero(fit.feasible).tolist()
        self.asked.append(sorted(nodes.names[row] for row in rows))
        if self.broken:
            self.broken = False
            raise AttemptFault(None, "Mine", RuntimeError("extender is down"))
        kept = [row for row in rows if nodes.names[row] in self.keep]
        fit.feasible = np.zeros(len(nodes), np.bool_)
        fit.feasible[kept] = True
        fit.count = len(kept)
        no = Status.unschedulable("not this one").by("Extender")
        return {row: no for row in rows if row not in kept}

    def add_scores(self, pod: Any, nodes: Any, fit: Any, totals: Any) -> Any:
        totals = totals.copy()
        for name, score in self.scores.items():
            totals[nodes.row(name)] += score
        return totals


def test_extenders_are_asked_about_the_nodes_that_are_left() -> None:
    extenders = Choosy("a", "b", scores={"b": 10})
    cluster = Cluster(extenders=extenders)
    cluster.add(node("a"), node("b"), node("c"), node("full").unschedulable())
    assert select(cluster).node_name == "b"
    assert extenders.asked == [["a", "b", "c"]]


def test_what_extenders_reject_is_told_with_what_plugins_reject() -> None:
    cluster = Cluster(extenders=Choosy())
    cluster.add(node("a"), node("b").unschedulable(), make_pod("p"))
    cluster.run()
    assert cluster.verdict[1].startswith(
        "0/2 nodes are available: 1 node(s) were unschedulable, 1 not this one."
    )
    (pod,) = (queued for part in cluster.queue.pending_pods().values() for queued in part)
    assert pod.rejectors == {"Extender", "NodeUnschedulable"}


@pytest.mark.parametrize(
    ("keep", "broken", "chosen", "asked"),
    [
        pytest.param(["b"], False, "b", [["b"]], id="they agree"),
        pytest.param(["a"], False, "a", [["b"], ["a", "b"]], id="they want another one"),
        pytest.param(["a", "b"], True, "a", [["b"], ["a", "b"]], id="they break"),
    ],
)
def test_extenders_have_a_say_about_a_nominated_node(
    keep: list[str], broken: bool, chosen: str, asked: list[list[str]]
) -> None:
    extenders = Choosy(*keep)
    extenders.broken = broken
    cluster = Cluster(extenders=extenders)
    cluster.add(node("a"), node("b"))
    assert select(cluster, nominated="b").node_name == chosen
    assert extenders.asked == asked


def test_a_nominated_node_needs_no_extender() -> None:
    cluster = Cluster()
    cluster.add(node("a"), node("b"))
    assert select(cluster, nominated="b").node_name == "b"


def test_at_log_level_ten_every_score_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(scripted("A", score=3), scripted("B", score=4), bare=True)
    cluster.add(node("x"), node("y"))
    monkeypatch.setattr(selection, "log", structlog.get_logger())
    with structlog.testing.capture_logs() as quiet:
        select(cluster)
    assert quiet == []
    monkeypatch.setattr(logs, "_level", 10)
    with structlog.testing.capture_logs() as lines:
        select(cluster)
    told = [(x["event"].split()[0], x.get("plugin"), x["node"], x["score"]) for x in lines]
    assert told == [
        ("Plugin", "A", "x", 3),
        ("Plugin", "A", "y", 3),
        ("Plugin", "B", "x", 4),
        ("Plugin", "B", "y", 4),
        ("Calculated", None, "x", 7),
        ("Calculated", None, "y", 7),
    ]
    assert {line["v"] for line in lines} == {10}
    assert {line["pod"] for line in lines} == {"default/asks"}

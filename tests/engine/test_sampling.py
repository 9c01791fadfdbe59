"""percentageOfNodesToScore: how many nodes are looked at, and which."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.harness import table_of

from bayplan.cache.node_table import LiveNodeTable
from bayplan.engine.sampling import NodeSampler, nodes_to_find, zone_interleaved
from bayplan.testing import make_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("percentage", "nodes", "wanted"),
    [
        pytest.param(5, 99, 99, id="below a hundred: all"),
        pytest.param(5, 100, 100, id="a hundred"),
        pytest.param(5, 1000, 100, id="at least a hundred"),
        pytest.param(30, 1000, 300, id="a part"),
        pytest.param(33, 1001, 330, id="rounded down"),
        pytest.param(100, 5000, 5000, id="all"),
        pytest.param(5, 0, 0, id="none"),
    ],
)
def test_how_many_feasible_nodes_are_enough(percentage: int, nodes: int, wanted: int) -> None:
    assert nodes_to_find(percentage, nodes) == wanted


def names(nodes: LiveNodeTable, rows: np.ndarray) -> list[str]:
    return [nodes.names[row] or "" for row in rows]


def test_nodes_are_taken_from_one_zone_after_the_other() -> None:
    nodes = table_of(
        make_node("a1").label(ZONE, "a"),
        make_node("a2").label(ZONE, "a"),
        make_node("a3").label(ZONE, "a"),
        make_node("b1").label(ZONE, "b"),
        make_node("other").label(ZONE, "a").label(REGION, "r"),
        make_node("none"),
        make_node("old").label(ZONE, "b").label(OLD_ZONE, "a"),
    )
    nodes.remove_node("a2")
    assert names(nodes, zone_interleaved(nodes)) == ["a1", "b1", "other", "none", "a3", "old"]


def test_without_nodes_there_is_no_order() -> None:
    nodes = LiveNodeTable()
    feasible, looked_at = NodeSampler(nodes).restrict(np.zeros(0, np.bool_), 50)
    assert (feasible.tolist(), looked_at) == ([], 0)


def sampler_of(count: int) -> tuple[LiveNodeTable, NodeSampler]:
    nodes = table_of(*(make_node(f"n{i}") for i in range(count)))
    return nodes, NodeSampler(nodes)


def test_each_search_begins_where_the_last_one_ended() -> None:
    nodes, sampler = sampler_of(250)
    all_of_them = nodes.exists.copy()
    rows = []
    for _ in range(3):
        feasible, looked_at = sampler.restrict(all_of_them, 10)
        assert looked_at == 100
        rows.append(np.flatnonzero(feasible).tolist())
    assert rows[0] == list(range(100))
    assert rows[1] == list(range(100, 200))
    assert rows[2] == [*range(50), *range(200, 250)]
    assert all_of_them[:250].all(), "what was handed in is not changed"


def test_nodes_that_do_not_fit_are_looked_at_and_do_not_count() -> None:
    nodes, sampler = sampler_of(400)
    feasible = nodes.exists.copy()
    feasible[:400:2] = False
    found, looked_at = sampler.restrict(feasible, 25)
    assert looked_at == 200
    assert np.flatnonzero(found).tolist() == list(range(1, 200, 2))
    found, looked_at = sampler.restrict(feasible, 25)
    assert np.flatnonzero(found).tolist() == list(range(201, 400, 2))


def test_too_few_feasible_nodes_are_all_found() -> None:
    nodes, sampler = sampler_of(400)
    feasible = np.zeros(len(nodes), np.bool_)
    feasible[[3, 77, 399]] = True
    found, looked_at = sampler.restrict(feasible, 25)
    assert looked_at == 400
    assert np.flatnonzero(found).tolist() == [3, 77, 399]


def test_the_order_follows_nodes_that_come_and_go() -> None:
    nodes, sampler = sampler_of(150)
    sampler.restrict(nodes.exists, 10)
    for i in range(100, 150):
        nodes.remove_node(f"n{i}")
    nodes.set_node(make_node("new").obj())
    found, looked_at = sampler.restrict(nodes.exists, 10)
    assert looked_at == 100
    assert nodes.row("new") in np.flatnonzero(found)


def test_the_percentage_is_of_the_nodes_that_pre_filter_left() -> None:
    nodes, sampler = sampler_of(1000)
    among = nodes.exists.copy()
    among[400:] = False
    found, looked_at = sampler.restrict(nodes.exists & among, 50, among)
    assert looked_at == 200
    assert np.flatnonzero(found).tolist() == list(range(200))
    found, _ = sampler.restrict(nodes.exists & among, 50, among)
    assert np.flatnonzero(found).tolist() == list(range(200, 400))

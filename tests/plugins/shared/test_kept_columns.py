"""What a plugin keeps of the node table equals what one computes that has seen nothing before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.harness import make, scored, table_of

from bayplan.cache.node_table import LiveNodeTable
from bayplan.framework.interface import Plugin
from bayplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.testing import make_node, make_pod

CPU_AND_GPU = [{"name": "cpu", "weight": 2}, {"name": "nvidia.com/gpu", "weight": 3}]
NODES = 100
RATIO = {
    "requestedToCapacityRatio": {
        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    }
}


def strategy(kind: str, **more: Any) -> dict[str, Any]:
    return {"scoringStrategy": {"type": kind, "resources": CPU_AND_GPU} | more}


PLUGINS = [
    pytest.param(NodeResourcesFit, {}, id="least"),
    pytest.param(NodeResourcesFit, strategy("MostAllocated"), id="most"),
    pytest.param(NodeResourcesFit, strategy("RequestedToCapacityRatio", **RATIO), id="ratio"),
    pytest.param(NodeResourcesBalancedAllocation, {}, id="balance"),
    pytest.param(
        NodeResourcesBalancedAllocation,
        {"resources": [{"name": n, "weight": 1} for n in ("cpu", "memory", "nvidia.com/gpu")]},
        id="balance-of-three",
    ),
]
WANTS = make_pod("wants").req({"nvidia.com/gpu": 1}, cpu="300m", memory="700Mi").obj()


@pytest.mark.parametrize(
    ("kind", "more"),
    [("LeastAllocated", {}), ("MostAllocated", {}), ("RequestedToCapacityRatio", RATIO)],
    ids=["least", "most", "ratio"],
)
def test_a_pod_that_requests_nothing_that_counts_scores_zero(
    kind: str, more: dict[str, Any]
) -> None:
    args = strategy(kind, resources=CPU_AND_GPU[1:], **more)
    nodes = table_of(make_node("n").capacity({"nvidia.com/gpu": 4}, cpu=4, pods=9))
    pod = make_pod("plain").req(cpu="1").obj()
    assert scored(make(NodeResourcesFit, **args), pod, nodes) == {"n": 0}


def filled(nodes: LiveNodeTable, rows: range) -> None:
    for row in rows:
        amounts = {"cpu": f"{100 + 17 * row}m", "memory": f"{50 * row + 1}Mi"}
        nodes.add_pod(row, make_pod(f"on-{row}").uid(f"uid-{row}").req(amounts).obj())


@pytest.mark.parametrize(("kind", "args"), PLUGINS)
@pytest.mark.parametrize("changed", [0, 1, 2, 5, 60], ids=lambda n: f"{n}-rows")
def test_scores_follow_pods_that_come_to_any_number_of_nodes(
    kind: type[Plugin], args: dict[str, Any], changed: int
) -> None:
    gpus = {"nvidia.com/gpu": 4}
    nodes = table_of(
        *(make_node(f"n{i}").capacity(gpus, cpu=4, memory="8Gi", pods=9) for i in range(NODES))
    )
    plugin = make(kind, **args)
    before = scored(plugin, WANTS, nodes)
    filled(nodes, range(changed))
    after = scored(plugin, WANTS, nodes)
    assert after == scored(make(kind, **args), WANTS, nodes)
    assert (after == before) is (changed == 0)


@pytest.mark.parametrize(("kind", "args"), PLUGINS)
def test_scores_follow_nodes_that_change_and_nodes_that_come(
    kind: type[Plugin], args: dict[str, Any]
) -> None:
    gpus = {"nvidia.com/gpu": 4}
    nodes = table_of(make_node("old").capacity(gpus, cpu=4, memory="8Gi", pods=9))
    filled(nodes, range(1))
    plugin = make(kind, **args)
    scored(plugin, WANTS, nodes)
    nodes.set_node(make_node("old").capacity(cpu=1, memory="9Gi", pods=9).obj())
    assert scored(plugin, WANTS, nodes) == scored(make(kind, **args), WANTS, nodes)
    for i in range(NODES):
        nodes.set_node(make_node(f"new-{i}").capacity(gpus, cpu=8, memory="8Gi", pods=9).obj())
    assert scored(plugin, WANTS, nodes) == scored(make(kind, **args), WANTS, nodes)
    other = table_of(make_node("other").capacity(gpus, cpu=2, memory="1Gi", pods=9))
    assert scored(plugin, WANTS, other) == scored(make(kind, **args), WANTS, other)


@pytest.mark.parametrize(("kind", "args"), PLUGINS)
def test_what_if_tables_have_their_own_pods(kind: type[Plugin], args: dict[str, Any]) -> None:
    gpus = {"nvidia.com/gpu": 4}
    offers = [{"cpu": 4}, {"cpu": 6, **gpus}, {"cpu": 2, **gpus}, {}]
    nodes = table_of(
        *(make_node(f"n{i}").capacity(offers[i % 4], memory="8Gi", pods=9) for i in range(NODES))
    )
    filled(nodes, range(50))
    plugin = make(kind, **args)
    rows = np.array([7, 1, 99, 2])
    for _ in range(2):  # before the columns are kept, and with them
        table = nodes.take(rows)
        table.add_pods([0, 2], [WANTS, WANTS])
        narrow = table.take(np.array([2, 0]))
        for what_if in (table, narrow):
            fresh = scored(make(kind, **args), WANTS, what_if)
            assert scored(plugin, WANTS, what_if) == fresh
        scored(plugin, WANTS, nodes)
    nodes.set_node(make_node("n7").capacity(cpu=1, memory="1Gi", pods=9).obj())
    table = nodes.take(rows)
    assert scored(plugin, WANTS, table) == scored(make(kind, **args), WANTS, table)

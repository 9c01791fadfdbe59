"""DomainCost beside a judge: the formula of the docs on exact numbers, node by node."""

from __future__ import annotations

import random
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from tests.core_harness import profile
from tests.plugins.harness import PluginWorld, make

from bayplan.cache.node_table import IntArray
from bayplan.config import ConfigError
from bayplan.explain.explanation import explain
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.domain_cost import HOURLY_PRICE, DomainCost
from bayplan.testing import Cluster, NodeBuilder, PodBuilder, make_node, make_pod

WRONG = ("-1", "cheap", "nan", "inf", "", "0.2 EUR")


def node(name: str, price: str | None = None, cpu: int = 8, memory: int = 32) -> NodeBuilder:
    built = make_node(name).capacity(cpu=str(cpu), memory=f"{memory}Gi", pods="110")
    return built if price is None else built.annotation(HOURLY_PRICE, price)


def scores(world: PluginWorld, plugin: DomainCost, pod: PodBuilder) -> dict[str, int]:
    """Normalized, all nodes feasible."""
    plugin.epoch(pod.obj())
    raw = plugin.score_nodes(CycleState(), pod.obj(), world.nodes)
    exists = world.nodes.exists
    scaled = plugin.normalizer(raw, plugin.normalizer.measure(raw, exists))
    return {info.name: int(scaled[info.row]) for info in world.nodes}


@pytest.mark.parametrize("seed", range(60))
def test_scores_are_those_of_the_judge(seed: int) -> None:
    dice = random.Random(seed)
    default = dice.choice([None, None, 0.25])
    significant = dice.choice([0.01, 0.5])
    cpu, memory = dice.randint(0, 4), dice.randint(0, 8)
    world, sites = PluginWorld(), {}
    for i in range(dice.randint(1, 9)):
        price = dice.choice([*(f"0.{dice.randint(0, 99):02}" for _ in range(6)), None, *WRONG[:2]])
        has = dice.choice([4, 8, 16]), dice.choice([8, 32])
        world.add(node(f"n{i}", price, *has))
        sites[f"n{i}"] = (price, *has)
    plugin = make(DomainCost, world.handle, significant=significant, price={"default": default})
    known = [Fraction(p) for p, _, _ in sites.values() if p is not None and p not in WRONG]
    instead = max(known, default=Fraction(0)) if default is None else Fraction(str(default))
    cost = {}
    for name, (price, cpus, gigabytes) in sites.items():
        of_node = instead if price is None or price in WRONG else Fraction(price)
        cost[name] = of_node * max(Fraction(cpu, cpus), Fraction(memory, gigabytes))
    least = min(cost.values())
    spread = max(max(cost.values()) - least, Fraction(str(significant)))
    expected = {name: 100 * (1 - (c - least) / spread) for name, c in cost.items()}
    given = scores(world, plugin, make_pod("p").req(cpu=cpu, memory=f"{memory}Gi"))
    for name, exact in expected.items():
        # Costs are rounded to a ten-millionth of what is significant before they are scaled.
        near = {floor(exact - Fraction(1, 10**4)), floor(exact), floor(exact + Fraction(1, 10**4))}
        assert given[name] in near
        assert 0 <= given[name] <= 100
    assert given[min(cost, key=lambda name: cost[name])] == 100


@pytest.mark.parametrize("dtype", [np.int64, np.uint32])
def test_only_feasible_nodes_are_compared(dtype: type) -> None:
    scores: IntArray = np.array([5, 2**28, 2**29, 2**31], dtype)
    feasible = np.array([False, True, True, False])
    assert DomainCost.normalizer.measure(scores, feasible) == (2**28, 2**28)


@pytest.mark.parametrize("price", WRONG)
def test_a_node_does_not_win_by_a_price_that_is_none(price: str) -> None:
    world = PluginWorld(node("dear", "0.8"), node("cheap", "0.4"), node("wrong", price))
    plugin = make(DomainCost, world.handle)
    assert scores(world, plugin, make_pod("p").req(cpu=8)) == {"dear": 0, "cheap": 100, "wrong": 0}


def test_without_prices_all_are_equal() -> None:
    world = PluginWorld(node("a"), node("b", cpu=4))
    plugin = make(DomainCost, world.handle)
    assert scores(world, plugin, make_pod("p").req(cpu=2)) == {"a": 100, "b": 100}


def test_the_finest_domain_with_a_price_counts() -> None:
    world = PluginWorld(
        node("a").label("region", "eu").label("zone", "eu-a"),
        node("b").label("region", "eu").label("zone", "eu-b"),
        node("c").label("zone", "eu-b"),
    )
    prices = {"perDomain": {"eu": 0.5, "eu-a": 0.1}}
    plugin = make(DomainCost, world.handle, topologyKeys=["region", "zone"], price=prices)
    assert scores(world, plugin, make_pod("p").req(cpu=8)) == {"a": 100, "b": 0, "c": 0}


def test_kept_scores_follow_prices_and_nodes() -> None:
    chosen = profile("NodeResourcesFit", "DomainCost", bare=True)
    cluster = Cluster(config={"profiles": [chosen]})
    cluster.add(node("a", "0.1"), node("b", "0.2"), node("c"))

    def place(name: str) -> str:
        cluster.add(make_pod(name).req(cpu="500m"))
        cluster.run()
        return cluster.node_of(name)

    assert place("first") == "a"
    cluster.add(node("a", "0.9"))
    assert place("second") == "b"
    cluster.add(node("c", "0.05"))
    assert place("third") == "c"


def test_what_if_tables_are_scored_like_the_live_one() -> None:
    world = PluginWorld(node("a", "0.1"), node("b"), node("c", "0.3"))
    plugin, pod = make(DomainCost, world.handle), make_pod("p").req(cpu=2).obj()
    plugin.epoch(pod)
    rows = np.array([2, 1])
    raw = plugin.score_nodes(CycleState(), pod, world.nodes)
    taken = plugin.score_nodes(CycleState(), pod, world.nodes.take(rows))
    assert taken.tolist() == raw[rows].tolist()


def test_explain_has_the_figures() -> None:
    score = {"enabled": [{"name": "DomainCost", "weight": 10}]}
    config = {"profiles": [{"schedulerName": "bayplan", "plugins": {"score": score}}]}
    cluster = Cluster(config=config)
    cluster.add(node("a", "0.384"), node("b", "x"))
    pod = make_pod("p").req(cpu=2)
    cluster.add(pod)
    details = explain(cluster.framework, cluster.core.placers, pod.obj(), details=True)["details"]
    remark = " (its price is not known, the highest price counts)"
    assert sorted(details) == [
        "cost on a: 0.0960 an hour, 25.0% of 0.384",
        f"cost on b: 0.0960 an hour, 25.0% of 0.384{remark}",
    ]


@pytest.mark.parametrize(
    ("args", "where", "problem"),
    [
        ({"price": {"label": "a", "annotation": "b"}}, "price", "must name one of"),
        ({"price": {"perDomain": {"a": -1}}}, "price.perDomain[a]", "at least 0"),
        ({"price": {"default": -1}}, "price.default", "at least 0"),
        ({"topologyKeys": []}, "topologyKeys", "at least one label"),
        ({"significant": 0}, "significant", "at least 1e-9"),
    ],
)
def test_args_that_cannot_be_are_named(args: dict[str, Any], where: str, problem: str) -> None:
    chosen = profile("NodeResourcesFit", "DomainCost", bare=True, args={"DomainCost": args})
    with pytest.raises(ConfigError) as caught:
        Cluster(config={"profiles": [chosen]})
    assert f"args.{where}: " in str(caught.value)
    assert problem in str(caught.value)

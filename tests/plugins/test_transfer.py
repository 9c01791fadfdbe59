"""Traffic: its cost beside a judge pair by pair, and plans of groups beside the best there is."""

from __future__ import annotations

import random
from itertools import product
from statistics import mean
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.groups import members, pod_group
from tests.properties import FACTOR, length

from bayplan.config import ConfigError
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.blast_radius.rules import SURVIVE
from bayplan.plugins.domain_cost import HOURLY_PRICE, DomainCost
from bayplan.plugins.domain_cost.transfer import TALKS_TO
from bayplan.testing import PROFILE, NodeBuilder, PodBuilder, make_node, make_pod

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
SITES = [("r1", "a"), ("r1", "b"), ("r2", "c"), ("r2", ""), ("", "")]
PRICES = {"sameFinest": 0.001, "sameCoarsest": 0.02, "other": 0.08}
MATRIX = [{"from": "a", "to": "c", "cost": 0.05}]


def node(name: str, region: str, zone: str, price: float = 0.0, pods: int = 110) -> NodeBuilder:
    made = make_node(name).capacity(cpu="8", memory="32Gi", pods=pods)
    made = made.annotation(HOURLY_PRICE, str(price))
    for key, value in ((REGION, region), (ZONE, zone)):
        made = made.label(key, value) if value else made
    return made


def talks(pod: PodBuilder, **gb: float) -> PodBuilder:
    """The Pod talks to Pods by their label ``app``."""
    peers = [{"selector": {"matchLabels": {"app": a}}, "gbPerHour": g} for a, g in gb.items()]
    return pod.annotation(TALKS_TO, msgspec.json.encode(peers).decode())


def with_plugins(*names: str, **args: Any) -> Cluster:
    made = profile("DomainCost", *names, args={"DomainCost": args})
    made["plugins"]["multiPoint"]["enabled"][0]["weight"] = 100
    if "Coscheduling" in names:
        made["plugins"]["multiPoint"]["disabled"] = [{"name": "PrioritySort"}]
    cluster = Cluster(profiles=[made])
    cluster.writer.on_bound = cluster._show_bound
    return cluster


def plugin_of(cluster: Cluster) -> DomainCost:
    return next(p for p in cluster.framework.plugins.all if isinstance(p, DomainCost))


def gb_price(one: tuple[str, str], other: tuple[str, str]) -> float:
    if {one[1], other[1]} == {"a", "c"}:
        return 0.05
    if not all((*one, *other)):
        return 0.08
    return 0.001 if one == other else 0.02 if one[0] == other[0] else 0.08


@given(data=st.data())
@length(50)
def test_traffic_costs_what_the_judge_says(data: st.DataObject) -> None:
    cluster = with_plugins(transfer={**PRICES, "matrix": MATRIX})
    cluster.add(*(node(f"n{i}", *site) for i, site in enumerate(SITES)))
    apps = st.sampled_from("xyz")
    gb = st.dictionaries(apps, st.integers(1, 20).map(float), max_size=2)
    placed: list[tuple[str, dict[str, float], int]] = []
    for i in range(data.draw(st.integers(0, 6))):
        app, said, at = data.draw(apps), data.draw(gb), data.draw(st.integers(0, 4))
        pod = talks(make_pod(f"p{i}").label("app", app), **said).spec(nodeName=f"n{at}")
        cluster.add(pod)
        placed.append((app, said, at))
        if data.draw(st.booleans()):
            cluster.remove(pod)
            placed.pop()
    app, said = data.draw(apps), data.draw(gb)
    costs = plugin_of(cluster).costs(talks(make_pod("new").label("app", app), **said).obj())
    for i, site in enumerate(SITES):
        expected = 0.0
        for to, amount in said.items():
            there = [at for other, _, at in placed if other == to]
            expected += sum(amount / len(there) * gb_price(site, SITES[at]) for at in there)
        for _, its, at in placed:
            if app in its:
                share = its[app] / (1 + sum(other == app for other, _, _ in placed))
                expected += share * gb_price(site, SITES[at])
        row = cluster.cache.nodes.row(f"n{i}")
        assert costs[row] == pytest.approx(expected)
    assert cluster.framework.services.recounts["DomainCost"]() == {}


def test_an_annotation_that_changes_counts_from_then_on() -> None:
    cluster = with_plugins(transfer={})
    cluster.add(node("far", "r1", "a"), node("near", "r1", "b"))
    pod = talks(make_pod("db").label("app", "db"), web=1).spec(nodeName="near")
    cluster.add(pod)
    web = make_pod("web").label("app", "web").obj()
    for gb, dear in ((1, 0.02), (3, 0.06), (0, 0.0)):
        cluster.add(talks(pod, web=gb))
        costs = plugin_of(cluster).costs(web)
        assert costs[cluster.cache.nodes.row("far")] == pytest.approx(dear)
        assert cluster.framework.services.recounts["DomainCost"]() == {}


def test_a_pod_goes_to_whom_it_talks() -> None:
    cluster = with_plugins(transfer={})
    cluster.add(node("far", "r1", "a", 0.01), node("near", "r1", "b", 0.02))
    cluster.add(make_pod("db").label("app", "db").spec(nodeName="near"))
    pod = talks(make_pod("web").label("app", "web").req(cpu="1"), db=12)
    cluster.add(pod)
    cluster.run()
    assert cluster.node_of(pod) == "near"


def test_a_wrong_annotation_is_counted_and_ignored() -> None:
    cluster = with_plugins(transfer={})
    cluster.add(node("n", "r1", "a"))
    for i, text in enumerate(("many", '[{"gbPerHour": -1, "selector": {}}]', '[{"to": 1}]')):
        cluster.add(make_pod(f"p{i}").annotation(TALKS_TO, text))
    cluster.run()
    assert len(cluster.cache.pods()) == 3


@pytest.mark.parametrize(
    ("transfer", "field"),
    [
        ({"other": -1}, "transfer.other"),
        ({"matrix": [{"from": "a", "cost": 1}]}, r"transfer.matrix\[0\]"),
        ({"matrix": [{"from": "a", "to": "b", "cost": -1}]}, r"transfer.matrix\[0\].cost"),
    ],
)
def test_wrong_prices_are_named(transfer: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        with_plugins(transfer=transfer)


# Plans


CASES = 40 * FACTOR
PODS, NODES = 6, 6
CAP, ROOM = 3, 2
"""Most Pods in a zone, and on a node."""


def plan_over_optimum(seed: int, *, improves: bool = True) -> float:
    """What the plan of a random group costs, by the best of all 46,656 arrangements."""
    dice = random.Random(seed)
    prices = [round(dice.uniform(0.5, 12), 2) for _ in range(NODES)]
    gb = {(i, j): dice.randint(1, 20) for i in range(PODS) for j in range(PODS) if i != j}
    gb = {pair: amount for pair, amount in gb.items() if dice.random() < 0.3}
    zones = "aabbcc"
    cluster = with_plugins("Coscheduling", "BlastRadius", transfer={})
    if not improves:
        cluster.framework.services.objective = None
    cluster.add(*(node(f"n{i}", "r", z, prices[i], ROOM) for i, z in enumerate(zones)))
    survive = msgspec.json.encode({"domain": ZONE, "keep": PODS - CAP}).decode()
    cluster.add(pod_group("g", {SURVIVE: survive}, minMember=PODS))
    pods = []
    for i, pod in enumerate(members("g", PODS)):
        to = {str(j): float(amount) for (from_, j), amount in gb.items() if from_ == i}
        pods.append(talks(pod.label("app", str(i)), **to))
    cluster.add(*pods)
    cluster.run()
    chosen = [int(cluster.node_of(pod).removeprefix("n")) for pod in pods]
    every = np.array(list(product(range(NODES), repeat=PODS)))
    zone = every // 2
    cost = (np.array(prices)[every] / 8).sum(axis=1)
    for (i, j), amount in gb.items():
        cost += amount * 0.02 * (zone[:, i] != zone[:, j])
    allowed = np.all([(zone == z).sum(axis=1) <= CAP for z in range(3)], axis=0)
    allowed &= np.all([(every == n).sum(axis=1) <= ROOM for n in range(NODES)], axis=0)
    at = int((every == chosen).all(axis=1).argmax())
    assert allowed[at]
    return float(cost[at] / cost[allowed].min())


def test_plans_of_groups_are_near_the_best_there_is() -> None:
    assert mean(plan_over_optimum(seed) for seed in range(CASES)) <= 1.06


def test_kept_scores_of_pods_that_talk_to_nobody_follow_nodes_that_fill_up() -> None:
    nodes = [node(f"n{i}", *SITES[0], price=9 - i, pods=1 + i % 4) for i in range(6)]
    placed = [make_pod(f"p{i}").req(cpu="1").node(f"n{n}") for i, n in enumerate((5, 0, 4, 1, 1))]
    kept = with_plugins(transfer={})
    kept.add(*nodes)
    for count in range(len(placed) + 1):
        fresh = with_plugins(transfer={})
        fresh.add(*nodes, *placed[:count])
        assert totals(kept) == totals(fresh)
        kept.add(*placed[count : count + 1])


def totals(cluster: Cluster) -> dict[str, int]:
    """The total of every feasible node."""
    search, state = cluster.framework.search, CycleState()
    pod = make_pod("asks").req(cpu="1").spec(schedulerName=PROFILE).obj()
    fit = search.find(state, pod)
    scores = search.score(state, pod, fit)
    return {i.name: int(scores[i.row]) for i in cluster.cache.nodes if fit.feasible[i.row]}

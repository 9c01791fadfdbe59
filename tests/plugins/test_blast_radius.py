"""BlastRadius beside a judge that loses every combination of domains."""

from __future__ import annotations

import random
from itertools import combinations, product
from math import ceil

import msgspec
import pytest
from tests.core_harness import profile
from tests.plugins.harness import PluginWorld, make

from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Code
from bayplan.plugins.blast_radius import BlastRadius
from bayplan.plugins.blast_radius.rules import SURVIVE
from bayplan.testing import Cluster, NodeBuilder, PodBuilder, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def pod(name: str, **rule: object) -> PodBuilder:
    text = msgspec.json.encode({"domain": ZONE, **rule}).decode()
    return make_pod(name).label("app", "web").annotation(SURVIVE, text)


def node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).label(ZONE, zone).capacity(cpu="8", memory="32Gi", pods="110")


def at_worst(counts: list[int], lose: int) -> int:
    every = combinations(counts, min(lose, len(counts)))
    return max((sum(lost) for lost in every), default=0)


@pytest.mark.parametrize("seed", range(120))
def test_a_node_is_feasible_exactly_where_enough_pods_survive(seed: int) -> None:
    dice = random.Random(seed)
    zones, lose, size = dice.randint(1, 5), dice.randint(1, 3), dice.randint(1, 9)
    percent = dice.randint(0, 100)
    soft = dice.random() < 0.3
    need = ceil(percent * size / 100)
    world = PluginWorld(*(node(f"n{z}", f"z{z}") for z in range(zones)), "nowhere")
    counts = [dice.randint(0, 3) for _ in range(zones)]
    counts[0] = max(counts[0], 1)  # an impossible rule is not refused then
    for zone, count in enumerate(counts):
        for i in range(count):
            world.place(
                make_pod(f"p{zone}-{i}").label("app", "web").label("pod-template-hash", str(i)),
                f"n{zone}",
            )
        world.place(make_pod(f"other-{zone}").label("app", "db"), f"n{zone}")
        world.place(make_pod(f"gone-{zone}").label("app", "web").terminating(), f"n{zone}")
    plugin, state = make(BlastRadius, world.handle), CycleState()
    mode = "soft" if soft else "hard"
    new = pod("new", size=size, keep=f"{percent}%", lose=lose, mode=mode).obj()
    lost = []
    for zone in range(zones):
        after = [count + (z == zone) for z, count in enumerate(counts)]
        # The sets of lost domains that the Pod's own domain belongs to.
        others = [count for z, count in enumerate(counts) if z != zone]
        lost.append(after[zone] + at_worst(others, lose - 1))
    if soft:
        plugin.pre_score(state, new, world.nodes, world.nodes.exists)
        scores = plugin.score_nodes(state, new, world.nodes)
        for zone in range(zones):
            over = min(max(0, lost[zone] - (size - need)), size)
            assert scores[world.row(f"n{zone}")] == 100 * (size - over) // size
        assert scores[world.row("nowhere")] == 0
        return
    assert plugin.pre_filter(state, new, world.nodes) is None
    codes = plugin.filter_nodes(state, new, world.nodes)
    for zone in range(zones):
        assert (codes[world.row(f"n{zone}")] == 0) == (lost[zone] <= size - need)
    assert plugin.reasons(state, new, int(codes[world.row("nowhere")])).code is (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    )


@pytest.mark.parametrize("zones", range(1, 5))
@pytest.mark.parametrize("lose", range(1, 4))
def test_a_rule_is_refused_exactly_where_no_arrangement_keeps_it(zones: int, lose: int) -> None:
    world = PluginWorld(*(node(f"n{z}", f"z{z}") for z in range(zones)))
    plugin = make(BlastRadius, world.handle)
    for size in range(1, 6):
        for keep in range(size + 1):
            new = pod("new", size=size, keep=keep, lose=lose).obj()
            status = plugin.pre_filter(CycleState(), new, world.nodes)
            possible = any(
                sum(counts) == size and at_worst(list(counts), lose) <= size - keep
                for counts in product(range(size + 1), repeat=zones)
            )
            assert (status is None) == possible, (size, keep, status)


def with_plugin() -> Cluster:
    cluster = Cluster(config={"profiles": [profile("BlastRadius")]})
    cluster.add(*(node(f"n-{zone}", zone) for zone in "abc"))
    return cluster


def test_pods_wait_where_the_loss_of_a_zone_would_take_too_many() -> None:
    cluster = with_plugin()
    pods = [pod(f"p{i}", size=6, keep="60%").req(cpu="1") for i in range(7)]
    cluster.add(*pods)
    cluster.run()
    nodes = [cluster.node_of(p) for p in pods]
    assert sorted(nodes) == ["", *(f"n-{zone}" for zone in "aabbcc")]
    waiting = pods[nodes.index("")]
    assert "as many Pods as may be lost" in cluster.message(waiting)
    cluster.remove(pods[0 if nodes[0] else 1])
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(waiting)


def test_an_impossible_rule_and_a_wrong_one_are_named() -> None:
    cluster = with_plugin()
    impossible, wrong = pod("impossible", size=10, keep="80%"), pod("wrong", size=3, keep="most")
    cluster.add(impossible, wrong)
    cluster.run()
    assert "8 must survive the loss of 1: 4 can never be placed" in cluster.message(impossible)
    assert "keep must be a number or a percentage" in cluster.message(wrong)

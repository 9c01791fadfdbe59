"""Outcomes that are kept are those that a fresh dry run would find."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.preemption.world import World, as_preemptor, candidates, node, preemptor, victim

from bayplan.api.pod import Pod
from bayplan.framework import Depends, Plugin, Status
from bayplan.preemption import evaluator
from bayplan.preemption.node_victims import VictimSearch
from bayplan.preemption.outcomes import OutcomeBook
from bayplan.testing import labels_are, make_pod

WEB = labels_are({"app": "web"})


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the nodes that dry runs were made on, in order."""
    names: list[str] = []

    class Watched(VictimSearch):
        def run(self, rows: Any) -> Any:
            names.extend(self._full.names[row] or "" for row in rows.tolist())
            return super().run(rows)

    monkeypatch.setattr(evaluator, "VictimSearch", Watched)
    return names


def three_nodes(**kwargs: Any) -> World:
    world = World(*(node(f"n{i}") for i in (1, 2, 3)), **kwargs)
    for i in (1, 2, 3):
        world.put(f"n{i}", victim(f"v{i}", 4, priority=i))
    return world


def swap_in(world: World, pod: Pod, seconds: int) -> None:
    """The same Pod, which has started meanwhile."""
    again = victim(pod.name, 4, priority=pod.priority, started=seconds).uid(pod.uid)
    world.cache.add(again.spec(schedulerName="bayplan").node(pod.node_name).obj())


@pytest.mark.parametrize(
    ("change", "again"),
    [
        pytest.param(lambda w: None, [], id="nothing"),
        pytest.param(lambda w: w.put("n2", victim("new", 0)), ["n2"], id="a Pod comes"),
        pytest.param(
            lambda w: w.cache.set_node(node("n2").label("x", "y").obj()),
            ["n2"],
            id="a node changes",
        ),
        pytest.param(
            lambda w: w.world.nominator.nominate(make_pod().priority(5000).obj(), "n2"),
            ["n2"],
            id="a rival is nominated",
        ),
        pytest.param(
            lambda w: w.world.nominator.nominate(make_pod().obj(), "n2"),
            [],
            id="a lesser Pod is nominated",
        ),
        pytest.param(lambda w: w.budget("b", WEB, 0), ["n1", "n2", "n3"], id="a budget changes"),
        pytest.param(
            lambda w: swap_in(w, next(iter(w.cache.nodes.pods[1].values())), 77),
            ["n2"],
            id="a Pod starts",
        ),
        pytest.param(
            lambda w: [w.cache.nodes.pod_journal.append(0) for _ in range(70_000)],
            ["n1", "n2", "n3"],
            id="more happens than anybody remembers",
        ),
        pytest.param(
            lambda w: w.cache.nodes.reserve(500),
            ["n1", "n2", "n3"],
            id="the table grows",
        ),
    ],
)
def test_only_rows_that_have_moved_are_tried_again(
    change: Callable[[World], object], again: list[str], tried: list[str]
) -> None:
    world = three_nodes()
    world.analyse(preemptor())
    assert tried == ["n1", "n2", "n3"]
    tried.clear()
    change(world)
    world.analyse(preemptor())
    assert sorted(tried) == again


def test_a_rival_that_is_gone_makes_room_again(tried: list[str]) -> None:
    world = three_nodes()
    rival = make_pod("rival").priority(5000).req(cpu="4").obj()
    world.world.nominator.nominate(rival, "n2")
    assert set(candidates(world.analyse(preemptor()))) == {"n1", "n3"}
    world.world.nominator.remove(rival.uid)
    assert set(candidates(world.analyse(preemptor()))) == {"n1", "n2", "n3"}


def test_another_shape_has_outcomes_of_its_own(tried: list[str]) -> None:
    world = three_nodes()
    world.analyse(preemptor())
    world.analyse(preemptor(cpu=3))
    assert len(tried) == 6


def test_nothing_is_kept_where_other_nodes_matter(tried: list[str]) -> None:
    world = three_nodes()
    for _ in range(2):
        pod = preemptor().pod_anti_affinity("kubernetes.io/hostname", WEB)
        world.analyse(pod)
    assert tried == ["n1", "n2", "n3"] * 2


class Fashion(Plugin):
    """A row-local filter whose taste changes from time to time."""

    filter_depends = Depends.NODE
    taste = 0

    def filter(self, state: Any, pod: Pod, node: Any) -> Status | None:
        return None

    def epoch(self, pod: Pod) -> int:
        return Fashion.taste


def test_outcomes_end_with_the_epoch_of_a_filter(
    tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = three_nodes(plugin=Fashion)
    world.analyse(preemptor())
    world.analyse(preemptor())
    assert len(tried) == 3
    monkeypatch.setattr(Fashion, "taste", 1)
    world.analyse(preemptor())
    assert len(tried) == 6


@pytest.mark.parametrize("seed", range(8))
def test_kept_outcomes_equal_fresh_ones_whatever_happens(seed: int) -> None:
    random = Random(seed)
    world = World(*(node(f"n{i}") for i in range(6)))
    world.budget("web", WEB, 1)
    placed: list[Pod] = []
    for i in range(6):
        placed += world.put(f"n{i}", victim(f"first{i}", 2), victim(f"second{i}", 1, started=i))
    compared = 0
    for step in range(60):
        _change(random, world, placed, step)
        pod = as_preemptor(preemptor(random.choice((3, 4))).host_port(80))
        kept = _analysis(world, pod)
        if kept is None:
            continue
        evaluator = world.preemption._evaluator
        book = evaluator._book
        what_if = world.framework.search.what_if
        evaluator._book = OutcomeBook(
            what_if, world.cache.nodes, evaluator._budgets, evaluator._gangs
        )
        assert _analysis(world, pod) == kept
        evaluator._book = book
        compared += 1
    assert compared > 20


def _analysis(world: World, pod: Pod) -> Any:
    """All that there is to compare; None where the Pod fits."""
    try:
        analysis = world.analyse(pod)
    except AssertionError:
        return None
    status, node = analysis.result.status, analysis.result.nominated_node
    return candidates(analysis), status, node, [c.node_name for c in analysis.tied]


def _change(random: Random, world: World, placed: list[Pod], step: int) -> None:
    name = f"n{random.randrange(6)}"
    kind = random.randrange(10)
    if kind < 5:
        pod = victim(
            f"v{step}",
            random.choice((1, 2, 3)),
            priority=random.choice((1, 2, 5000)),
            started=random.choice((None, step)),
        )
        pod.label("app", random.choice(("web", "db")))
        if random.random() < 0.2:
            pod.host_port(80)
        placed += world.put(name, pod)
    elif kind < 7 and placed:
        world.cache.remove(placed.pop(random.randrange(len(placed))).uid)
    elif kind == 7:
        rival = make_pod(f"rival{step}").req(cpu="1").priority(random.choice((1, 5000))).obj()
        world.world.nominator.nominate(rival, name)
    elif kind == 8:
        world.budget("web", WEB, random.randrange(3))
    else:
        world.cache.set_node(node(name, random.choice((3, 4, 5))).obj())

"""Queues that improve themselves: whose Pods move, for what, how often, and never in circles."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.improve.applied import Applied
from tests.improve.test_improve import node, runs
from tests.properties import length
from tests.queues import queue, queues_profile

from bayplan.api.kinds import NAMESPACE, POD_GROUP
from bayplan.api.queues import Queue
from bayplan.app.self_improvement import SelfImprovement
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.improve.movable import MOVABLE
from bayplan.improve.rounds import PAUSE, REST
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import Builder, PodBuilder, make_object
from bayplan.testing import make_pod as pod_of

EVERY = 600
CONFIG = {"profiles": [queues_profile("Coscheduling")]}


class Improving(Applied):
    """A cluster in memory whose Queues improve themselves; it begins when all Pods are old."""

    def __init__(self, *objects: Builder[Any]) -> None:
        super().__init__(*objects, config=CONFIG)
        self.lead()
        self.cluster.run()
        self.later(2 * REST)

    def lead(self) -> None:
        """A scheduler begins to lead that remembers nothing."""
        core, ports = self.cluster.core, self.cluster.ports
        self.self_improvement = SelfImprovement(core, ports, self.improvement, self.applies)

    def later(self, seconds: float) -> None:
        """Time goes on."""
        self.cluster.wait(seconds)
        self.cluster.run()

    def look(self) -> int:
        """What is done from time to time; how many Pods were evicted."""
        before = len(self.evicted)
        self.self_improvement.look()
        for thread in threading.enumerate():
            if thread.name == "improve":
                thread.join()
        self.cluster.take_in()
        self.cluster.run()
        assert not self.held
        return len(self.evicted) - before

    def look_again(self, *seconds: float) -> list[int]:
        """Look after each pause; how many Pods were evicted by each look."""
        counts = []
        for pause in seconds:
            self.later(pause)
            counts.append(self.look())
        return counts

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """Events about moves: of what, the reason and the note."""
        events = self.cluster.events
        return [(it.pod, it.reason, it.note) for it in events if it.action == "Improving"]


def team(
    name: str = "team", namespaces: str = "default", most: int = 4, every: int = EVERY, **spec: Any
) -> Builder[Queue]:
    """A Queue that improves itself, with Pods that may move."""
    improve = {"maxMovesPerHour": most, "everySeconds": every}
    return queue(name, namespaces, improve=improve, **spec).label(MOVABLE, "true")


def waits(name: str = "waits", cpu: int = 4) -> PodBuilder:
    return pod_of(name).req(cpu=cpu).created("1970-01-01T00:00:00Z")


def old(name: str, where: str, cpu: int = 1) -> PodBuilder:
    """A Pod of the ReplicaSet that has run for long."""
    return runs(name, where, cpu, movable="").created("1970-01-01T00:00:00Z")


def scene(*more: Builder[Any], most: int = 4) -> Improving:
    """One move is needed."""
    return Improving(
        *(make_object(NAMESPACE, "default"), team(most=most)),
        *(node("n1"), node("n2", 2), old("a", "n1"), waits(), *more),
    )


def test_a_pod_that_fits_nowhere_gets_its_room() -> None:
    made = scene()
    assert made.look() == 1
    assert (made.cluster.node_of("a-again"), made.cluster.node_of("waits")) == ("n2", "n1")
    done = "1 move made, and Pod default/waits fits; evicted: default/a from n1 to n2"
    why = "Moved from n1 to n2 for Queue team, so that Pod default/waits fits"
    assert made.said == [("team", "Improved", done), ("a", "Moved", why)]


def test_nobody_moves_for_a_queue_that_does_not_say_so() -> None:
    made = scene()
    made.add(queue("team", "default").label(MOVABLE, "true"))
    assert made.look_again(0, EVERY) == [0, 0]


def test_only_pods_of_the_queue_move() -> None:
    other = queue("other", "lab").label(MOVABLE, "true")
    pods = [old("x", "n1").namespace("lab"), waits()]
    objects: list[Builder[Any]] = [make_object(NAMESPACE, name) for name in ("default", "lab")]
    objects += [node("n1"), node("n2", 2), other, *pods]
    assert Improving(*objects, team()).look() == 0
    root = team("root", namespaces="")
    parts = [queue("team", "default", parent="root"), queue("other", "lab", parent="root")]
    made = Improving(*objects, root, *parts)
    assert made.look() == 1
    assert made.said[0][0] == "root"


def test_a_group_gets_its_room() -> None:
    group = make_object(POD_GROUP, "g").spec(minMember=2)
    pods = [waits(f"g{i}", 3).label(POD_GROUP_LABEL, "g") for i in range(2)]
    made = Improving(
        *(make_object(NAMESPACE, "default"), team(), group, *pods),
        *(node("n1"), node("n2"), node("n3", 2), old("a", "n1", 2)),
    )
    assert made.look() == 1
    assert sorted(made.cluster.node_of(f"g{i}") for i in range(2)) == ["n1", "n2"]


def test_a_round_is_every_so_often() -> None:
    made = scene(node("n3", 4), node("n4", 1), old("b", "n3"))
    assert made.look() == 1
    made.add(waits("second"))
    made.cluster.run()
    assert made.look_again(PAUSE, EVERY - PAUSE - 60) == [0, 0]
    assert made.look_again(60) == [1]


def test_no_more_pods_move_in_an_hour_than_the_queue_allows() -> None:
    made = scene(node("n3", 4), node("n4", 1), old("b", "n3"), most=1)
    assert made.look() == 1
    made.add(waits("second"))
    made.cluster.run()
    assert made.look_again(EVERY, REST - EVERY - 60) == [0, 0]
    assert made.look_again(120) == [1]


def test_the_next_scheduler_that_leads_keeps_to_the_hour() -> None:
    made = scene(node("n3", 4), node("n4", 1), old("b", "n3"), most=1)
    assert made.look() == 1
    made.lead()
    made.add(waits("second"))
    made.cluster.run()
    assert made.look_again(EVERY, REST - EVERY - 60) == [0, 0]
    assert made.look_again(120) == [1]


def test_a_pod_that_was_moved_stays_for_an_hour() -> None:
    made = scene(most=100)
    assert made.look() == 1
    made.remove(made.builders["/api/v1/namespaces/default/pods/waits"])
    n2 = made.builders["/api/v1/nodes/n2"]
    made.add(waits("second", 2).node_selector({"kubernetes.io/hostname": "n2"}))
    made.add(n2.label("kubernetes.io/hostname", "n2"))
    made.cluster.run()
    assert made.look_again(EVERY, REST - EVERY - 60, EVERY) == [0, 0, 1]


def test_a_goal_without_a_plan_is_left_alone_until_something_changes() -> None:
    stuck = old("a", "n1").label(MOVABLE, "false")
    made = Improving(make_object(NAMESPACE, "default"), team(), node("n1"), stuck, waits())
    metrics = made.cluster.ports.instrument = Metrics()
    assert made.look_again(0, *[EVERY] * 4) == [0] * 5
    assert result(metrics, "none") == 1
    made.add(node("n2", 1))
    made.look_again(EVERY)
    assert result(metrics, "none") == 2
    made.look_again(REST)
    assert result(metrics, "none") == 3, "time is a change, too"


def test_that_a_pod_has_become_old_enough_is_a_change() -> None:
    born = datetime.fromtimestamp(2 * REST - 600, UTC)
    young = old("a", "n1").created(f"{born:%Y-%m-%dT%H:%M:%SZ}")
    made = Improving(
        *(make_object(NAMESPACE, "default"), team(), node("n1"), node("n2", 2), young, waits())
    )
    assert made.look_again(0, EVERY, REST - 2 * EVERY) == [0, 0, 1]


def result(metrics: Metrics, name: str) -> float:
    labels = {"queue": "team", "result": name}
    return metrics.registry.get_sample_value("bayplan_improve_plans_total", labels) or 0


def test_a_goal_whose_plan_was_stopped_rests() -> None:
    made = scene()

    def other(_world: Applied, again: PodBuilder) -> bool:
        again.req(memory="1Gi")
        return True

    made.on_evicted = other
    assert made.look() == 1
    name, reason, note = made.said[0]
    assert (name, reason) == ("team", "ImproveEnded")
    assert "Stopped: default/a-again, made again for default/a, is not like that one" in note
    made.add(node("n3", 1))
    assert made.look_again(EVERY, EVERY) == [0, 0]


def test_what_is_refused_touches_nothing_and_does_not_count() -> None:
    made = scene(most=1)
    kept = made.builders.pop("/api/v1/nodes/n2")
    assert made.look() == 0
    assert made.said == [
        ("team", "ImproveEnded", "Nothing was touched: node n2 is gone since the plan was made")
    ]
    made.builders["/api/v1/nodes/n2"] = kept
    assert made.look_again(EVERY) == [1]


def test_a_scheduler_that_ends_makes_no_further_move() -> None:
    made = scene()
    made.self_improvement.stop(1)
    assert made.look() == 0


@pytest.mark.parametrize(
    ("improve", "fault"),
    [
        ({"maxMovesPerHour": 1, "everySeconds": 5}, "everySeconds: 5 is less than 60"),
        ({"maxMovesPerHour": 1, "minAgeSeconds": 0}, "minAgeSeconds: 0 is less than 60"),
        ({"maxMovesPerHour": -1}, "maxMovesPerHour: -1 is less than 0"),
    ],
)
def test_amounts_that_make_no_sense_are_said(improve: dict[str, int], fault: str) -> None:
    made = scene()
    made.add(queue("team", "default", improve=improve).label(MOVABLE, "true"))
    assert made.look() == 0
    faults = made.cluster.world.queues.faults()
    assert [it.message for it in faults] == [f"spec.improve.{fault}: no Pod is moved"]


class Weather:
    """Pods come and go at random while the Queue looks, for some hours."""

    def __init__(self, seed: int, most: int) -> None:
        self.random, self.number = random.Random(seed), 0
        objects: list[Builder[Any]] = [make_object(NAMESPACE, "default")]
        for name in ("n1", "n2", "n3", "n4"):
            objects += [node(name), old(f"old-{name}", name, self.random.randint(1, 3))]
        self.made = Improving(*objects, team(most=most, every=60))
        self.evictions: list[tuple[float, str]] = []
        """When each was, and of whom: a Pod has the same name as the one that it replaces."""

    def hour(self) -> None:
        """Every five minutes something happens, and the Queue looks."""
        for _ in range(12):
            self.random.choice([self._comes, self._goes])()
            now, number = self.made.cluster.clock(), self.made.look()
            names = self.made.evicted[len(self.made.evicted) - number :]
            self.evictions += [(now, name.replace("-again", "")) for name in names]
            self.made.later(300)

    def _comes(self) -> None:
        self.number += 1
        born = datetime.fromtimestamp(self.made.cluster.clock(), UTC)
        pod = pod_of(f"p{self.number}").req(cpu=self.random.randint(1, 4))
        pod = pod.owner("ReplicaSet", "rs").created(f"{born:%Y-%m-%dT%H:%M:%SZ}")
        self.made.add(pod)
        self.made.cluster.run()

    def _goes(self) -> None:
        pods = [it for it in self.made.builders.values() if isinstance(it, PodBuilder)]
        if pods:
            self.made.remove(self.random.choice(pods))
            self.made.cluster.run()


@given(st.integers(0, 10_000), st.integers(1, 5))
@length(12)
def test_moves_are_bounded_whatever_comes_and_goes(seed: int, most: int) -> None:
    weather = Weather(seed, most)
    for _ in range(4):
        weather.hour()
    for at, name in weather.evictions:
        within = [it for later, it in weather.evictions if at <= later < at + REST - 2]
        assert len(within) <= most
        assert within.count(name) == 1
    assert not weather.made.held


def test_there_are_moves_in_such_weather() -> None:
    weathers = [Weather(seed, 3) for seed in range(6)]
    for weather in weathers:
        weather.hour()
    assert sum(len(weather.evictions) for weather in weathers) >= 3

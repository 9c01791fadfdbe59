"""A group that has waited long gets its turn, and nobody who is let in meanwhile delays it."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import groups_profile, members, nodes, pod_group
from tests.properties import length
from tests.queues import queue

from bayplan.plugins.backfill import DURATION, Backfill, Reservation, duration_of
from bayplan.testing import PodBuilder, make_pod

TICK = 10.0
AFTER = 60
BEGIN = 1_000.0
FOREVER = 10**6


class Machine:
    """Nodes of four CPUs whose Pods end when they say, and a scheduler; time passes in ticks.

    Attributes:
        cluster: the scheduler.
        ran: when each Pod started.
    """

    def __init__(self, count: int, *others: str, reserve: bool = True) -> None:
        profile = groups_profile()
        plugins = profile["plugins"]
        names = [{"name": name} for name in (*(["Backfill"] if reserve else []), *others)]
        plugins["multiPoint"]["enabled"] += names
        plugins["podGroupPostFilter"] = {"enabled": names}
        plugins["postFilter"] = {"enabled": [{"name": name} for name in others]}
        if reserve:
            args = {"reserveAfter": f"{AFTER}s"}
            profile["pluginConfig"].append({"name": "Backfill", "args": args})
        self.cluster = Cluster(profiles=[profile])
        self.cluster.writer.on_bound = self.cluster._show_bound
        self.cluster.clock.time = BEGIN
        self.cluster.add(*nodes(count))
        self.ran: dict[str, float] = {}
        self._lasts: dict[str, tuple[PodBuilder, float]] = {}

    @property
    def now(self) -> float:
        return self.cluster.clock.time

    @property
    def reservations(self) -> list[Reservation]:
        return list(self.cluster.plugin(Backfill)._reservations.values())

    def submit(self, *builders: PodBuilder, seconds: float = FOREVER, says: bool = True) -> None:
        """New Pods, which run for so long; whether they say so."""
        for builder in builders:
            if says and seconds < FOREVER:
                builder.spec(activeDeadlineSeconds=int(seconds))
            builder.created(text(self.now))
            self._lasts[f"{_name(builder)}"] = builder, seconds
            self.cluster.add(builder)
        self._settle()

    def group(self, size: int, name: str = "g", cpu: str = "4") -> None:
        """A group of Pods that fill a node each, and are kept."""
        self.cluster.add(pod_group(name, minMember=size))
        self.submit(*members(name, size, cpu=cpu))

    def delete(self, name: str) -> None:
        """A Pod is gone."""
        builder, _ = self._lasts.pop(name)
        self.cluster.remove(builder)

    def tick(self) -> None:
        """Let Pods end whose time is over, and the others go on."""
        self.cluster.wait(TICK)
        for name, (_, seconds) in list(self._lasts.items()):
            if name in self.ran and self.now >= self.ran[name] + seconds:
                self.delete(name)
        self._settle()

    def _settle(self) -> None:
        for _ in range(4):
            self.cluster.run()
            for name, (builder, _) in self._lasts.items():
                if name not in self.ran and self.cluster.node_of(builder):
                    self.ran[name] = self.now
                    self.cluster.add(builder.start_time(text(self.now)))


def _name(builder: PodBuilder) -> str:
    return str(builder.json["metadata"]["name"])


def text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def small(name: str, cpu: int = 1) -> PodBuilder:
    return make_pod(name).req(cpu=str(cpu))


def stream(machine: Machine, ticks: int, seconds: float = 100) -> None:
    """More small Pods than the nodes can take."""
    for tick in range(ticks):
        machine.submit(*(small(f"s{machine.now:g}-{i}") for i in range(2)), seconds=seconds)
        machine.tick()
        if "g-0" in machine.ran:
            return
        assert tick < ticks


@pytest.mark.parametrize(
    "reserve", [pytest.param(True, id="reserved"), pytest.param(False, id="not reserved")]
)
def test_a_group_gets_its_turn_however_many_small_pods_come(*, reserve: bool) -> None:
    machine = Machine(2, reserve=reserve)
    stream(machine, 12)
    machine.group(2)
    created = machine.now
    stream(machine, 60)
    assert ("g-0" in machine.ran) == reserve
    if reserve:
        assert machine.ran["g-0"] == machine.ran["g-1"] <= created + AFTER + 100 + 3 * TICK
        machine.tick()
        machine.submit(small("later"))
        assert machine.reservations == []


def reserved_nodes(machine: Machine) -> float:
    labels = {"plugin": "Backfill", "name": "reserved_nodes"}
    return machine.cluster.metric("bayplan_plugin_value", **labels)


@pytest.fixture
def reserved() -> Machine:
    """Two nodes: n0 is free for a Pod of three CPUs, n1 is full; both are kept for a group."""
    machine = Machine(2)
    machine.submit(small("one"), seconds=500)
    machine.submit(small("four", 4), seconds=300)
    machine.group(2)
    for _ in range(8):
        machine.tick()
    machine.submit(small("wakes"), seconds=10)
    machine.tick()
    (reservation,) = machine.reservations
    assert reservation.nodes == {"n0", "n1"}
    assert reserved_nodes(machine) == 2
    assert reservation.until == BEGIN + 500
    return machine


@pytest.mark.parametrize(
    ("builder", "seconds", "runs"),
    [
        pytest.param(small("short"), 100, True, id="ends before"),
        pytest.param(small("long"), 450, False, id="ends after"),
        pytest.param(small("unknown"), FOREVER, False, id="does not say when it ends"),
        pytest.param(small("high").priority(1), FOREVER, True, id="higher priority"),
        pytest.param(
            small("agent").owner("DaemonSet", "agents"), FOREVER, True, id="of a DaemonSet"
        ),
        pytest.param(
            small("annotated").annotation(DURATION, "1m"), FOREVER, True, id="says so by annotation"
        ),
    ],
)
def test_who_may_use_what_is_reserved(
    reserved: Machine, builder: PodBuilder, seconds: float, runs: bool
) -> None:
    reserved.submit(builder, seconds=seconds)
    assert (_name(builder) in reserved.ran) == runs
    if not runs:
        until = text(BEGIN + 500)
        why = f"1 Insufficient cpu, 1 node(s) were reserved for group default/g until {until}."
        assert reserved.cluster.message(builder).startswith(f"0/2 nodes are available: {why}")


def test_the_group_is_there_when_it_was_promised(reserved: Machine) -> None:
    while reserved.now < BEGIN + 500:
        reserved.submit(small(f"fill{reserved.now:g}"), seconds=30)
        reserved.tick()
    assert reserved.ran["g-0"] <= BEGIN + 500
    assert sum(name.startswith("fill") for name in reserved.ran) > 5
    assert reserved_nodes(reserved) == 0


def test_when_the_group_is_deleted_others_are_let_in_at_once(reserved: Machine) -> None:
    late = small("late")
    reserved.submit(late)
    assert "late" not in reserved.ran
    reserved.delete("g-0")
    reserved.tick()
    assert "late" in reserved.ran
    assert reserved.reservations == []


def test_once_the_group_has_its_nodes_they_are_kept_no_longer(reserved: Machine) -> None:
    """Not even for a moment: whoever is kept off by what is over is not tried again."""
    for name in ("one", "four"):
        reserved.delete(name)
    reserved.tick()
    assert {"g-0", "g-1"} <= reserved.ran.keys()
    reserved.submit(waits := small("waits"))
    assert "2 Insufficient cpu" in reserved.cluster.message(waits)
    reserved.delete("g-0")
    reserved.submit(small("late"))
    assert "late" in reserved.ran


def test_a_plan_that_fails_ends_nothing(reserved: Machine) -> None:
    """Of two members, one finds its node and is taken from it again."""
    reserved.delete("one")
    reserved.submit(small("late", 3))
    (reservation,) = reserved.reservations
    assert reservation.waiting == reservation.pods
    assert "late" not in reserved.ran
    assert [event.reason for event in reserved.cluster.events].count("Reserved") == 1


def test_a_group_that_can_never_fit_gets_nothing() -> None:
    machine = Machine(2)
    machine.submit(small("one"), seconds=500)
    machine.group(3)
    stream(machine, 10)
    assert machine.reservations == []


def test_where_nobody_knows_when_nobody_is_let_in() -> None:
    machine = Machine(1)
    machine.submit(small("one"))
    machine.group(1)
    for _ in range(8):
        machine.tick()
    machine.submit(small("wakes"), seconds=10)
    machine.tick()
    (reservation,) = machine.reservations
    assert reservation.until == inf
    machine.submit(short := small("short"), seconds=10)
    assert "until Pods end that do not say when" in machine.cluster.message(short)


@pytest.mark.parametrize(
    ("spec", "reserved_for"),
    [
        pytest.param({}, ["default/g"], id="one of two groups"),
        pytest.param({"limit": {"cpu": 12}}, [], id="the limit holds them back"),
    ],
)
def test_a_queue_has_one_reservation_within_its_limit(
    spec: dict[str, Any], reserved_for: list[str]
) -> None:
    machine = Machine(2, "FairShare")
    machine.cluster.add(queue("a", "default", **spec))
    machine.submit(small("one"), seconds=500)
    machine.submit(small("two", 4), seconds=300)
    for name in ("g", "h"):
        machine.group(2, name)
    for _ in range(8):
        machine.tick()
    machine.submit(small("wakes"), seconds=10)
    machine.tick()
    assert [r.key for r in machine.reservations] == reserved_for


def test_the_shorter_of_deadline_and_annotation_counts() -> None:
    pod = small("p").spec(activeDeadlineSeconds=90)
    assert duration_of(pod.obj()) == 90
    assert duration_of(pod.annotation(DURATION, "1m").obj()) == 60
    assert duration_of(pod.annotation(DURATION, "soon").obj()) == 90
    assert duration_of(small("q").obj()) == inf


@length(25)
@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(st.integers(0, 25), st.integers(1, 4), st.integers(1, 12)),
        min_size=5,
        max_size=40,
    ),
)
def test_no_group_waits_longer_than_what_runs_when_it_has_waited_long(
    count: int, arrivals: list[tuple[int, int, int]]
) -> None:
    machine = Machine(count)
    for tick in range(45):
        for number, (when, cpu, ticks) in enumerate(arrivals):
            if when == tick:
                machine.submit(small(f"s{number}", cpu), seconds=ticks * TICK)
        if tick == 5:
            machine.group(count)
        machine.tick()
    longest = max(ticks for _, _, ticks in arrivals) * TICK
    # It is tried when a Pod ends, gets its reservation, and then waits for those that run; backoff.
    assert machine.ran["g-0"] <= BEGIN + 5 * TICK + AFTER + 2 * longest + 3 * TICK

"""The deadline of plugins' calls: what is ended, what is not, and what becomes of the Pod."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, nodes, pod_group

from bayplan.api.kinds import NODE
from bayplan.app.call_deadline import CallDeadline
from bayplan.app.culprit import Culprit, interruptible_call
from bayplan.app.stuck_pods import StuckPods
from bayplan.client.http import Http
from bayplan.framework import Plugin, Status
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint
from bayplan.queue.states import QueueState
from bayplan.report.pods import Report
from bayplan.support.text import text_of
from bayplan.testing import make_node, make_pod

SECONDS = 0.2


class Deadline:
    """A deadline over the scheduling thread of a cluster, by the kernel's own timer."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.culprits: list[Culprit] = []
        pulse = cluster.scheduler.pulse
        self.deadline = CallDeadline(pulse, SECONDS, self.culprits.append)
        self.deadline.start()

    def cycle(self) -> None:
        self.cluster.scheduler.pulse.step()
        self.deadline.rearm()
        self.cluster.cycle()


@pytest.fixture(autouse=True)
def _no_alarm() -> Iterator[None]:
    previous = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


def loops() -> None:
    while True:
        pass


def with_except() -> None:
    while True:
        with suppress(Exception):
            time.sleep(3600)


ENDLESS = {
    "loops": loops,
    "sleeps": lambda: time.sleep(3600),
    "holds the interpreter lock": lambda: re.match("(a+)+$", "a" * 60 + "b"),
    "catches each Exception": with_except,
}


def picky(code: Callable[[], object]) -> type[Plugin]:
    class Picky(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            if pod.name == "poison":
                code()

    return Picky


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_the_attempt_of_a_pod_that_a_plugin_does_not_return_for_fails(
    code: Callable[[], object],
) -> None:
    cluster = Cluster(picky(code), bare=True)
    cluster.add(make_node("n").capacity(cpu="1", pods=9), make_pod("poison"))
    watched = Deadline(cluster)
    watched.cycle()
    text = 'running Filter plugin "Picky": has not returned for 0.2 s'
    assert cluster.verdict[1] == text
    [culprit] = watched.culprits
    assert culprit.pod is not None
    assert (culprit.plugin, culprit.where, culprit.pod.name) == ("Picky", "Filter", "poison")
    assert culprit.timeout(SECONDS) == text


def test_many_short_calls_of_one_long_step_are_not_ended() -> None:
    calls: list[str] = []

    class Slow(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            return None

        def pre_enqueue(self, pod: Any) -> None:
            calls.append(pod.name)
            began = time.monotonic()
            while time.monotonic() - began < SECONDS / 10:
                pass

    cluster = Cluster(Slow, bare=True)
    watched = Deadline(cluster)
    cluster.scheduler.pulse.step()
    watched.deadline.rearm()
    cluster.add(make_node("n").capacity(cpu="1", pods=99))
    cluster.add(*(make_pod(f"p{i}") for i in range(40)))
    assert cluster.scheduler.pulse.age() > 2 * SECONDS
    assert len(calls) == 40
    assert watched.culprits == []


def test_what_a_plugin_has_called_of_bayplan_is_not_left_half_done() -> None:
    seen: list[bool] = []

    def look() -> None:
        seen.append(interruptible_call(sys._getframe()) is not None)

    class Text:
        def __str__(self) -> str:
            look()
            return ""

    class Calls(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            look()
            text_of(Text())

    cluster = Cluster(Calls, bare=True)
    cluster.add(make_node("n").capacity(cpu="1", pods=9), make_pod("p"))
    cluster.cycle()
    assert seen == [True, False]
    look()
    assert not seen[-1], "no plugin runs"


def test_a_hint_that_does_not_return_is_asked_no_more() -> None:
    asked: list[str] = []

    class Hints(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> Status:
            return Status.unschedulable("no")

        def events_to_register(self) -> list[EventRegistration]:
            return [EventRegistration(ClusterEvent(NODE, Action.ADD), self.hint)]

        def hint(self, pod: Any, old: Any, new: Any) -> Hint:
            asked.append(new.name)
            loops()
            return Hint.SKIP

    cluster = Cluster(Hints, bare=True)
    watched = Deadline(cluster)
    pod = make_pod("p").uid("p")
    cluster.add(make_node("n").capacity(cpu="1", pods=9), pod)
    cluster.run()
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    for name in ("new", "newer"):
        cluster.wait(60)
        cluster.scheduler.pulse.step()
        watched.deadline.rearm()
        cluster.add(make_node(name).capacity(cpu="1", pods=9))
        assert cluster.state(pod) is QueueState.ACTIVE, "the event counts as Queue"
        cluster.run()
    assert asked == ["new"]


def test_a_group_goes_on_without_the_member_that_a_plugin_does_not_return_for() -> None:
    class Picky(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            if pod.name == "g-0":
                loops()

    cluster = group_cluster(Picky)
    cluster.add(pod_group("g", minMember=2))
    watched = Deadline(cluster)
    pods = StuckPods(
        cluster.queue,
        Report(cluster.ports.events, cluster.ports.statuses),
        cluster.ports.inbox,
        cast("Http", None),
        SECONDS,
        lambda: True,
    )
    cluster.add(*nodes(1), *members("g", 3))
    watched.cycle()
    [culprit] = watched.culprits
    assert culprit.pod is not None
    assert culprit.pod.name == "g-0"
    pods.ended(culprit)
    cluster.take_in()
    assert cluster.state("g-0") is QueueState.GATED
    cluster.wait(60)
    cluster.run()
    assert sorted(pod for pod, _ in cluster.bound) == ["g-1", "g-2"]
    assert cluster.is_at_rest()

"""Pods that wait in Permit: who decides, once, and when silence counts."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from bayplan.api.pod import Pod
from bayplan.binding.waiting import WaitingPod, WaitingPods
from bayplan.framework.status import SUCCESS, Status
from bayplan.testing import Clock, make_pod


class World:
    """One set of waiting Pods, and the verdicts."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pods = WaitingPods(self.clock)
        self.verdicts: list[Status] = []
        self.timed_out: list[bool] = []

    def wait(self, **seconds: float) -> WaitingPod:
        pod: Pod = make_pod("p").obj().on_node("n1")
        self.pods.add(pod, seconds, self._decided)
        waiting = self.pods.get(pod.uid)
        assert waiting is not None
        return waiting

    def _decided(self, verdict: Status, timed_out: bool) -> None:
        self.verdicts.append(verdict)
        self.timed_out.append(timed_out)

    def pass_time(self, seconds: float) -> None:
        self.clock.time += seconds
        self.pods.expire()


def test_the_last_plugin_lets_the_pod_go() -> None:
    world = World()
    waiting = world.wait(A=10, B=20)
    assert waiting.pending_plugins() == ["A", "B"]
    assert waiting.node_name == "n1"
    waiting.allow("B")
    waiting.allow("B")
    waiting.allow("unknown")
    assert waiting.pending_plugins() == ["A"]
    assert world.verdicts == []
    waiting.allow("A")
    assert world.verdicts == [SUCCESS]


Act = Callable[[WaitingPod], object]


@pytest.mark.parametrize(
    ("first", "verdict"),
    [
        pytest.param(lambda w: w.allow("A"), SUCCESS, id="allowed"),
        pytest.param(
            lambda w: w.reject("A", "no"), Status.unschedulable("no").by("A"), id="rejected"
        ),
        pytest.param(
            lambda w: w.preempt("A", "no"),
            Status.error("waiting on permit for pod: no").by("A"),
            id="preempted",
        ),
    ],
)
def test_the_first_verdict_stays(first: Act, verdict: Status) -> None:
    world = World()
    waiting = world.wait(A=10)
    first(waiting)
    waiting.allow("A")
    waiting.reject("A", "too late")
    assert waiting.preempt("A", "too late") is False
    world.pass_time(60)
    assert world.verdicts == [verdict]
    assert world.timed_out == [False]


def test_a_verdict_is_given_outside_the_lock() -> None:
    world = World()
    seen: list[list[str]] = []
    pod = make_pod("p").obj()

    def note_pending(*_: object) -> None:
        assert waiting is not None
        seen.append(waiting.pending_plugins())

    world.pods.add(pod, {"A": 1.0}, note_pending)
    waiting = world.pods.get(pod.uid)
    assert waiting is not None
    waiting.allow("A")
    assert seen == [[]], "whoever decides may look at the Pod again"


def test_each_plugin_has_its_own_time() -> None:
    world = World()
    waiting = world.wait(A=1, B=10)
    world.pass_time(0.5)
    waiting.allow("A")
    world.pass_time(5)
    assert world.verdicts == [], "A has spoken in time, and B has time left"
    world.pass_time(4.5)
    text = "rejected due to timeout after waiting 10s at plugin B"
    assert world.verdicts == [Status.unschedulable(text).by("B")]
    assert world.timed_out == [True]


def test_time_runs_from_the_beginning_of_each_pods_wait() -> None:
    world = World()
    world.wait(A=10)
    world.clock.time += 6
    world.wait(A=10)
    assert world.pods.next_timer() == 4
    world.pass_time(4)
    assert len(world.verdicts) == 1
    assert world.pods.next_timer() is not None
    world.pass_time(6)
    assert len(world.verdicts) == 2


def test_nothing_is_due_while_nobody_waits() -> None:
    world = World()
    assert world.pods.next_timer() is None
    waiting = world.wait(A=10)
    assert world.pods.next_timer() == 10
    waiting.allow("A")
    world.pods.remove(waiting.pod.uid)
    assert world.pods.next_timer() is None
    assert world.pods.get(waiting.pod.uid) is None
    assert list(world.pods) == []
    world.pass_time(100)
    assert world.verdicts == [SUCCESS]


def test_the_next_look_is_never_in_the_past() -> None:
    world = World()
    world.wait(A=1)
    world.clock.time += 5
    assert world.pods.next_timer() == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.3, "300ms"),
        (1.5, "1.5s"),
        (59, "59s"),
        (60, "1m0s"),
        (90, "1m30s"),
        (900, "15m0s"),
        (3661, "1h1m1s"),
    ],
)
def test_times_read_as_go_writes_them(seconds: float, text: str) -> None:
    world = World()
    world.wait(A=seconds)
    world.pass_time(seconds)
    reason = f"rejected due to timeout after waiting {text} at plugin A"
    assert world.verdicts == [Status.unschedulable(reason).by("A")]


def test_of_many_threads_that_decide_at_once_one_is_heard() -> None:
    world = World()
    waiting = world.wait(A=10)
    begin = threading.Barrier(8)

    def decide(number: int) -> None:
        begin.wait()
        waiting.reject("A", str(number))

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(world.verdicts) == 1

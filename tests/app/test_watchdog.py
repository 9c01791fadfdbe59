"""The watchdog: plugins that do not return, seen from another thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from tests.core_harness import Cluster
from tests.waiting import SOON

from bayplan.app import watchdog as module
from bayplan.app.culprit import culprit_of
from bayplan.app.watchdog import GRACE_SECONDS, PATIENCE_SECONDS, Watchdog
from bayplan.framework import Plugin
from bayplan.telemetry.pulse import Pulse
from bayplan.testing import make_node, make_pod

TERM = bytes([15])


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A watchdog whose time the test turns."""

    def __init__(self, limit: float = 60.0) -> None:
        self.clock = Clock()
        self.pulse = Pulse(self.clock)
        self.stuck: list[str] = []
        self.abandoned = 0
        self.armed: list[float] = []
        self.dog = Watchdog(
            self.pulse,
            limit,
            lambda what, _: self.stuck.append(what),
            self._abandon,
            self.clock,
            self.armed.append,
        )

    def _abandon(self) -> None:
        self.abandoned += 1

    def after(self, seconds: float) -> None:
        self.clock.now += seconds
        self.dog.look()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    monkeypatch.setattr(module, "log", structlog.get_logger())
    with structlog.testing.capture_logs() as captured:
        yield captured


def test_a_step_within_a_second_is_not_mentioned(lines: list[Any]) -> None:
    watched = Watched()
    watched.pulse.step(make_pod("p").obj())
    watched.after(0.9)
    assert lines == []


def test_a_long_attempt_is_warned_of_once(lines: list[Any]) -> None:
    watched = Watched()
    watched.pulse.step(make_pod("p").obj())
    watched.after(1.5)
    watched.after(1.5)
    [line] = lines
    assert (line["event"], line["pod"], line["log_level"]) == (
        "Attempt takes long",
        "default/p",
        "warning",
    )
    watched.pulse.step(make_pod("q").obj())
    watched.after(1.5)
    assert [line["pod"] for line in lines] == ["default/p", "default/q"]


def test_a_large_list_that_is_read_is_not_warned_of(lines: list[Any]) -> None:
    watched = Watched()
    watched.pulse.step()
    watched.after(30)
    assert lines == []


def test_a_thread_that_waits_for_work_is_not_stuck(lines: list[Any]) -> None:
    watched = Watched()
    watched.pulse.step()
    watched.pulse.rest()
    watched.after(3600)
    assert (lines, watched.stuck, watched.pulse.age()) == ([], [], 0)
    assert not watched.dog.stuck


@pytest.mark.usefixtures("lines")
def test_at_the_limit_it_is_reported_once_a_step() -> None:
    watched = Watched(limit=10)
    watched.pulse.step(make_pod("p").obj())
    watched.after(9.9)
    assert not watched.stuck
    watched.after(0.1)
    watched.after(5)
    assert watched.stuck == ["a step has not returned for 10 s with Pod default/p"]
    assert watched.dog.stuck
    watched.pulse.step()
    assert not watched.dog.stuck


@pytest.mark.usefixtures("lines")
def test_a_limit_of_zero_is_none() -> None:
    watched = Watched(limit=0)
    watched.pulse.step()
    watched.after(10_000)
    assert watched.stuck == []


@pytest.mark.usefixtures("lines")
def test_who_is_told_to_end_in_a_step_that_goes_on_is_abandoned() -> None:
    watched = Watched()
    watched.pulse.step()
    watched.dog.hear(TERM)
    assert watched.armed == [GRACE_SECONDS], "if even this thread cannot run any more"
    watched.after(PATIENCE_SECONDS - 0.1)
    assert not watched.abandoned
    watched.after(0.1)
    assert watched.abandoned


def test_who_is_told_to_end_and_gets_on_has_its_time() -> None:
    watched = Watched()
    watched.dog.hear(TERM)
    watched.clock.now += 0.1
    watched.pulse.step()
    watched.pulse.rest()
    watched.after(PATIENCE_SECONDS + 1)
    assert not watched.abandoned
    watched.after(GRACE_SECONDS)
    assert watched.abandoned, "Kubernetes would kill it soon"


def test_other_signals_do_not_end_it() -> None:
    watched = Watched()
    watched.pulse.step()
    watched.dog.hear(bytes([12]))
    watched.after(PATIENCE_SECONDS + 1)
    assert not watched.abandoned


class Sleeper(Plugin):
    """Filters when it is told to."""

    go_on = threading.Event()
    asked = threading.Event()

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        self.asked.set()
        self.go_on.wait(SOON)


def test_the_plugin_and_its_point_are_read_from_the_stack() -> None:
    cluster = Cluster(Sleeper, bare=True)
    cluster.add(make_node("n").capacity(cpu="1", pods=9), make_pod("p"))
    thread = threading.Thread(target=cluster.cycle)
    thread.start()
    assert Sleeper.asked.wait(SOON)
    culprit = culprit_of(sys._current_frames()[thread.ident or 0])
    Sleeper.go_on.set()
    thread.join()
    assert (culprit.plugin, culprit.where) == ("Sleeper", "Filter")
    assert culprit.pod is not None
    assert culprit.pod.name == "p"
    first, *_, last = culprit.stack.splitlines()
    assert first.endswith("in filter"), "where the plugin begins"
    assert "self.go_on.wait(SOON)" in culprit.stack
    assert "acquire" in last


LOCKED = """
import re, signal, os
from bayplan.app import watchdog
from bayplan.telemetry.pulse import Pulse
watchdog.GRACE_SECONDS = watchdog.LOCKED_SECONDS = 1.0
pulse = Pulse()
dog = watchdog.Watchdog(pulse, {limit}, print, print)
signal.signal(signal.SIGTERM, lambda number, _: dog.hear(bytes([number])))
dog.start()
pulse.step()
{signal}
re.match("(a+)+$", "a" * 60 + "b")
"""


@pytest.mark.parametrize(
    ("limit", "signal"),
    [(1, ""), (0, "os.kill(os.getpid(), signal.SIGTERM)")],
    ids=["past the limit", "told to end"],
)
def test_code_that_holds_the_interpreter_lock_ends_the_process(limit: int, signal: str) -> None:
    program = LOCKED.format(limit=limit, signal=signal)
    argv = [sys.executable, "-c", program]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=SOON)
    assert ended.returncode == 1
    assert "re/__init__.py" in ended.stderr

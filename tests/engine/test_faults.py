"""What is said of a plugin that breaks, how often it is logged, and what ends the process."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.config.points import Point
from bayplan.engine.faults import (
    TRACEBACK_PERIOD,
    AttemptFault,
    FailureLog,
    InvalidScoreError,
    is_interrupt,
)
from bayplan.framework import Status
from bayplan.framework.cycle_state import MissingStateError
from bayplan.framework.status import SKIP, Code
from bayplan.testing import make_node, make_pod

NO = Status.error("no luck")


@pytest.mark.parametrize(
    ("point", "cause", "text"),
    [
        (Point.RESERVE, NO, 'running Reserve plugin "P": no luck'),
        (Point.PRE_BIND, NO, 'running PreBind plugin "P": no luck'),
        (Point.FILTER, NO, 'running "P" filter plugin: no luck'),
        (Point.FILTER, NO.by("P"), "no luck"),
        (Point.PRE_BIND_PRE_FLIGHT, NO, 'running PreBindPreFlight "P": no luck'),
        (
            Point.PRE_BIND_PRE_FLIGHT,
            Status.pending("x"),
            'PreBindPreFlight P returned "Pending", which is unsupported. It is supposed to return '
            "Success, Skip, or Error status",
        ),
        (Point.SCORE, OSError("disk"), 'running Score plugin "P": OSError: disk'),
        (
            Point.FILTER,
            MissingStateError("nothing"),
            'running Filter plugins: plugin "P" failed with: nothing',
        ),
        (Point.SCORE, InvalidScoreError("too high"), "too high"),
        (None, OSError("webhook is down"), "webhook is down"),
    ],
)
def test_a_fault_is_put_into_kube_schedulers_words(
    point: Point | None, cause: Exception | Status, text: str
) -> None:
    fault = AttemptFault(point, "P", cause, "n1")
    assert str(fault) == text
    assert fault.status == Status.error(text).by("P")
    assert (fault.point, fault.plugin, fault.cause, fault.node) == (point, "P", cause, "n1")


def test_one_traceback_a_minute_is_logged_and_the_rest_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    failures = FailureLog("p", lambda: now)
    for _ in range(1000):
        failures.write("Mine", Point.FILTER, OSError("disk"), "n1")
    first = capsys.readouterr().out
    assert first.count("plugin failed") == 1
    assert "OSError: disk" in first
    failures.write("Mine", Point.SCORE, OSError("disk"), "")
    failures.write("Other", Point.FILTER, OSError("disk"), "")
    assert capsys.readouterr().out.count("plugin failed") == 2, "per plugin and point"
    now = TRACEBACK_PERIOD
    failures.write("Mine", Point.FILTER, OSError("disk"), "n1")
    again = capsys.readouterr().out
    assert again.count("plugin failed") == 1
    assert "suppressed=999" in re.sub(r"\x1b\[\d*m", "", again)


def test_another_exception_within_a_minute_has_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures = FailureLog("p", lambda: 0.0)

    def first() -> None:
        raise OSError("disk")

    def second() -> None:
        raise OSError("network")

    for raises in (first, second, first, second):
        try:
            raises()
        except OSError as error:
            failures.write("Mine", Point.FILTER, error, "n1")
    failures.write("Mine", Point.FILTER, KeyError("gpu"), "n1")
    said = capsys.readouterr().out
    assert said.count("plugin failed") == 3
    assert all(text in said for text in ("disk", "network", "gpu"))


class Mine(BaseException):
    """As unusual as an exception can be."""


@pytest.mark.parametrize(
    "error", [SystemExit(3), Mine("oh"), asyncio.CancelledError(), GeneratorExit()]
)
@pytest.mark.parametrize("point", [Point.FILTER, Point.SCORE, Point.RESERVE, Point.PERMIT])
def test_no_exception_of_a_plugin_ends_the_scheduler(point: Point, error: BaseException) -> None:
    def break_off() -> None:
        raise error

    cluster = Cluster(scripted("Bad", **{point.value: break_off}), bare=True)
    cluster.add(make_node("n1").capacity(pods=9), make_node("n2").capacity(pods=9), make_pod("p"))
    cluster.run()
    text = f'running {point.display} plugin "Bad": {type(error).__name__}'
    assert cluster.verdict[0] == "SchedulerError"
    assert cluster.verdict[1].startswith(text)
    where = {"plugin": "Bad", "extension_point": point.display}
    assert cluster.metric("bayplan_plugin_failures_total", **where) == 1


def test_the_node_that_a_plugin_broke_on_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    def judge(_self: Any, _state: Any, _pod: Any, node: Any) -> None:
        if node.name == "n2":
            sys.exit("enough")

    kind = scripted("Bad", filter=None)
    kind.filter = judge  # type: ignore[attr-defined]
    cluster = Cluster(kind, bare=True)
    cluster.add(*(make_node(f"n{i}").capacity(pods=9) for i in range(4)), make_pod("p"))
    cluster.run()
    assert cluster.verdict[1] == 'running Filter plugin "Bad": SystemExit: enough'
    assert "n2" in capsys.readouterr().out


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt; not so by itself in a background job of a shell."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_no_fault_of_a_plugin() -> None:
    assert is_interrupt(KeyboardInterrupt())
    cluster = Cluster(scripted("Slow", filter=KeyboardInterrupt), bare=True)

    def press() -> None:
        raise KeyboardInterrupt

    [plugin] = cluster.core.profiles["bayplan"].plugins.filter
    plugin.script = {"filter": press}  # type: ignore[union-attr]
    cluster.add(make_node("n1").capacity(pods=9), make_pod("p"))
    with pytest.raises(KeyboardInterrupt):
        cluster.run()


def test_a_keyboard_interrupt_that_no_signal_can_have_raised_is_one() -> None:
    own: list[bool] = []
    thread = threading.Thread(target=lambda: own.append(is_interrupt(KeyboardInterrupt())))
    thread.start()
    thread.join()
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        own.append(is_interrupt(KeyboardInterrupt()))
    finally:
        signal.signal(signal.SIGINT, previous)
    assert own == [False, False]
    assert not is_interrupt(SystemExit(1))


def test_a_status_that_is_no_answer_at_a_point_is_a_fault() -> None:
    fault = AttemptFault(Point.RESERVE, "P", SKIP)
    assert fault.status.code is Code.ERROR


class Odd(Status):
    """Breaks where it is looked at, by what is no Exception."""

    @property
    def rejected(self) -> bool:
        raise SystemExit(3)

    @property
    def ok(self) -> bool:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "methods",
    [("pre_filter",), ("filter",), ("pre_score",), ("reserve",), ("permit",), ("pre_bind",),
     ("pre_bind_pre_flight", "pre_bind")],
    ids=lambda methods: methods[0],
)  # fmt: skip
def test_an_answer_that_ends_the_interpreter_ends_one_attempt(methods: tuple[str, ...]) -> None:
    cluster = Cluster(scripted("Bad", **dict.fromkeys(methods, Odd())), bare=True)
    cluster.add(make_node("n1").capacity(pods=9), make_node("n2").capacity(pods=9), make_pod("p"))
    cluster.run()
    reason, text = cluster.verdict
    assert reason == "SchedulerError"
    assert "SystemExit" in text
    assert cluster.is_at_rest()

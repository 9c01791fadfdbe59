"""The cost of traces that are off: the hooks are there in two turns of three, and nowhere else."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.core import WARM_PODS
from bench.tracing import TURN, TURN_ON, Bed, Way, compare_off

from bayplan.scheduler import Scheduler
from bayplan.telemetry.metrics import Metrics
from bench import tracing


def test_a_third_of_the_pods_is_placed_without_hooks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: Counter[str] = Counter()
    for hook in ("attempt_began", "binding_began"):
        count = lambda *_, hook=hook: told.update([hook])  # noqa: E731
        monkeypatch.setattr(Metrics, hook, count, raising=False)
    before = Scheduler.schedule_one.__code__
    compare_off(Bed("SchedulingBasic", 20, 6 * TURN), 6 * TURN)
    placed = WARM_PODS + 4 * TURN
    assert told == {"attempt_began": placed, "binding_began": placed}
    assert Scheduler.schedule_one.__code__ is before
    starts = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts[:3] == ["hooks:", "ratio", "control"]


def test_with_traces_on_all_spans_of_those_that_are_sampled_arrive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracing, "RATES", (0, 1_000_000))
    tracing.main(nodes=20, pods=20 * TURN_ON, on=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in lines[:3]] == ["control", "0", "1000000"]
    spans, what, _ = lines[3].split(" ", 2)
    assert what == "spans"
    each = ("Schedule", "PreFilter", "Filter", "Score", "Bind")  # and calls that took long
    assert int(spans) >= len(each) * 2 * TURN_ON


def test_the_hooks_are_what_only_traces_listen_to() -> None:
    assert {"attempt_began", "binding_began", "worker_serves", "called"} == tracing.HOOKS


def test_every_caller_of_a_hook_is_there() -> None:
    found = {each.function.__qualname__ for each in tracing.hooked_functions()}
    assert {"Scheduler.schedule_one", "Scheduler._start", "Connection.observe_call"} <= found
    for each in tracing.hooked_functions():
        assert tracing.HOOKS & set(each.codes[Way.HOOKED].co_names)
        assert not tracing.HOOKS & set(each.codes[Way.BARE].co_names)


def test_a_median_lies_between_its_bounds() -> None:
    low, high = tracing._bounds([float(n) for n in range(100)])
    assert (low, high) == (40.0, 59.0)

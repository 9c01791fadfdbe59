"""Samples of all threads' stacks, as text and as flame graphs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from tests.waiting import SOON

from bayplan.telemetry import profile


def wait_here(over: threading.Event) -> None:
    over.wait(SOON)


@pytest.fixture
def waiting() -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=wait_here, args=(over,), name="somebody")
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("waiting")
def test_every_other_thread_is_sampled_by_name_down_to_the_function() -> None:
    session = profile.sample(0.05)
    shown = profile.render(session, "text")
    assert "somebody" in shown
    assert "wait_here" in shown
    assert "MainThread" not in shown, "it takes the samples"
    assert session.sample_count >= 1


@pytest.mark.usefixtures("waiting")
def test_flame_graphs_are_made_of_the_same_samples() -> None:
    session = profile.sample(0.05)
    assert "wait_here" in profile.render(session, "html")
    speedscope = json.loads(profile.render(session, "speedscope"))
    assert "wait_here" in {frame["name"] for frame in speedscope["shared"]["frames"]}


@pytest.mark.usefixtures("waiting")
def test_the_time_of_a_sample_is_that_since_the_one_before() -> None:
    session = profile.sample(0.05)
    times = [time for stack, time in session.frame_records if "somebody" in stack[1]]
    assert times
    assert sum(times) <= session.duration + 1e-6

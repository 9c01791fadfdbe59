from __future__ import annotations

import math

import pytest
from tests.queue.support import Clock, by_priority, pod

from bayplan.queue.backoff import BackoffQueue
from bayplan.queue.queued_pod import QueuedPod


def backoff_queue(clock: Clock, initial: float = 1, maximum: float = 10) -> BackoffQueue:
    return BackoffQueue(clock, initial, maximum, by_priority)


def failed(
    name: str, at: float, *, rejections: int = 0, errors: int = 0, priority: int = 0
) -> QueuedPod:
    queued = QueuedPod(pod(name, priority).obj(), at)
    queued.unschedulable_count = rejections
    queued.consecutive_errors_count = errors
    queued.unschedulable_plugins = frozenset() if errors else frozenset({"Fit"})
    return queued


@pytest.mark.parametrize(
    ("initial", "maximum", "failures", "seconds"),
    [
        pytest.param(1, 10, 0, 0, id="no failure"),
        pytest.param(1, 10, 1, 1, id="first"),
        pytest.param(1, 10, 2, 2, id="second doubles"),
        pytest.param(1, 10, 4, 8, id="last below the maximum"),
        pytest.param(1, 10, 5, 10, id="maximum"),
        pytest.param(1, 10, 100_000, 10, id="so many that doubling would overflow"),
        pytest.param(3, 1000, 5, 48, id="other settings"),
        pytest.param(20, 10, 1, 10, id="initial above maximum"),
    ],
)
def test_backoff_doubles_with_every_failure_up_to_its_maximum(
    initial: float, maximum: float, failures: int, seconds: float
) -> None:
    assert backoff_queue(Clock(), initial, maximum).duration(failures) == seconds


def test_a_rejected_pod_is_popped_early_unless_its_backoff_has_to_run_to_its_end() -> None:
    clock = Clock()
    queue = backoff_queue(clock)
    rejected, timed_out = (failed(n, clock(), rejections=1) for n in ("rejected", "timed-out"))
    timed_out.full_backoff = True
    queue.add(timed_out)
    assert queue.pop() is None
    queue.add(rejected)
    assert queue.pop() is rejected
    assert queue.pop() is None
    assert list(queue) == [timed_out]


@pytest.mark.parametrize(
    ("maximum", "rejections", "errors", "expiration"),
    [
        pytest.param(10, 0, 0, -math.inf, id="never failed"),
        pytest.param(10, 3, 0, 104.0, id="rejections count, cut to the second"),
        pytest.param(10, 3, 1, 101.0, id="an error counts alone"),
        pytest.param(0, 3, 1, -math.inf, id="switched off"),
    ],
)
def test_backoff_ends_in_a_window_of_one_second(
    maximum: float, rejections: int, errors: int, expiration: float
) -> None:
    queue = backoff_queue(Clock(), maximum=maximum)
    queued = failed("p", 100.7, rejections=rejections, errors=errors)
    assert queue.expiration(queued) == expiration


@pytest.mark.parametrize(
    ("now", "backing_off"),
    [(100.7, True), (101.6, True), (101.99, True), (102.0, False), (150.0, False)],
)
def test_a_pod_backs_off_to_the_end_of_its_window(now: float, backing_off: bool) -> None:
    queued = failed("p", 100.7, rejections=1)
    assert backoff_queue(Clock(now)).is_backing_off(queued) is backing_off


def test_pods_of_one_window_come_out_in_the_order_of_queue_sort() -> None:
    queue = backoff_queue(Clock(100))
    for queued in (
        failed("later window", 102.0, rejections=1, priority=9),
        failed("low", 100.1, rejections=1, priority=1),
        failed("high", 100.9, rejections=1, priority=2),
    ):
        queue.add(queued)
    assert [q.uid for q in iter(queue.pop, None)] == ["high", "low", "later window"]


def test_a_pod_that_failed_by_an_error_is_never_taken_early() -> None:
    queue = backoff_queue(Clock(100))
    queue.add(failed("error", 100, errors=1))
    queue.add(failed("rejected", 100, rejections=3))
    assert [q.uid for q in iter(queue.pop, None)] == ["rejected"]
    assert [q.uid for q in queue] == ["error"]


def test_completed_pods_of_both_kinds_come_out_and_the_others_stay() -> None:
    clock = Clock(100)
    queue = backoff_queue(clock)
    for queued in (
        failed("rejected", 100, rejections=1),
        failed("error", 100, errors=1),
        failed("rejected long", 100, rejections=4),
        failed("error long", 100, errors=4),
    ):
        queue.add(queued)
    assert queue.next_completion() == 102
    clock.now = 101.9
    assert list(queue.pop_completed()) == []
    clock.now = 102
    assert {q.uid for q in queue.pop_completed()} == {"rejected", "error"}
    assert {q.uid for q in queue} == {"rejected long", "error long"}
    assert len(queue) == 2
    assert queue.next_completion() == 109


def test_an_updated_pod_is_reordered_in_its_window() -> None:
    queue = backoff_queue(Clock(100))
    pods = {n: failed(n, 100, rejections=1, priority=p) for n, p in (("a", 5), ("b", 1))}
    error = failed("e", 100, errors=1)
    for queued in (*pods.values(), error):
        queue.add(queued)
    pods["b"].pod = pod("b", 9).obj()
    queue.update(pods["b"])
    queue.update(error)
    assert [q.uid for q in iter(queue.pop, None)] == ["b", "a"]
    assert error in list(queue)


@pytest.mark.parametrize("kind", ["rejections", "errors"])
def test_a_pod_can_be_taken_out_whichever_way_it_failed(kind: str) -> None:
    queue = backoff_queue(Clock(100))
    queued = failed("p", 100, **{kind: 1})
    assert not queue.discard(queued)
    queue.add(queued)
    assert queue.discard(queued)
    assert len(queue) == 0
    assert queue.next_completion() is None

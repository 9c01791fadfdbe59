from __future__ import annotations

import pytest
from tests.queue.support import NODE_ADD, NODE_LABEL, pod

from bayplan.queue import in_flight
from bayplan.queue.in_flight import Flight, InFlightPods, SeenEvent
from bayplan.queue.queued_pod import QueuedPod


def fly(pods: InFlightPods, name: str) -> QueuedPod:
    queued = QueuedPod(pod(name).obj(), 0.0)
    pods.add(queued)
    return queued


def flight(pods: InFlightPods, name: str) -> Flight:
    found = pods.get(name)
    assert found is not None
    return found


def seen(pods: InFlightPods, name: str) -> list[object]:
    return [event.new for event in pods.events_since_pop(flight(pods, name))]


def kept(pods: InFlightPods) -> int:
    """How many events are kept."""
    return sum(n for event, n in pods.event_counts().items() if event != "PodPopped")


def test_a_pod_sees_the_events_that_came_after_its_pop() -> None:
    pods = InFlightPods()
    pods.record(NODE_ADD, None, "before")
    fly(pods, "a")
    pods.record(NODE_ADD, None, 1)
    fly(pods, "b")
    pods.record(NODE_ADD, None, 2)
    assert seen(pods, "a") == [1, 2]
    assert seen(pods, "b") == [2]


def test_events_of_a_pod_itself_are_seen_by_it_alone() -> None:
    pods = InFlightPods()
    fly(pods, "a")
    fly(pods, "b")
    flight(pods, "a").own.append(SeenEvent(NODE_LABEL, None, "own"))
    pods.record(NODE_ADD, None, "all")
    assert seen(pods, "a") == ["own", "all"]
    assert seen(pods, "b") == ["all"]
    assert kept(pods) == 2


def test_kept_events_are_counted_by_name() -> None:
    pods = InFlightPods()
    assert pods.event_counts() == {"PodPopped": 0}
    fly(pods, "a")
    fly(pods, "b")
    flight(pods, "a").own.append(SeenEvent(NODE_LABEL, None, "own"))
    pods.record(NODE_ADD, None, 1)
    pods.record(NODE_ADD, None, 2)
    assert pods.event_counts() == {"PodPopped": 2, "NodeAdd": 2, NODE_LABEL.label: 1}


def test_events_are_freed_when_the_oldest_pod_that_needs_them_is_back() -> None:
    pods = InFlightPods()
    a = fly(pods, "a")
    pods.record(NODE_ADD, None, 1)
    b = fly(pods, "b")
    pods.record(NODE_ADD, None, 2)
    c = fly(pods, "c")
    assert pods.discard(b)
    assert kept(pods) == 2
    assert pods.discard(a)
    assert kept(pods) == 0
    pods.record(NODE_ADD, None, 3)
    assert seen(pods, "c") == [3]
    assert pods.discard(c)
    assert not pods.discard(c)
    assert (len(pods), kept(pods)) == (0, 0)


def test_events_are_not_kept_while_nothing_is_in_flight() -> None:
    pods = InFlightPods()
    pods.record(NODE_ADD, None, 1)
    assert kept(pods) == 0


def test_a_pod_that_was_away_for_too_many_events_knows_that_it_missed_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight, "MAX_EVENTS", 3)
    pods = InFlightPods()
    fly(pods, "old")
    pods.record(NODE_ADD, None, 0)
    fly(pods, "young")
    for i in (1, 2, 3):
        pods.record(NODE_ADD, None, i)
    assert kept(pods) == 3
    assert pods.missed_any(flight(pods, "old"))
    assert not pods.missed_any(flight(pods, "young"))
    assert seen(pods, "young") == [1, 2, 3]
    assert [q.uid for q in pods] == ["old", "young"]

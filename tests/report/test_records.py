"""What came of the last attempts is remembered, and memory is bounded."""

from __future__ import annotations

from bayplan.report.records import Records
from bayplan.testing import make_pod


def test_the_newest_are_remembered_and_the_oldest_forgotten() -> None:
    now = [0.0]
    records = Records(lambda: now[0], most=4)
    pods = [make_pod(f"p{i}").obj() for i in range(6)]
    for pod in pods:
        now[0] += 1
        records.add(pod, "bayplan", "Unschedulable", "no node fits")
    remembered = [pod.name for pod in pods if records.of(pod.uid) is not None]
    assert 2 <= len(remembered) <= 4
    assert remembered == [f"p{i}" for i in range(6 - len(remembered), 6)]


def test_the_last_attempt_counts_also_of_a_later_pod_of_the_same_name() -> None:
    now = [0.0]
    records = Records(lambda: now[0], most=4)
    first, second = make_pod("p").obj(), make_pod("p").uid("another").obj()
    for pod, reason in (
        (first, "Unschedulable"),
        (second, "SchedulerError"),
        (second, "Scheduled"),
    ):
        now[0] += 1
        records.add(pod, "bayplan", reason)
    found = records.named("default/p")
    assert found is not None
    assert (found.reason, found.at) == ("Scheduled", 3.0)
    earlier = records.of(first.uid)
    assert earlier is not None
    assert earlier.reason == "Unschedulable"
    assert records.named("default/none") is None

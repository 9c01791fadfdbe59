from __future__ import annotations

from operator import attrgetter

from tests.queue.support import PROFILE, pod

from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.unschedulable import UnschedulablePods

FIT, AFFINITY, PENDING = (PROFILE, "Fit"), (PROFILE, "Affinity"), (PROFILE, "Pending")


def rejected(name: str, *plugins: str, gate: str = "") -> QueuedPod:
    queued = QueuedPod(pod(name).obj(), 0.0)
    queued.unschedulable_plugins = frozenset(plugins) - {"Pending"}
    queued.pending_plugins = frozenset(plugins) & {"Pending"}
    queued.gating_plugin = gate
    return queued


def found(pods: UnschedulablePods, *plugins: tuple[str, str]) -> list[str]:
    return [queued.uid for queued in pods.waiting_for(plugins)]


def test_pods_are_found_by_every_plugin_that_rejected_them_and_once_only() -> None:
    pods = UnschedulablePods(attrgetter("rejectors"))
    for queued in (
        rejected("a", "Fit"),
        rejected("b", "Fit", "Affinity"),
        rejected("c", "Pending"),
    ):
        pods.add(queued)
    assert found(pods, FIT) == ["a", "b"]
    assert found(pods, AFFINITY, FIT) == ["b", "a"]
    assert found(pods, PENDING) == ["c"]
    assert found(pods, ("other profile", "Fit")) == []
    assert found(pods) == []


def test_gated_pods_are_found_by_the_plugin_that_holds_them_alone() -> None:
    pods = UnschedulablePods(lambda queued: (queued.gating_plugin,))
    pods.add(rejected("a", "Fit", "Affinity", gate="Affinity"))
    assert found(pods, FIT) == []
    assert found(pods, AFFINITY) == ["a"]


def test_a_pod_taken_out_is_not_found_though_it_was_blamed_on_others_meanwhile() -> None:
    pods = UnschedulablePods(attrgetter("rejectors"))
    queued = rejected("a", "Fit")
    assert not pods.discard(queued)
    pods.add(queued)
    queued.unschedulable_plugins = frozenset({"Affinity"})
    assert pods.discard(queued)
    assert found(pods, FIT, AFFINITY) == []
    assert len(pods) == 0


def test_the_oldest_is_the_one_that_came_first_of_those_still_there() -> None:
    pods = UnschedulablePods(attrgetter("rejectors"))
    assert pods.oldest() is None
    first, second = rejected("z", "Fit"), rejected("a", "Fit")
    pods.add(first)
    pods.add(second)
    assert pods.oldest() is first
    pods.discard(first)
    assert pods.oldest() is second

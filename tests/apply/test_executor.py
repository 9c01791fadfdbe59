"""How victims are evicted, and how long their preemptor is held back."""

from __future__ import annotations

import pytest
from tests.preemption.world import World, as_preemptor, node, preemptor, victim

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.binding.preparing import PreparingPod
from bayplan.client.errors import NotFound, ServerError
from bayplan.framework.status import Code, Status
from bayplan.testing import PROFILE, RecordedEvent, make_pod

MARK_A, MARK_B = ("mark", "a"), ("mark", "b")
DELETE_A, DELETE_B = ("delete", "a"), ("delete", "b")


def not_found() -> NotFound:
    return NotFound("gone")


def trouble() -> ServerError:
    return ServerError("trouble")


def two_victims() -> tuple[World, Pod, list[Pod]]:
    """A world after a preemption that evicts the Pods a and b, and the preemptor."""
    world = World(node("n1"))
    victims = world.put("n1", victim("a", 2), victim("b", 2, started=9).meta(generation=7))
    pod = as_preemptor(preemptor())
    assert world.preempt(pod).nominated_node == "n1"
    return world, pod, victims


def gated(world: World, pod: Pod) -> bool:
    status = world.preemption.pre_enqueue(pod)
    if status is None:
        return False
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for the preemption for this pod to be finished"
    return True


def test_victims_are_marked_then_deleted_then_told_of() -> None:
    world, pod, (a, b) = two_victims()
    assert world.client.sent == [MARK_A, MARK_B]
    assert world.client.conditions["b"] == Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=f"{PROFILE}: preempting to accommodate a higher priority pod",
        observed_generation=7,
    )
    world.client.answer()
    assert world.client.sent == [DELETE_A, DELETE_B]
    assert world.events == []
    world.client.answer()
    note = f"Preempted by pod {pod.uid} on node n1"
    assert world.events == [
        RecordedEvent(v.name, "Normal", "Preempted", "Preempting", note, pod.name, PROFILE)
        for v in (a, b)
    ]
    assert world.client.calls == []
    assert world.activated == []


def test_the_preemptor_is_held_back_until_its_victims_are_seen_to_leave() -> None:
    world, pod, (a, b) = two_victims()
    world.client.answer()
    assert gated(world, pod)
    world.client.answer()
    assert world.client.calls == []
    # Answered, but what the watch has not shown yet would be no room for the Pod.
    assert gated(world, pod)
    assert not gated(world, make_pod("somebody else").obj())
    for gone in (a, b):
        world.cache.remove(gone.uid)
    assert not gated(world, pod)


def test_the_preemptor_is_free_when_all_victims_leave_even_before_the_last_answer() -> None:
    world, pod, (a, b) = two_victims()
    world.cache.remove(a.uid)
    assert gated(world, pod)
    leaving = victim("b", 2).uid(b.uid).terminating().node("n1")
    world.cache.add(leaving.obj())
    assert not gated(world, pod)


def test_the_preemptor_is_free_when_the_node_is_gone() -> None:
    world, pod, _ = two_victims()
    world.cache.remove_node("n1")
    assert not gated(world, pod)


def test_a_victim_that_is_gone_already_is_nothing_to_tell() -> None:
    world, pod, victims = two_victims()
    world.client.answer(not_found())
    assert world.client.calls == []
    assert world.events == []
    assert world.activated == []
    for gone in victims:
        world.cache.remove(gone.uid)
    assert not gated(world, pod)


@pytest.mark.parametrize("answers", [0, 1], ids=["marking fails", "deleting fails"])
def test_a_preemptor_whose_eviction_failed_is_tried_again_at_once(answers: int) -> None:
    world, pod, _ = two_victims()
    for _ in range(answers):
        world.client.answer()
    world.client.answer(trouble())
    assert world.activated == [pod]
    assert world.events == []
    assert not gated(world, pod)


def evictions(world: World, result: str) -> float | None:
    name = "scheduler_preemption_goroutines_execution_total"
    return world.metrics.registry.get_sample_value(name, {"result": result})


def test_an_eviction_is_counted_when_its_last_request_is_answered() -> None:
    world, _, _ = two_victims()
    assert world.metrics.registry.get_sample_value("scheduler_preemption_victims_sum") == 2
    world.client.answer()
    (_, _, a_deleted), (_, _, b_deleted) = world.client.calls
    a_deleted(None)
    assert evictions(world, "success") is None
    b_deleted(None)
    assert evictions(world, "success") == 1


def test_an_eviction_of_which_one_request_failed_is_counted_as_one_error() -> None:
    world, _, _ = two_victims()
    world.client.answer()
    (_, _, a_deleted), (_, _, b_deleted) = world.client.calls
    a_deleted(trouble())
    b_deleted(None)
    assert (evictions(world, "success"), evictions(world, "error")) == (None, 1)


def test_one_failure_among_several_victims_waits_for_the_others() -> None:
    world, pod, _ = two_victims()
    (_, _, a_marked), (_, _, b_marked) = world.client.calls
    world.client.calls.clear()
    a_marked(trouble())
    assert world.activated == []
    b_marked(None)
    assert world.client.sent == [DELETE_B]
    world.client.answer()
    assert world.activated == [pod]


def test_an_older_eviction_does_not_free_the_preemptor_of_a_newer_one() -> None:
    world, pod, _ = two_victims()
    world.client.answer()
    old, world.client.calls = world.client.calls, []
    world.preempt(pod)
    for _, _, on_done in old:
        on_done(None)
    assert gated(world, pod)


def test_terminating_victims_are_not_deleted_again() -> None:
    world = World(node("n1"))
    world.put("n1", victim("a", 2).terminating(), victim("b", 2))
    world.preempt(preemptor())
    assert world.client.sent == [MARK_B]


def test_where_all_victims_are_leaving_nothing_is_sent_and_nobody_held_back() -> None:
    world = World(node("n1"))
    world.put("n1", victim("a", 4).terminating())
    pod = as_preemptor(preemptor())
    assert world.preempt(pod).nominated_node == "n1"
    assert world.client.calls == []
    assert not gated(world, pod)
    assert world.metric("scheduler_preemption_attempts_total") == 1
    # As kube-scheduler, which counts those that are leaving already, too.
    assert world.metric("scheduler_preemption_victims_count") == 1


def test_attempts_and_victims_are_counted() -> None:
    world, _, _ = two_victims()
    world.preempt(preemptor().spec(preemptionPolicy="Never"))
    assert world.metric("scheduler_preemption_attempts_total") == 2
    assert world.metric("scheduler_preemption_victims_count") == 1
    assert world.metric("scheduler_preemption_victims_sum") == 2


def test_nominations_of_lower_priority_on_the_node_are_cleared() -> None:
    world = World(node("n1"), node("n2"))
    world.put("n1", victim("a", 4))
    world.put("n2", victim("top", 4, priority=2000))
    nominator = world.world.nominator
    for name, priority, where in (("low", 1, "n1"), ("equal", 1000, "n1"), ("far", 1, "n2")):
        nominator.nominate(make_pod(name).priority(priority).nominated(where).obj())
    world.preempt(preemptor())
    assert world.client.sent == [("nominate ''", "low"), MARK_A]
    world.client.answer(not_found())
    world.preempt(preemptor())
    world.client.answer(trouble())
    assert world.events == []


# Victims that are on their way to the node


def waiting(world: World, pod: Pod) -> list[Status]:
    """Let ``pod`` wait in Permit; the list gets its verdict."""
    verdicts: list[Status] = []
    world.world.waiting.add(pod, {"Gatekeeper": 60.0}, lambda verdict, _: verdicts.append(verdict))
    return verdicts


def test_a_victim_that_waits_in_permit_loses_its_place_and_is_not_deleted() -> None:
    world = World(node("n1"))
    a, _ = world.put("n1", victim("a", 2), victim("b", 2, started=9))
    verdicts = waiting(world, a)
    pod = as_preemptor(preemptor())
    world.preempt(pod)
    (verdict,) = verdicts
    assert verdict.code is Code.ERROR, "it is tried again after a backoff"
    assert verdict.message == "waiting on permit for pod: preempted"
    assert verdict.plugin == "DefaultPreemption"
    assert world.client.sent == [MARK_B]
    note = f"Preempted by pod {pod.uid} on node n1 (in kube-scheduler memory)."
    assert [(e.pod, e.note) for e in world.events] == [("a", note)]


def test_a_victim_that_was_let_go_meanwhile_is_deleted() -> None:
    world = World(node("n1"))
    (a,) = world.put("n1", victim("a", 4))
    waiting(world, a)
    waits = world.world.waiting.get(a.uid)
    assert waits is not None
    waits.allow("Gatekeeper")
    world.preempt(preemptor())
    assert world.client.sent == [MARK_A]


def test_where_all_victims_wait_the_preemptor_is_not_held_back() -> None:
    world = World(node("n1"))
    (a,) = world.put("n1", victim("a", 4))
    waiting(world, a)
    pod = as_preemptor(preemptor())
    world.preempt(pod)
    assert world.client.calls == []
    assert world.activated == []
    assert not gated(world, pod)


def preparing(world: World, pod: Pod) -> PreparingPod:
    """Let ``pod`` be in PreBind."""
    return world.world.preparing.get(pod.uid) or world.world.preparing.begin(pod.uid)


def test_a_victim_in_pre_bind_is_called_back_and_not_deleted() -> None:
    world = World(node("n1"))
    (a,) = world.put("n1", victim("a", 4))
    prepared = preparing(world, a)
    pod = as_preemptor(preemptor())
    world.preempt(pod)
    assert prepared.cancelled == "preempted by DefaultPreemption"
    assert world.client.calls == []
    note = f"Preempted by pod {pod.uid} on node n1 (in kube-scheduler memory)."
    assert [(e.pod, e.note) for e in world.events] == [("a", note)]
    assert not gated(world, pod)


def test_a_victim_whose_pre_bind_is_over_is_deleted() -> None:
    world = World(node("n1"))
    (a,) = world.put("n1", victim("a", 4))
    assert preparing(world, a).finish()
    world.preempt(preemptor())
    assert world.client.sent == [MARK_A]

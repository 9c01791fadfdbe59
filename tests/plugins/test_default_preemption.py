"""DefaultPreemption as a part of the pipeline: from a Pod that fits nowhere to one that fits."""

from __future__ import annotations

from typing import Any

from tests.preemption.world import World, node, preemptor, victim

from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder


def full(*pods: PodBuilder) -> World:
    """A cluster of one node with these Pods on it."""
    world = World(node("n1"))
    world.add(*(pod.node("n1") for pod in pods))
    return world


def test_a_preemptor_gets_the_room_that_was_made_for_it() -> None:
    a, b = victim("a", 2), victim("b", 2)
    world = full(a, b)
    asks = preemptor()
    world.add(asks)
    world.cycle()
    assert world.recorder.nominated == [("preemptor", "n1")]
    assert world.nominated(asks) == ["n1"]
    assert world.state(asks) is QueueState.UNSCHEDULABLE

    # The first victim is gone, the second has not even been asked to go: held back.
    world.add(asks.nominated("n1"))
    world.wait(60)
    world.remove(a)
    assert world.state(asks) is QueueState.GATED
    world.client.answer()
    world.client.answer()

    # All calls are done. What wakes the Pod is the second victim's end.
    assert world.state(asks) is QueueState.GATED
    world.remove(b)
    assert world.state(asks) is QueueState.ACTIVE
    world.cycle()
    assert world.bound == [("preemptor", "n1")]


def test_a_victim_seen_to_leave_before_the_answer_came_frees_the_preemptor() -> None:
    a = victim("a", 4)
    world = full(a)
    asks = preemptor()
    world.add(asks)
    world.cycle()
    world.client.answer()
    world.wait(60)
    world.remove(a)
    assert world.state(asks) is QueueState.ACTIVE, "the deletion itself is not answered yet"


def test_while_its_victims_are_leaving_the_preemptor_takes_no_others() -> None:
    a, b = victim("a", 4), victim("b", 0)
    world = full(a, b)
    asks = preemptor()
    world.add(asks)
    world.cycle()
    world.client.answer()
    world.client.answer()
    world.add(asks.nominated("n1"))
    condition = {"reason": "PreemptionByScheduler"}
    world.add(a.terminating().condition("DisruptionTarget", "True", **condition))
    world.wait(60)
    world.remove(b)
    world.cycle()
    assert world.client.calls == []
    assert world.state(asks) is QueueState.UNSCHEDULABLE
    note = world.events[-1].note
    assert note.endswith("not eligible due to a terminating pod on the nominated node.")
    assert world.nominated(asks) == ["n1"]


def test_a_nomination_that_came_to_nothing_is_cleared() -> None:
    world = full(victim("top", 4, priority=5000))
    world.add(preemptor().nominated("n1"))
    world.cycle()
    assert world.recorder.nominated == [("preemptor", "")]


def test_deleted_pods_are_registered_for_but_wake_nobody_by_themselves() -> None:
    world = World(node("n1"))
    registered = world.preemption.events_to_register()
    assert [(r.event.resource, r.event.action) for r in registered] == [
        (Resource.ASSIGNED_POD, Action.DELETE)
    ]
    pod = preemptor().obj()
    hints: list[Any] = [registration.hint for registration in registered]
    assert [hint(pod, pod, None) for hint in hints] == [Hint.SKIP]

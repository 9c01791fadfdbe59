"""DefaultPreemption as a part of the pipeline: from a Pod that fits nowhere to one that fits."""

from __future__ import annotations

from typing import Any

from tests.preemption.world import PROFILE, World, node, preemptor, victim

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.inbox.messages import Changed, Removed
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder


class Pipeline(World):
    """A world with a scheduler in it."""

    def __init__(self, *pods: PodBuilder) -> None:
        super().__init__(node("n1"))
        self.scheduler = self.core.scheduler
        self.version = 0
        for pod in pods:
            self.see(pod.node("n1"))

    def see(self, pod: PodBuilder) -> Pod:
        """The API server shows ``pod`` as it is now."""
        self.version += 1
        seen = pod.meta(resourceVersion=str(self.version)).spec(schedulerName=PROFILE).obj()
        self.core.world.handlers.apply(Changed(POD, seen))
        return seen

    def gone(self, pod: PodBuilder) -> None:
        """The API server has deleted ``pod``."""
        self.core.world.handlers.apply(Removed(POD, pod.obj()))

    def cycle(self) -> None:
        """One scheduling cycle."""
        queued = self.core.world.queue.pop()
        assert queued is not None
        self.scheduler.schedule_one(queued)

    def state(self, pod: Pod) -> QueueState:
        """Where ``pod`` is."""
        queued = self.core.world.queue.get(pod.uid)
        assert queued is not None
        return queued.state

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds
        self.core.world.queue.flush()


def test_a_preemptor_gets_the_room_that_was_made_for_it() -> None:
    a, b = victim("a", 2), victim("b", 2)
    world = Pipeline(a, b)
    asks = preemptor()
    pod = world.see(asks)
    world.cycle()
    assert world.patches.nominated == [("preemptor", "n1")]
    assert world.core.world.queue.nominator.nominated_node(pod.uid) == "n1"
    assert world.state(pod) is QueueState.UNSCHEDULABLE

    # The first victim is gone, the second has not even been asked to go: held back.
    world.see(asks.nominated("n1"))
    world.wait(60)
    world.gone(a)
    assert world.state(pod) is QueueState.GATED
    world.client.answer()
    world.client.answer()

    # All calls are done. What wakes the Pod is the second victim's end.
    assert world.state(pod) is QueueState.GATED
    world.gone(b)
    assert world.state(pod) is QueueState.ACTIVE
    world.cycle()
    assert world.client.bound == [("preemptor", "n1")]


def test_a_victim_seen_to_leave_before_the_answer_came_frees_the_preemptor() -> None:
    a = victim("a", 4)
    world = Pipeline(a)
    pod = world.see(preemptor())
    world.cycle()
    world.client.answer()
    world.wait(60)
    world.gone(a)
    assert world.state(pod) is QueueState.ACTIVE, "the deletion itself is not answered yet"


def test_while_its_victims_are_leaving_the_preemptor_takes_no_others() -> None:
    a, b = victim("a", 4), victim("b", 0)
    world = Pipeline(a, b)
    asks = preemptor()
    pod = world.see(asks)
    world.cycle()
    world.client.answer()
    world.client.answer()
    world.see(asks.nominated("n1"))
    condition = {"reason": "PreemptionByScheduler"}
    world.see(a.terminating().condition("DisruptionTarget", "True", **condition))
    world.wait(60)
    world.gone(b)
    world.cycle()
    assert world.client.calls == []
    assert world.state(pod) is QueueState.UNSCHEDULABLE
    note = world.events.told[-1][5]
    assert note.endswith("not eligible due to a terminating pod on the nominated node.")
    assert world.core.world.queue.nominator.nominated_node(pod.uid) == "n1"


def test_a_nomination_that_came_to_nothing_is_cleared() -> None:
    world = Pipeline(victim("top", 4, priority=5000))
    world.see(preemptor().nominated("n1"))
    world.cycle()
    assert world.patches.nominated == [("preemptor", "")]


def test_deleted_pods_are_registered_for_but_wake_nobody_by_themselves() -> None:
    world = World(node("n1"))
    registered = world.plugin.events_to_register()
    assert [(r.event.resource, r.event.action) for r in registered] == [
        (Resource.ASSIGNED_POD, Action.DELETE)
    ]
    pod = preemptor().obj()
    hints: list[Any] = [registration.hint for registration in registered]
    assert [hint(pod, pod, None) for hint in hints] == [Hint.SKIP]

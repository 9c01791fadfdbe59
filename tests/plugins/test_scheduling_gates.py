from __future__ import annotations

from tests.plugins.harness import hint, make

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.status import Status
from bayplan.plugins.scheduling_gates import SchedulingGates
from bayplan.testing import make_pod

ELIMINATED = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED


def test_a_pod_without_gates_may_enter_the_queue() -> None:
    assert make(SchedulingGates).pre_enqueue(make_pod().obj()) is None


def test_a_gated_pod_waits_and_its_gates_are_named_in_order() -> None:
    status = make(SchedulingGates).pre_enqueue(make_pod().gate("foo", "bar").obj())
    assert status == Status.unresolvable("waiting for scheduling gates: [foo bar]")


def test_only_the_pods_own_gates_wake_it() -> None:
    plugin, gated, free = make(SchedulingGates), make_pod().gate("foo").obj(), make_pod().obj()
    assert hint(plugin, Resource.TARGET_POD, ELIMINATED, gated, gated, free) is Hint.QUEUE
    assert hint(plugin, Resource.UNSCHEDULED_POD, ELIMINATED, gated, free, free) is None
    assert hint(plugin, NODE, Action.ADD, gated, None, None) is None

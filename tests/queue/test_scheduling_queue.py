from __future__ import annotations

from typing import Any

import pytest
from tests.queue.support import (
    CLAIM_ADD,
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    PROFILE,
    Bench,
    Clock,
    by_priority,
    on,
    pod,
)

from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.status import Status
from bayplan.queue.hints import HintTable
from bayplan.queue.policy import QueuePolicy, QueueSettings
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.queue.states import QueueState
from bayplan.queue.update_events import UNSCHEDULABLE_TIMEOUT
from bayplan.testing import PodBuilder

ACTIVE, BACKOFF, UNSCHEDULABLE = QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE
GATED, IN_FLIGHT, OUTSIDE = QueueState.GATED, QueueState.IN_FLIGHT, QueueState.OUTSIDE

FIT = ("Fit", on(NODE_ADD, Hint.QUEUE))
AFFINITY = ("Affinity", on(NODE_LABEL, Hint.QUEUE))
DELETED = ("Fit", on(POD_DELETE, Hint.QUEUE))
UPDATED = ("Fit", on(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN), Hint.QUEUE))
GATES = (
    "Gates",
    on(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),
)


def gated(name: str, priority: int = 0) -> PodBuilder:
    return pod(name, priority, schedulingGates=[{"name": "g"}])


# The scheduling cycle


def test_pods_are_popped_by_priority_and_then_in_the_order_in_which_they_came() -> None:
    bench = Bench()
    for name, priority in (("a", 1), ("b", 5), ("c", 1)):
        bench.queue.add(pod(name, priority).obj())
        bench.clock.now += 1
    assert bench.names() == ["b", "a", "c"]


def test_a_popped_pod_is_in_flight_until_it_is_done() -> None:
    bench = Bench()
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    assert (queued.attempts, bench.state("a")) == (1, IN_FLIGHT)
    assert bench.queue.pop() is None
    bench.queue.done("a")
    bench.queue.done("a")
    assert bench.state("a") is OUTSIDE


@pytest.mark.parametrize(
    ("plugins", "pending", "state"),
    [
        pytest.param(["Fit"], [], UNSCHEDULABLE, id="rejected"),
        pytest.param([], ["Fit"], UNSCHEDULABLE, id="pending"),
        pytest.param([], [], BACKOFF, id="error"),
    ],
)
def test_where_a_pod_goes_when_its_attempt_failed_and_nothing_happened_meanwhile(
    plugins: list[str], pending: list[str], state: QueueState
) -> None:
    bench = Bench(FIT)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    assert bench.queue.add_unschedulable_if_not_present(queued, plugins, pending) is state
    assert bench.state("a") is state


@pytest.mark.parametrize(
    ("event", "pending", "state"),
    [
        pytest.param(NODE_ADD, False, BACKOFF, id="of the rejector"),
        pytest.param(NODE_LABEL, False, UNSCHEDULABLE, id="of another plugin"),
        pytest.param(CLAIM_ADD, False, UNSCHEDULABLE, id="of nobody"),
        pytest.param(UNSCHEDULABLE_TIMEOUT, False, BACKOFF, id="wildcard"),
        pytest.param(NODE_ADD, True, ACTIVE, id="of a pending plugin"),
    ],
)
def test_an_event_that_comes_while_the_pod_is_in_flight_is_not_missed(
    event: ClusterEvent, pending: bool, state: QueueState
) -> None:
    bench = Bench(FIT, AFFINITY)
    bench.queue.move_all(event)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    bench.queue.move_all(event)
    unschedulable, waiting = ((), ("Fit",)) if pending else (("Fit",), ())
    bench.queue.add_unschedulable_if_not_present(queued, unschedulable, waiting)
    assert bench.state("a") is state


def test_of_several_events_in_flight_the_strongest_answer_counts() -> None:
    bench = Bench(FIT, AFFINITY)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.queue.move_all(NODE_LABEL)
    bench.queue.add_unschedulable_if_not_present(queued, ["Fit"], ["Affinity"])
    assert bench.state("a") is ACTIVE


def test_an_event_in_flight_that_only_a_rejection_answers_leads_to_backoff() -> None:
    bench = Bench(FIT, AFFINITY)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.queue.add_unschedulable_if_not_present(queued, ["Fit"], ["Affinity"])
    assert bench.state("a") is BACKOFF


def test_an_event_before_the_pop_is_not_held_against_the_pod() -> None:
    bench = Bench(FIT)
    bench.queue.add(pod("other").obj())
    bench.pop()
    bench.queue.move_all(NODE_ADD)
    assert bench.reject(pod("a").obj(), "Fit").state is UNSCHEDULABLE


def test_a_pod_that_may_have_missed_events_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.queue.in_flight.MAX_EVENTS", 1)
    bench = Bench(FIT, AFFINITY)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.queue.move_all(NODE_LABEL)
    bench.queue.add_unschedulable_if_not_present(queued, ["Fit"])
    assert bench.state("a") is BACKOFF


def test_a_pod_that_is_not_in_flight_cannot_come_back() -> None:
    bench = Bench()
    queued = bench.reject(pod("a").obj(), "Fit")
    with pytest.raises(LookupError, match="default/a"):
        bench.queue.add_unschedulable_if_not_present(queued, ["Fit"])


def test_a_pod_that_comes_back_held_by_pre_enqueue_is_gated() -> None:
    bench = Bench(FIT)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    bench.gates.held.add("a")
    bench.queue.add_unschedulable_if_not_present(queued)
    assert (bench.state("a"), queued.gating_plugin) == (GATED, "Gates")


def test_counters_follow_the_kind_of_failure() -> None:
    bench = Bench(FIT)
    queued = bench.reject(pod("a").obj(), "Fit")
    counts = [(queued.unschedulable_count, queued.consecutive_errors_count)]
    for plugins in ([], [], ["Fit"]):
        bench.backed_off()
        bench.queue.flush()
        bench.queue.activate([queued.pod])
        assert bench.pop() is queued
        bench.queue.add_unschedulable_if_not_present(queued, plugins)
        counts.append((queued.unschedulable_count, queued.consecutive_errors_count))
    assert counts == [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert queued.attempts == 4


# Backoff


def test_a_woken_pod_waits_for_its_backoff_and_then_becomes_active() -> None:
    bench = Bench(FIT)
    bench.reject(pod("a").obj(), "Fit")
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is BACKOFF
    assert bench.queue.next_timer() == 2.0
    bench.clock.now += 1.9
    bench.queue.flush()
    assert bench.state("a") is BACKOFF
    bench.clock.now = 1002.0
    assert bench.queue.next_timer() == 0
    bench.queue.flush()
    assert bench.state("a") is ACTIVE
    assert bench.queue.next_timer() is None


def test_a_pod_woken_after_its_backoff_becomes_active_at_once() -> None:
    bench = Bench(FIT)
    bench.reject(pod("a").obj(), "Fit")
    bench.backed_off()
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is ACTIVE


def test_without_backoff_a_woken_pod_becomes_active_at_once() -> None:
    bench = Bench(FIT, settings=QueueSettings(max_backoff=0))
    bench.reject(pod("a").obj(), "Fit")
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is ACTIVE


def test_while_no_pod_is_active_a_rejected_one_is_popped_before_its_backoff_ends() -> None:
    bench = Bench(FIT)
    bench.reject(pod("a").obj(), "Fit")
    bench.queue.move_all(NODE_ADD)
    bench.queue.add(pod("b", -1).obj())
    assert bench.names() == ["b", "a"]
    assert bench.recorder.incoming_pods["active", "PopFromBackoffQ"] == 1


def test_a_pod_that_failed_by_an_error_is_not_popped_before_its_backoff_ends() -> None:
    bench = Bench()
    bench.reject(pod("a").obj())
    assert bench.queue.pop() is None
    bench.clock.now += 2
    bench.queue.flush()
    assert bench.names() == ["a"]


def test_a_pod_from_backoff_is_not_asked_again_by_pre_enqueue() -> None:
    bench = Bench(FIT)
    bench.reject(pod("a").obj(), "Fit")
    bench.queue.move_all(NODE_ADD)
    asked = bench.gates.asked
    bench.backed_off()
    bench.queue.flush()
    assert bench.state("a") is ACTIVE
    assert bench.gates.asked == asked


# Time


def test_a_pod_that_no_event_wakes_is_tried_again_after_five_minutes() -> None:
    bench = Bench(FIT)
    early = bench.reject(pod("early").obj(), "Fit")
    bench.clock.now += 20
    bench.reject(pod("late").obj(), "Fit")
    assert bench.queue.next_timer() == 280
    bench.clock.now += 279
    bench.queue.flush()
    assert bench.state("early") is UNSCHEDULABLE
    bench.clock.now += 31
    bench.queue.flush()
    assert (bench.state("early"), bench.state("late")) == (ACTIVE, ACTIVE)
    assert early.was_flushed_from_unschedulable
    assert bench.recorder.incoming_pods["active", "UnschedulableTimeout"] == 2


def test_a_pod_flushed_for_its_age_is_not_marked_so_after_its_next_attempt() -> None:
    bench = Bench(FIT)
    queued = bench.reject(pod("a").obj(), "Fit")
    bench.clock.now += 301
    bench.queue.flush()
    bench.queue.add_unschedulable_if_not_present(bench.pop(), ["Fit"])
    assert not queued.was_flushed_from_unschedulable


def test_the_look_for_old_pods_comes_every_thirty_seconds() -> None:
    bench = Bench(FIT, settings=QueueSettings(max_unschedulable=1))
    bench.clock.now += 30
    bench.queue.flush()
    bench.reject(pod("a").obj(), "Fit")
    assert bench.queue.next_timer() == 30
    bench.clock.now += 29
    bench.queue.flush()
    assert bench.state("a") is UNSCHEDULABLE


def test_an_old_pod_that_is_gated_is_asked_again_every_five_minutes() -> None:
    bench = Bench()
    bench.gates.held.add("a")
    bench.queue.add(pod("a").obj())
    bench.clock.now += 301
    bench.queue.flush()
    queued = bench.queue.get("a")
    assert bench.state("a") is GATED
    assert queued is not None
    assert not queued.was_flushed_from_unschedulable
    bench.gates.held.clear()
    bench.clock.now += 270
    bench.queue.flush()
    assert bench.state("a") is GATED
    assert bench.queue.next_timer() == 30
    bench.clock.now += 30
    bench.queue.flush()
    assert bench.state("a") is ACTIVE
    assert bench.recorder.incoming_pods["active", "UnschedulableTimeout"] == 1


def test_sleeping_as_long_as_told_always_makes_something_due() -> None:
    bench = Bench(FIT)
    for i in range(5):
        bench.clock.now += 7.3
        bench.reject(pod(f"r{i}").obj(), "Fit")
        bench.reject(pod(f"e{i}").obj())
    for _ in range(100):
        timer = bench.queue.next_timer()
        if timer is None:
            break
        before = bench.queue.counts()
        bench.clock.now += timer
        bench.queue.flush()
        assert bench.queue.counts() != before
    counts = bench.queue.counts()
    assert counts.pop("active") == 10
    assert not any(counts.values())


# Cluster events


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        pytest.param(NODE_ADD, {"fit", "both"}, id="of one plugin"),
        pytest.param(NODE_LABEL, {"affinity", "both"}, id="of the other"),
        pytest.param(CLAIM_ADD, set(), id="of none"),
        pytest.param(UNSCHEDULABLE_TIMEOUT, {"fit", "affinity", "both"}, id="wildcard"),
    ],
)
def test_an_event_wakes_the_pods_whose_rejectors_registered_for_it(
    event: ClusterEvent, woken: set[str]
) -> None:
    bench = Bench(FIT, AFFINITY)
    bench.reject(pod("fit").obj(), "Fit")
    bench.reject(pod("affinity").obj(), "Affinity")
    bench.reject(pod("both").obj(), "Fit", "Affinity")
    bench.backed_off()
    bench.queue.move_all(event)
    assert {q.uid for q in bench.queue.pending_pods()[ACTIVE]} == woken


def test_a_pending_plugin_wakes_its_pod_without_backoff() -> None:
    bench = Bench(FIT)
    bench.reject(pod("a").obj(), pending=("Fit",))
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is ACTIVE


def test_hints_see_the_waiting_pod_and_the_object_before_and_after() -> None:
    calls: list[tuple[Any, ...]] = []

    def hint(*args: Any) -> Hint:
        calls.append(args)
        return Hint.SKIP

    bench = Bench(("Fit", on(NODE_ADD, hint)))
    waiting = pod("a").obj()
    bench.reject(waiting, "Fit")
    bench.queue.move_all(NODE_ADD, "old", "new")
    assert calls == [(waiting, "old", "new")]
    assert bench.state("a") is UNSCHEDULABLE


def test_hints_of_plugins_that_rejected_nobody_are_not_called() -> None:
    def hint(*_: Any) -> Hint:
        raise AssertionError("nobody waits for this plugin")

    bench = Bench(FIT, ("Other", on(NODE_ADD, hint)))
    bench.reject(pod("a").obj(), "Fit")
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is BACKOFF


def test_a_precheck_narrows_the_pods_that_are_woken() -> None:
    bench = Bench(FIT)
    for name in ("a", "b"):
        bench.reject(pod(name).obj(), "Fit")
    bench.queue.move_all(NODE_ADD, precheck=lambda queued: queued.pod.name == "b")
    assert (bench.state("a"), bench.state("b")) == (UNSCHEDULABLE, BACKOFF)


def test_any_event_wakes_a_pod_that_an_extender_rejected() -> None:
    bench = Bench(extenders=True)
    bench.reject(pod("a").obj(), "Extender")
    bench.queue.move_all(CLAIM_ADD)
    assert bench.state("a") is BACKOFF


@pytest.mark.parametrize(
    ("action", "tell"),
    [
        (Action.ADD, lambda q, p: q.assigned_pod_added(p)),
        (Action.DELETE, lambda q, p: q.assigned_pod_deleted(p)),
        (
            Action.UPDATE_POD_LABEL,
            lambda q, p: q.assigned_pod_updated(p, pod("x").node("n").label("new").obj()),
        ),
    ],
    ids=["added", "deleted", "updated"],
)
def test_what_happens_to_assigned_pods_wakes_those_who_wait_for_it(
    action: Action, tell: Any
) -> None:
    bench = Bench(("Affinity", on(ClusterEvent(Resource.ASSIGNED_POD, action), Hint.QUEUE)))
    bench.reject(pod("a").obj(), "Affinity")
    tell(bench.queue, pod("x").node("n").obj())
    assert bench.state("a") is BACKOFF


def test_a_woken_pod_that_pre_enqueue_holds_is_gated() -> None:
    bench = Bench(FIT)
    queued = bench.reject(pod("a").obj(), "Fit")
    bench.gates.held.add("a")
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is GATED
    assert queued.unschedulable_plugins == {"Fit", "Gates"}


# Activation


def test_activation_skips_hints_and_backoff() -> None:
    bench = Bench(FIT)
    bench.reject(pod("unschedulable").obj(), "Fit")
    bench.reject(pod("backoff").obj())
    bench.queue.activate([pod("unschedulable").obj(), pod("backoff").obj(), pod("unknown").obj()])
    assert {q.uid for q in bench.queue.pending_pods()[ACTIVE]} == {"unschedulable", "backoff"}
    assert bench.state("unknown") is OUTSIDE


def test_activation_of_an_active_pod_changes_nothing() -> None:
    bench = Bench()
    bench.queue.add(pod("a").obj())
    bench.queue.activate([pod("a").obj()])
    assert bench.names() == ["a"]


def test_activation_of_a_pod_in_flight_is_remembered_for_that_pod_alone() -> None:
    bench = Bench(FIT)
    for name in ("a", "b"):
        bench.queue.add(pod(name).obj())
    a, b = bench.pop(), bench.pop()
    bench.queue.activate([a.pod])
    bench.queue.add_unschedulable_if_not_present(a, ["Fit"])
    bench.queue.add_unschedulable_if_not_present(b, ["Fit"])
    assert (bench.state("a"), bench.state("b")) == (BACKOFF, UNSCHEDULABLE)


def test_activation_does_not_pass_by_pre_enqueue() -> None:
    bench = Bench()
    bench.gates.held.add("a")
    bench.queue.add(pod("a").obj())
    bench.queue.activate([pod("a").obj()])
    assert bench.state("a") is GATED


# PreEnqueue


def test_a_pod_with_a_gate_waits_until_its_last_gate_is_removed() -> None:
    bench = Bench(GATES, FIT)
    old, new = gated("a").obj(), pod("a").obj()
    bench.gates.held.add("a")
    bench.queue.add(old)
    queued = bench.queue.get("a")
    assert queued is not None
    assert (queued.state, queued.gating_plugin) == (GATED, "Gates")
    assert queued.initial_attempt_timestamp is None
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is GATED
    bench.gates.held.clear()
    bench.clock.now += 5
    bench.queue.update(old, new)
    assert (queued.state, queued.gating_plugin) == (ACTIVE, "")
    assert queued.initial_attempt_timestamp == bench.clock.now


def test_a_gated_pod_moves_only_by_events_of_the_plugin_that_holds_it() -> None:
    bench = Bench(("Gates", on(CLAIM_ADD)), FIT)
    queued = bench.reject(pod("a").obj(), "Fit")
    bench.gates.held.add("a")
    bench.queue.move_all(NODE_ADD)
    bench.gates.held.clear()
    bench.backed_off()
    bench.queue.move_all(NODE_ADD)
    assert bench.state("a") is GATED
    bench.queue.move_all(CLAIM_ADD)
    assert bench.state("a") is ACTIVE
    assert queued.gating_plugin == ""


@pytest.mark.parametrize(("gates", "state"), [(True, ACTIVE), (False, GATED)])
def test_an_event_that_is_nothing_to_pre_enqueue_costs_nothing_for_gated_pods(
    gates: bool, state: QueueState
) -> None:
    bench = Bench(
        ("Gates", on(CLAIM_ADD)), ("Gates", EventRegistration(NODE_ADD, None, gates=gates))
    )
    rejected = bench.reject(pod("rejected").obj(), "Gates")
    bench.gates.held.add("held")
    bench.queue.add(pod("held").obj())
    bench.gates.held.clear()
    bench.backed_off()
    bench.queue.move_all(NODE_ADD)
    assert bench.state("held") is state
    assert rejected.state is ACTIVE
    bench.queue.move_all(CLAIM_ADD)
    assert bench.state("held") is ACTIVE


def test_a_gated_pod_that_still_backs_off_goes_to_backoff_when_it_is_let_go() -> None:
    bench = Bench(("Gates", on(CLAIM_ADD)), FIT)
    bench.reject(pod("a").obj(), "Fit")
    bench.gates.held.add("a")
    bench.queue.move_all(NODE_ADD)
    bench.gates.held.clear()
    bench.queue.move_all(CLAIM_ADD)
    assert bench.state("a") is BACKOFF


def test_the_plugin_that_holds_a_pod_is_asked_first_and_another_may_hold_it_next() -> None:
    asked: list[str] = []
    answers = {"First": Status(), "Second": Status.unresolvable("no")}

    def plugin(name: str) -> Any:
        def pre_enqueue(_: Pod) -> Status:
            asked.append(name)
            return answers[name]

        return name, pre_enqueue

    events = {"First": on(NODE_LABEL), "Second": on(NODE_ADD)}
    queue = SchedulingQueue(
        Clock(),
        QueuePolicy(
            by_priority,
            HintTable({PROFILE: list(events.items())}),
            {PROFILE: [plugin("First"), plugin("Second")]},
        ),
    )
    queue.add(pod("a").obj())
    queued = queue.get("a")
    assert queued is not None
    assert queued.gating_plugin == "Second"
    asked.clear()
    queue.move_all(NODE_ADD)
    assert asked == ["Second"]
    answers |= {"First": Status.error("broken"), "Second": Status()}
    queue.move_all(NODE_ADD)
    assert queued.gating_plugin == "First"
    answers["First"] = Status()
    queue.move_all(NODE_ADD)
    assert queued.state is GATED
    queue.move_all(NODE_LABEL)
    assert queued.state is ACTIVE


# Changes of Pods


def test_a_pod_added_twice_is_there_once_in_its_newest_version() -> None:
    bench = Bench()
    newest = pod("a").label("new").obj()
    bench.queue.add(pod("a").obj())
    bench.queue.add(newest)
    assert bench.pop().pod is newest
    assert bench.queue.pop() is None


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    bench = Bench()
    bench.queue.update(pod("a").obj(), pod("a").label("new").obj())
    assert bench.names() == ["a"]
    assert bench.recorder.incoming_pods["active", "UnscheduledPodAdd"] == 1


def test_a_pod_recreated_under_its_name_takes_the_place_of_the_old_one() -> None:
    bench = Bench()
    old, new = pod("a").obj(), pod("a").uid("a-2").obj()
    bench.queue.add(old)
    bench.queue.update(old, new)
    assert bench.state("a") is OUTSIDE
    assert bench.pop().pod is new


def test_a_pod_recreated_while_the_old_one_is_in_flight_is_tried_in_its_own_right() -> None:
    bench = Bench()
    old, new = pod("a").obj(), pod("a").uid("a-2").obj()
    bench.queue.add(old)
    flying = bench.pop()
    bench.queue.delete(old)
    bench.queue.add(new)
    assert bench.queue.add_unschedulable_if_not_present(flying, ["Fit"]) is OUTSIDE
    assert bench.pop().pod is new


def test_an_active_pod_that_was_updated_takes_its_new_place_in_the_order() -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.queue.add(pod(name).obj())
    bench.queue.update(pod("b").obj(), pod("b", 9).obj())
    assert bench.names() == ["b", "a"]


def test_a_pod_in_backoff_that_was_updated_stays_there() -> None:
    bench = Bench()
    bench.reject(pod("a").obj())
    new = pod("a").label("new").obj()
    bench.queue.update(pod("a").obj(), new)
    queued = bench.queue.get("a")
    assert queued is not None
    assert (queued.state, queued.pod) == (BACKOFF, new)


@pytest.mark.parametrize(
    ("new", "state"),
    [
        pytest.param(pod("a").req(cpu="1"), BACKOFF, id="an update its rejector waits for"),
        pytest.param(pod("a").req(cpu="2").label("x"), UNSCHEDULABLE, id="any other update"),
    ],
)
def test_an_unschedulable_pod_is_woken_by_an_update_that_its_rejector_waits_for(
    new: PodBuilder, state: QueueState
) -> None:
    bench = Bench(UPDATED)
    old = pod("a").req(cpu="2").obj()
    bench.reject(old, "Fit")
    newest = new.obj()
    bench.queue.update(old, newest)
    queued = bench.queue.get("a")
    assert queued is not None
    assert (queued.state, queued.pod) == (state, newest)


def test_an_update_in_flight_changes_nothing_until_the_pod_comes_back() -> None:
    bench = Bench(UPDATED)
    old, new = pod("a").req(cpu="2").obj(), pod("a").req(cpu="1").obj()
    bench.queue.add(old)
    bench.queue.add(pod("b", -1).obj())
    a, b = bench.pop(), bench.pop()
    bench.queue.update(old, new)
    assert a.pod is old
    for queued in (a, b):
        bench.queue.add_unschedulable_if_not_present(queued, ["Fit"])
    assert (a.pod, a.state) == (new, BACKOFF)
    assert b.state is UNSCHEDULABLE


@pytest.mark.parametrize("state", [ACTIVE, BACKOFF, UNSCHEDULABLE, GATED])
def test_a_deleted_pod_is_gone_wherever_it_was(state: QueueState) -> None:
    bench = Bench(FIT)
    a = pod("a").obj()
    if state is GATED:
        bench.gates.held.add("a")
    if state in (ACTIVE, GATED):
        bench.queue.add(a)
    else:
        bench.reject(a, *(["Fit"] if state is UNSCHEDULABLE else []))
    assert bench.state("a") is state
    bench.queue.delete(a)
    bench.queue.delete(a)
    assert bench.state("a") is OUTSIDE
    bench.backed_off()
    bench.queue.flush()
    bench.queue.move_all(NODE_ADD)
    assert bench.queue.pop() is None
    assert +bench.recorder.rejections == {}


@pytest.mark.parametrize("bound", [False, True], ids=["deleted", "bound by somebody else"])
def test_a_pod_that_went_away_in_flight_does_not_come_back(bound: bool) -> None:
    bench = Bench(FIT)
    bench.queue.add(pod("a").obj())
    queued = bench.pop()
    bench.queue.delete(queued.pod, bound=bound)
    assert bench.state("a") is IN_FLIGHT
    assert bench.queue.add_unschedulable_if_not_present(queued, ["Fit"]) is OUTSIDE
    assert bench.state("a") is OUTSIDE


# Nominations


def test_a_pod_that_comes_in_with_a_nomination_is_nominated() -> None:
    bench = Bench()
    bench.queue.add(pod("a").nominated("n1").obj())
    assert [p.name for p in bench.queue.nominator.nominated_pods("n1")] == ["a"]


def test_a_gated_pod_keeps_its_nomination() -> None:
    bench = Bench()
    bench.gates.held.add("a")
    bench.queue.add(pod("a").nominated("n1").obj())
    assert list(bench.queue.nominator.nominated_nodes()) == ["n1"]


@pytest.mark.parametrize("state", [ACTIVE, BACKOFF, UNSCHEDULABLE])
def test_nominated_pods_are_kept_in_their_newest_version(state: QueueState) -> None:
    bench = Bench(FIT)
    old, new = pod("a").obj(), pod("a").label("new").obj()
    if state is ACTIVE:
        bench.queue.add(old)
    else:
        bench.reject(old, *(["Fit"] if state is UNSCHEDULABLE else []))
    bench.queue.nominator.nominate(old, "n1")
    bench.queue.update(old, new)
    assert bench.state("a") is state
    assert list(bench.queue.nominator.nominated_pods("n1")) == [new]


@pytest.mark.parametrize(
    ("end", "woken"),
    [
        pytest.param(
            lambda q, p: q.delete(p), {"lower", "equal"}, id="deleted: who ranks no higher is woken"
        ),
        pytest.param(
            lambda q, p: q.update(p, pod("nominee", 5).obj()), {"lower", "equal"}, id="cleared"
        ),
        pytest.param(lambda q, p: q.delete(p, bound=True), set(), id="bound: nothing got free"),
        pytest.param(
            lambda q, p: q.update(p, pod("nominee", 5).nominated("n1").label("x").obj()),
            set(),
            id="still nominated",
        ),
    ],
)
def test_the_end_of_a_nomination_frees_the_node_for_pods_that_rank_no_higher(
    end: Any, woken: set[str]
) -> None:
    bench = Bench(DELETED)
    nominee = pod("nominee", 5).nominated("n1").obj()
    for name, priority in (("lower", 1), ("equal", 5), ("higher", 9)):
        bench.reject(pod(name, priority).obj(), "Fit")
    bench.queue.add(nominee)
    end(bench.queue, nominee)
    assert {q.uid for q in bench.queue.pending_pods()[BACKOFF]} == woken


# What it tells


def test_metrics_count_every_move_by_queue_and_event() -> None:
    bench = Bench(FIT)
    bench.queue.add(pod("a").obj())
    bench.queue.add_unschedulable_if_not_present(bench.pop(), ["Fit"])
    bench.queue.move_all(NODE_ADD)
    bench.clock.now += 5
    bench.queue.flush()
    bench.queue.add_unschedulable_if_not_present(bench.pop())
    bench.queue.activate([pod("a").obj()])
    bench.gates.held.add("b")
    bench.queue.add(pod("b").obj())
    bench.queue.activate([pod("b").obj()])
    assert bench.recorder.incoming_pods == {
        ("active", "UnscheduledPodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "ForceActivate"): 1,
        ("unschedulable", "UnscheduledPodAdd"): 1,
    }


def test_rejections_are_counted_while_the_pod_is_in_the_queue() -> None:
    bench = Bench(FIT, AFFINITY)
    queued = bench.reject(pod("a").obj(), "Fit", pending=("Affinity",))
    assert +bench.recorder.rejections == {("Fit", PROFILE): 1, ("Affinity", PROFILE): 1}
    bench.gates.held.add("a")
    bench.queue.activate([queued.pod])
    bench.queue.activate([queued.pod])
    assert bench.recorder.rejections["Gates", PROFILE] == 1
    bench.gates.held.clear()
    bench.queue.activate([queued.pod])
    bench.pop()
    assert +bench.recorder.rejections == {}
    bench.queue.done("a")
    assert +bench.recorder.rejections == {}


def test_statistics_count_every_state() -> None:
    bench = Bench(FIT)
    bench.reject(pod("unschedulable").obj(), "Fit")
    bench.reject(pod("backoff").obj())
    bench.gates.held.add("gated")
    bench.queue.add(pod("gated").obj())
    bench.queue.add(pod("flying").nominated("n1").obj())
    bench.pop()
    bench.queue.add(pod("active").obj())
    bench.queue.move_all(NODE_ADD, precheck=lambda _: False)
    counts = bench.queue.counts()
    assert counts.pop("pending") == counts.pop("incomplete") == 0
    assert counts == dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 1)
    assert bench.queue.in_flight_events() == {"PodPopped": 1, NODE_ADD.label: 1}
    assert len(bench.queue.nominator) == 1
    assert {
        state: [q.uid for q in found] for state, found in bench.queue.pending_pods().items()
    } == {
        ACTIVE: ["active"],
        BACKOFF: ["backoff"],
        UNSCHEDULABLE: ["unschedulable"],
        GATED: ["gated"],
        QueueState.GROUPED: [],
        IN_FLIGHT: ["flying"],
    }
    assert repr(bench.queue.get("gated")) == "QueuedPod(default/gated, gated, attempts=0)"

"""The cycle as a whole: what becomes of a Pod, and what the Pod is told, whatever happens to it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.builders import PodBuilder, make_node, make_pod
from tests.core_harness import Call, Cluster, only, profile, uid_of
from tests.scripted import scripted

from bayplan.attempt.report import NOTE_LIMIT, cut_note
from bayplan.framework import SKIP, WAIT, PostFilterResult, PreFilterResult, Status
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Resource
from bayplan.queue.places import Place
from bayplan.scheduler import DRAIN_SECONDS

OOM = RuntimeError("out of luck")


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


def test_a_pod_that_fits_is_bound_and_told_so() -> None:
    cluster = Cluster()
    pod = make_pod("p").req(cpu="1")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.bound == [("p", "n1")]
    assert cluster.notes == [("Scheduled", "Successfully assigned default/p to n1")]
    assert cluster.recorder.events[0].type == "Normal"
    assert cluster.recorder.events[0].action == "Binding"
    assert cluster.node_of(pod) == "n1"
    assert cluster.place(pod) is Place.OUTSIDE
    assert cluster.cache.is_assumed(uid_of(pod))
    assert cluster.metric(
        "scheduler_schedule_attempts_total", result="scheduled", profile="bayplan"
    )
    assert cluster.is_at_rest()

    cluster.add(pod.node("n1"))
    assert not cluster.cache.is_assumed(uid_of(pod))
    assert cluster.is_at_rest()


def test_a_pod_that_fits_nowhere_waits_and_is_told_why() -> None:
    cluster = Cluster()
    pod = make_pod("p").req(cpu="9").meta(generation=3)
    cluster.add(node(), node("n2"), pod)
    cluster.run()
    text = (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert cluster.notes == [("FailedScheduling", text)]
    assert cluster.verdict == ("Unschedulable", text)
    condition = cluster.recorder.conditions[0][1]
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert condition.observed_generation == 3
    assert cluster.place(pod) is Place.UNSCHEDULABLE
    assert cluster.rejectors(pod) == {"NodeResourcesFit"}
    assert cluster.is_at_rest()

    cluster.add(node("n3", cpu="16"))
    cluster.wait(1)
    cluster.run()
    assert cluster.bound == [("p", "n3")]


def test_without_any_node_a_pod_is_tried_again_after_a_backoff() -> None:
    cluster = Cluster()
    pod = make_pod("p")
    cluster.add(pod)
    cluster.run()
    assert cluster.verdict == ("Unschedulable", "no nodes available to schedule pods")
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.recorder.nominated == [("p", "")]


def test_a_profile_without_post_filter_adds_nothing_to_the_message() -> None:
    cluster = Cluster(profiles=[profile("NodeUnschedulable", bare=True)])
    cluster.add(node().unschedulable(), make_pod("p"))
    cluster.run()
    assert cluster.verdict[1] == "0/1 nodes are available: 1 node(s) were unschedulable."


@pytest.mark.parametrize(
    ("message", "note"),
    [
        pytest.param("x" * NOTE_LIMIT, "x" * NOTE_LIMIT, id="just fits"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too long"),
        pytest.param("é" * 513, "é" * 510 + " ...", id="never half a character"),
    ],
)
def test_the_note_of_an_event_is_cut_the_condition_is_not(message: str, note: str) -> None:
    assert cut_note(message) == note
    assert len(note.encode()) <= NOTE_LIMIT


def test_a_long_message_is_whole_in_the_condition() -> None:
    cluster = Cluster(scripted("Verbose", filter=Status.unschedulable("no" * 800)), bare=True)
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert len(cluster.notes[0][1].encode()) == NOTE_LIMIT
    assert len(cluster.verdict[1]) > 1600


def test_a_pod_that_is_being_deleted_is_not_tried() -> None:
    cluster = Cluster()
    pod = make_pod("p").terminating()
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.notes == [("FailedScheduling", "skip schedule deleting pod: default/p")]
    assert not cluster.bound
    assert cluster.place(pod) is Place.OUTSIDE
    assert cluster.is_at_rest()


def test_pods_of_other_schedulers_are_left_alone_but_count_once_they_have_a_node() -> None:
    cluster = Cluster()
    foreign = make_pod("foreign").spec(schedulerName="other").req(cpu="3")
    ours = make_pod("ours").req(cpu="2")
    cluster.add(node(), foreign)
    cluster.run()
    assert not cluster.bound
    assert cluster.place(foreign) is Place.OUTSIDE

    cluster.add(foreign.node("n1"), ours)
    cluster.run()
    assert cluster.verdict[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.remove(foreign)
    cluster.wait(1)
    cluster.run()
    assert cluster.bound == [("ours", "n1")]


def test_each_profile_has_its_own_plugins() -> None:
    no = scripted("No", filter=Status.unschedulable("no"))
    cluster = Cluster(
        no,
        profiles=[
            profile("No", bare=True, scheduler_name="strict"),
            profile(bare=True, scheduler_name="lax"),
        ],
    )
    strict = make_pod("a").spec(schedulerName="strict")
    lax = make_pod("b").spec(schedulerName="lax")
    cluster.add(node(), strict, lax)
    cluster.run()
    assert cluster.bound == [("b", "n1")]
    assert cluster.verdict[1] == "0/1 nodes are available: 1 no."
    assert cluster.metric(
        "scheduler_schedule_attempts_total", result="unschedulable", profile="strict"
    )
    assert cluster.metric("scheduler_schedule_attempts_total", result="scheduled", profile="lax")


# What plugins may do wrong

_OF_THE_CYCLE = {
    "pre_filter": ("PreFilter", OOM),
    "filter": ("Filter", OOM),
    "filter_nodes": ("Filter", OOM),
    "pre_score": ("PreScore", OOM),
    "score": ("Score", OOM),
    "score_nodes": ("Score", OOM),
    "reserve": ("Reserve", OOM),
    "permit": ("Permit", OOM),
    "pre_bind": ("PreBind", OOM),
    "bind": ("Bind", OOM),
}


@pytest.mark.parametrize("method", _OF_THE_CYCLE)
def test_a_plugin_that_raises_costs_its_pod_the_attempt(method: str) -> None:
    point, error = _OF_THE_CYCLE[method]
    kind = scripted("Bad", **{method: error})
    cluster = Cluster(kind, profiles=[only("Bad", "PrioritySort", "DefaultBinder")])
    pod = make_pod("p")
    cluster.add(node(), node("n2"), pod)
    cluster.run()
    text = f'running {point} plugin "Bad": RuntimeError: out of luck'
    assert cluster.verdict == ("SchedulerError", text)
    assert cluster.notes == [("FailedScheduling", text)]
    assert cluster.metric("bayplan_plugin_failures_total", plugin="Bad", extension_point=point) == 1
    assert cluster.metric("scheduler_schedule_attempts_total", result="error", profile="bayplan")
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.node_of(pod) == ""
    assert not cluster.bound
    assert cluster.is_at_rest()

    bad = cluster.plugin(kind)
    bad.script = {"filter_nodes": lambda: _zeros(cluster), "score_nodes": lambda: _zeros(cluster)}
    bad.script |= {"score": 1, "bind": SKIP}
    cluster.wait(2)
    cluster.run()
    assert cluster.bound == [("p", "n1")], "the scheduler goes on, and so does the Pod"
    assert cluster.is_at_rest()


def _zeros(cluster: Cluster) -> Any:
    return cluster.cache.nodes.pod_count * 0


@pytest.mark.parametrize(
    ("method", "answer", "point"),
    [
        pytest.param("pre_filter", "yes", "PreFilter", id="PreFilter"),
        pytest.param("filter", True, "Filter", id="Filter"),
        pytest.param("filter_nodes", [0, 0], "Filter", id="Filter columns: a list"),
        pytest.param("pre_score", 5, "PreScore", id="PreScore"),
        pytest.param("score", "high", "Score", id="Score"),
        pytest.param("score_nodes", [0.5], "Score", id="Score columns: a list"),
        pytest.param("reserve", "fine", "Reserve", id="Reserve"),
        pytest.param("permit", ("wait", 3), "Permit", id="Permit: no status"),
        pytest.param("permit", (WAIT, "long"), "Permit", id="Permit: no seconds"),
        pytest.param("pre_bind", 1, "PreBind", id="PreBind"),
        pytest.param("pre_bind_pre_flight", 1, "PreBindPreFlight", id="PreBindPreFlight"),
    ],
)
def test_a_plugin_that_answers_nonsense_costs_its_pod_the_attempt(
    method: str, answer: Any, point: str
) -> None:
    script = {method: answer, "pre_bind": None} if method == "pre_bind_pre_flight" else {}
    cluster = Cluster(scripted("Bad", **(script or {method: answer})), bare=True)
    pod = make_pod("p")
    cluster.add(node(), node("n2"), pod)
    cluster.run()
    assert cluster.verdict[0] == "SchedulerError"
    assert cluster.verdict[1].startswith(f'running {point} plugin "Bad": ')
    assert cluster.place(pod) is Place.BACKOFF
    assert not cluster.bound
    assert cluster.is_at_rest()


def test_a_bind_plugin_that_answers_nonsense_costs_its_pod_the_attempt() -> None:
    cluster = Cluster(scripted("Bad", bind="done"), profiles=[only("PrioritySort", "Bad")])
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert cluster.verdict[1].startswith('running Bind plugin "Bad": TypeError: ')
    assert cluster.is_at_rest()


@pytest.mark.parametrize("answer", [OOM, None, Status.unschedulable("no")])
def test_a_post_filter_plugin_that_breaks_costs_its_pod_the_attempt(answer: Any) -> None:
    bad = scripted("Bad", post_filter=answer, filter=Status.unschedulable("full"))
    cluster = Cluster(bad, bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict[0] == "SchedulerError"
    assert cluster.verdict[1].startswith('running PostFilter plugin "Bad": ')
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.is_at_rest()


@pytest.mark.parametrize("method", ["unreserve", "post_bind"])
def test_where_a_failure_changes_nothing_it_is_only_counted(method: str) -> None:
    cluster = Cluster(scripted("Bad", **{method: OOM}), bare=True)
    cluster.client.outcome = RuntimeError("conflict") if method == "unreserve" else None
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    point = {"unreserve": "Unreserve", "post_bind": "PostBind"}[method]
    assert cluster.metric("bayplan_plugin_failures_total", plugin="Bad", extension_point=point) == 1
    assert cluster.is_at_rest()
    assert cluster.notes[0][0] == ("Scheduled" if method == "post_bind" else "FailedScheduling")


@pytest.mark.parametrize("answer", [OOM, "no", Status.error("later")])
def test_a_pre_enqueue_plugin_that_breaks_holds_the_pod_back(answer: Any) -> None:
    bad = scripted("Bad", pre_enqueue=answer)
    cluster = Cluster(bad, bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.place(pod) is Place.GATED
    cluster.plugin(bad).script = {}
    cluster.add(pod.label("a", "b"))
    cluster.run()
    assert cluster.bound == [("p", "n1")]


@pytest.mark.parametrize("script", [{"less": OOM}, {"sort_key": OOM}], ids=["less", "sort_key"])
def test_a_queue_sort_plugin_that_breaks_leaves_the_order_of_arrival(script: Any) -> None:
    cluster = Cluster(scripted("Bad", **script), profiles=[only("Bad", "DefaultBinder")])
    cluster.add(node())
    for name in "cab":
        cluster.clock.time += 1
        cluster.add(make_pod(name))
    cluster.run()
    assert [pod for pod, _ in cluster.bound] == ["c", "a", "b"]


def test_a_users_queue_sort_plugin_sets_the_order() -> None:
    class ByName(scripted("ByName", less=None)):  # type: ignore[misc]
        def less(self, a: Any, b: Any) -> bool:
            return bool(a.pod.name < b.pod.name)

    cluster = Cluster(ByName, profiles=[only("ByName", "DefaultBinder")])
    cluster.add(node(), make_pod("c"), make_pod("a"), make_pod("b"))
    cluster.run()
    assert [pod for pod, _ in cluster.bound] == ["a", "b", "c"]


def test_a_state_that_breaks_when_it_is_tried_out_costs_its_pod_the_attempt() -> None:
    class Fragile:
        def what_if(self, rows: Any) -> Any:
            raise OOM

    class Leaves(scripted("Leaves", pre_filter=None, filter=None)):  # type: ignore[misc]
        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
            state.write("Leaves", Fragile())

    cluster = Cluster(Leaves, bare=True)
    pod = make_pod("p").nominated("n1")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict == ("SchedulerError", "RuntimeError: out of luck")
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.is_at_rest()


def test_a_plugin_that_throws_what_is_no_answer_is_undone() -> None:
    class Strange(Status):
        @property
        def ok(self) -> bool:
            raise OOM

    cluster = Cluster(scripted("Bad", reserve=Strange()), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict == ("SchedulerError", "RuntimeError: out of luck")
    assert cluster.node_of(pod) == ""
    assert cluster.is_at_rest()


def test_a_filter_error_on_one_node_ends_the_attempt_though_others_fit() -> None:
    def broken_node(node: Any) -> Status | None:
        return Status.error("disk unreadable") if node.name == "n2" else None

    class Disk(scripted("Disk", filter=None)):  # type: ignore[misc]
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            return broken_node(node)

    cluster = Cluster(Disk)
    pod = make_pod("p").req(cpu="1")
    cluster.add(node("n1"), node("n2"), pod)
    cluster.run()
    text = 'running "Disk" filter plugin: disk unreadable'
    assert cluster.verdict == ("SchedulerError", text)
    assert cluster.place(pod) is Place.BACKOFF
    cluster.add(node("n2").unschedulable())
    cluster.wait(2)
    cluster.run()
    assert cluster.bound == [("p", "n1")], "an earlier plugin rejects that node, so none asks it"


# PostFilter


def test_what_a_post_filter_plugin_nominates_is_told_and_tried_first() -> None:
    make_room = scripted(
        "MakeRoom", post_filter=PostFilterResult(Status(), "n2"), filter=Status.unschedulable("x")
    )
    cluster = Cluster(make_room, bare=True)
    pod = make_pod("p")
    cluster.add(node("n1"), node("n2"), pod)
    cluster.run()
    assert cluster.verdict == ("Unschedulable", "0/2 nodes are available: 2 x.")
    assert cluster.recorder.nominated == [("p", "n2")]
    assert cluster.queue.nominator.nominated_node(uid_of(pod)) == "n2"
    plugin = cluster.plugin(make_room)
    plugin.script = {}
    cluster.add(pod.nominated("n2").label("a", "b"))
    cluster.wait(2)
    cluster.run()
    assert cluster.bound == [("p", "n2")]
    assert cluster.queue.nominator.nominated_node(uid_of(pod)) == ""


@pytest.mark.parametrize(
    ("answers", "message", "nominated"),
    [
        pytest.param(
            [PostFilterResult(Status.unschedulable("a")), PostFilterResult(Status.pending("b"))],
            " a, b",
            None,
            id="rejections are joined",
        ),
        pytest.param(
            [PostFilterResult(Status.unresolvable("a")), PostFilterResult(Status())],
            " a",
            None,
            id="unresolvable ends it",
        ),
        pytest.param(
            [PostFilterResult(Status.unschedulable("a"), ""), PostFilterResult(Status(), "n1")],
            "",
            "n1",
            id="success ends it and adds nothing",
        ),
        pytest.param(
            [PostFilterResult(Status.error("oh")), PostFilterResult(Status(), "n1")],
            " oh",
            None,
            id="error ends it",
        ),
        pytest.param(
            [PostFilterResult(Status.unschedulable("a"), ""), PostFilterResult(Status.pending())],
            " a",
            "",
            id="the last meaningful nomination stays",
        ),
    ],
)
def test_post_filter_plugins_run_until_one_decides(
    answers: list[PostFilterResult], message: str, nominated: str | None
) -> None:
    full = Status.unschedulable("full")
    plugins = [scripted(f"P{i}", post_filter=a, filter=full) for i, a in enumerate(answers)]
    cluster = Cluster(*plugins, bare=True)
    cluster.add(node("n1"), make_pod("p"))
    cluster.run()
    assert cluster.verdict == ("Unschedulable", f"0/1 nodes are available: 1 full.{message}")
    assert cluster.recorder.nominated == [("p", nominated)]


def test_after_a_pre_filter_rejection_post_filter_plugins_see_no_candidate() -> None:
    seen: list[int] = []

    class Look(scripted("Look", pre_filter=None, post_filter=None)):  # type: ignore[misc]
        def pre_filter(self, *_: Any) -> Status:
            return Status.unresolvable("never")

        def post_filter(self, state: Any, pod: Any, failure: Any) -> PostFilterResult:
            seen.append(len(failure.candidates))
            return PostFilterResult(Status.unschedulable())

    cluster = Cluster(Look, bare=True)
    cluster.add(node("n1"), make_pod("p"))
    cluster.run()
    assert seen == [0]
    assert cluster.verdict[1] == "0/1 nodes are available: never."


# Reserve and Permit


@pytest.mark.parametrize("method", ["reserve", "permit"])
def test_a_rejection_of_the_chosen_node_is_undone_and_told(method: str) -> None:
    calls: list[str] = []

    def recording(name: str) -> Any:
        def unreserve(self: Any, *_: Any) -> None:
            calls.append(name)

        return type(name, (scripted(name, reserve=None),), {"unreserve": unreserve})

    no = scripted("No", **{method: Status.unschedulable("not now", "try later")})
    cluster = Cluster(recording("First"), recording("Second"), no, bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    text = "0/1 nodes are available: 1 not now, 1 try later."
    assert cluster.verdict == ("Unschedulable", text)
    assert calls == ["Second", "First"]
    assert cluster.place(pod) is Place.UNSCHEDULABLE
    assert cluster.rejectors(pod) == {"No"}
    assert cluster.node_of(pod) == ""
    assert cluster.is_at_rest()


def test_a_pod_that_waits_in_permit_is_nominated_and_occupies_no_worker() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 60.0)), bare=True)
    cluster.pool.held = True
    pods = [make_pod(f"p{i}") for i in range(3)]
    cluster.add(node(), *pods)
    cluster.run()
    assert cluster.recorder.nominated == [("p0", "n1"), ("p1", "n1"), ("p2", "n1")]
    assert cluster.in_flight == 3
    assert cluster.node_of(pods[0]) == "n1"
    assert not cluster.bound
    cluster.pool.held = False
    for waiting in cluster.core.waiting:
        assert waiting.pending_plugins() == ["Hold"]
        assert waiting.node_name == "n1"
        waiting.allow("Hold")
    cluster.take_in()
    assert len(cluster.bound) == 3
    assert cluster.is_at_rest()
    assert cluster.metric("scheduler_permit_wait_duration_seconds_count", result="Success") == 3


def test_a_waiting_pod_may_be_allowed_by_another_thread() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 60.0)), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    waiting = cluster.core.waiting.get(uid_of(pod))
    assert waiting is not None
    thread = threading.Thread(target=waiting.allow, args=("Hold",))
    thread.start()
    thread.join()
    assert cluster.in_flight == 1, "the outcome waits in the inbox"
    cluster.take_in()
    assert cluster.bound == [("p", "n1")]
    assert cluster.is_at_rest()


def test_a_rejected_wait_frees_the_node_and_does_not_wake_the_pod_itself() -> None:
    freed = EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE))
    hold = scripted("Hold", permit=(WAIT, 60.0), events_to_register=lambda: [freed])
    cluster = Cluster(hold)
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod)
    cluster.run()
    cluster.plugin(hold).script["permit"] = None
    cluster.add(other)
    cluster.run()
    assert cluster.place(other) is Place.UNSCHEDULABLE
    waiting = cluster.core.waiting.get(uid_of(pod))
    assert waiting is not None
    waiting.reject("Hold", "changed my mind")
    cluster.take_in()
    assert cluster.verdict == ("Unschedulable", "0/1 nodes are available: 1 changed my mind.")
    assert cluster.place(pod) is Place.UNSCHEDULABLE, "its own leaving is no reason to try again"
    assert cluster.place(other) is Place.BACKOFF, "but for others it is"
    assert cluster.is_at_rest()


def test_silence_in_permit_counts_as_no() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 90.0)), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    cluster.wait(89)
    assert cluster.in_flight == 1
    cluster.wait(1)
    cluster.take_in()
    text = "rejected due to timeout after waiting 1m30s at plugin Hold"
    assert cluster.verdict == ("Unschedulable", f"0/1 nodes are available: 1 {text}.")
    assert cluster.rejectors(pod) == {"Hold"}
    assert cluster.metric("scheduler_permit_wait_duration_seconds_count", result="Unschedulable")
    assert cluster.is_at_rest()


def test_pods_that_time_out_in_permit_do_not_spin() -> None:
    # Each leaves a node when its time is up, and that would wake the other one.
    cluster = Cluster(scripted("Hold", permit=(WAIT, 0.5)), bare=True)
    pods = [make_pod("a"), make_pod("b")]
    cluster.add(node(), *pods)
    for _ in range(600):
        cluster.run()
        cluster.wait(0.1)
    attempts = [cluster.queue.get(uid_of(pod)).attempts for pod in pods]
    # Backoffs of 1, 2, 4, 8, 10, 10, ... seconds, each rounded up to a window of one second.
    assert all(5 <= n <= 10 for n in attempts), attempts


@pytest.mark.parametrize("answer", [WAIT, (WAIT, 0), (WAIT, -1), (WAIT, True), (WAIT, "60")])
def test_a_wait_in_permit_needs_a_positive_time(answer: Any) -> None:
    cluster = Cluster(scripted("Hold", permit=answer), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict[0] == "SchedulerError"
    assert cluster.verdict[1].startswith('running Permit plugin "Hold": ')
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.node_of(pod) == ""


def test_a_waiting_pod_that_is_preempted_is_tried_again_after_a_backoff() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 90.0)), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    waiting = cluster.core.waiting.get(uid_of(pod))
    assert waiting is not None
    assert waiting.preempt("Preemptor", "preempted")
    assert not waiting.preempt("Preemptor", "preempted")
    cluster.take_in()
    assert cluster.verdict == ("SchedulerError", "waiting on permit for pod: preempted")
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.is_at_rest()


@pytest.mark.parametrize("gone", [False, True], ids=["deletion begins", "gone at once"])
def test_a_waiting_pod_that_is_deleted_frees_its_node_and_writes_nothing(gone: bool) -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 90.0)), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    if gone:
        cluster.remove(pod)
    else:
        cluster.add(pod.terminating())
    cluster.take_in()
    assert cluster.node_of(pod) == ""
    assert not cluster.bound
    if gone:
        assert cluster.place(pod) is Place.OUTSIDE
        assert cluster.recorder.conditions == []
    cluster.remove(pod)
    assert cluster.place(pod) is Place.OUTSIDE
    assert cluster.is_at_rest()


# PreBind and Bind


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        pytest.param(
            Status.error("no disk"),
            ("SchedulerError", 'running PreBind plugin "Prepare": no disk'),
            id="error",
        ),
        pytest.param(Status.unschedulable("no disk"), ("Unschedulable", "no disk"), id="rejected"),
    ],
)
def test_a_pre_bind_failure_is_tried_again_after_a_backoff(
    answer: Status, verdict: tuple[str, str]
) -> None:
    cluster = Cluster(scripted("Prepare", pre_bind=answer), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict == verdict
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.rejectors(pod) == set()
    assert cluster.node_of(pod) == ""
    assert cluster.recorder.nominated == [("p", "n1"), ("p", "")]
    assert cluster.is_at_rest()


@pytest.mark.parametrize(
    ("flight", "calls", "nominated"),
    [
        pytest.param(SKIP, ["pre_bind_pre_flight"], [], id="nothing to do"),
        pytest.param(
            Status(), ["pre_bind_pre_flight", "pre_bind"], [("p", "n1")], id="something to do"
        ),
    ],
)
def test_pre_bind_runs_where_its_pre_flight_says_so(
    flight: Status, calls: list[str], nominated: list[tuple[str, str]]
) -> None:
    prepare = scripted("Prepare", pre_bind_pre_flight=flight, pre_bind=None)
    cluster = Cluster(prepare, bare=True)
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert cluster.plugin(prepare).calls == calls
    assert cluster.recorder.nominated == nominated
    assert cluster.bound == [("p", "n1")]


@pytest.mark.parametrize(
    ("flight", "text"),
    [
        (Status.error("bad"), 'running PreBindPreFlight "Prepare": bad'),
        (
            Status.unschedulable("bad"),
            'PreBindPreFlight Prepare returned "Unschedulable", which is unsupported. It is '
            "supposed to return Success, Skip, or Error status",
        ),
    ],
    ids=["error", "unsupported"],
)
def test_a_pre_flight_failure_undoes_the_assumption(flight: Status, text: str) -> None:
    prepare = scripted("Prepare", pre_bind_pre_flight=flight, pre_bind=None)
    cluster = Cluster(prepare, bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict == ("SchedulerError", text)
    assert cluster.node_of(pod) == ""
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.is_at_rest()


def test_a_bind_that_fails_is_undone_and_tried_again_after_a_backoff() -> None:
    cluster = Cluster()
    cluster.client.outcome = RuntimeError("the object has been modified")
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod)
    cluster.run()
    text = 'running Bind plugin "DefaultBinder": the object has been modified'
    assert cluster.verdict == ("SchedulerError", text)
    assert cluster.place(pod) is Place.BACKOFF
    assert cluster.node_of(pod) == ""
    assert cluster.is_at_rest()
    cluster.client.outcome = None
    cluster.add(other)
    cluster.run()
    assert cluster.bound[-1] == ("other", "n1")


def test_a_pod_counts_while_its_binding_is_on_its_way() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod, other)
    cluster.run()
    assert cluster.bound == [("p", "n1")]
    assert cluster.place(pod) is Place.IN_FLIGHT
    assert cluster.verdict[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.client.answer(RuntimeError("no"))
    cluster.take_in()
    assert cluster.place(other) is Place.BACKOFF, "woken by the room that is free again"
    assert cluster.is_at_rest()


def test_a_pod_deleted_while_it_is_bound_frees_its_node_at_once() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod, other)
    cluster.run()
    cluster.remove(pod)
    assert cluster.node_of(pod) == ""
    assert cluster.place(other) is Place.BACKOFF
    conditions = len(cluster.recorder.conditions)
    cluster.client.answer(RuntimeError("not found"))
    cluster.take_in()
    assert cluster.place(pod) is Place.OUTSIDE
    assert len(cluster.recorder.conditions) == conditions, "there is no Pod to write it on"
    assert cluster.is_at_rest()


def test_a_pod_bound_by_somebody_else_meanwhile_stays_where_it_is() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    pod = make_pod("p").req(cpu="3")
    cluster.add(node("n1"), node("n2"), pod)
    cluster.run()
    cluster.add(pod.node("n2"))
    assert cluster.node_of(pod) == "n2"
    cluster.client.answer(RuntimeError("conflict"))
    cluster.take_in()
    assert cluster.node_of(pod) == "n2"
    assert cluster.place(pod) is Place.OUTSIDE
    assert cluster.recorder.conditions == []
    assert cluster.is_at_rest()


def test_a_binding_seen_before_its_answer_comes_is_confirmed_once() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    pod = make_pod("p").req(cpu="3")
    cluster.add(node(), pod)
    cluster.run()
    cluster.add(pod.node("n1"))
    cluster.client.answer()
    cluster.take_in()
    assert cluster.notes == [("Scheduled", "Successfully assigned default/p to n1")]
    assert cluster.cache.nodes.info(0).requested("cpu") == 3000
    assert cluster.is_at_rest()


def test_an_update_while_the_pod_is_in_flight_is_not_lost() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    pod = make_pod("p").req(cpu="1")
    cluster.add(node(), pod)
    cluster.run()
    cluster.add(pod.label("team", "blue"))
    cluster.client.answer(RuntimeError("no"))
    cluster.take_in()
    queued = cluster.queue.get(uid_of(pod))
    assert queued is not None
    assert queued.pod.labels == {"team": "blue"}


def test_post_bind_runs_after_a_bind_that_succeeded() -> None:
    after = scripted("After", post_bind=None)
    cluster = Cluster(after, bare=True)
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert cluster.plugin(after).calls == ["post_bind"]
    cluster.client.outcome = RuntimeError("no")
    cluster.add(make_pod("q"))
    cluster.run()
    assert cluster.plugin(after).calls == ["post_bind"]


def test_bind_plugins_are_asked_until_one_does_not_skip() -> None:
    first, second = scripted("First", bind=SKIP), scripted("Second", bind=None)
    order = only("PrioritySort", "First", "Second", "DefaultBinder")
    cluster = Cluster(first, second, profiles=[order])
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert not cluster.bound, "the second one did it, by itself"
    assert cluster.notes[0][0] == "Scheduled"
    cluster.plugin(second).script = {"bind": Status.unschedulable("taken")}
    pod = make_pod("q")
    cluster.add(pod)
    cluster.run()
    assert cluster.verdict == ("Unschedulable", "taken")
    assert cluster.place(pod) is Place.BACKOFF


def test_a_profile_in_which_every_bind_plugin_skips_says_so() -> None:
    cluster = Cluster(scripted("First", bind=SKIP), profiles=[only("PrioritySort", "First")])
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert cluster.verdict == ("SchedulerError", "no Bind plugin took the Pod")


# PreFilter


def test_pre_filter_plugins_narrow_the_nodes_together() -> None:
    a = scripted("A", pre_filter=PreFilterResult(["n1", "n2"]), filter=None)  # type: ignore[arg-type]
    b = scripted("B", pre_filter=PreFilterResult(frozenset({"n2", "n3"})), filter=None)
    cluster = Cluster(a, b, bare=True)
    cluster.add(node("n1"), node("n2"), node("n3"), make_pod("p"))
    cluster.run()
    assert cluster.bound == [("p", "n2")]
    cluster.plugin(b).script["filter"] = Status.unschedulable("full")
    pod = make_pod("q")
    cluster.add(pod)
    cluster.run()
    text = "0/3 nodes are available: 1 full, 2 node(s) didn't satisfy plugin(s) [A B]."
    assert cluster.verdict == ("Unschedulable", text)
    assert cluster.rejectors(pod) == {"A", "B"}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        pytest.param(
            PreFilterResult(frozenset()),
            "node(s) didn't satisfy plugin(s) [A B] simultaneously",
            id="no node is left",
        ),
        pytest.param(Status.unresolvable("never"), "never", id="unresolvable"),
        pytest.param(Status.unschedulable("not now"), "not now", id="unschedulable"),
        pytest.param(None, "", id="all nodes"),
    ],
)
def test_pre_filter_rejections_stand_for_every_node(second: Any, text: str) -> None:
    a = scripted("A", pre_filter=PreFilterResult(frozenset({"n1"})), filter=None)
    cluster = Cluster(a, scripted("B", pre_filter=second, filter=None), bare=True)
    cluster.add(node("n1"), node("n2"), make_pod("p"))
    cluster.run()
    if text:
        assert cluster.verdict == ("Unschedulable", f"0/2 nodes are available: {text}.")
    else:
        assert cluster.bound == [("p", "n1")]


def test_one_pre_filter_plugin_that_leaves_no_node_is_named_alone() -> None:
    cluster = Cluster(scripted("A", pre_filter=PreFilterResult(frozenset())), bare=True)
    cluster.add(node("n1"), make_pod("p"))
    cluster.run()
    assert cluster.verdict[1] == "0/1 nodes are available: node(s) didn't satisfy plugin A."


@pytest.mark.parametrize("status", [Status.error("oh"), Status.pending("oh"), WAIT])
def test_other_pre_filter_statuses_are_errors(status: Status) -> None:
    cluster = Cluster(scripted("A", pre_filter=status), bare=True)
    cluster.add(node("n1"), make_pod("p"))
    cluster.run()
    assert cluster.verdict == (
        "SchedulerError",
        f'running PreFilter plugin "A": {status.message}',
    )


def test_a_plugin_whose_pre_filter_skips_does_not_filter() -> None:
    a = scripted("A", pre_filter=SKIP, filter=Status.unschedulable("no"))
    cluster = Cluster(a, bare=True)
    cluster.add(node("n1"), make_pod("p"))
    cluster.run()
    assert cluster.bound == [("p", "n1")]


# The loop


def test_the_loop_schedules_what_comes_in_and_ends_when_it_is_told() -> None:
    kind = scripted("Hold", permit=(WAIT, 600.0))
    cluster = Cluster(kind, bare=True)
    hold = cluster.plugin(kind)
    waits, goes = make_pod("waits"), make_pod("goes")
    cluster.add(node(), waits)

    def then() -> None:
        hold.script["permit"] = cluster.scheduler.stop
        cluster.add(goes)

    cluster.run()
    cluster.inbox.post(Call(then))
    cluster.scheduler.run()
    assert cluster.bound == [("goes", "n1")]
    assert cluster.verdict == (
        "Unschedulable",
        "0/1 nodes are available: 1 the scheduler is ending.",
    )
    assert cluster.in_flight == 0


def test_the_loop_does_not_wait_for_ever_for_a_binding() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    cluster.add(node(), make_pod("p"))
    cluster.run()

    def late() -> None:
        cluster.clock.time += DRAIN_SECONDS

    cluster.scheduler.stop()
    cluster.inbox.post(Call(late))
    cluster.scheduler.run()
    assert cluster.in_flight == 1


def test_bindings_that_land_late_are_still_taken_note_of() -> None:
    cluster = Cluster()
    cluster.client.slow = True
    ends, fails = make_pod("ends"), make_pod("fails")
    cluster.add(node(), ends, fails)
    cluster.run()
    first, second = cluster.client.waiting
    cluster.scheduler.stop()
    cluster.clock.time += DRAIN_SECONDS
    cluster.scheduler.run()
    assert cluster.in_flight == 2
    first(None)
    second(RuntimeError("refused"))
    cluster.scheduler.drain_bindings(1.0)
    assert cluster.in_flight == 0
    assert (cluster.node_of(ends), cluster.node_of(fails)) == ("n1", "")
    assert [event.pod for event in cluster.recorder.events] == ["ends"], "that is for the next one"


def test_while_it_does_not_lead_it_schedules_nothing_and_keeps_up() -> None:
    cluster = Cluster()
    cluster.scheduler.active = False
    pod = make_pod("p")
    cluster.inbox.post(Call(lambda: cluster.add(node(), pod)))
    cluster.inbox.post(Call(cluster.scheduler.stop))
    cluster.scheduler.run()
    assert not cluster.bound
    assert cluster.place(pod) is Place.ACTIVE


def test_the_loop_sleeps_no_longer_than_until_something_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    cluster = Cluster(scripted("Hold", permit=(WAIT, 0.25)), bare=True)
    drain = cluster.inbox.drain
    monkeypatch.setattr(cluster.inbox, "drain", lambda t: asked.append(t) or drain(0.0))
    cluster.scheduler.take_in(wait=True)
    cluster.add(node(), make_pod("p"))
    cluster.run()
    cluster.scheduler.take_in(wait=True)
    assert (asked[0], asked[-1]) == (1.0, 0.25)


def test_many_pods_over_few_nodes_never_overcommit_one() -> None:
    cluster = Cluster()
    cluster.add(*(node(f"n{i}", cpu="2") for i in range(5)))
    pods: list[PodBuilder] = [make_pod(f"p{i}").req(cpu="500m", memory="1Gi") for i in range(30)]
    cluster.add(*pods)
    cluster.run()
    assert len(cluster.bound) == 20
    assert all(info.free("cpu") == 0 for info in cluster.cache.nodes)
    assert cluster.metrics.render().count(b"scheduler_schedule_attempts_total{") == 2
    assert cluster.is_at_rest()

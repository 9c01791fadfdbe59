"""Reserve and Permit: the chosen node is taken, refused, or waited on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import structlog
from tests.core_harness import Cluster, uid_of
from tests.scripted import scripted

from bayplan.support import logs
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.outcome import Rejection
from bayplan.binding import cycle
from bayplan.decide.deciding import deciding
from bayplan.framework import WAIT, Plugin, Status
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.queue import scheduling_queue
from bayplan.queue.states import QueueState
from bayplan.testing import PROFILE, make_node, make_pod


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


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
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    assert cluster.rejectors(pod) == {"No"}
    assert cluster.counted_on(pod) == ""
    assert cluster.is_at_rest()


def test_a_pod_that_waits_in_permit_is_nominated_and_occupies_no_worker() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 60.0)), bare=True)
    cluster.workers.held = True
    pods = [make_pod(f"p{i}") for i in range(3)]
    cluster.add(node(), *pods)
    cluster.run()
    assert cluster.recorder.nominated == [("p0", "n1"), ("p1", "n1"), ("p2", "n1")]
    assert cluster.in_flight == 3
    assert cluster.counted_on(pods[0]) == "n1"
    assert not cluster.bound
    cluster.workers.held = False
    for waiting in cluster.core.world.waiting:
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
    waiting = cluster.core.world.waiting.get(uid_of(pod))
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
    assert cluster.state(other) is QueueState.UNSCHEDULABLE
    waiting = cluster.core.world.waiting.get(uid_of(pod))
    assert waiting is not None
    waiting.reject("Hold", "changed my mind")
    cluster.take_in()
    assert cluster.verdict == ("Unschedulable", "0/1 nodes are available: 1 changed my mind.")
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE, (
        "its own leaving is no reason to try again"
    )
    assert cluster.state(other) is QueueState.BACKOFF, "but for others it is"
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


def test_a_waiting_pod_that_is_preempted_is_tried_again_after_a_backoff() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 90.0)), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    waiting = cluster.core.world.waiting.get(uid_of(pod))
    assert waiting is not None
    assert waiting.preempt("Preemptor", "preempted")
    assert not waiting.preempt("Preemptor", "preempted")
    cluster.take_in()
    assert cluster.verdict == ("SchedulerError", "waiting on permit for pod: preempted")
    assert cluster.state(pod) is QueueState.BACKOFF
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
    assert cluster.counted_on(pod) == ""
    assert not cluster.bound
    if gone:
        assert cluster.state(pod) is QueueState.OUTSIDE
        assert cluster.recorder.conditions == []
    cluster.remove(pod)
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert cluster.is_at_rest()


def test_pods_that_time_out_in_permit_do_not_spin() -> None:
    # Each leaves a node when its time is up, and that would wake the other one.
    cluster = Cluster(scripted("Hold", permit=(WAIT, 0.5)), bare=True)
    pods = [make_pod("a"), make_pod("b")]
    cluster.add(node(), *pods)
    for _ in range(600):
        cluster.run()
        cluster.wait(0.1)
    queued = [cluster.queue.get(uid_of(pod)) for pod in pods]
    attempts = [one.attempts for one in queued if one is not None]
    # Backoffs of 1, 2, 4, 8, 10, 10, ... seconds, each rounded up to a window of one second.
    assert all(5 <= n <= 10 for n in attempts), attempts


def test_a_rejection_that_is_no_time_out_may_be_tried_before_its_backoff_ends() -> None:
    cluster = Cluster(scripted("No", permit=Status.unschedulable("no")), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    cluster.add(node("n2"))
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.queue.pop() is not None


@pytest.mark.parametrize("answer", [WAIT, (WAIT, 0), (WAIT, -1), (WAIT, True), (WAIT, "60")])
def test_a_wait_in_permit_needs_a_positive_time(answer: Any) -> None:
    cluster = Cluster(scripted("Hold", permit=answer), bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict[0] == "SchedulerError"
    assert cluster.verdict[1].startswith('running Permit plugin "Hold": ')
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.counted_on(pod) == ""


def test_a_wait_in_permit_leaves_a_line_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "enabled", lambda v: v <= 2)
    monkeypatch.setattr(cycle, "log", structlog.get_logger())
    cluster = Cluster(scripted("Hold", permit=(WAIT, 60.0)), bare=True)
    cluster.add(node(), make_pod("p"))
    with structlog.testing.capture_logs() as lines:
        cluster.run()
    (line,) = [line for line in lines if line["event"] == "Pod waits in Permit"]
    assert (line["pod"], line["node"], line["seconds"]) == ("default/p", "n1", {"Hold": 60.0})
    assert cluster.recorder.nominated == [("p", "n1")], "kube-scheduler writes no condition either"
    assert cluster.recorder.conditions == []


def test_who_holds_a_pod_back_is_logged_once_and_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "enabled", lambda v: v <= 2)
    monkeypatch.setattr(scheduling_queue, "log", structlog.get_logger())
    hold = scripted("Hold", pre_enqueue=Status.unschedulable("not today"))
    cluster = Cluster(hold, bare=True)
    pod = make_pod("p")
    with structlog.testing.capture_logs() as lines:
        cluster.add(pod)
        cluster.add(pod.label("a", "still held"))
        cluster.plugin(hold).script = {}
        cluster.add(pod.label("a", "free"))
    said = [(line["event"], line["plugin"], line["reason"]) for line in lines]
    assert said == [
        ("Pod is held by a PreEnqueue plugin", "Hold", "not today"),
        ("Pod is held no longer", "", ""),
    ]


# Several Pods at once


class Ledger(Plugin):
    """Writes down what is asked of it; refuses in Permit whoever is labelled ``refuse``."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []

    def reserve(self, _state: Any, pod: Any, node_name: str) -> None:
        """Those before it, and the Pod itself, count already."""
        counted = sum(len(info.pods) for info in self.handle.nodes)
        self.calls.append(f"reserve {pod.name} on {node_name} of {counted}")

    def unreserve(self, _state: Any, pod: Any, _node_name: str) -> None:
        """Written down."""
        self.calls.append(f"unreserve {pod.name}")

    def permit(self, _state: Any, pod: Any, _node_name: str) -> Any:
        """Most have to wait."""
        self.calls.append(f"permit {pod.name}")
        if "refuse" in pod.labels:
            return Status.unschedulable("not you")
        return WAIT, 5.0


def chosen(cluster: Cluster, *names: str, **labels: str) -> list[Choice]:
    """These Pods, on n1 and n2 in turn; the last one has the labels."""
    cluster.add(node("n1"), node("n2"))
    framework = cluster.core.profiles[PROFILE]
    pods = [make_pod(name).req(cpu="1") for name in names]
    for key, value in labels.items():
        pods[-1].label(key, value)
    return [
        Choice(framework, CycleState(), pod.obj(), f"n{index % 2 + 1}")
        for index, pod in enumerate(pods)
    ]


def taken(commit: Commit, choices: list[Choice]) -> list[Member]:
    """All of them, assumed and reserved."""
    members = [commit.take(choice) for choice in choices]
    return [member for member in members if isinstance(member, Member)]


def test_pods_of_a_group_are_taken_one_after_the_other_and_permitted_together() -> None:
    cluster = Cluster(Ledger, bare=True)
    commit = Commit(cluster.cache, cluster.queue.nominator)
    members = taken(commit, chosen(cluster, "a", "b"))
    assert commit.permit(members) is None
    assert [(m.pod.name, m.pod.node_name, m.waits) for m in members] == [
        ("a", "n1", {"Ledger": 5.0}),
        ("b", "n2", {"Ledger": 5.0}),
    ]
    assert cluster.plugin(Ledger).calls == [
        "reserve a on n1 of 1",
        "reserve b on n2 of 2",
        "permit a",
        "permit b",
    ]


def test_of_many_pods_none_counts_when_they_are_undone() -> None:
    cluster = Cluster(Ledger, bare=True)
    commit = Commit(cluster.cache, cluster.queue.nominator)
    members = taken(commit, chosen(cluster, "a", "b", "c", refuse="yes"))
    rejection = commit.permit(members)
    assert rejection is not None
    assert rejection.message == "0/1 nodes are available: 1 not you."
    assert rejection.unschedulable_plugins == {"Ledger"}
    assert commit.undo(members) == []
    assert cluster.plugin(Ledger).calls[-3:] == ["unreserve c", "unreserve b", "unreserve a"]
    assert cluster.cache.counts()["pods"] == 0
    assert cluster.cache.nodes.recount() == {}


def test_a_pod_that_is_refused_in_permit_does_not_count() -> None:
    cluster = Cluster(Ledger, bare=True)
    commit = Commit(cluster.cache, cluster.queue.nominator)
    (choice,) = chosen(cluster, "a", refuse="yes")
    assert isinstance(commit.run(choice), Rejection)
    assert cluster.plugin(Ledger).calls[-2:] == ["permit a", "unreserve a"]
    assert cluster.cache.counts()["pods"] == 0


def test_a_pod_that_counts_already_is_not_taken() -> None:
    cluster = Cluster(Ledger, bare=True)
    commit = Commit(cluster.cache, cluster.queue.nominator)
    (choice,) = chosen(cluster, "a")
    assert isinstance(commit.run(choice), Member)
    outcome = commit.run(choice)
    assert isinstance(outcome, Rejection)
    assert "cannot be assumed" in outcome.message
    assert cluster.cache.counts()["pods"] == 1


def test_a_commit_inside_a_trial_is_put_back_with_it() -> None:
    cluster = Cluster(bare=True)
    commit = Commit(cluster.cache, cluster.queue.nominator)
    choices = chosen(cluster, "a", "b")
    with cluster.cache.trial():
        assert len(taken(commit, choices)) == 2
        assert cluster.cache.counts()["assumed_pods"] == 2
    assert cluster.cache.counts()["pods"] == 0


class Effectful(Plugin):
    """Wants something done when Unreserve undoes a real attempt, and writes down that it is."""

    done: list[str]

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.done = []

    def reserve(self, _state: Any, _pod: Any, _node_name: str) -> None:
        """Nothing to do."""

    def unreserve(self, state: Any, pod: Any, _node_name: str) -> None:
        """Data only."""
        state.effects.append(Undone(self.name, pod.name))

    def permit(self, _state: Any, pod: Any, _node_name: str) -> Any:
        """Refuse whoever is labelled so."""
        return Status.unschedulable("not you") if "refuse" in pod.labels else None

    def carry_out(self, effect: Any) -> None:
        """Written down."""
        self.done.append(effect.name)


class Undone(Effect, frozen=True, eq=False):
    """What `Effectful` wants."""

    name: str


def test_what_unreserve_wants_is_done_in_the_cycle_and_not_for_a_question() -> None:
    cluster = Cluster(Effectful, bare=True)
    cluster.add(node("n1"))
    framework = cluster.core.profiles[PROFILE]
    for pod in (make_pod("fits").req(cpu="1"), make_pod("no").req(cpu="1").label("refuse", "yes")):
        with deciding(cluster.core.placers, framework, pod.obj()) as decision:
            assert cluster.cache.counts()["pods"] == (decision.rejection is None)
        assert cluster.cache.counts()["pods"] == 0
    assert cluster.plugin(Effectful).done == []
    cluster.add(make_pod("no").req(cpu="1").label("refuse", "yes"))
    cluster.cycle()
    assert cluster.plugin(Effectful).done == ["no"]


def test_a_question_leaves_the_nomination_and_the_next_sample_of_nodes_as_they_were() -> None:
    cluster = Cluster(bare=True, percentageOfNodesToScore=10)
    cluster.add(*(node(f"n{i}") for i in range(300)))
    placers, framework = cluster.core.placers, cluster.core.profiles[PROFILE]
    pod, other = make_pod("p").req(cpu="1").obj(), make_pod("q").req(cpu="1").obj()
    cluster.queue.nominator.nominate(pod, "n7")
    for asked in (pod, other):
        with deciding(placers, framework, asked) as decision:
            assert decision.member is not None
            assert not cluster.queue.nominator.nominated_node(asked.uid)
    assert cluster.queue.nominator.nominated_node(pod.uid) == "n7"
    assert placers.selector.sampler.start == 0
    with deciding(placers, framework, other) as decision:
        decision.keep()
    assert placers.selector.sampler.start == 100
    assert cluster.cache.is_assumed(other.uid)

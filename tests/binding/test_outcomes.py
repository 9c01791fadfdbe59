"""How binding cycles end, well or not, and what becomes of their Pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster, only, uid_of
from tests.scripted import scripted

from bayplan.framework import SKIP, Status
from bayplan.queue.states import QueueState
from bayplan.testing import make_node, make_pod


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


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
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.rejectors(pod) == set()
    assert cluster.counted_on(pod) == ""
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
    assert cluster.counted_on(pod) == ""
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.is_at_rest()


def test_a_bind_that_fails_is_undone_and_tried_again_after_a_backoff() -> None:
    cluster = Cluster()
    cluster.writer.outcome = RuntimeError("the object has been modified")
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod)
    cluster.run()
    text = 'running Bind plugin "DefaultBinder": the object has been modified'
    assert cluster.verdict == ("SchedulerError", text)
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.counted_on(pod) == ""
    assert cluster.is_at_rest()
    cluster.writer.outcome = None
    cluster.add(other)
    cluster.run()
    assert cluster.bound[-1] == ("other", "n1")


def test_a_pod_counts_while_its_binding_is_on_its_way() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod, other)
    cluster.run()
    assert cluster.bound == [("p", "n1")]
    assert cluster.state(pod) is QueueState.IN_FLIGHT
    assert cluster.verdict[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.writer.answer(RuntimeError("no"))
    cluster.take_in()
    assert cluster.state(other) is QueueState.BACKOFF, "woken by the room that is free again"
    assert cluster.is_at_rest()


def test_a_pod_deleted_while_it_is_bound_frees_its_node_at_once() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    pod, other = make_pod("p").req(cpu="3"), make_pod("other").req(cpu="3")
    cluster.add(node(), pod, other)
    cluster.run()
    cluster.remove(pod)
    assert cluster.counted_on(pod) == ""
    assert cluster.state(other) is QueueState.BACKOFF
    conditions = len(cluster.recorder.conditions)
    cluster.writer.answer(RuntimeError("not found"))
    cluster.take_in()
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert len(cluster.recorder.conditions) == conditions, "there is no Pod to write it on"
    assert cluster.is_at_rest()


def test_a_pod_bound_by_somebody_else_meanwhile_stays_where_it_is() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    pod = make_pod("p").req(cpu="3")
    cluster.add(node("n1"), node("n2"), pod)
    cluster.run()
    cluster.add(pod.node("n2"))
    assert cluster.counted_on(pod) == "n2"
    cluster.writer.answer(RuntimeError("conflict"))
    cluster.take_in()
    assert cluster.counted_on(pod) == "n2"
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert cluster.recorder.conditions == []
    assert cluster.is_at_rest()


def test_a_binding_seen_before_its_answer_comes_is_confirmed_once() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    pod = make_pod("p").req(cpu="3")
    cluster.add(node(), pod)
    cluster.run()
    cluster.add(pod.node("n1"))
    cluster.writer.answer()
    cluster.take_in()
    assert cluster.notes == [("Scheduled", "Successfully assigned default/p to n1")]
    assert cluster.cache.nodes.info(0).requested("cpu") == 3000
    assert cluster.is_at_rest()


def test_an_update_while_the_pod_is_in_flight_is_not_lost() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    pod = make_pod("p").req(cpu="1")
    cluster.add(node(), pod)
    cluster.run()
    cluster.add(pod.label("team", "blue"))
    cluster.writer.answer(RuntimeError("no"))
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
    cluster.writer.outcome = RuntimeError("no")
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
    assert cluster.state(pod) is QueueState.BACKOFF


def test_a_profile_in_which_every_bind_plugin_skips_says_so() -> None:
    cluster = Cluster(scripted("First", bind=SKIP), profiles=[only("PrioritySort", "First")])
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert cluster.verdict == ("SchedulerError", "no Bind plugin took the Pod")

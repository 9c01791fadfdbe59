"""Whatever a plugin does wrong costs one Pod its attempt, never the scheduler."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.core_harness import Cluster, only, uid_of
from tests.scripted import scripted

from bayplan.framework import SKIP, WAIT, Status
from bayplan.queue.states import QueueState
from bayplan.testing import make_node, make_pod

OOM = RuntimeError("out of luck")


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


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
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.counted_on(pod) == ""
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
    assert cluster.state(pod) is QueueState.BACKOFF
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
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.is_at_rest()


@pytest.mark.parametrize("method", ["unreserve", "post_bind"])
def test_where_a_failure_changes_nothing_it_is_only_counted(method: str) -> None:
    cluster = Cluster(scripted("Bad", **{method: OOM}), bare=True)
    cluster.writer.outcome = RuntimeError("conflict") if method == "unreserve" else None
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
    assert cluster.state(pod) is QueueState.GATED
    cluster.plugin(bad).script = {}
    cluster.add(pod.label("a", "b"))
    cluster.run()
    assert cluster.bound == [("p", "n1")]


class MuteError(Exception):
    """It cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Hidden:
    """It cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            Status.unschedulable(cast(str, OOM)), "out of luck", id="an exception for a reason"
        ),
        pytest.param(
            Status.error(cast(str, MuteError())),
            "a MuteError without text",
            id="one that says nothing",
        ),
        pytest.param(Status.unschedulable("/tmp/\udcff"), "/tmp/\\udcff", id="a name of a file"),
        pytest.param(Status.error("für"), "für", id="not only ASCII"),
        pytest.param(OSError("/tmp/\udcff"), "/tmp/\\udcff", id="raised with a name of a file"),
        pytest.param(MuteError(), "a MuteError without text", id="raised, says nothing"),
        pytest.param(Hidden(), "ValueError: no text", id="no status, and says nothing"),
    ],
)
@pytest.mark.parametrize("method", ["pre_enqueue", "pre_filter", "filter", "reserve", "pre_bind"])
def test_whatever_a_plugin_says_can_be_told(method: str, answer: Any, text: str) -> None:
    bad = scripted("Bad", **{method: answer})
    cluster = Cluster(bad, bare=True)
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    queued = cluster.queue.get(uid_of(pod))
    assert queued is not None
    told = queued.gating_reason if method == "pre_enqueue" else cluster.verdict[1]
    assert text in told
    assert told.encode()
    assert not cluster.bound
    assert cluster.is_at_rest()


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
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.is_at_rest()


@pytest.mark.parametrize("method", ["reserve", "permit", "pre_bind_pre_flight", "pre_bind", "bind"])
def test_an_answer_that_breaks_when_it_is_looked_at_is_undone(method: str) -> None:
    class Strange(Status):
        @property
        def ok(self) -> bool:
            raise OOM

        @property
        def rejected(self) -> bool:
            raise OOM

    script: dict[str, Any] = {"pre_bind": None} | {method: Strange()}
    cluster = Cluster(
        scripted("Bad", **script), profiles=[only("PrioritySort", "Bad", "DefaultBinder")]
    )
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.verdict == ("SchedulerError", "RuntimeError: out of luck")
    assert cluster.counted_on(pod) == ""
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
    assert cluster.state(pod) is QueueState.BACKOFF
    cluster.add(node("n2").unschedulable())
    cluster.wait(2)
    cluster.run()
    assert cluster.bound == [("p", "n1")], "an earlier plugin rejects that node, so none asks it"

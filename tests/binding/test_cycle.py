"""Where a binding cycle runs: at once, or on a worker; and that it always comes back, once."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from tests.core_harness import Cluster, only, uid_of
from tests.scripted import scripted

from bayplan.framework import SKIP, SUCCESS, WAIT, Status
from bayplan.testing import make_node, make_pod


def bound_on_worker(*plugins: Any, order: list[str]) -> bool:
    """Whether the Bind plugin runs on a worker in such a profile."""
    cluster = Cluster(*plugins, profiles=[only(*order)])
    cluster.workers.held = True
    cluster.add(make_node("n1").capacity(pods=10), make_pod("p"))
    cluster.run()
    at_once = [event.reason for event in cluster.recorder.events] == ["Scheduled"]
    cluster.workers.release()
    cluster.take_in()
    assert [event.reason for event in cluster.recorder.events] == ["Scheduled"]
    assert cluster.is_at_rest()
    return not at_once


@pytest.mark.parametrize(
    ("script", "worker"),
    [
        pytest.param({"score": 1}, False, id="nothing between Permit and Bind"),
        pytest.param({"permit": None}, False, id="Permit lets it go"),
        pytest.param({"pre_bind": None}, True, id="PreBind"),
        pytest.param(
            {"pre_bind": None, "pre_bind_pre_flight": SKIP}, False, id="PreBind has nothing to do"
        ),
        pytest.param({"post_bind": None}, True, id="PostBind"),
        pytest.param({"bind": None}, True, id="a Bind plugin that may block"),
    ],
)
def test_a_worker_binds_where_something_may_block(script: dict[str, Any], worker: bool) -> None:
    order = ["PrioritySort", "Mine", "DefaultBinder"]
    assert bound_on_worker(scripted("Mine", **script), order=order) is worker


def with_future() -> tuple[Cluster, Future[Any], Any]:
    """A cluster in which the binding of a Pod hangs on that future."""
    outcome: Future[Any] = Future()
    later = scripted("Later", bind=lambda: outcome)
    cluster = Cluster(later, profiles=[only("PrioritySort", "Later")])
    pod = make_pod("p")
    cluster.add(make_node("n1").capacity(pods=10), pod)
    cluster.run()
    assert cluster.in_flight == 1
    return cluster, outcome, pod


def test_a_bind_plugin_may_answer_later() -> None:
    cluster, outcome, _ = with_future()
    outcome.set_result(SUCCESS)
    cluster.take_in()
    assert cluster.notes == [("Scheduled", "Successfully assigned default/p to n1")]
    assert cluster.is_at_rest()


@pytest.mark.parametrize(
    ("end", "text"),
    [
        pytest.param(
            lambda f: f.set_result(Status.error("gone")),
            'running Bind plugin "Later": gone',
            id="an error",
        ),
        pytest.param(
            lambda f: f.set_result(SKIP), 'running Bind plugin "Later": ', id="too late to skip"
        ),
        pytest.param(
            lambda f: f.set_exception(RuntimeError("oops")),
            'running Bind plugin "Later": RuntimeError: oops',
            id="an exception",
        ),
        pytest.param(
            lambda f: f.set_result("done"),
            "running Bind plugin \"Later\": TypeError: 'done' was returned, not a Status",
            id="nonsense",
        ),
        pytest.param(
            lambda f: f.cancel(),
            'running Bind plugin "Later": CancelledError: ',
            id="cancelled",
        ),
    ],
)
def test_whatever_a_late_answer_is_the_pod_comes_back(end: Any, text: str) -> None:
    cluster, outcome, pod = with_future()
    end(outcome)
    cluster.take_in()
    assert cluster.verdict == ("SchedulerError", text)
    assert cluster.counted_on(pod) == ""
    assert cluster.is_at_rest()


def test_a_pod_that_was_allowed_is_prepared_and_bound_on_a_worker() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 60.0), pre_bind=None), bare=True)
    pod = make_pod("p")
    cluster.add(make_node("n1").capacity(pods=10), pod)
    cluster.run()
    waiting = cluster.core.world.waiting.get(uid_of(pod))
    assert waiting is not None
    cluster.workers.held = True
    waiting.allow("Hold")
    assert cluster.core.world.waiting.get(uid_of(pod)) is None, "its wait is over at once"
    assert not cluster.bound
    cluster.workers.release()
    cluster.take_in()
    assert cluster.bound == [("p", "n1")]
    assert cluster.recorder.nominated == [("p", "n1")]
    assert cluster.is_at_rest()


@pytest.mark.parametrize(
    ("seconds", "kept"), [(60.0, 60.0), (3600.0, 900.0)], ids=["as asked", "a quarter of an hour"]
)
def test_a_wait_is_limited(seconds: float, kept: float) -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, seconds)), bare=True)
    cluster.add(make_node("n1").capacity(pods=10), make_pod("p"))
    cluster.run()
    assert cluster.core.world.waiting.next_timer() == kept


@pytest.mark.parametrize("status", [SKIP, Status.error("oh")], ids=["skip", "error"])
def test_other_permit_statuses_are_errors(status: Status) -> None:
    cluster = Cluster(scripted("Hold", permit=status), bare=True)
    cluster.add(make_node("n1").capacity(pods=10), make_pod("p"))
    cluster.run()
    assert cluster.verdict == ("SchedulerError", f'running Permit plugin "Hold": {status.message}')
    assert cluster.is_at_rest()


def test_one_rejection_in_permit_outweighs_all_waits() -> None:
    cluster = Cluster(
        scripted("Hold", permit=(WAIT, 60.0)),
        scripted("No", permit=Status.unschedulable("no")),
        bare=True,
    )
    cluster.add(make_node("n1").capacity(pods=10), make_pod("p"))
    cluster.run()
    assert cluster.verdict == ("Unschedulable", "0/1 nodes are available: 1 no.")
    assert list(cluster.core.world.waiting) == []


def test_a_pod_that_is_called_back_during_pre_bind_is_not_bound() -> None:
    cluster = Cluster(scripted("Prepare", pre_bind=None), bare=True)
    pod = make_pod("p")
    cluster.workers.held = True
    cluster.add(make_node("n1").capacity(pods=10), pod)
    cluster.run()
    assert cluster.core.world.preparing[uid_of(pod)].cancel("preempted by Somebody")
    cluster.workers.release()
    cluster.take_in()
    assert not cluster.bound
    assert cluster.verdict == ("SchedulerError", "preempted by Somebody")
    assert cluster.counted_on(pod) == ""
    assert cluster.core.world.preparing == {}
    assert cluster.is_at_rest()


def test_a_pod_for_which_nothing_is_prepared_cannot_be_called_back() -> None:
    cluster = Cluster(scripted("Mine", post_bind=None), bare=True)
    cluster.workers.held = True
    cluster.add(make_node("n1").capacity(pods=10), make_pod("p"))
    cluster.run()
    assert cluster.core.world.preparing == {}
    cluster.workers.release()
    cluster.take_in()
    assert cluster.bound == [("p", "n1")]

"""An attempt: what PreFilter and PostFilter plugins make of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.framework import SKIP, WAIT, PostFilterResult, PreFilterResult, Status
from bayplan.testing import make_node, make_pod


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


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
    assert cluster.nominated(pod) == ["n2"]
    plugin = cluster.plugin(make_room)
    plugin.script = {}
    cluster.add(pod.nominated("n2").label("a", "b"))
    cluster.wait(2)
    cluster.run()
    assert cluster.bound == [("p", "n2")]
    assert cluster.nominated(pod) == [""]


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

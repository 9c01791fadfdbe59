"""The table of Pods equals one that is made from scratch, whatever has happened since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.cache.journal import Journal
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.node_table.pod_table import NOT_STARTED, PodTable, start
from bayplan.testing import make_node, make_pod

NODES = [f"n{i}" for i in range(4)]
UIDS = [f"u{i}" for i in range(8)]
TIMES = ["", "2025-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000001Z", "2026-01-02T03:04:05Z"]

nodes_ = st.sampled_from(NODES)
uids = st.sampled_from(UIDS)


def table_of(*pods: Pod) -> LiveNodeTable:
    """A node for each two Pods."""
    nodes = LiveNodeTable()
    for i, pod in enumerate(pods):
        nodes.add_pod(nodes.set_node(make_node(f"n{i // 2}").obj()), pod)
    return nodes


@st.composite
def seen_pods(draw: st.DrawFn) -> Pod:
    """A Pod in any version, on any node, which there may be or not."""
    builder = make_pod(uid := draw(uids)).uid(uid).node(draw(nodes_))
    builder.label("app", draw(st.sampled_from("ab"))).req(cpu=draw(st.sampled_from("12")))
    if time := draw(st.sampled_from(TIMES)):
        builder.start_time(time)
    if draw(st.booleans()):
        builder.terminating()
    return builder.obj()


class Following(RuleBasedStateMachine):
    """Events of Pods and nodes, trials among them; now and then somebody asks."""

    @initialize(capacity=st.sampled_from([4, 65536]))
    def begin(self, capacity: int) -> None:
        self.cache = Cache()
        self.nodes = self.cache.nodes
        self.nodes.pod_journal = Journal(capacity)
        self.nodes.start_journal = Journal(capacity)
        self.trial: Any = None

    @precondition(lambda self: self.trial is None)
    @rule(name=nodes_)
    def add_node(self, name: str) -> None:
        self.cache.set_node(make_node(name).obj())

    @precondition(lambda self: self.trial is None)
    @rule(name=nodes_)
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)

    @precondition(lambda self: self.trial is None)
    @rule(pod=seen_pods())
    def see(self, pod: Pod) -> None:
        self.cache.add(pod)

    @rule(pod=seen_pods())
    def assume(self, pod: Pod) -> None:
        if self.cache.pod(pod.uid) is None:
            self.cache.assume(pod, pod.node_name)

    @rule(uid=uids)
    def forget(self, uid: str) -> None:
        self.cache.forget(uid)

    @rule(uid=uids)
    def remove(self, uid: str) -> None:
        self.cache.remove(uid)

    @precondition(lambda self: self.trial is None)
    @rule()
    def try_out(self) -> None:
        self.trial = self.cache.trial()
        self.trial.__enter__()

    @precondition(lambda self: self.trial is not None)
    @rule()
    def put_back(self) -> None:
        self.trial.__exit__(None, None, None)
        self.trial = None

    @rule()
    def ask(self) -> None:
        pods = [(row, pod) for row, by_uid in enumerate(self.nodes.pods) for pod in by_uid.values()]
        table = self.nodes.pod_table()
        assert table.rows.tolist() == [row for row, _ in pods]
        assert [table.shapes[code] for code in table.codes] == [pod.shape for _, pod in pods]
        assert set(table.shapes) == {pod.shape for _, pod in pods}
        assert table.starts.tolist() == [start(pod) for _, pod in pods]
        assert table.leaving.tolist() == [pod.deleted is not None for _, pod in pods]
        assert self.nodes.recount() == {}


TestFollowing = Following.TestCase


def test_of_no_pods_there_are_no_columns() -> None:
    table = PodTable([])
    assert (table.rows.tolist(), table.codes.tolist(), table.shapes) == ([], [], [])
    assert table.starts.tolist() == table.leaving.tolist() == []


def test_only_rows_that_changed_are_read_again() -> None:
    nodes = table_of(*(make_pod(f"p{i}").uid(f"u{i}").obj() for i in range(4)))
    nodes.pod_table()
    unnoticed = make_pod("p0").uid("u0").start_time(TIMES[3]).obj()
    nodes.pods[0]["u0"] = unnoticed
    nodes.replace_pod(1, make_pod("p3").uid("u3").start_time(TIMES[3]).obj())
    assert nodes.pod_table().starts.tolist() == [NOT_STARTED] * 3 + [start(unnoticed)]


def test_pods_of_a_node_keep_their_order() -> None:
    day = "2026-01-01T00:{:02}:{:02}Z"
    pods = [make_pod(f"p{i}").start_time(day.format(i // 60, i % 60)).obj() for i in range(200)]
    nodes = LiveNodeTable()
    for row, name in enumerate(("n0", "n1")):
        nodes.set_node(make_node(name).obj())
        for pod in pods:
            nodes.add_pod(row, pod)
    nodes.pod_table()
    nodes.remove_pod(0, pods[0])
    assert nodes.pod_table().starts.tolist() == [*map(start, pods[1:]), *map(start, pods)]


def test_arrays_of_before_are_not_changed() -> None:
    nodes = table_of(make_pod("p0").uid("u0").obj(), make_pod("p1").uid("u1").obj())
    before = nodes.pod_table().starts
    nodes.replace_pod(0, make_pod("p0").uid("u0").start_time(TIMES[3]).obj())
    assert nodes.pod_table().starts.tolist() != before.tolist() == [NOT_STARTED] * 2


@pytest.mark.parametrize("column", ["rows", "starts", "leaving", "codes"])
def test_a_recount_finds_what_is_wrong(column: str) -> None:
    pods = (make_pod(f"p{i}").uid(f"u{i}").label("app", f"{i}").obj() for i in range(3))
    nodes = table_of(*pods)
    assert nodes.recount() == {}
    array = getattr(nodes.pod_table(), column)
    array[0] = 1
    assert nodes.recount() == {"pod_table": 1}


def test_a_recount_finds_pods_that_are_missing() -> None:
    nodes = table_of(make_pod("p0").uid("u0").obj())
    nodes.pod_table()
    nodes.pods[0]["u1"] = make_pod("p1").uid("u1").obj()
    assert nodes.recount()["pod_table"] == 1

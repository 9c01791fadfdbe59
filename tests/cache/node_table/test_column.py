"""Columns: what the tables do with them, and one that a plugin brings along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_table import ABSENT, CodedColumn, LiveNodeTable, Numbers, NumbersByKey
from bayplan.testing import make_node, make_pod


class Racks(CodedColumn):
    """A column of the node's: in which rack it is."""

    def set_node(self, row: int, node: Node, _previous: Node | None) -> None:
        self.codes[row] = self.code(node.labels.get("rack", "none"))


class Teams(NumbersByKey):
    """A column of the Pods: how many each team has."""

    def count(self, row: int, pod: Pod, sign: int) -> None:
        self[pod.labels["team"]][row] += sign

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        return {team: int((self[team] != other[team]).sum()) for team in self.keys()}


class Devices(NumbersByKey):
    """A column that its owner writes."""


def racks(nodes: LiveNodeTable) -> list[str | None]:
    column = nodes.column(Racks)
    return [None if code == ABSENT else column.values[code] for code in column.codes]


def test_a_column_begins_with_what_is_there_and_follows() -> None:
    nodes = LiveNodeTable(3)
    nodes.set_node(make_node("a").label("rack", "r1").obj())
    nodes.add_pod(0, make_pod("p").label("team", "x").obj())
    assert nodes.ensure_column(Racks) is nodes.ensure_column(Racks)
    teams = nodes.ensure_column(Teams)
    assert racks(nodes) == ["r1", None, None]
    assert teams["x"].tolist() == [1, 0, 0]
    nodes.set_node(make_node("a").label("rack", "r2").obj())
    nodes.set_node(make_node("b").obj())
    nodes.add_pod(1, make_pod("q").label("team", "y").obj())
    assert racks(nodes) == ["r2", "none", None]
    assert teams["y"].tolist() == [0, 1, 0]
    nodes.remove_node("b")
    assert racks(nodes) == ["r2", None, None]
    assert teams["y"].tolist() == [0, 0, 0]
    assert nodes.recount() == {}


def test_a_column_that_its_owner_writes_grows_and_forgets_rows_that_are_freed() -> None:
    nodes = LiveNodeTable()
    devices = nodes.ensure_column(Devices)
    nodes.set_node(make_node("a").obj())
    devices["gpu"][0] = 8
    position = nodes.node_journal.position
    nodes.touch(0)
    assert nodes.node_journal.since(position) == [0]
    nodes.reserve(100)
    assert devices["gpu"].tolist() == [8] + [0] * 99
    nodes.remove_node("a")
    assert not devices["gpu"].any()


def test_a_what_if_table_has_its_own_copy_of_every_column() -> None:
    nodes = LiveNodeTable()
    for column in (Racks, Teams, Devices):
        nodes.ensure_column(column)
    for name in "abc":
        nodes.set_node(make_node(name).label("rack", name).obj())
    pod = make_pod("p").label("team", "x").obj()
    nodes.add_pod(2, pod)
    nodes.column(Devices)["gpu"][:] = range(len(nodes))
    small = nodes.take(np.array([2, 0]))
    small.remove_pods([0], [pod])
    small.add_pods([1, 1], [pod, make_pod("q").label("team", "z").obj()])
    assert small.column(Teams)["x"].tolist() == [0, 1]
    assert small.column(Teams)["z"].tolist() == [0, 1]
    assert small.column(Teams).keys() == {"x", "z"}
    assert small.column(Devices)["gpu"].tolist() == [2, 0]
    assert [small.column(Racks).values[c] for c in small.column(Racks).codes] == ["c", "a"]
    assert nodes.column(Teams)["x"].tolist()[:3] == [0, 0, 1]
    assert small.recount() == nodes.recount() == {}


def test_numbers_of_rows_without_a_node_are_zero() -> None:
    flags = Numbers(np.bool_)
    flags.grow(2)
    flags.values[1] = True
    taken = flags.take(np.array([1, 0]))
    flags.clear(1)
    assert flags.values.tolist() == [False, False]
    assert taken.values.tolist() == [True, False]


def test_keys_that_nobody_wrote_hold_the_fill_value() -> None:
    limits = NumbersByKey(fill=9)
    limits.grow(1)
    limits["a"][0] = 1
    limits.grow(3)
    assert limits["a"].tolist() == [1, 9, 9]
    assert limits["b"].tolist() == [9, 9, 9]
    limits.clear(0)
    assert limits["a"].tolist() == [9, 9, 9]
    assert limits.take(np.array([1]))["c"].tolist() == [9]


def test_codes_of_unhashable_values_go_by_their_key() -> None:
    column = CodedColumn()
    assert column.code(["a"], "a") == column.code(["a"], "a") == 0
    assert column.code(["b"], "b") == 1
    assert column.values == [["a"], ["b"]]


NAMES = st.sampled_from(["a", "b", "c", "d"])


class ColumnsFollow(RuleBasedStateMachine):
    """Columns that follow the table equal columns that were made of it afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = LiveNodeTable()
        for column in (Racks, Teams):
            self.nodes.ensure_column(column)
        self.pods: dict[str, int] = {}

    @rule(name=NAMES, rack=st.sampled_from(["r1", "r2"]), cpu=st.integers(1, 3), zone=st.booleans())
    def set_node(self, name: str, rack: str, cpu: int, zone: bool) -> None:
        node = make_node(name).label("rack", rack).capacity(cpu=str(cpu)).image(cpu, f"i{cpu}")
        if zone:
            node.label("zone", rack).taint(rack).unschedulable()
        self.nodes.set_node(node.obj())

    @rule(name=NAMES)
    def remove_node(self, name: str) -> None:
        for pod in self.nodes.remove_node(name):
            del self.pods[pod.uid]

    @rule(name=NAMES, uid=st.sampled_from(["p", "q", "r"]), port=st.booleans())
    def move_pod(self, name: str, uid: str, port: bool) -> None:
        old, row = self.pods.pop(uid, None), self.nodes.row(name)
        if old is not None:
            self.nodes.remove_pod(old, self.nodes.pods[old][uid])
        if row is not None:
            pod = make_pod(uid).uid(uid).label("team", uid).req(cpu="1")
            self.nodes.add_pod(row, (pod.host_port(80) if port else pod).obj())
            self.pods[uid] = row

    @rule(more=st.integers(1, 70))
    def grow(self, more: int) -> None:
        self.nodes.reserve(len(self.nodes) + more)

    @rule(key=st.sampled_from(["rack", "zone", "kubernetes.io/hostname"]))
    def read_label(self, key: str) -> None:
        self.nodes.label(key)

    @invariant()
    def columns_equal_fresh_ones(self) -> None:
        nodes = self.nodes
        assert nodes.recount() == {}
        fresh = LiveNodeTable(len(nodes))
        for info in nodes:
            fresh.set_node(info.node)
        order = [fresh.row(name) for name in nodes.names if name is not None]
        mine = np.flatnonzero(nodes.exists)
        theirs = np.array(order, np.int64)
        for resource in ("cpu", "memory"):
            same = nodes.allocatable(resource)[mine] == fresh.allocatable(resource)[theirs]
            assert same.all()
        assert (nodes.unschedulable[mine] == fresh.unschedulable[theirs]).all()
        assert not nodes.allocatable("cpu")[~nodes.exists].any()
        readers: tuple[Callable[[LiveNodeTable], Any], ...] = (
            lambda t: t.taints,
            lambda t: t.label("zone"),
            lambda t: t.label("rack"),
        )
        for read in readers:
            assert decoded(read(nodes), mine) == decoded(read(fresh), theirs)
            assert (read(nodes).codes[~nodes.exists] == ABSENT).all()
        for image in ("i1", "i2", "i3"):
            names = {nodes.names[row]: size for row, size in nodes.images.sizes(image).items()}
            other = {fresh.names[row]: size for row, size in fresh.images.sizes(image).items()}
            assert names == other


def decoded(column: CodedColumn, rows: np.ndarray) -> list[object]:
    return [None if c == ABSENT else column.values[c] for c in column.codes[rows].tolist()]


TestColumnsFollow = ColumnsFollow.TestCase

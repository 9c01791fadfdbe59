"""The node table: columns follow nodes and Pods, rows are used again, tables taken are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.builders import NodeBuilder, make_node, make_pod

from bayplan.api.node import Taint
from bayplan.api.pod import Pod
from bayplan.cache.node_table import ABSENT, CodedColumn, NodeTable, host_ports


def table(*nodes: NodeBuilder) -> NodeTable:
    made = NodeTable()
    for node in nodes:
        made.set_node(node.obj())
    return made


def row(nodes: NodeTable, name: str) -> int:
    found = nodes.row(name)
    assert found is not None
    return found


# Nodes


@pytest.mark.parametrize(
    ("resource", "amount", "units"),
    [
        ("cpu", "2", 2000),
        ("cpu", "250m", 250),
        ("cpu", "1e3m", None),
        ("cpu", "0.0001", 1),
        ("cpu", 2, 2000),
        ("cpu", 0.5, 500),
        ("memory", "1Gi", 1 << 30),
        ("memory", "1.5Mi", 3 << 19),
        ("memory", "1e3", 1000),
        ("memory", "128974848000m", 128974848),
        ("memory", "1E", 10**18),
        ("ephemeral-storage", "10G", 10**10),
        ("hugepages-2Mi", "4Mi", 4 << 20),
        ("nvidia.com/gpu", "8", 8),
    ],
)
def test_allocatable_is_read_in_every_notation(
    resource: str, amount: Any, units: int | None
) -> None:
    node = make_node("n").capacity({resource: amount})
    if units is None:
        with pytest.raises(ValueError, match="is not a quantity"):
            table(node)
        return
    assert table(node).info(0).allocatable(resource) == units


def test_pods_are_a_column_of_their_own() -> None:
    nodes = table(make_node("n").capacity(pods=110, cpu="1"))
    assert nodes.allowed_pods[0] == 110
    assert nodes.resources == {"cpu"}
    nodes.set_node(make_node("n").capacity(memory="1Gi").obj())
    assert nodes.allowed_pods[0] == 0
    assert nodes.info(0).allocatable("cpu") == 0, "what a node no longer offers is gone"
    assert nodes.info(0).allocatable("memory") == 1 << 30


def test_equal_taints_and_features_share_a_code() -> None:
    nodes = table(
        make_node("a").taint("k", "v").features("F", "G"),
        make_node("b").taint("k", "v").features("G", "F"),
        make_node("c"),
    )
    a, b, c = (row(nodes, name) for name in "abc")
    assert nodes.taints.codes[a] == nodes.taints.codes[b] != nodes.taints.codes[c]
    assert nodes.taints.values[nodes.taints.codes[a]] == (Taint("k", "v", "NoSchedule"),)
    assert nodes.features.codes[a] == nodes.features.codes[b] != nodes.features.codes[c]
    assert nodes.features.values[nodes.features.codes[a]] == {"F", "G"}


def test_label_columns_are_made_when_asked_for_and_follow_from_then_on() -> None:
    nodes = table(make_node("a").label("zone", "x"), make_node("b"))
    zone = nodes.label("zone")
    assert nodes.label("zone") is zone
    a, b = row(nodes, "a"), row(nodes, "b")
    assert (zone.codes[a], zone.codes[b]) == (zone.find("x"), ABSENT)
    nodes.set_node(make_node("b").label("zone", "y").obj())
    nodes.set_node(make_node("a").obj())
    nodes.set_node(make_node("c").label("zone", "y").obj())
    assert zone.codes[a] == ABSENT
    assert zone.codes[b] == zone.codes[row(nodes, "c")] == zone.find("y")
    assert zone.find("never") == ABSENT
    nodes.remove_node("b")
    assert zone.codes[b] == ABSENT


def test_an_empty_label_value_is_a_value() -> None:
    nodes = table(make_node("a").label("zone", ""))
    assert nodes.label("zone").find("") == nodes.label("zone").codes[0] != ABSENT


def test_of_an_image_that_a_node_lists_twice_the_first_counts() -> None:
    nodes = table(make_node("a").image(10, "x:1").image(20, "x:1"))
    assert nodes.image_rows == {"x:1": {row(nodes, "a"): 10}}


def test_images_are_known_by_all_their_names() -> None:
    nodes = table(make_node("a").image(10, "x:1", "x@sha"), make_node("b").image(20, "x:1"))
    a, b = row(nodes, "a"), row(nodes, "b")
    assert nodes.image_rows == {"x:1": {a: 10, b: 20}, "x@sha": {a: 10}}
    nodes.set_node(make_node("a").image(11, "y:1").obj())
    nodes.remove_node("b")
    assert nodes.image_rows == {"y:1": {a: 11}}


def test_rows_are_used_again_and_the_table_grows_when_they_run_out() -> None:
    nodes = NodeTable()
    zone = nodes.label("zone")
    for i in range(65):
        nodes.set_node(make_node(f"n{i}").label("zone", "z").capacity(cpu="1").obj())
    assert len(nodes) == 128
    assert nodes.node_count == 65
    assert [info.row for info in nodes] == list(range(65))
    for column in (nodes.exists, nodes.pod_count, nodes.allocatable("cpu"), zone.codes):
        assert column.shape == (128,)
    assert len(nodes.pods) == len(nodes.host_ports) == len(nodes.nodes) == 128
    freed = row(nodes, "n7")
    nodes.remove_node("n7")
    assert not nodes.exists[freed]
    assert nodes.nodes[freed] is nodes.names[freed] is None
    assert nodes.set_node(make_node("new").obj()) == freed
    assert nodes.info(freed).allocatable("cpu") == 0


def test_room_can_be_made_in_advance() -> None:
    nodes = NodeTable()
    nodes.reserve(300)
    nodes.reserve(10)
    assert len(nodes) == 300
    nodes.set_node(make_node("a").obj())
    assert row(nodes, "a") == 0


def test_removing_an_unknown_node_changes_nothing() -> None:
    nodes = table(make_node("a"))
    position = nodes.node_journal.position
    assert nodes.remove_node("b") == []
    assert nodes.node_journal.position == position


def test_a_node_as_a_plugin_sees_it() -> None:
    nodes = table(make_node("a").label("l", "v").annotation("x", "y").taint("t").capacity(cpu="2"))
    pod = make_pod("p").req(cpu="3").obj()
    nodes.add_pod(0, pod)
    info = nodes.info(0)
    assert (info.name, info.labels, info.annotations) == ("a", {"l": "v"}, {"x": "y"})
    assert info.taints == (Taint("t", "", "NoSchedule"),)
    assert info.pods == [pod]
    assert (info.allocatable("cpu"), info.requested("cpu"), info.free("cpu")) == (2000, 3000, -1000)
    assert info.free("never/heard-of") == 0


# Pods


def test_pods_are_summed_up_per_row() -> None:
    nodes = table(make_node("a"), make_node("b"))
    first = make_pod("p").req(cpu="500m", memory="1Gi", **{"x.com/y": 2}).obj()  # type: ignore[arg-type]
    second = make_pod("q").container().host_port(80).obj()
    nodes.add_pod(0, first)
    nodes.add_pod(0, second)
    assert nodes.pod_count.tolist()[:2] == [2, 0]
    assert nodes.requested("cpu")[0] == 500
    assert nodes.requested("x.com/y")[0] == 2
    assert nodes.nonzero_cpu[0] == 500 + 100 + 100
    assert nodes.nonzero_memory[0] == (1 << 30) + 2 * (200 << 20)
    assert nodes.host_ports[0] == {("0.0.0.0", "TCP", 80): 1}
    nodes.remove_pod(0, second)
    nodes.remove_pod(0, first)
    assert not nodes.pod_count.any()
    assert not nodes.host_ports[0]
    assert nodes.recount() == {}


@pytest.mark.parametrize(
    ("node", "pod", "same"),
    [
        pytest.param({}, {}, True, id="another name"),
        pytest.param({"cpu": "8"}, {}, False, id="more CPU to offer"),
        pytest.param({"pods": 20}, {}, False, id="more Pods allowed"),
        pytest.param({"example.com/gpu": 1}, {}, False, id="a resource more"),
        pytest.param({}, {"cpu": "2"}, False, id="more CPU requested"),
        pytest.param({}, {"memory": "1Gi"}, False, id="memory requested"),
        pytest.param({}, {"example.com/gpu": 1}, False, id="a resource requested"),
        pytest.param({}, {"cpu": "1", "ephemeral-storage": 0}, True, id="nothing requested"),
    ],
)
def test_the_load_of_a_row_is_what_it_offers_and_what_its_pods_request(
    node: dict[str, Any], pod: dict[str, Any], same: bool
) -> None:
    offered, requested = {"cpu": "4", "pods": 10}, {"cpu": "1"}
    nodes = table(make_node("a").capacity(**offered), make_node("b").capacity(**offered | node))
    empty = nodes.load(row(nodes, "a"))
    nodes.add_pod(row(nodes, "a"), make_pod("x").req(**requested).obj())
    assert nodes.load(row(nodes, "a")) != empty
    nodes.add_pod(row(nodes, "b"), make_pod("y").req(**requested | pod).obj())
    assert (nodes.load(row(nodes, "a")) == nodes.load(row(nodes, "b"))) is same


def test_loads_of_equal_requests_differ_by_the_number_of_pods() -> None:
    nodes = table(make_node("a").capacity(cpu="4"), make_node("b").capacity(cpu="4"))
    nodes.add_pod(row(nodes, "a"), make_pod("x").req(cpu="2", memory="2Gi").obj())
    for name in "yz":
        nodes.add_pod(row(nodes, "b"), make_pod(name).req(cpu="1", memory="1Gi").obj())
    assert nodes.load(row(nodes, "a")) != nodes.load(row(nodes, "b"))


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    port = {"containerPort": 1, "hostPort": 80}
    pod = (
        make_pod("p")
        .container(ports=[port | {"hostIP": "10.0.0.1", "protocol": "UDP"}, {"containerPort": 2}])
        .init_container(ports=[port | {"hostPort": 81}], restartPolicy="Always")
        .init_container(ports=[port | {"hostPort": 82}])
        .obj()
    )
    assert host_ports(pod.shape) == (("10.0.0.1", "UDP", 80), ("0.0.0.0", "TCP", 81))


@pytest.mark.parametrize("column", ["pod_count", "nonzero_cpu", "nonzero_memory", "cpu", "ports"])
def test_a_recount_finds_what_is_wrong(column: str) -> None:
    nodes = table(make_node("a"))
    nodes.add_pod(0, make_pod("p").req(cpu="1").host_port(80).obj())
    assert nodes.recount() == {}
    if column == "ports":
        nodes.host_ports[0].clear()
        assert nodes.recount() == {"host_ports": 1}
        return
    array = nodes.requested("cpu") if column == "cpu" else getattr(nodes, column)
    array[0] += 1
    assert nodes.recount() == {column: 1}


class Listening:
    """Writes down what it is told, with the node's labels as they are at that moment."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.told: list[tuple[str, str, dict[str, str]]] = []

    def _note(self, what: str, row: int, who: str = "") -> None:
        node = self.nodes.nodes[row]
        self.told.append((what, who, dict(node.labels) if node else {}))

    def pod_added(self, row: int, pod: Pod) -> None:
        self._note("+", row, pod.name)

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._note("-", row, pod.name)

    def node_changed(self, row: int) -> None:
        self._note("node", row)


def test_listeners_see_pods_leave_before_labels_change_and_come_back_after() -> None:
    nodes = table(make_node("a").label("z", "1"))
    listening = Listening(nodes)
    nodes.listen(listening)
    pod = make_pod("p").obj()
    nodes.add_pod(0, pod)
    nodes.set_node(make_node("a").label("z", "2").obj())
    nodes.set_node(make_node("a").label("z", "2").capacity(cpu="1").obj())
    nodes.set_node(make_node("a").label("z", "2").taint("t").obj())
    nodes.remove_node("a")
    one, two = {"z": "1"}, {"z": "2"}
    assert listening.told == [
        ("+", "p", one),
        ("-", "p", one),
        ("node", "", two),
        ("+", "p", two),
        ("node", "", two),
        ("-", "p", two),
        ("node", "", two),
        ("+", "p", two),
        ("-", "p", two),
        ("node", "", {}),
    ]
    nodes.unlisten(listening)
    nodes.set_node(make_node("b").obj())
    assert len(listening.told) == 10


def test_journals_tell_nodes_from_pods() -> None:
    nodes = NodeTable()
    before = nodes.node_journal.position, nodes.pod_journal.position
    nodes.set_node(make_node("a").obj())
    pod = make_pod("p").obj()
    nodes.add_pod(0, pod)
    nodes.remove_pod(0, pod)
    assert nodes.node_journal.since(before[0]) == [0]
    assert nodes.pod_journal.since(before[1]) == [0, 0]
    nodes.add_pod(0, pod)
    nodes.remove_node("a")
    assert nodes.node_journal.since(before[0]) == [0, 0]


# Tables that are taken


def world() -> tuple[NodeTable, list[Pod]]:
    nodes = table(
        *(
            make_node(f"n{i}").capacity(cpu=str(i), pods=i).label("zone", "ab"[i % 2]).taint(str(i))
            for i in range(6)
        )
    )
    pods = [make_pod(f"p{i}").req(cpu="1").host_port(80 + i).obj() for i in range(6)]
    for i, pod in enumerate(pods):
        nodes.add_pod(i, pod)
    return nodes, pods


def test_a_taken_table_has_the_picked_rows_in_the_picked_order() -> None:
    nodes, pods = world()
    small = nodes.take(np.array([4, 1]))
    assert len(small) == small.node_count == 2
    assert small.names == ["n4", "n1"]
    assert small.row("n1") == 1
    assert small.row("n0") is None
    assert [info.name for info in small] == ["n4", "n1"]
    assert small.allocatable("cpu").tolist() == [4000, 1000]
    assert small.requested("cpu").tolist() == [1000, 1000]
    assert small.allowed_pods.tolist() == [4, 1]
    assert small.pods[0] == {pods[4].uid: pods[4]}
    assert small.resources == {"cpu"}
    assert small.allocatable("unknown").tolist() == [0, 0]
    assert small.origin is not None
    assert small.origin.tolist() == [4, 1]
    zone = small.label("zone")
    assert [zone.values[code] for code in zone.codes] == ["a", "b"]
    assert zone.find("a") == nodes.label("zone").find("a")
    taints = small.taints
    assert [taints.values[code][0].key for code in taints.codes] == ["4", "1"]
    assert small.features.codes.tolist() == [0, 0]
    assert small.recount() == {}


def test_changes_of_a_taken_table_stay_there() -> None:
    nodes, pods = world()
    small = nodes.take(np.array([4, 1]))
    extra = make_pod("x").req(cpu="2", memory="1Gi").host_port(99).obj()
    small.add_pod(0, extra)
    small.remove_pod(1, pods[1])
    assert small.requested("cpu").tolist() == [3000, 0]
    assert small.requested("memory").tolist() == [1 << 30, 0]
    assert small.pod_count.tolist() == [2, 0]
    assert small.host_ports[0] == {("0.0.0.0", "TCP", 84): 1, ("0.0.0.0", "TCP", 99): 1}
    assert not small.host_ports[1]
    assert small.recount() == {}
    assert nodes.requested("cpu").tolist()[:6] == [1000] * 6
    assert nodes.pod_count.tolist()[:6] == [1] * 6
    assert nodes.host_ports[1] == {("0.0.0.0", "TCP", 81): 1}
    assert extra.uid not in nodes.pods[4]
    assert nodes.recount() == {}


def test_a_change_there_moves_no_row_here_and_tells_nobody() -> None:
    nodes, _ = world()
    listening = Listening(nodes)
    nodes.listen(listening)
    positions = nodes.pod_journal.position, nodes.node_journal.position
    small = nodes.take(np.array([0]))
    small.add_pod(0, make_pod("x").obj())
    assert listening.told == []
    assert (nodes.pod_journal.position, nodes.node_journal.position) == positions
    assert small.node_journal.position == 0


def test_a_table_taken_from_a_taken_one_sees_its_changes_and_keeps_its_own() -> None:
    nodes, _ = world()
    small = nodes.take(np.array([4, 1, 3]))
    extra = make_pod("x").req(cpu="2").obj()
    small.add_pod(2, extra)
    tiny = small.take(np.array([2]))
    assert tiny.origin is not None
    assert tiny.origin.tolist() == [3]
    assert tiny.requested("cpu").tolist() == [3000]
    tiny.remove_pod(0, extra)
    assert tiny.requested("cpu").tolist() == [1000]
    assert small.requested("cpu").tolist() == [1000, 1000, 3000]
    assert extra.uid in small.pods[2]


def test_free_rows_can_be_taken_too() -> None:
    nodes, _ = world()
    nodes.remove_node("n2")
    small = nodes.take(np.array([2, 3]))
    assert small.exists.tolist() == [False, True]
    assert small.row("n3") == 1


def test_what_a_taken_table_does_not_keep_is_an_error_not_an_empty_answer() -> None:
    nodes, _ = world()
    with pytest.raises(AttributeError, match="image_rows"):
        _ = nodes.take(np.array([0])).image_rows


def test_a_shared_port_is_free_with_the_first_who_leaves_in_a_dry_run() -> None:
    nodes = table(make_node("a"))
    pods = [make_pod(name).host_port(80).obj() for name in "pq"]
    for pod in pods:
        nodes.add_pod(0, pod)
    small = nodes.take(np.array([0]))
    small.remove_pod(0, pods[0])
    assert not small.host_ports[0]
    nodes.remove_pod(0, pods[0])
    assert nodes.host_ports[0] == {("0.0.0.0", "TCP", 80): 1}


def test_codes_of_unhashable_values_go_by_their_key() -> None:
    column = CodedColumn(2)
    assert column.code(["a"], "a") == column.code(["a"], "a") == 0
    assert column.code(["b"], "b") == 1
    assert column.values == [["a"], ["b"]]


def test_many_pods_at_once_are_as_good_as_one_by_one() -> None:
    rows = [0, 1, 0, 2, 0]
    pods = [
        make_pod(f"m{i}").req(cpu="1", memory=f"{i % 2}Mi").host_port(90 + i).obj()
        for i in range(5)
    ]
    one_by_one, at_once = (world()[0] for _ in range(2))
    listening = Listening(at_once)
    at_once.listen(listening)
    for row, pod in zip(rows, pods, strict=True):
        one_by_one.add_pod(row, pod)
    at_once.add_pods(rows, pods)
    assert at_once.recount() == one_by_one.recount() == {}
    assert at_once.requested("memory").tolist() == one_by_one.requested("memory").tolist()
    assert at_once.host_ports[0] == one_by_one.host_ports[0]
    assert [(what, who) for what, who, _ in listening.told] == [("+", f"m{i}") for i in range(5)]
    assert at_once.pod_journal.position == one_by_one.pod_journal.position
    at_once.remove_pods(rows, pods)
    assert at_once.recount() == {}
    assert at_once.pod_count[:6].tolist() == [1] * 6
    assert [(what, who) for what, who, _ in listening.told[5:]] == [
        ("-", f"m{i}") for i in range(5)
    ]


def test_a_port_that_several_share_is_freed_by_the_last() -> None:
    nodes = table(make_node("a"))
    pods = [make_pod(name).host_port(80).obj() for name in "pq"]
    for pod in pods:
        nodes.add_pod(0, pod)
    nodes.remove_pod(0, pods[0])
    assert nodes.host_ports[0] == {("0.0.0.0", "TCP", 80): 1}
    nodes.remove_pod(0, pods[1])
    assert not nodes.host_ports[0]

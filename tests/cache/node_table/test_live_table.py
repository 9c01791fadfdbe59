"""The live node table: columns follow nodes and Pods, and rows are used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bayplan.api.node import Taint
from bayplan.api.pod import Pod
from bayplan.cache.node_table import ABSENT, LiveNodeTable, host_ports
from bayplan.testing import NodeBuilder, make_node, make_pod


def table(*nodes: NodeBuilder) -> LiveNodeTable:
    made = LiveNodeTable()
    for node in nodes:
        made.set_node(node.obj())
    return made


def row(nodes: LiveNodeTable, name: str) -> int:
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
    assert nodes.images.sizes("x:1") == {row(nodes, "a"): 10}


def test_images_are_known_by_all_their_names() -> None:
    nodes = table(make_node("a").image(10, "x:1", "x@sha"), make_node("b").image(20, "x:1"))
    a, b = row(nodes, "a"), row(nodes, "b")
    assert nodes.images.sizes("x:1") == {a: 10, b: 20}
    assert nodes.images.sizes("x@sha") == {a: 10}
    assert nodes.take(np.array([b, a])).images.sizes("x:1") == {0: 20, 1: 10}
    nodes.set_node(make_node("a").image(11, "y:1").obj())
    nodes.remove_node("b")
    assert [nodes.images.sizes(name) for name in ("x:1", "x@sha", "y:1")] == [{}, {}, {a: 11}]


def test_rows_are_used_again_and_the_table_grows_when_they_run_out() -> None:
    nodes = LiveNodeTable()
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
    assert nodes.nodes[freed] is None
    assert nodes.names[freed] is None
    assert nodes.set_node(make_node("new").obj()) == freed
    assert nodes.info(freed).allocatable("cpu") == 0


def test_room_can_be_made_in_advance() -> None:
    nodes = LiveNodeTable()
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
    first = make_pod("p").req(cpu="500m", memory="1Gi", **{"x.com/y": 2}).obj()
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
    assert host_ports(pod.shape.constraints) == (("10.0.0.1", "UDP", 80), ("0.0.0.0", "TCP", 81))


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

    def __init__(self, nodes: LiveNodeTable) -> None:
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
    subscription = nodes.listen(listening)
    pod = make_pod("p").obj()
    nodes.add_pod(0, pod)
    nodes.set_node(make_node("a").label("z", "2").obj())
    nodes.set_node(make_node("a").label("z", "2").taint("t").obj())
    nodes.remove_node("a")
    one, two = {"z": "1"}, {"z": "2"}
    assert listening.told == [
        ("+", "p", one),
        ("-", "p", one),
        ("node", "", two),
        ("+", "p", two),
        ("-", "p", two),
        ("node", "", two),
        ("+", "p", two),
        ("-", "p", two),
        ("node", "", {}),
    ]
    subscription.close()
    nodes.set_node(make_node("b").obj())
    assert len(listening.told) == 9


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param(make_node("a"), ["-", "node", "+"], id="a label less"),
        pytest.param(make_node("a").label("z", "1").taint("t"), ["-", "node", "+"], id="a taint"),
        pytest.param(make_node("a").label("z", "1").capacity(cpu="1"), [], id="capacity"),
        pytest.param(make_node("a").label("z", "1").unschedulable(), [], id="cordoned"),
        pytest.param(make_node("a").label("z", "1").image(1, "x"), [], id="an image"),
        pytest.param(make_node("a").label("z", "1").annotation("k", "v"), [], id="an annotation"),
    ],
)
def test_a_change_of_a_node_moves_its_row_and_concerns_listeners_by_labels_and_taints(
    changed: NodeBuilder, told: list[str]
) -> None:
    nodes = table(make_node("a").label("z", "1"))
    nodes.add_pod(0, make_pod("p").obj())
    listening = Listening(nodes)
    nodes.listen(listening)
    position = nodes.node_journal.position
    nodes.set_node(changed.obj())
    assert [what for what, _, _ in listening.told] == told
    assert nodes.node_journal.since(position) == [0]


def test_a_heartbeat_moves_no_row_and_concerns_nobody() -> None:
    node = make_node("a").label("z", "1").taint("t").image(1, "x").capacity(cpu="1").obj()
    nodes = LiveNodeTable()
    nodes.set_node(node)
    listening = Listening(nodes)
    nodes.listen(listening)
    positions = nodes.node_journal.position, nodes.pod_journal.position
    latest = replace(node, metadata=replace(node.metadata, resource_version="2"))
    nodes.set_node(latest)
    assert nodes.node("a") is latest
    assert listening.told == []
    assert (nodes.node_journal.position, nodes.pod_journal.position) == positions


def test_journals_tell_nodes_from_pods() -> None:
    nodes = LiveNodeTable()
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


def test_a_port_that_several_share_is_freed_by_the_last() -> None:
    nodes = table(make_node("a"))
    pods = [make_pod(name).host_port(80).obj() for name in "pq"]
    for pod in pods:
        nodes.add_pod(0, pod)
    nodes.remove_pod(0, pods[0])
    assert nodes.host_ports[0] == {("0.0.0.0", "TCP", 80): 1}
    nodes.remove_pod(0, pods[1])
    assert not nodes.host_ports[0]

"""What-if tables: rows that were taken change apart from the table that they were taken from."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from bayplan.api.pod import Pod
from bayplan.cache.node_table import LiveNodeTable
from bayplan.testing import NodeBuilder, make_node, make_pod


def table(*nodes: NodeBuilder) -> LiveNodeTable:
    made = LiveNodeTable()
    for node in nodes:
        made.set_node(node.obj())
    return made


class Told:
    """Notes the rows that it is told of."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def pod_added(self, row: int, _pod: Pod) -> None:
        self.rows.append(row)

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self.rows.append(row)

    def node_changed(self, row: int) -> None:
        self.rows.append(row)


def world() -> tuple[LiveNodeTable, list[Pod]]:
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
    small.add_pods([0], [extra])
    small.remove_pods([1], [pods[1]])
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
    told = Told()
    nodes.listen(told)
    positions = nodes.pod_journal.position, nodes.node_journal.position
    small = nodes.take(np.array([0]))
    small.add_pods([0], [make_pod("x").obj()])
    assert told.rows == []
    assert (nodes.pod_journal.position, nodes.node_journal.position) == positions


def test_a_table_taken_from_a_taken_one_sees_its_changes_and_keeps_its_own() -> None:
    nodes, _ = world()
    small = nodes.take(np.array([4, 1, 3]))
    extra = make_pod("x").req(cpu="2").obj()
    small.add_pods([2], [extra])
    tiny = small.take(np.array([2]))
    assert tiny.origin is not None
    assert tiny.origin.tolist() == [3]
    assert tiny.requested("cpu").tolist() == [3000]
    tiny.remove_pods([0], [extra])
    assert tiny.requested("cpu").tolist() == [1000]
    assert small.requested("cpu").tolist() == [1000, 1000, 3000]
    assert extra.uid in small.pods[2]


def test_free_rows_can_be_taken_too() -> None:
    nodes, _ = world()
    nodes.remove_node("n2")
    small = nodes.take(np.array([2, 3]))
    assert small.exists.tolist() == [False, True]
    assert small.row("n3") == 1


def test_a_shared_port_is_free_with_the_first_who_leaves_in_a_dry_run() -> None:
    nodes = table(make_node("a"))
    pods = [make_pod(name).host_port(80).obj() for name in "pq"]
    for pod in pods:
        nodes.add_pod(0, pod)
    small = nodes.take(np.array([0]))
    small.remove_pods([0], [pods[0]])
    assert not small.host_ports[0]
    nodes.remove_pod(0, pods[0])
    assert nodes.host_ports[0] == {("0.0.0.0", "TCP", 80): 1}


def test_a_row_that_changes_leaves_those_that_share_its_source_as_they_are() -> None:
    nodes, pods = world()
    one, other = nodes.take(np.array([1, 2])), nodes.take(np.array([1, 2]))
    one.remove_pods([0], [pods[1]])
    assert (len(one.pods[0]), len(other.pods[0]), len(nodes.pods[1])) == (0, 1, 1)
    part = one.take(np.array([0]))
    part.add_pods([0], [pods[1]])
    assert (len(part.pods[0]), len(one.pods[0])) == (1, 0)
    assert [t.recount() for t in (one, other, part, nodes)] == [{}] * 4


def pod_of(random: Random, number: int) -> Pod:
    pod = make_pod().uid(f"uid-{number}").req(cpu=random.choice(("1", "2")))
    if random.random() < 0.3:
        pod.host_port(random.choice((80, 81)))
    if random.random() < 0.3:
        pod.req({"nvidia.com/gpu": 1})
    if random.random() < 0.2:
        resized = [{"name": "c1", "resources": {"requests": {"cpu": "3"}}}]
        pod.status(containerStatuses=resized)
    return pod.obj()


@pytest.mark.parametrize("seed", range(5))
def test_many_pods_count_as_they_do_one_by_one_in_the_live_table(seed: int) -> None:
    random = Random(seed)
    nodes = [make_node(name).capacity(cpu="8") for name in ("a", "b", "c")]
    live, source = table(*nodes), table(*nodes)
    many = source.take(np.arange(3))
    pods = [pod_of(random, i) for i in range(20)]
    rows = [random.randrange(3) for _ in pods]
    many.add_pods(rows, pods)
    many.add_pods([], [])
    for row, pod in zip(rows, pods, strict=True):
        live.add_pod(row, pod)
    assert many.recount() == {} == live.recount()
    assert many.pods == live.pods[:3]
    assert many.host_ports == live.host_ports[:3]
    for resource in ("cpu", "nvidia.com/gpu"):
        assert many.requested(resource).tolist() == live.requested(resource)[:3].tolist()
    many.remove_pods(rows, pods)
    assert source.recount() == {}
    assert not any(many.pods)
    assert not many.pod_count.any()
    assert not many.requested("cpu").any()

"""The measures of a cluster, against sums over nodes and Pods one by one."""

from __future__ import annotations

import statistics
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.measures import Measures, measures_of
from bayplan.testing import Cluster, make_node, make_pod

GPU = "example.com/gpu"
ZONE = "topology.kubernetes.io/zone"
MEMORY = 64


class Node(NamedTuple):
    """CPUs, GPUs, zone, price; "" for none."""

    cpu: int
    gpus: int
    zone: str
    price: str


class Pod(NamedTuple):
    """The number of the node, CPUs, Gi of memory, GPUs."""

    node: int
    cpu: int
    memory: int
    gpus: int


def _measured(nodes: list[Node], pods: list[Pod]) -> Measures:
    cluster = Cluster()
    for number, node in enumerate(nodes):
        made = make_node(f"n{number}").capacity(
            {"cpu": node.cpu, "memory": f"{MEMORY}Gi", "pods": 100, GPU: node.gpus}
        )
        if node.zone:
            made.label(ZONE, node.zone)
        if node.price:
            made.annotation("bayplan.dev/hourly-price", node.price)
        cluster.add(made)
    for number, pod in enumerate(pods):
        asks = {"cpu": pod.cpu, "memory": f"{pod.memory}Gi", GPU: pod.gpus}
        cluster.add(make_pod(f"p{number}").req(asks).node(f"n{pod.node}"))
    return measures_of(cluster.nodes, cluster.world.cache.pods())


def test_an_empty_cluster_has_measures() -> None:
    measured = _measured([], [])
    assert measured.nodes == measured.pods == 0
    assert measured.price is None
    assert measured.survivors == {}


def test_free_cpu_is_stranded_where_the_memory_is_used_up() -> None:
    measured = _measured([Node(10, 0, "", ""), Node(10, 0, "", "")], [Pod(0, 2, 62, 0)])
    assert measured.stranded["cpu"] == pytest.approx(0.4)
    assert measured.stranded["memory"] == 0


def test_free_devices_are_of_no_use_without_cpu_beside_them_or_too_few_on_a_node() -> None:
    nodes = [Node(8, 4, "", ""), Node(8, 4, "", "")]
    pods = [Pod(0, 8, 1, 2), Pod(1, 4, 1, 1)]  # 2 GPUs without a CPU; 3 GPUs with four
    devices = _measured(nodes, pods).devices[GPU]
    assert devices.by_room == {2: 2, 3: 3}
    # The first asks for 8 CPUs: none of the 5 will do. The second finds 3 of the 5.
    assert devices.fragmentation == pytest.approx((5 + 2) / (2 * 5))


def test_the_zone_with_most_pods_is_lost() -> None:
    nodes = [Node(8, 0, "a", ""), Node(8, 0, "b", ""), Node(8, 0, "", "")]
    measured = _measured(nodes, [Pod(0, 1, 1, 0), Pod(0, 1, 1, 0), Pod(1, 1, 1, 0)])
    assert measured.survivors == {ZONE: pytest.approx(1 / 3)}


def test_an_owner_loses_the_zone_with_most_of_its_pods() -> None:
    cluster = Cluster()
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "")):
        made = make_node(name).capacity(cpu="8", memory="64Gi", pods=20)
        cluster.add(made.label(ZONE, zone) if zone else made)
    places = {"spread": "n1 n1 n2", "together": "n1 n1", "nowhere": "n3 n3", "alone": "n1"}
    for owner, nodes in places.items():
        for number, node in enumerate(nodes.split()):
            pod = make_pod(f"{owner}-{number}").req(cpu="1").owner("ReplicaSet", owner)
            cluster.add(pod.node(node))
    cluster.add(make_pod("nobodys").node("n1"))
    owners = measures_of(cluster.nodes, cluster.world.cache.pods()).owners[ZONE]
    assert owners.count == 3
    assert owners.survivors == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert owners.lost == pytest.approx(1 / 3)


def test_nodes_without_a_pod_could_be_given_back() -> None:
    measured = _measured([Node(8, 0, "", "1.5"), Node(8, 0, "", "2")], [Pod(0, 1, 1, 0)])
    assert (measured.price, measured.price_of_all) == (1.5, 3.5)


_NODES = st.lists(
    st.builds(
        Node,
        st.integers(1, 8),
        st.integers(0, 4),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "1", "none"]),
    ),
    min_size=1,
    max_size=5,
)


@given(nodes=_NODES, data=st.data())
def test_measures_are_sums_over_nodes_and_pods(nodes: list[Node], data: st.DataObject) -> None:
    one = st.builds(
        Pod,
        st.integers(0, len(nodes) - 1),
        st.integers(0, 8),
        st.integers(0, 70),
        st.integers(0, 3),
    )
    pods = data.draw(st.lists(one, max_size=8))
    measured = _measured(nodes, pods)
    offered = [(node.cpu, MEMORY, node.gpus) for node in nodes]
    taken = [
        tuple(sum(pod[i] for pod in pods if pod.node == n) for i in (1, 2, 3))
        for n in range(len(nodes))
    ]
    left = [
        tuple(max(o - t, 0) for o, t in zip(*both, strict=True))
        for both in zip(offered, taken, strict=True)
    ]
    total = sum(o[0] for o in offered)
    assert measured.used["cpu"] == pytest.approx(sum(t[0] for t in taken) / total)
    dominant = [
        max(t / o for o, t in zip(*both, strict=True) if o)
        for both in zip(offered, taken, strict=True)
    ]
    assert measured.dominant.mean == pytest.approx(statistics.mean(dominant))
    assert measured.dominant.deviation == pytest.approx(statistics.pstdev(dominant))
    lost = sum(cpu for cpu, memory, _ in left if memory < MEMORY / 20)
    assert measured.stranded["cpu"] == pytest.approx(lost / total)
    asking = [pod for pod in pods if pod.gpus]
    free = sum(room[2] for room in left)
    if not any(node.gpus for node in nodes):
        return
    if not asking or not free:
        assert measured.devices[GPU].fragmentation is None
        return
    useless = sum(
        room[2]
        for pod in asking
        for room in left
        if room[0] < pod.cpu or room[1] < pod.memory or room[2] < pod.gpus
    )
    expected = useless / (len(asking) * free)
    assert measured.devices[GPU].fragmentation == pytest.approx(expected)

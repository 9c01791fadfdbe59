"""Preemption makes room in zones, in a whole scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.node_resource_topology_match.test_fingerprint import encoded
from tests.plugins.node_resource_topology_match.topologies import topology, zone

from bayplan.testing import Cluster, PodBuilder, make_node, make_pod

PLUGIN = "NodeResourceTopologyMatch"


def cluster_of(**args: Any) -> Cluster:
    given = {"name": PLUGIN, "args": {"cacheResyncPeriodSeconds": 1} | args}
    enabled = {"multiPoint": {"enabled": [{"name": PLUGIN}]}}
    profile = {"schedulerName": "bayplan", "plugins": enabled, "pluginConfig": [given]}
    cluster = Cluster(config={"profiles": [profile]})
    cluster.add(make_node("n").capacity(cpu="16", memory="64Gi", pods="110"))
    return cluster


def pod(name: str, cpu: int, priority: int = 0) -> PodBuilder:
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    made = make_pod(name).container(resources={"requests": amounts, "limits": amounts})
    return made.priority(priority).spec(schedulerName="bayplan").phase("Running")


def test_a_pod_that_the_object_does_not_show_yet_gives_way() -> None:
    cluster = cluster_of()
    cluster.add(topology("n", zone(0, cpu=8, memory="9Gi"), zone(1, cpu=8, memory="9Gi"), shows=()))
    cluster.add(pod("low", 4))
    cluster.run()
    cluster.add(pod("high", 6, priority=10))
    cluster.run()
    assert cluster.writer.deleted == ["low"]


@pytest.mark.parametrize(("mode", "victims"), [("Enabled", ["in-one"]), ("Disabled", [])])
def test_the_pod_whose_zone_is_large_enough_gives_way(mode: str, victims: list[str]) -> None:
    cluster = cluster_of(preemptionMode=mode)
    zero, one = pod("in-zero", 3).node("n"), pod("in-one", 5).node("n")
    placed = {("default", "in-zero", "c1"): 0, ("default", "in-one", "c1"): 1}
    metadata, vectors = encoded(placed, 2)
    zones = []
    for id_, free in ((0, 2), (1, 3)):
        resources = [
            {"name": "cpu", "allocatable": 8, "available": free},
            {"name": "memory", "allocatable": "9Gi", "available": "8Gi"},
        ]
        made = {"name": f"node-{id_}", "type": "Node", "resources": resources}
        vector = {"name": "topology.node.k8s.io/numaplacement-vector", "value": vectors.get(id_)}
        zones.append(made | {"attributes": [vector] if id_ in vectors else []})
    more = {"topology.node.k8s.io/numaplacement-metadata": metadata}
    cluster.add(zero, one, topology("n", *zones, shows=(zero, one), **more))
    cluster.add(pod("high", 6, priority=10))
    cluster.run()
    assert cluster.writer.deleted == victims

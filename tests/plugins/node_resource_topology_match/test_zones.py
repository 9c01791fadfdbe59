"""Objects with gaps: each is named, and none makes a node better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.harness import PluginWorld
from tests.plugins.node_resource_topology_match.topologies import topology, zone

from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.plugins.node_resource_topology_match.zones import KubeletConfig, node_zones
from bayplan.testing import PodBuilder, make_node, make_pod

STRATEGIES = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")


def pod(**amounts: str) -> PodBuilder:
    return make_pod("p").container(resources={"requests": amounts, "limits": amounts})


def resource(**fields: Any) -> dict[str, Any]:
    return {"name": "node-0", "type": "Node", "resources": [{"name": "cpu", **fields}]}


BROKEN = [
    pytest.param([zone("x", cpu=8)], "zones[0].name: 'node-x' is not node-0 to node-63", id="name"),
    pytest.param([zone(64, cpu=8)], "zones[0].name: 'node-64' is not node-0 to node-63", id="high"),
    pytest.param(
        [zone(0, cpu=1), zone(0, cpu=8)], "zones[1].name: 'node-0' is there already", id="twice"
    ),
    pytest.param([resource()], "zones[0].resources[0].available: missing", id="no available"),
    pytest.param(
        [resource(available="-3")],
        "zones[0].resources[0].available: there cannot be -3 cpu",
        id="negative",
    ),
    pytest.param(
        [resource(available="1e30")],
        "zones[0].resources[0].available: there cannot be 1e30 cpu",
        id="absurd",
    ),
    pytest.param(
        [resource(available="much")],
        "zones[0].resources[0].available: 'much' is not a quantity (examples: 500m, 2, 1.5Gi, 1e3)",
        id="no quantity",
    ),
    pytest.param(
        [resource(available="8", allocatable="1")],
        "zones[0].resources[0].available: more cpu than is allocatable",
        id="more than allocatable",
    ),
    pytest.param(
        [{"name": "node-0", "type": "Node", "resources": [{"available": "8"}]}],
        "zones[0].resources[0].name: missing",
        id="no name",
    ),
]


@pytest.mark.parametrize(("zones", "fault"), BROKEN)
def test_a_zone_with_a_gap_is_named_and_the_pod_goes_elsewhere(
    zones: list[dict[str, Any]], fault: str
) -> None:
    world = PluginWorld("bad", "good").add(
        topology("bad", *zones), topology("good", zone(0, cpu=9, memory="9Gi"))
    )
    plugin = world.make(NodeResourceTopologyMatch)
    assert world.messages(plugin, pod(cpu="4", memory="1Gi").obj()) == {
        "bad": "cannot align container",
        "good": "",
    }
    (faults,) = (faults() for faults in world.handle.services.object_faults)
    assert [(f.regarding.name, f.reason, f.message) for f in faults] == [
        ("bad", "InvalidTopology", fault)
    ]


@pytest.mark.parametrize(("zones", "fault"), BROKEN)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("policy", ["single-numa-node", "none"])
def test_a_zone_with_a_gap_never_wins(
    zones: list[dict[str, Any]], fault: str, strategy: str, policy: str
) -> None:
    assert fault
    whole = zone(0, {0: 10}, cpu=9, memory="9Gi")
    broken = topology("bad", *zones, policy=policy)
    world = PluginWorld("bad", "good").add(broken, topology("good", whole, policy=policy))
    plugin = world.make(NodeResourceTopologyMatch, scoringStrategy={"type": strategy})
    asked = pod(cpu="4", memory="1Gi").obj()
    scores = plugin.score_nodes(CycleState(), asked, world.nodes)
    bad, good = scores[world.row("bad")], scores[world.row("good")]
    rejected = bool(world.messages(plugin, asked)["bad"])
    assert rejected == (policy != "none")
    assert rejected or bad < good or (bad, good) == (0, 0)


def test_a_node_without_distances_gets_no_points_for_near_zones() -> None:
    room: Any = {"cpu": 4, "memory": "4Gi"}
    zones = (zone(0, **room), zone(1, **room))
    near = (zone(0, {0: 10, 1: 11}, **room), zone(1, {0: 11, 1: 10}, **room))
    world = PluginWorld("unknown", "near").add(topology("unknown", *zones), topology("near", *near))
    plugin = world.make(NodeResourceTopologyMatch, scoringStrategy={"type": "LeastNUMANodes"})
    scores = plugin.score_nodes(CycleState(), pod(cpu="6", memory="1Gi").obj(), world.nodes)
    assert scores[world.row("unknown")] == 100 - 2 * 12
    assert scores[world.row("near")] == 100 - 2 * 12 + 6


@pytest.mark.parametrize(
    ("attributes", "policies", "config", "faults"),
    [
        pytest.param({}, [], KubeletConfig(), [], id="defaults"),
        pytest.param(
            {}, ["RestrictedPodLevel"], KubeletConfig("restricted", "pod"), [], id="deprecated"
        ),
        pytest.param(
            {"topologyManagerPolicy": "best-effort"},
            ["SingleNUMANodePodLevel"],
            KubeletConfig("best-effort", "pod"),
            [],
            id="attributes override",
        ),
        pytest.param(
            {"topologyManagerPolicy": "strict", "topologyManagerScope": "node"},
            ["SingleNUMANodeContainerLevel", "ignored"],
            KubeletConfig("single-numa-node"),
            [
                "attributes[0]: topologyManagerPolicy 'strict' is unknown",
                "attributes[1]: topologyManagerScope 'node' is unknown",
            ],
            id="unknown values",
        ),
        pytest.param(
            {"topologyManagerMaxNUMANodes": "0"},
            ["Cubic"],
            KubeletConfig(),
            [
                "topologyPolicies[0]: 'Cubic' is unknown",
                "attributes[0]: topologyManagerMaxNUMANodes '0' is unknown",
            ],
            id="unknown policy and number",
        ),
        pytest.param(
            {"topologyManagerMaxNUMANodes": "99999"},
            [],
            KubeletConfig(most_zones=1024),
            [],
            id="capped",
        ),
    ],
)
def test_the_kubelets_configuration_is_read(
    attributes: dict[str, str], policies: list[str], config: KubeletConfig, faults: list[str]
) -> None:
    listed = [{"name": name, "value": value} for name, value in attributes.items()]
    obj = topology("n").top(attributes=listed, topologyPolicies=policies).obj()
    assert node_zones(obj).config == config
    assert list(node_zones(obj).faults) == faults


def test_costs_that_are_missing_or_wrong_are_the_farthest() -> None:
    zones = node_zones(topology("n", zone(0, {0: 10, 1: -1}), zone(1, {1: 10})).obj())
    assert zones.distances == ((10, 255), (255, 10))
    assert list(zones.faults) == [
        "zones[0].costs[1]: -1 is not from 0 to 255",
        "zones[0].costs: none for node-1",
        "zones[1].costs: none for node-0",
    ]


def test_a_fault_that_is_mended_is_no_fault_any_more() -> None:
    world = PluginWorld("n").add(topology("n", zone("x")))
    plugin = world.make(NodeResourceTopologyMatch)
    (faults,) = world.handle.services.object_faults
    assert faults()
    world.add(topology("n", zone(0, cpu=4, memory="1Gi")))
    assert not faults()
    world.add(topology("n", zone("x")))
    world.remove(topology("n"))
    assert not faults()
    assert world.messages(plugin, pod(cpu="9", memory="1Gi").obj()) == {"n": ""}


def test_a_node_with_a_policy_and_no_zones_takes_no_guaranteed_pod() -> None:
    world = PluginWorld("n").add(topology("n"))
    plugin = world.make(NodeResourceTopologyMatch)
    assert world.messages(plugin, pod(cpu="1", memory="1Gi").obj()) == {
        "n": "cannot align container"
    }


def test_containers_without_requests_do_not_count_for_the_score() -> None:
    world = PluginWorld("n").add(topology("n", zone(0, cpu=4, memory="4Gi")))
    plugin = world.make(NodeResourceTopologyMatch)
    both = {"cpu": "2", "memory": "2Gi"}
    mixed = make_pod("p").container().spec(resources={"requests": both, "limits": both}).obj()
    assert plugin.score_nodes(CycleState(), mixed, world.nodes)[0] == 100


def test_a_node_with_many_zones_is_answered_at_once() -> None:
    """The sets of 32 among 64 zones are more than anyone can look at."""
    world = PluginWorld("n").add(topology("n", *(zone(i, cpu=1, memory="1Gi") for i in range(64))))
    plugin = world.make(NodeResourceTopologyMatch, scoringStrategy={"type": "LeastNUMANodes"})
    scores = plugin.score_nodes(CycleState(), pod(cpu="32", memory="1Gi").obj(), world.nodes)
    assert scores[0] == 0
    assert np.all(scores >= 0)


def test_the_node_may_come_after_its_object() -> None:
    world = PluginWorld("a").add(topology("late", zone(0, cpu=1, memory="1Gi")))
    plugin = world.make(NodeResourceTopologyMatch)
    asked = pod(cpu="2", memory="1Gi").obj()
    assert world.messages(plugin, asked) == {"a": ""}
    world.add(make_node("late"))
    assert world.messages(plugin, asked) == {"a": "", "late": "cannot align container"}

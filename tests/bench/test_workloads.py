"""The benchmark's workloads, run small: they are data, and data can be wrong."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from bench.objects import RACK, Objects, collection, merged
from bench.recording import CoreWorld
from bench.schedulers import CONFIG
from bench.workloads import load_catalog

from bayplan.config import parse_config
from bayplan.config.feature_gates import parse_feature_gates
from bayplan.engine.registry import Registry

CATALOG = load_catalog()
SECONDS = 30.0


@pytest.mark.parametrize("name", CATALOG.workloads)
def test_every_measured_pod_of_a_workload_gets_a_node(name: Any) -> None:
    workload = CATALOG.select(name)[0].sized(nodes=50)
    objects = Objects(CATALOG, workload)
    registry = Registry()
    gates = parse_feature_gates([f"{gate}=true" for gate in workload.gates])
    config = parse_config(CONFIG, registry.known, gates=gates)
    world = CoreWorld(config, registry, workload, objects)
    world.feed(objects.measured())
    placing = world.place(workload.measured.count, SECONDS)
    assert placing.pods == workload.measured.count


def test_every_promised_workload_is_there() -> None:
    names = (
        "SchedulingBasic SchedulingNodeAffinity SchedulingPodAntiAffinity"
        " SchedulingPodMatchingAntiAffinity SchedulingPodAffinity SchedulingPreferredPodAffinity"
        " SchedulingPreferredPodAntiAffinity SchedulingRequiredPodAntiAffinityWithNSSelector"
        " SchedulingPreferredAffinityWithNSSelector TopologySpreading PreferredTopologySpreading"
        " DefaultTopologySpreading MixedSchedulingBasePod SchedulingDaemonset SchedulingCSIPVs"
        " SchedulingInTreePVs SchedulingMigratedInTreePVs SchedulingSecrets"
        " SchedulingDeletedPodsWithFinalizers Sustained GangScheduling GangSchedulingLarge"
        " TopologyAwareScheduling TopologyAwareSchedulingLarge GangPreemptionBasic GangOf10000"
        " GangPreemptionPodGroups"
        " PreemptionBasic PreemptionAsync Unschedulable SchedulingWithMixedChurn"
        " SchedulingWhileGated Heterogeneous OwnLabels OwnLabelsSpreading OwnSizes"
        " SchedulingWithResourceClaimTemplate ResourceClaimTemplateLarge OwnClaims"
        " ResourceClaimTemplateSelector ResourceClaimTemplateMatch ResourceClaimTemplateHalfFull"
        " ResourceClaimTemplateFull FirstAvailable Partitionable PartitionableBacktracking"
        " ConsumableCapacity DeviceTaintToleration SchedulingWithExtendedResource"
    )
    assert set(CATALOG.workloads) == set(names.split())


def test_nodes_scale_all_counts_and_given_counts_stay() -> None:
    workload = CATALOG.select("SchedulingPodAffinity")[0].sized(nodes=1000, pods=7)
    assert (workload.node_count, workload.placed_count, workload.measured.count) == (1000, 1000, 7)


@pytest.mark.parametrize("placed", [0, 3000, 50_000], ids=["none", "fewer", "more"])
def test_placed_pods_are_as_many_as_asked_for(placed: Any) -> None:
    workload = CATALOG.select("MixedSchedulingBasePod")[0].sized(placed=placed)
    assert workload.placed_count == placed
    assert sum(1 for _ in Objects(CATALOG, workload).placed()) == placed


def test_placed_pods_are_dealt_out_evenly() -> None:
    workload = CATALOG.select("SchedulingBasic")[0].sized(nodes=10, placed=25)
    bodies = [item.body for item in Objects(CATALOG, workload).placed()]
    counts = [sum(b'"nodeName": "node-%d"' % i in body for body in bodies) for i in range(10)]
    assert set(counts) == {2, 3}


def test_a_mix_has_as_many_signatures_as_it_says() -> None:
    workload = CATALOG.select("Heterogeneous")[0]
    bodies = [
        item.body.replace(item.name.encode(), b"") for item in Objects(CATALOG, workload).measured()
    ]
    assert len(set(bodies)) == CATALOG.mixes["various"].variants


def test_both_schedulers_get_the_same_pods_in_the_same_order() -> None:
    workload = CATALOG.select("Heterogeneous")[0].sized(pods=300)
    first, second = Objects(CATALOG, workload), Objects(CATALOG, workload)
    assert list(first.measured()) == list(second.measured())


def test_unknown_workloads_are_named() -> None:
    with pytest.raises(LookupError, match=r"no workload Nope: there are SchedulingBasic"):
        CATALOG.select("SchedulingBasic,Nope")


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        ("Pod", "a", "/api/v1/namespaces/a/pods"),
        ("Node", "", "/api/v1/nodes"),
        ("CSINode", "", "/apis/storage.k8s.io/v1/csinodes"),
    ],
    ids=["pod", "node", "csi-node"],
)
def test_objects_go_to_their_collections(kind: Any, namespace: Any, path: Any) -> None:
    assert collection(kind, namespace) == path


def test_merging_replaces_lists_and_leaves_the_base_alone() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}}
    assert merged(base, {"a": {"c": [3]}, "d": 4}) == {"a": {"b": 1, "c": [3]}, "d": 4}
    assert base == {"a": {"b": 1, "c": [1, 2]}}


def test_every_workload_of_a_set_is_there() -> None:
    for name, members in CATALOG.sets.items():
        assert [each.name for each in CATALOG.select(name)] == members
        assert name not in CATALOG.workloads


@pytest.mark.parametrize(
    ("pods", "groups"),
    [(2500, [1000, 1000]), (1000, [1000]), (40, [40]), (1, [1])],
    ids=["rounded-down", "as-given", "one-smaller-group", "one-pod"],
)
def test_groups_are_whole_and_come_before_their_pods(pods: Any, groups: Any) -> None:
    workload = CATALOG.select("GangSchedulingLarge")[0].sized(pods=pods)
    items = list(Objects(CATALOG, workload).measured())
    made = {item.name: json.loads(item.body) for item in items if item.kind != "Pod"}
    minimum = [group["spec"]["schedulingPolicy"]["gang"]["minCount"] for group in made.values()]
    assert minimum == groups
    members = Counter[str]()
    known = set()
    for item in items:
        if item.kind == "Pod":
            group = json.loads(item.body)["spec"]["schedulingGroup"]["podGroupName"]
            assert group in known
            members[group] += 1
        else:
            known.add(item.name)
    assert list(members.values()) == groups
    assert workload.measured.count == sum(groups)


def test_racks_are_of_neighbours() -> None:
    workload = CATALOG.select("TopologyAwareScheduling")[0].sized(nodes=250)
    nodes = [json.loads(item.body) for item in Objects(CATALOG, workload).surroundings()]
    racks = Counter(node["metadata"]["labels"][RACK] for node in nodes)
    assert racks == {"rack-0": 100, "rack-1": 100, "rack-2": 50}

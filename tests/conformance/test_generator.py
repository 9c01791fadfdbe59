from __future__ import annotations

import pytest
from e2e.conformance.generator import Size, generate, generate_with_groups
from e2e.conformance.reach import features_of


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_always_makes_the_same_cluster(seed: int) -> None:
    size = Size((5, 10), (5, 10))
    first, again = generate(seed, size), generate(seed, size)
    assert first == again
    assert first.items != generate(seed + 100, size).items


def test_a_cluster_has_the_size_asked_for() -> None:
    case = generate(1, Size((7, 7), (4, 4)))
    kinds = [one["kind"] for one in case.items]
    pending = [one for one in case.items if one["kind"] == "Pod" and "nodeName" not in one["spec"]]
    assert (kinds.count("Node"), len(pending)) == (7, 4)


@pytest.mark.parametrize("seed", range(5))
def test_objects_of_a_cluster_have_names_of_their_own(seed: int) -> None:
    items = generate(seed, Size((10, 20), (10, 20))).items
    keys = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in items
    ]
    assert len(keys) == len(set(keys))


def test_a_feature_is_the_path_of_a_field_and_the_value_of_an_operator() -> None:
    spec = {
        "containers": [{"name": "main", "image": "nginx", "ports": [{"hostPort": 80}]}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b"}],
    }
    assert {*features_of(spec)} == {
        "containers.ports.hostPort",
        "nodeSelector",
        "tolerations.key",
        "tolerations.operator=Exists",
    }


def test_groups_ask_for_topology_and_two_of_three_clusters_heed_it() -> None:
    cases = [generate_with_groups(seed, Size((5, 10), (30, 40))) for seed in range(3, 9)]
    heeding = [case for case in cases if "TopologyAwareWorkloadScheduling" in case.gates]
    assert len(heeding) == 4
    groups = [i["spec"] for case in cases for i in case.items if i["kind"] == "PodGroup"]
    asking = [spec for spec in groups if "schedulingConstraints" in spec]
    assert 0 < len(asking) < len(groups)


def test_a_group_has_pods_of_one_namespace_scheduler_and_priority() -> None:
    case = generate_with_groups(3, Size((5, 10), (30, 40)))
    groups = [item for item in case.items if item["kind"] == "PodGroup"]
    assert groups
    for group in groups:
        key = group["metadata"]["namespace"], group["metadata"]["name"]
        members = [
            item
            for item in case.items
            if item["kind"] == "Pod"
            and item["spec"].get("schedulingGroup") == {"podGroupName": key[1]}
            and item["metadata"].get("namespace", "default") == key[0]
        ]
        assert members
        classes = {pod["spec"].get("priorityClassName") for pod in members}
        assert classes == {group["spec"].get("priorityClassName")}
        assert len({pod["spec"].get("schedulerName") for pod in members}) == 1

import msgspec
import pytest

from bayplan.api import pod_spec
from bayplan.config.args import NodeAffinityArgs, NodeResourcesFitArgs, PodTopologySpreadArgs
from bayplan.config.names import extended_resource, label_value, qualified_name


def test_added_affinity_becomes_the_structs_that_pods_have() -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchFields": [{"key": "x", "operator": "In"}]}}
        ],
    }
    args = NodeAffinityArgs.model_validate({"addedAffinity": affinity})
    assert args.node_affinity() == msgspec.convert(affinity, pod_spec.NodeAffinity)
    assert NodeAffinityArgs().node_affinity() is None


def test_default_constraints_become_the_structs_that_pods_have() -> None:
    constraint = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 3,
        "matchLabelKeys": ["app"],
    }
    args = PodTopologySpreadArgs.model_validate({"defaultConstraints": [constraint]})
    assert args.constraints() == (msgspec.convert(constraint, pod_spec.TopologySpreadConstraint),)
    assert PodTopologySpreadArgs().constraints() == ()


def test_resources_of_a_strategy_default_to_cpu_and_memory_of_weight_1() -> None:
    for data in ({}, {"scoringStrategy": {"type": "MostAllocated", "resources": []}}):
        strategy = NodeResourcesFitArgs.model_validate(data).scoring_strategy
        assert [(r.name, r.weight) for r in strategy.resources] == [("cpu", 1), ("memory", 1)]


def test_a_weight_of_0_is_1() -> None:
    data = {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}]}}
    assert NodeResourcesFitArgs.model_validate(data).scoring_strategy.resources[0].weight == 1


@pytest.mark.parametrize(
    "name", ["a", "A.b_c-d", "example.com/a", "a" * 63, "a." * 126 + "a/x", "0/0"]
)
def test_good_qualified_names(name: str) -> None:
    assert not list(qualified_name(name))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-a",
        "a-",
        "a b",
        "a" * 64,
        "/a",
        "a/",
        "a/b/c",
        "A/b",
        "a." * 127 + "a/x",
        "a\n",
        "a..b/c",
    ],
)
def test_bad_qualified_names(name: str) -> None:
    assert list(qualified_name(name))


@pytest.mark.parametrize(
    ("value", "good"), [("", True), ("a.b", True), ("a" * 64, False), ("-", False)]
)
def test_label_values(value: str, good: bool) -> None:
    assert (not list(label_value(value))) == good


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("example.com/gpu", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("example.com/", False),
        # As a quota its domain would have 254 characters.
        ("a." * 122 + "a/x", False),
    ],
)
def test_extended_resources(name: str, good: bool) -> None:
    assert (not list(extended_resource(name))) == good

"""The arguments of plugins whose names and arguments are those of scheduler-plugins."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bayplan.config import IN_TREE, ConfigError, parse_config


def checked(plugin: str, args: dict[str, Any]) -> Any:
    """The arguments as the plugin gets them."""
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return parse_config(yaml.safe_dump(document), IN_TREE).profiles[0].plugin_args[plugin]


def problems(plugin: str, args: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        checked(plugin, args)
    before = "profiles[0].pluginConfig[0].args."
    return [str(error).removeprefix(before) for error in caught.value.errors]


METADATA = {
    "metadataKey": "k",
    "metadataSource": "Label",
    "metadataType": "Number",
    "scoringStrategy": "Highest",
}


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "NodeResourcesAllocatable",
            {"resources": [{"name": "cpu", "weight": 0}]},
            ["resources[0].weight: resource weight of cpu should be a positive value, got :0"],
        ),
        (
            "NodeResourcesAllocatable",
            {"mode": "least"},
            ['mode: unknown value "least" (did you mean Least?)'],
        ),
        (
            "TargetLoadPacking",
            {
                "targetUtilization": 101,
                "defaultRequests": {"cpu": "much"},
                "defaultRequestsMultiplier": "x",
                "metricProvider": {"type": "SignalFx", "address": "prometheus:9090"},
                "compat": "exactly",
            },
            [
                "metricProvider.type: invalid MetricProvider.Type, got SignalFx"
                " (one of KubernetesMetricsServer, Prometheus)",
                "metricProvider.address: must be a URL such as http://prometheus:9090, not"
                ' "prometheus:9090"',
                'compat: unknown value "exactly" (did you mean exact?)',
                "targetUtilization: 101 is not in the range 1 to 100",
                "defaultRequests[cpu]: 'much' is not a quantity (examples: 500m, 2, 1.5Gi, 1e3)",
                'defaultRequestsMultiplier: must be a number of at least 0 in quotes, not "x"',
            ],
        ),
        (
            "LowRiskOverCommitment",
            {
                "riskLimitWeights": {"cpu": 2.0},
                "watcherAddress": "load-watcher",
                "metricProvider": {"queries": {"cpu": {"deviation": "x"}}},
            },
            [
                'watcherAddress: must be a URL such as http://prometheus:9090, not "load-watcher"',
                "metricProvider.queries.cpu.mean: required",
                "riskLimitWeights[cpu]: must be from 0 to 1",
            ],
        ),
        ("NodeMetadata", {**METADATA, "metadataKey": ""}, ["metadataKey: required"]),
        (
            "NodeMetadata",
            {**METADATA, "metadataSource": "Taint"},
            ['metadataSource: unknown value "Taint" (one of Label, Annotation)'],
        ),
        (
            "NodeMetadata",
            {**METADATA, "scoringStrategy": "Newest"},
            ['scoringStrategy: unknown value "Newest" (did you mean Lowest?)'],
        ),
        (
            "NodeMetadata",
            {**METADATA, "metadataType": "Timestamp"},
            ['scoringStrategy: unknown value "Highest" (one of Newest, Oldest)'],
        ),
        (
            "NodeMetadata",
            {"metadataKey": "k"},
            [
                "metadataSource: required: one of Label, Annotation",
                "metadataType: required: one of Number, Timestamp",
                "scoringStrategy: required: one of Highest, Lowest, Newest, Oldest",
            ],
        ),
    ],
)
def test_wrong_values_are_named(plugin: str, args: dict[str, Any], expected: list[str]) -> None:
    assert problems(plugin, args) == expected


def test_defaults_of_the_small_ones() -> None:
    allocatable = checked("NodeResourcesAllocatable", {})
    assert allocatable.mode == "Least"
    assert [(r.name, r.weight) for r in allocatable.resources] == [("cpu", 1 << 20), ("memory", 1)]
    assert checked("NodeMetadata", METADATA).timestamp_format == "2006-01-02T15:04:05Z07:00"


def test_values_of_load_plugins_that_scheduler_plugins_replaces() -> None:
    packing = checked("TargetLoadPacking", {"targetUtilization": 0})
    assert packing.target_utilization == 40
    assert packing.default_requests == {"cpu": "1000m"}
    assert packing.default_requests_multiplier == "1.5"
    args = {"safeVarianceMargin": -1.0, "safeVarianceSensitivity": -2.0}
    balancing = checked("LoadVariationRiskBalancing", args)
    assert (balancing.safe_variance_margin, balancing.safe_variance_sensitivity) == (1, 1)
    assert checked("LowRiskOverCommitment", {"smoothingWindowSize": 0}).smoothing_window_size == 5


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, "metrics.k8s.io"),
        ({"metricProvider": {"type": "KubernetesMetricsServer"}}, "metrics.k8s.io"),
        ({"metricProvider": {"type": "Prometheus"}}, "http://prometheus-k8s:9090"),
        (
            {"metricProvider": {"type": "Prometheus", "address": "https://me:secret@p:1/x/"}},
            "https://p:1/x",
        ),
        ({"watcherAddress": "http://w:2020"}, "http://w:2020"),
    ],
)
def test_the_source_of_load_is_that_of_scheduler_plugins(
    args: dict[str, Any], expected: str
) -> None:
    assert str(checked("TargetLoadPacking", args).load_source()) == expected


def test_a_token_is_not_shown() -> None:
    provider = {"type": "Prometheus", "token": "s3cret"}
    args = checked("TargetLoadPacking", {"metricProvider": provider})
    source = args.load_source()
    assert source.token == "s3cret"
    shown = args.model_dump_json(by_alias=True) + repr(args) + repr(source) + str(source)
    assert "s3cret" not in shown

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

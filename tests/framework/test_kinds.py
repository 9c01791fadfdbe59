"""Which kinds are watched: the core's, and those that the plugins of the profiles declare."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bayplan.api.kinds import (
    CORE_KINDS,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Kind,
)
from bayplan.config import ConfigError, EffectiveConfig, parse_config
from bayplan.engine.registry import Registry
from bayplan.framework import Plugin

WIDGET = Kind.generic("example.com/v1", "Widget", "widgets", namespaced=True)


class Scores(Plugin):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return 0


class ReadsWidgets(Scores):
    kinds = (WIDGET,)


class ReadsWidgetsOtherwise(Scores):
    kinds = (Kind.generic("example.com/v1", "Widget", "widgets", namespaced=False),)


class ReadsClaimsOtherwise(Scores):
    kinds = (
        Kind.generic("v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True),
    )


def config(registry: Registry, *profiles: list[str]) -> EffectiveConfig:
    """Profiles that have these plugins, and a sort and a bind plugin."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": f"profile-{number}",
                "plugins": {
                    "multiPoint": {
                        "disabled": [{"name": "*"}],
                        "enabled": [{"name": n} for n in ("PrioritySort", "DefaultBinder", *names)],
                    }
                },
            }
            for number, names in enumerate(profiles)
        ],
    }
    return parse_config(yaml.safe_dump(document), registry.known)


def registry_with(*classes: type[Plugin]) -> Registry:
    registry = Registry()
    for cls in classes:
        registry.add(cls, "test")
    return registry


def test_without_plugins_that_read_more_only_the_core_kinds_are_watched() -> None:
    registry = registry_with()
    assert registry.kinds(config(registry, [])) == CORE_KINDS


def test_what_the_plugins_of_all_profiles_declare_is_watched_once() -> None:
    registry = registry_with(ReadsWidgets)
    watched = registry.kinds(config(registry, ["VolumeZone"], ["ReadsWidgets"], ["VolumeZone"]))
    assert len(watched) == len(set(watched))
    added = {PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, WIDGET}
    assert set(watched) == {*CORE_KINDS, *added}


def test_a_plugin_that_no_profile_runs_has_nothing_watched() -> None:
    registry = registry_with(ReadsWidgets)
    assert WIDGET not in registry.kinds(config(registry, []))


@pytest.mark.parametrize(
    "names", [["ReadsWidgets", "ReadsWidgetsOtherwise"], ["ReadsClaimsOtherwise"]]
)
def test_a_kind_that_is_declared_in_two_ways_is_an_error(names: list[str]) -> None:
    registry = registry_with(ReadsWidgets, ReadsWidgetsOtherwise, ReadsClaimsOtherwise)
    with pytest.raises(ConfigError, match=f'plugin "{names[-1]}": Kind.* is declared a second'):
        registry.kinds(config(registry, names))

"""An effective configuration as a file again, with nothing left to defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from pydantic import RootModel

from bayplan.config.points import EXTENSION_POINTS, SCORE_POINTS
from bayplan.config.types import GROUP_VERSION, KIND

if TYPE_CHECKING:
    from bayplan.config.load import EffectiveConfig
    from bayplan.config.profile import ResolvedProfile

_ALL_DISABLED = [{"name": "*"}]


def render_config(effective: EffectiveConfig) -> str:
    """`config_document` as YAML."""
    document = config_document(effective)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def config_document(effective: EffectiveConfig) -> dict[str, Any]:
    """A KubeSchedulerConfiguration that lists every plugin at each extension point.

    It loads to the same settings, plugins, weights and arguments, in kube-scheduler too.
    """
    settings = effective.settings.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"profiles"}
    )
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        **settings,
        "profiles": [_profile(profile) for profile in effective.profiles],
    }


def _profile(profile: ResolvedProfile) -> dict[str, Any]:
    rendered: dict[str, Any] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        rendered["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    rendered["plugins"] = {"multiPoint": {"disabled": _ALL_DISABLED.copy()}} | {
        point.value: {
            "enabled": [
                {"name": p.name, "weight": p.weight} if point in SCORE_POINTS else {"name": p.name}
                for p in profile.plugins[point]
            ]
        }
        for point in EXTENSION_POINTS
        if profile.plugins[point]
    }
    rendered["pluginConfig"] = [
        {"name": name, "args": _dumped(args)} for name, args in sorted(profile.plugin_args.items())
    ]
    return rendered


def _dumped(args: Any) -> Any:
    return RootModel[Any](args).model_dump(mode="json", by_alias=True, exclude_none=True)

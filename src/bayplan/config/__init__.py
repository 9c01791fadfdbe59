"""The mounted KubeSchedulerConfiguration: from a file to profiles that the framework can build.

The way of a file: `source` (text to plain data), `decode` (data to the models of `types` and
`args`), `validation` (values), `profile` (which plugin runs where), all of it driven by `load`.
Nothing here imports a plugin: what plugins exist is passed in as a mapping of `KnownPlugin`.
"""

from bayplan.config.errors import ConfigError, FieldError
from bayplan.config.feature_gates import FeatureGates, parse_feature_gates
from bayplan.config.intree import IN_TREE, KnownPlugin
from bayplan.config.load import (
    EffectiveConfig,
    default_configuration,
    load_config,
    parse_config,
    resolve_config,
)
from bayplan.config.profile import EnabledPlugin, ResolvedProfile, resolve_profile
from bayplan.config.render import config_document, render_config
from bayplan.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = [
    "IN_TREE",
    "ConfigError",
    "EffectiveConfig",
    "EnabledPlugin",
    "FeatureGates",
    "FieldError",
    "KnownPlugin",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "ResolvedProfile",
    "config_document",
    "default_configuration",
    "load_config",
    "parse_config",
    "parse_feature_gates",
    "render_config",
    "resolve_config",
    "resolve_profile",
]

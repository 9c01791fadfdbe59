"""From a file to an effective configuration, with all errors reported at once.

This is the one entry to the package: `load_config` for a file, `default_configuration` for none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayplan.config import source
from bayplan.config.decode import decode_what_fits
from bayplan.config.errors import ConfigError, FieldError
from bayplan.config.feature_gates import DEFAULT_GATES, FeatureGates
from bayplan.config.legacy_names import LEGACY_PLUGINS
from bayplan.config.points import Point
from bayplan.config.profile import ResolvedProfile, resolve_profile
from bayplan.config.types import (
    DEFAULT_SCHEDULER_NAME,
    GROUP_VERSION,
    KIND,
    KubeSchedulerConfiguration,
)
from bayplan.config.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bayplan.config.intree import KnownPlugin

MOST_CHARACTERS = 2**20
"""Of a file; a ConfigMap cannot hold more."""
_OLD_VERSIONS = frozenset({"v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3"})


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """A configuration that was found good, with every default in place.

    Attributes:
        settings: the file's fields; its `profiles` are as the file has them.
        profiles: the same profiles, expanded; never empty.
        warnings: what is accepted but likely not meant.
        gates: the feature gates it was checked with.
    """

    settings: KubeSchedulerConfiguration
    profiles: tuple[ResolvedProfile, ...]
    warnings: tuple[FieldError, ...] = ()
    gates: FeatureGates = DEFAULT_GATES

    @property
    def unavailable(self) -> tuple[FieldError, ...]:
        """The plugins that kube-scheduler has and this version of bayplan has not."""
        return tuple(error for profile in self.profiles for error in profile.unavailable)

    def require_available(self) -> None:
        """Raise ConfigError when a profile enables a plugin that this version has not."""
        if self.unavailable:
            raise ConfigError(self.unavailable)


def load_config(
    path: Path, known: Mapping[str, KnownPlugin], gates: FeatureGates = DEFAULT_GATES
) -> EffectiveConfig:
    """Read, check and expand the configuration file at `path`.

    Raises:
        ConfigError: the file cannot be read, or cannot be used; its lines begin with the path.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise ConfigError([FieldError("", error.strerror or str(error))], str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError([FieldError("", "is no UTF-8 text")], str(path)) from None
    if len(text) > MOST_CHARACTERS:
        too_long = FieldError("", f"has more than {MOST_CHARACTERS} characters")
        raise ConfigError([too_long], str(path))
    return parse_config(text, known, str(path), gates)


def parse_config(
    text: str,
    known: Mapping[str, KnownPlugin],
    file: str = "",
    gates: FeatureGates = DEFAULT_GATES,
) -> EffectiveConfig:
    """Check and expand the configuration in `text`; `file` is what errors call it.

    Raises:
        ConfigError: with everything that is wrong.
    """
    try:
        document = source.parse(text)
        effective = _from_document(document, known, gates)
    except ConfigError as error:
        raise ConfigError(error.errors, file) from None
    if not document.more:
        return effective
    more = FieldError("", "only the first document of the file is read")
    return replace(effective, warnings=(more, *effective.warnings))


def default_configuration(scheduler_name: str = "bayplan") -> KubeSchedulerConfiguration:
    """The configuration without a file: one profile, and a Lease of that name.

    The Lease is not kube-scheduler's, beside which bayplan would wait forever.
    """
    return KubeSchedulerConfiguration.model_validate(
        {
            "leaderElection": {"resourceName": scheduler_name},
            "profiles": [{"schedulerName": scheduler_name}],
        }
    )


def resolve_config(
    config: KubeSchedulerConfiguration,
    known: Mapping[str, KnownPlugin],
    gates: FeatureGates = DEFAULT_GATES,
) -> EffectiveConfig:
    """Check and expand a decoded configuration.

    Raises:
        ConfigError: with everything that is wrong.
    """
    errors = list(validate(config))
    profiles = []
    for i, profile in enumerate(config.profiles):
        try:
            profiles.append(resolve_profile(profile, known, f"profiles[{i}]", gates))
        except ConfigError as error:
            errors += error.errors
    if not errors:
        errors += _queue_sort(config, profiles)
        profiles, more = _ignore_resources(config, profiles)
        errors += more
    if errors:
        raise ConfigError([*errors, *(e for profile in profiles for e in profile.unavailable)])
    warnings = [warning for profile in profiles for warning in profile.warnings]
    warnings = [*_shared_lease(config), *warnings]
    return EffectiveConfig(config, tuple(profiles), tuple(warnings), gates)


def _from_document(
    document: source.Document, known: Mapping[str, KnownPlugin], gates: FeatureGates
) -> EffectiveConfig:
    data = document.data
    errors = [*document.duplicates, *_type_meta(data)]
    if not isinstance(data, dict) or data.get("kind", KIND) != KIND:
        raise ConfigError(errors)
    body = {key: value for key, value in data.items() if key not in ("apiVersion", "kind")}
    config, misfits = decode_what_fits(KubeSchedulerConfiguration, body)
    errors += misfits
    if config is None:
        raise ConfigError(errors)
    try:
        effective = resolve_config(config, known, gates)
    except ConfigError as error:
        # What follows from a field that was left out is no news.
        left_out = {misfit.path for misfit in misfits}
        errors += [e for e in error.errors if e.path not in left_out]
        raise ConfigError(errors) from None
    if errors:
        raise ConfigError([*errors, *effective.unavailable])
    return effective


def _type_meta(data: Any) -> Iterator[FieldError]:
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {'list' if isinstance(data, list) else 'scalar'}"
        yield FieldError("", f"must hold a {KIND}, not {found}")
        return
    kind, version = data.get("kind"), data.get("apiVersion")
    if kind == "Policy":
        yield from _policy(data)
        return
    if kind != KIND:
        problem = "required" if kind is None else f'must be {KIND}, not "{kind}"'
        yield FieldError("kind", problem)
    if version != GROUP_VERSION:
        yield FieldError("apiVersion", _version_problem(version))


def _version_problem(version: Any) -> str:
    if version is None:
        return f"required: {GROUP_VERSION}"
    group, _, number = str(version).rpartition("/")
    if group == GROUP_VERSION.rpartition("/")[0] and number in _OLD_VERSIONS:
        return f'"{version}" is no longer served, replaced by {GROUP_VERSION}'
    return f'must be {GROUP_VERSION}, not "{version}"'


def _policy(data: Mapping[str, Any]) -> Iterator[FieldError]:
    yield FieldError("kind", f"the Policy API is gone, replaced by profiles in a {KIND}")
    for section in ("predicates", "priorities"):
        items = data.get(section)
        for i, item in enumerate(items if isinstance(items, list) else []):
            name = item.get("name") if isinstance(item, dict) else None
            successor = LEGACY_PLUGINS.get(str(name), "a plugin of the same or a similar name")
            yield FieldError(f"{section}[{i}].name", f'"{name}" is replaced by {successor}')


def _queue_sort(
    config: KubeSchedulerConfiguration, profiles: list[ResolvedProfile]
) -> Iterator[FieldError]:
    """One queue serves all profiles, so they sort by one plugin with the same arguments."""
    name = profiles[0].plugins[Point.QUEUE_SORT][0].name
    args = [
        next((item.args for item in profile.plugin_config if item.name == name), None)
        for profile in config.profiles
    ]
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        other = profile.plugins[Point.QUEUE_SORT][0].name
        if other != name:
            problem = f'"{other}" must be "{name}" as in profiles[0]'
            yield FieldError(f"{path}.plugins.queueSort", problem)
        elif args[i] != args[0]:
            problem = f'the arguments of "{name}" must be the same in all profiles'
            yield FieldError(f"{path}.pluginConfig", problem)


def _ignore_resources(
    config: KubeSchedulerConfiguration, profiles: list[ResolvedProfile]
) -> tuple[list[ResolvedProfile], list[FieldError]]:
    """Put what extenders look after alone in the place of the args' own `ignoredResources`."""
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return profiles, []
    errors = [
        FieldError(
            f"profiles[{i}].pluginConfig",
            "NodeResourcesFit is needed for the resources that an extender says to ignore",
        )
        for i, profile in enumerate(config.profiles)
        if "NodeResourcesFit" not in profiles[i].plugin_args
        and all(item.name != "NodeResourcesFit" for item in profile.plugin_config)
    ]
    changed = []
    for profile in profiles:
        args = dict(profile.plugin_args)
        if fit := args.get("NodeResourcesFit"):
            args["NodeResourcesFit"] = fit.model_copy(update={"ignored_resources": ignored})
        changed.append(replace(profile, plugin_args=args))
    return changed, errors


def _shared_lease(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    election = config.leader_election
    lease = f"{election.resource_namespace}/{election.resource_name}"
    names = {profile.scheduler_name for profile in config.profiles}
    if (
        election.leader_elect
        and lease == "kube-system/kube-scheduler"
        and DEFAULT_SCHEDULER_NAME not in names
    ):
        yield FieldError(
            "leaderElection.resourceName",
            f"{lease} is the Lease of kube-scheduler: beside one, this scheduler waits forever",
        )

"""The plugins of a profile at each point: order, weights and arguments.

A profile's changes are laid over the default set, then multiPoint is spread over the points that
each plugin implements: what a point says for itself comes before what multiPoint says. Answers to
`mergePluginSet` of `apis/config/v1/default_plugins.go` and to `NewFramework` and
`expandMultiPointPlugins` of `engine/runtime/framework.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayplan.config.args import VolumeBindingArgs
from bayplan.config.decode import decode, decode_any_case, shown, suggestion
from bayplan.config.errors import ConfigError, FieldError
from bayplan.config.feature_gates import (
    DEFAULT_GATES,
    STORAGE_CAPACITY_SCORING,
    TOPOLOGY_AWARE,
    FeatureGates,
)
from bayplan.config.intree import (
    BACKFILL,
    CAPACITY_SCHEDULING,
    FAIR_SHARE,
    PREEMPTING,
    default_plugins,
)
from bayplan.config.legacy_names import LEGACY_PLUGINS, REFUSED_IN_PLUGIN_CONFIG
from bayplan.config.points import EXTENSION_POINTS, PLACEMENT_POINTS, SCORE_POINTS, Point
from bayplan.config.types import GROUP_VERSION, Wire
from bayplan.config.validation_args import validate_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bayplan.config.intree import KnownPlugin
    from bayplan.config.types import KubeSchedulerProfile, PluginSet

# kube-scheduler sums weight * 100 in 64 bits and takes any wrap for an overflow. A sum below zero
# wraps as soon as the next plugin is compared with it; weights of 32 bits reach no other overflow.
_LEAST_SUM_OF_WEIGHTS = 0


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin at an extension point. Its weight is 0 but at score and placementScore."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """A profile with nothing left to decide.

    Attributes:
        scheduler_name: the `spec.schedulerName` of its Pods.
        percentage_of_nodes_to_score: its own, None for that of the configuration.
        plugins: for every one of `points.EXTENSION_POINTS` its plugins in the order they run in.
        plugin_args: by name, for every plugin that runs somewhere and has a model of its arguments.
        warnings: mistakes that kube-scheduler accepts silently.
        unavailable: plugins whose feature gate is off.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: Mapping[Point, tuple[EnabledPlugin, ...]]
    plugin_args: Mapping[str, Any]
    warnings: tuple[FieldError, ...] = ()
    unavailable: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    weight: int
    path: str


def resolve_profile(
    profile: KubeSchedulerProfile,
    known: Mapping[str, KnownPlugin],
    path: str = "profiles[0]",
    gates: FeatureGates = DEFAULT_GATES,
) -> ResolvedProfile:
    """Lay `profile` over the default plugins and expand it.

    Args:
        profile: as decoded from a file.
        known: every plugin that may be named.
        path: where the profile stands in the file, for errors.
        gates: which features there are.

    Raises:
        ConfigError: with every plugin and argument that cannot be used.
    """
    resolution = _Resolution(profile, known, path, gates)
    plugins = resolution.expand()
    args = resolution.decode_args()
    if resolution.errors:
        raise ConfigError([*resolution.errors, *resolution.unavailable])
    return ResolvedProfile(
        profile.scheduler_name,
        profile.percentage_of_nodes_to_score,
        plugins,
        args,
        tuple(resolution.warnings),
        tuple(resolution.unavailable),
    )


@dataclass(slots=True)
class _Resolution:
    profile: KubeSchedulerProfile
    known: Mapping[str, KnownPlugin]
    path: str
    gates: FeatureGates
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)
    unavailable: list[FieldError] = field(default_factory=list)
    own: dict[Point, list[_Entry]] = field(init=False)
    multi: list[_Entry] = field(init=False)

    def __post_init__(self) -> None:
        plugins, path = self.profile.plugins, f"{self.path}.plugins"
        self.own = {
            point: list(_entries(plugins.at(point), f"{path}.{point}"))
            for point in EXTENSION_POINTS
        }
        self.multi = _over_defaults(plugins.multi_point, f"{path}.multiPoint", self.gates)

    def expand(self) -> dict[Point, tuple[EnabledPlugin, ...]]:
        """The plugins of every point; complaints go to `errors` and `warnings`."""
        self._check_names()
        order = {point: self._order(point) for point in EXTENSION_POINTS}
        if not self.errors:
            self._check_counts(order)
            self._check_tenancy(order)
            for point in (Point.POST_FILTER, Point.POD_GROUP_POST_FILTER):
                self._check_preemption(point, order[point])
        weights = {point: self._weights(point) for point in SCORE_POINTS}
        return {
            point: tuple(
                EnabledPlugin(e.name, weights[point][e.name] if point in weights else 0)
                for e in entries
            )
            for point, entries in order.items()
        }

    def _check_names(self) -> None:
        for entry in self.multi:
            if entry.name not in self.known:
                self.errors.append(FieldError(f"{entry.path}.name", self._unknown(entry.name)))
            self._note_unavailable(entry)
        for point, entries in self.own.items():
            self._check_point(point, entries)
        for name in (*EXTENSION_POINTS, "multiPoint"):
            for i, plugin in enumerate(self.profile.plugins.at(name).disabled):
                if plugin.name not in self.known and plugin.name != "*":
                    where = f"{self.path}.plugins.{name}.disabled[{i}].name"
                    self.warnings.append(FieldError(where, self._unknown(plugin.name)))

    def _check_point(self, point: Point, entries: Iterable[_Entry]) -> None:
        seen: set[str] = set()
        for entry in entries:
            problem = ""
            self._note_unavailable(entry)
            if entry.name not in self.known:
                problem = self._unknown(entry.name)
            elif point not in self.known[entry.name].points:
                problem = f'plugin "{entry.name}" does not implement {point}'
            elif entry.name in seen:
                problem = f'plugin "{entry.name}" is enabled twice'
            if problem:
                self.errors.append(FieldError(f"{entry.path}.name", problem))
            seen.add(entry.name)

    def _note_unavailable(self, entry: _Entry) -> None:
        plugin, where = self.known.get(entry.name), f"{entry.path}.name"
        if plugin is None:
            return
        if plugin.gate and not self.gates.on(plugin.gate):
            problem = f'plugin "{entry.name}" needs the feature gate {plugin.gate}'
            self.unavailable.append(FieldError(where, problem))
        elif (
            plugin.points
            and plugin.points <= PLACEMENT_POINTS
            and not self.gates.on(TOPOLOGY_AWARE)
        ):
            problem = (
                f'plugin "{entry.name}" has no effect without the feature gate {TOPOLOGY_AWARE}'
            )
            self.warnings.append(FieldError(where, problem))

    def _unknown(self, name: str) -> str:
        if not name:
            return "required"
        if successor := LEGACY_PLUGINS.get(name):
            return f'unknown plugin "{name}" (replaced by {successor})'
        return f'unknown plugin "{name}"' + suggestion(name, tuple(self.known))

    def _order(self, point: Point) -> list[_Entry]:
        """MultiPoint plugins that the point lists, then other multiPoint plugins, then the rest."""
        own = self.own[point]
        own_names = {entry.name for entry in own}
        disabled = {plugin.name for plugin in self.profile.plugins.at(point).disabled}
        if "*" in disabled:
            return own
        spread: dict[str, _Entry] = {}
        overridden: set[str] = set()
        for entry in self._implementing(point, self.multi):
            if entry.name in disabled:
                continue
            if entry.name in own_names:
                overridden.add(entry.name)
            elif entry.name in spread:
                problem = f'plugin "{entry.name}" is enabled twice'
                self.errors.append(FieldError(f"{entry.path}.name", problem))
            spread.setdefault(entry.name, entry)
        return [
            *(entry for entry in own if entry.name in overridden),
            *(entry for name, entry in spread.items() if name not in overridden),
            *(entry for entry in own if entry.name not in overridden),
        ]

    def _implementing(self, point: Point, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        for entry in entries:
            if entry.name in self.known and point in self.known[entry.name].points:
                yield entry

    def _check_tenancy(self, order: Mapping[Point, list[_Entry]]) -> None:
        """Tenants have quotas or Queues."""
        used = {entry.name: entry for entries in order.values() for entry in entries}
        if FAIR_SHARE in used and (other := used.get(CAPACITY_SCHEDULING)) is not None:
            text = f'"{other.name}" and "{FAIR_SHARE}" have different rules: disable one of them'
            self.errors.append(FieldError(f"{other.path}.name", text))

    def _check_preemption(self, point: Point, order: list[_Entry]) -> None:
        """One plugin evicts by priority or by quotas; Backfill, then FairShare are asked before it.

        For groups a second one is only warned of: the configurations of scheduler-plugins, which
        knows no such point, have one there.
        """
        names = [entry.name for entry in order]
        first, *others = [name for name in names if name in PREEMPTING] or [""]
        where = f"{self.path}.plugins.{point}"
        text = f'"{first}" is asked first and evicts by rules of its own: disable it'
        problems = self.errors if point is Point.POST_FILTER else self.warnings
        problems += [FieldError(where, f'"{other}": {text}') for other in others]
        for name, after in ((FAIR_SHARE, PREEMPTING), (BACKFILL, {FAIR_SHARE, *PREEMPTING})):
            first = next((other for other in names if other in after), "")
            if first and name in names[names.index(first) :]:
                text = f'"{name}" must be asked before "{first}": enable it here, too'
                self.errors.append(FieldError(where, text))

    def _check_counts(self, order: Mapping[Point, list[_Entry]]) -> None:
        sorters = [entry.name for entry in order[Point.QUEUE_SORT]]
        where = f"{self.path}.plugins"
        if len(sorters) != 1:
            listed = ", ".join(sorters) or "none"
            problem = f"exactly one plugin must be enabled, not {listed}"
            self.errors.append(FieldError(f"{where}.queueSort", problem))
        if not order[Point.BIND]:
            self.errors.append(FieldError(f"{where}.bind", "at least one plugin must be enabled"))
        if len(order[Point.PLACEMENT_GENERATE]) > 1:
            problem = "at most one plugin may be enabled"
            self.errors.append(FieldError(f"{where}.placementGenerate", problem))

    def _weights(self, point: Point) -> dict[str, int]:
        """The weight of each plugin at `point`: that of the point's entry, else of multiPoint's."""
        weights: dict[str, int] = {}
        for entry in self._implementing(point, [*self.own[point], *self.multi]):
            if entry.name in weights:
                continue
            if sum(weights.values()) < _LEAST_SUM_OF_WEIGHTS:
                problem = "the sum of the weights becomes negative"
                self.errors.append(FieldError(f"{self.path}.plugins.{point}", problem))
                break
            weights[entry.name] = entry.weight or self.known[entry.name].unless_given
        return {entry.name: weights.get(entry.name, 1) for entry in [*self.own[point], *self.multi]}

    def decode_args(self) -> dict[str, Any]:
        """The arguments of the plugins in use, given or default."""
        needed = {entry.name for entries in (self.multi, *self.own.values()) for entry in entries}
        given: dict[str, Any] = {}
        for i, item in enumerate(self.profile.plugin_config):
            path = f"{self.path}.pluginConfig[{i}]"
            if item.name in given:
                problem = f'plugin "{item.name}" is configured twice'
                self.errors.append(FieldError(f"{path}.name", problem))
            given[item.name] = self._args(item.name, item.args, path, needed)
        for name in sorted(needed & self.known.keys() - given.keys()):
            given[name] = self._default_args(name, needed)
        return {name: args for name, args in given.items() if name in needed and args is not None}

    def _default_args(self, name: str, needed: set[str]) -> Any:
        """The arguments of a plugin without an entry; an error names the plugin, no path does."""
        errors, self.errors = self.errors, []
        path = f"{self.path}.pluginConfig"
        args = self._args(name, None, path, needed)
        for error in self.errors:
            problem = str(error).removeprefix(f"{path}.")
            errors.append(FieldError(path, f'plugin "{name}" has no entry: {problem}'))
        self.errors = errors
        return args

    def _args(self, name: str, raw: Any, path: str, needed: set[str]) -> Any:
        if name in REFUSED_IN_PLUGIN_CONFIG:
            self.errors.append(FieldError(f"{path}.name", self._unknown(name)))
            return None
        model = self.known[name].args_model if name in self.known else None
        if model is None:
            if name not in self.known:
                self.warnings.append(FieldError(f"{path}.name", self._unknown(name)))
            elif raw is not None:
                self.warnings.append(FieldError(f"{path}.args", f'"{name}" takes no arguments'))
            return None
        args, errors = _decode_args(name, model, raw, f"{path}.args")
        # kube-scheduler looks at the values of this one only when it makes the plugin.
        if name in needed or name != "NodeResourcesFit":
            errors += validate_args(args, f"{path}.args")
        if isinstance(args, VolumeBindingArgs) and not self.gates.on(STORAGE_CAPACITY_SCORING):
            if "shape" in args.model_fields_set:
                problem = f"needs the feature gate {STORAGE_CAPACITY_SCORING}"
                errors.append(FieldError(f"{path}.args.shape", problem))
            args = args.model_copy(update={"shape": None})
        self.errors += errors
        return args


def _decode_args(name: str, model: type, raw: Any, path: str) -> tuple[Any, list[FieldError]]:
    """Decode arguments; the apiVersion and kind of in-tree plugins may be given with them."""
    data = {} if raw is None else raw
    if not isinstance(data, dict) or not issubclass(model, Wire):
        return decode_any_case(model, data, path)
    errors = []
    expected = {"apiVersion": GROUP_VERSION, "kind": f"{name}Args"}
    for key, value in expected.items():
        if data.get(key) not in (None, "", value):
            errors.append(FieldError(f"{path}.{key}", f'must be "{value}", not {shown(data[key])}'))
    args, more = decode(model, {k: v for k, v in data.items() if k not in expected}, path)
    return args, errors + more


def _entries(plugins: PluginSet, path: str) -> Iterator[_Entry]:
    for i, plugin in enumerate(plugins.enabled):
        yield _Entry(plugin.name, plugin.weight, f"{path}.enabled[{i}]")


def _over_defaults(custom: PluginSet, path: str, gates: FeatureGates) -> list[_Entry]:
    """The default set without what is disabled, an enabled default in its place, then the rest."""
    disabled = {plugin.name for plugin in custom.disabled}
    own = list(_entries(custom, path))
    by_name = {entry.name: entry for entry in own}
    defaults = [
        by_name.get(name, _Entry(name, weight, path))
        for name, weight in default_plugins(gates)
        if name not in disabled and "*" not in disabled
    ]
    return defaults + [entry for entry in own if entry not in defaults]

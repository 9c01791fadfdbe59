"""Expansion of a profile over plugins made up for the test, next to the in-tree ones."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bayplan.config import IN_TREE, ConfigError, KnownPlugin, parse_config, resolve_profile
from bayplan.config.feature_gates import parse_feature_gates
from bayplan.config.legacy_names import LEGACY_PLUGINS
from bayplan.config.points import EXTENSION_POINTS, Point
from bayplan.config.types import KubeSchedulerProfile


class Weights(BaseModel):
    cpu: Annotated[int, Field(ge=0)] = 1
    per_zone: dict[str, int] = {}

    @field_validator("cpu")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2 and value != 1:
            raise ValueError("must be even")
        return value


class MyScoreArgs(BaseModel):
    label: str
    weights: Weights = Weights()


@dataclass
class PinArgs:
    node: str
    spare: list[str] = field(default_factory=list)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


KNOWN = {
    **IN_TREE,
    "MyScore": KnownPlugin("MyScore", frozenset({Point.PRE_SCORE, Point.SCORE}), MyScoreArgs),
    "Pin": KnownPlugin("Pin", frozenset({Point.FILTER}), PinArgs),
    "Open": KnownPlugin("Open", frozenset({Point.FILTER}), Open),
    "Plain": KnownPlugin("Plain", frozenset({Point.FILTER, Point.SCORE})),
}


def profile(plugins: dict[str, Any], *configs: dict[str, Any]) -> KubeSchedulerProfile:
    return KubeSchedulerProfile.model_validate(
        {"schedulerName": "test", "plugins": plugins, "pluginConfig": list(configs)}
    )


def enabled(*names: str | tuple[str, int]) -> dict[str, Any]:
    pairs = [(name, 0) if isinstance(name, str) else name for name in names]
    return {"enabled": [{"name": name, "weight": weight} for name, weight in pairs]}


def errors_of(found: KubeSchedulerProfile) -> list[str]:
    with pytest.raises(ConfigError) as error:
        resolve_profile(found, KNOWN, "profiles[3]")
    return error.value.lines()


ONLY = {"multiPoint": {"disabled": [{"name": "*"}]}}
NEEDED = ("PrioritySort", "DefaultBinder")


@pytest.mark.parametrize(
    ("plugins", "point", "expected"),
    [
        pytest.param(
            {"multiPoint": enabled(("MyScore", 4))}, "score", ("MyScore", 4), id="from multiPoint"
        ),
        pytest.param(
            {"score": enabled(("MyScore", 4))}, "score", ("MyScore", 4), id="from the point"
        ),
        pytest.param(
            {"multiPoint": enabled(("MyScore", 4)), "score": enabled(("MyScore", 6))},
            "score",
            ("MyScore", 6),
            id="the point wins",
        ),
        pytest.param(
            {"multiPoint": enabled(("MyScore", 4)), "score": enabled("MyScore")},
            "score",
            ("MyScore", 1),
            id="the point wins without a weight too",
        ),
        pytest.param(
            {"multiPoint": enabled(("MyScore", 4))}, "preScore", ("MyScore", 0), id="no weight"
        ),
        pytest.param({}, "score", ("TaintToleration", 3), id="default"),
        pytest.param(
            {"multiPoint": enabled("TaintToleration")},
            "score",
            ("TaintToleration", 1),
            id="a default named without weight loses its own",
        ),
    ],
)
def test_weight(plugins: dict[str, Any], point: str, expected: tuple[str, int]) -> None:
    args = {"name": "MyScore", "args": {"label": "x"}}
    resolved = resolve_profile(profile(plugins, args), KNOWN)
    assert expected in [(p.name, p.weight) for p in resolved.plugins[Point(point)]]


def test_every_extension_point_is_there_even_when_empty() -> None:
    resolved = resolve_profile(profile({}), KNOWN)
    assert tuple(resolved.plugins) == EXTENSION_POINTS
    assert resolved.plugins[Point.PERMIT] == ()


def test_overridden_plugins_come_first_then_multi_point_then_the_points_own() -> None:
    plugins = {
        "multiPoint": {**ONLY["multiPoint"], **enabled(*NEEDED, "NodeName", "NodePorts", "Plain")},
        "filter": enabled("VolumeZone", "Plain", "NodeAffinity", "NodeName"),
    }
    resolved = resolve_profile(profile(plugins), KNOWN)
    names = [plugin.name for plugin in resolved.plugins[Point.FILTER]]
    assert names == ["Plain", "NodeName", "NodePorts", "VolumeZone", "NodeAffinity"]


def test_arguments_come_decoded_with_defaults_for_plugins_in_use_only() -> None:
    plugins = {**ONLY, "queueSort": enabled("PrioritySort"), "bind": enabled("DefaultBinder")}
    plugins |= {"filter": enabled("Pin", "Plain", "NodeAffinity")}
    resolved = resolve_profile(
        profile(
            plugins,
            {"name": "Pin", "args": {"node": "n1"}},
            {"name": "MyScore", "args": {"label": "x"}},
        ),
        KNOWN,
    )
    assert set(resolved.plugin_args) == {"Pin", "NodeAffinity"}
    assert resolved.plugin_args["Pin"] == PinArgs("n1")
    assert resolved.plugin_args["NodeAffinity"].added_affinity is None


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("MyScore", {}, ["args.label: required"]),
        ("MyScore", None, ["args.label: required"]),
        ("MyScore", {"label": 5}, ["args.label: must be a string, not 5"]),
        ("MyScore", [], ["args: must be a mapping, not a list"]),
        (
            "MyScore",
            {"lable": "x", "weights": {"cpu": "many", "gpu": 1}},
            [
                "args.label: required",
                'args.weights.cpu: must be an integer, not "many"',
                "args.weights.gpu: unknown field (did you mean cpu?)",
                "args.lable: unknown field (did you mean label?)",
            ],
        ),
        ("MyScore", {"label": "x", "weights": {"cpu": 3}}, ["args.weights.cpu: must be even"]),
        (
            "MyScore",
            {"label": "x", "weights": {"cpu": -2, "per_zone": {"a": "b"}}},
            [
                "args.weights.cpu: must be greater than or equal to 0",
                'args.weights.per_zone.a: must be an integer, not "b"',
            ],
        ),
        (
            "Pin",
            {"nodes": "n1", "spare": None},
            [
                "args.node: required",
                "args.spare: must be a list, not null",
                "args.nodes: unknown field (did you mean node?)",
            ],
        ),
        ("Pin", {"node": "n", "spare": [True]}, ["args.spare[0]: must be a string, not true"]),
        ("Pin", {"node": {}}, ["args.node: must be a string, not a mapping"]),
    ],
)
def test_wrong_arguments_of_a_users_plugin_are_named_field_by_field(
    name: str, args: object, expected: list[str]
) -> None:
    point = "score" if name == "MyScore" else "filter"
    found = profile({point: enabled(name)}, {"name": name, "args": args})
    assert errors_of(found) == [f"profiles[3].pluginConfig[0].{line}" for line in expected]


def test_arguments_that_are_needed_but_not_given_are_missed() -> None:
    assert errors_of(profile({"filter": enabled("Pin")})) == [
        'profiles[3].pluginConfig: plugin "Pin" has no entry: args.node: required'
    ]


@pytest.mark.parametrize(
    "args",
    [
        {"label": "x", "weights": {"cpu": 2, "per_zone": {"zoneA": 1}}},
        {"label": "x", "weights": {"cpu": 2, "perZone": {"zoneA": 1}}},
    ],
    ids=["snake_case", "camelCase"],
)
def test_arguments_of_users_may_be_spelled_as_kubernetes_does(args: dict[str, Any]) -> None:
    found = profile({"score": enabled("MyScore")}, {"name": "MyScore", "args": args})
    decoded = resolve_profile(found, KNOWN).plugin_args["MyScore"]
    assert decoded.weights == Weights(cpu=2, per_zone={"zoneA": 1}), "keys of a mapping are values"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"perZone": {"a": "b"}}, 'args.weights.perZone.a: must be an integer, not "b"'),
        ({"cpu": True}, "args.weights.cpu: must be an integer, not true or false"),
        ({"perZone": {"a": True}}, "args.weights.perZone.a: must be an integer, not true or false"),
        ({"perZon": {}}, "args.weights.perZon: unknown field (did you mean per_zone?)"),
        ({"perZone": {}, "per_zone": {}}, "args.weights.perZone: unknown field"),
    ],
)
def test_errors_spell_arguments_as_the_file_does(weights: dict[str, Any], expected: str) -> None:
    args = {"label": "x", "weights": weights}
    found = profile({"score": enabled("MyScore")}, {"name": "MyScore", "args": args})
    [error] = errors_of(found)
    assert error.startswith(f"profiles[3].pluginConfig[0].{expected}")


def test_a_model_that_takes_any_field_is_left_its_will() -> None:
    found = profile({"filter": enabled("Open")}, {"name": "Open", "args": {"any": 1}})
    assert resolve_profile(found, KNOWN).plugin_args["Open"].model_extra == {"any": 1}


def test_a_default_plugin_that_is_not_known_is_an_error_of_multi_point() -> None:
    known = {name: plugin for name, plugin in IN_TREE.items() if name != "ImageLocality"}
    with pytest.raises(ConfigError) as error:
        resolve_profile(profile({}), known)
    assert error.value.lines() == [
        'profiles[0].plugins.multiPoint.name: unknown plugin "ImageLocality"'
    ]


@pytest.mark.parametrize("name", LEGACY_PLUGINS)
def test_an_old_name_is_answered_with_what_replaced_it(name: str) -> None:
    (line,) = errors_of(profile({"filter": enabled(name)}))
    where = "profiles[3].plugins.filter.enabled[0].name"
    assert line == f'{where}: unknown plugin "{name}" (replaced by {LEGACY_PLUGINS[name]})'


def test_old_names_lead_to_plugins_that_exist() -> None:
    assert not LEGACY_PLUGINS.keys() & IN_TREE.keys()
    vague = {
        name
        for name, successor in LEGACY_PLUGINS.items()
        if not any(plugin in successor for plugin in IN_TREE)
    }
    assert vague == {"EqualPriority"}


def test_two_placement_generators_are_one_too_many() -> None:
    two = {n: KnownPlugin(n, frozenset({Point.PLACEMENT_GENERATE})) for n in ("One", "Other")}
    with pytest.raises(ConfigError, match="placementGenerate: at most one"):
        resolve_profile(profile({"placementGenerate": enabled(*two)}), {**IN_TREE, **two})


def test_two_queue_sorts_are_one_too_many() -> None:
    mine = KnownPlugin("Mine", frozenset({Point.QUEUE_SORT}))
    with pytest.raises(ConfigError, match=r"queueSort: exactly one .* PrioritySort, Mine"):
        resolve_profile(profile({"queueSort": enabled("Mine")}), {**IN_TREE, "Mine": mine})


def test_profiles_with_different_queue_sorts_are_refused() -> None:
    mine = KnownPlugin("Mine", frozenset({Point.QUEUE_SORT}))
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
- schedulerName: b
  plugins:
    multiPoint:
      disabled: [{name: PrioritySort}]
      enabled: [{name: Mine}]
"""
    with pytest.raises(ConfigError) as error:
        parse_config(text, {**IN_TREE, "Mine": mine})
    assert error.value.lines() == [
        'profiles[1].plugins.queueSort: "Mine" must be "PrioritySort" as in profiles[0]'
    ]


BESIDE = '"CapacityScheduling": "DefaultPreemption" is asked first and evicts by rules of its own'
AFTER = '"FairShare" must be asked before "DefaultPreemption": enable it here, too'
BOTH = '"CapacityScheduling" and "FairShare" have different rules: disable one of them'


@pytest.mark.parametrize(
    ("plugins", "errors"),
    [
        pytest.param(
            {"multiPoint": enabled("CapacityScheduling")},
            [f"profiles[0].plugins.postFilter: {BESIDE}: disable it"],
            id="two that evict",
        ),
        pytest.param(
            {"multiPoint": enabled("FairShare")},
            [f"profiles[0].plugins.{p}: {AFTER}" for p in ("postFilter", "podGroupPostFilter")],
            id="FairShare after preemption",
        ),
        pytest.param(
            {
                "multiPoint": {
                    **enabled("FairShare", "CapacityScheduling"),
                    "disabled": [{"name": "DefaultPreemption"}],
                },
                "postFilter": enabled("FairShare"),
                "podGroupPostFilter": enabled("FairShare"),
            },
            [f"profiles[0].plugins.multiPoint.enabled[1].name: {BOTH}"],
            id="Queues and quotas",
        ),
        pytest.param(
            {"multiPoint": enabled("Backfill")},
            [
                'profiles[0].plugins.podGroupPostFilter: "Backfill" must be asked before '
                '"DefaultPreemption": enable it here, too'
            ],
            id="Backfill after preemption",
        ),
    ],
)
def test_plugins_whose_evictions_contradict_each_other_are_refused(
    plugins: Any, errors: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_profile(profile(plugins), IN_TREE)
    assert error.value.lines() == errors


def test_backfill_before_fair_share_before_preemption_is_fine() -> None:
    plugins = {
        "multiPoint": enabled("FairShare", "Backfill"),
        "postFilter": enabled("FairShare"),
        "podGroupPostFilter": enabled("Backfill", "FairShare"),
    }
    resolved = resolve_profile(profile(plugins), IN_TREE)
    assert resolved.warnings == ()
    order = [plugin.name for plugin in resolved.plugins[Point.POD_GROUP_POST_FILTER]]
    assert order[:2] == ["Backfill", "FairShare"]


def test_a_configuration_of_scheduler_plugins_is_warned_of_what_it_cannot_know() -> None:
    quota = {**enabled("CapacityScheduling"), "disabled": [{"name": "*"}]}
    plugins = {"multiPoint": enabled("CapacityScheduling"), "postFilter": quota}
    resolved = resolve_profile(profile(plugins), IN_TREE)
    assert [str(warning) for warning in resolved.warnings] == [
        f"profiles[0].plugins.podGroupPostFilter: {BESIDE}: disable it"
    ]


TOPOLOGY_AWARE = parse_feature_gates(["GenericWorkload=true,TopologyAwareWorkloadScheduling=true"])


def test_the_gates_of_groups_bring_their_plugins() -> None:
    resolved = resolve_profile(profile({}), IN_TREE, gates=TOPOLOGY_AWARE)
    at = {point: [e.name for e in entries] for point, entries in resolved.plugins.items()}
    assert at[Point.PLACEMENT_GENERATE] == ["TopologyPlacementGenerator"]
    assert at[Point.PLACEMENT_SCORE] == ["NodeResourcesFit", "PodGroupPodsCount"]
    assert at[Point.PERMIT] == ["GangScheduling"]


def test_plugins_of_placements_need_their_gate() -> None:
    own = {"Own": KnownPlugin("Own", frozenset({Point.PLACEMENT_GENERATE}))}
    plugins = {
        "multiPoint": enabled("Own", "PodGroupPodsCount"),
        "placementScore": enabled("NodeResourcesFit"),
    }
    gate = "the feature gate TopologyAwareWorkloadScheduling"
    resolved = resolve_profile(profile(plugins), {**IN_TREE, **own})
    assert [str(error) for error in resolved.unavailable] == [
        f'profiles[0].plugins.multiPoint.enabled[1].name: plugin "PodGroupPodsCount" needs {gate}'
    ]
    assert [str(warning) for warning in resolved.warnings] == [
        f'profiles[0].plugins.multiPoint.enabled[0].name: plugin "Own" has no effect without {gate}'
    ]


def test_all_that_is_wrong_with_the_plugins_is_said_at_once() -> None:
    plugins = {
        "multiPoint": enabled("GangScheduling", "Rebalance"),
        "filter": enabled("NodeNmae"),
    }
    with pytest.raises(ConfigError) as caught:
        resolve_profile(profile(plugins), IN_TREE)
    lines = "\n".join(caught.value.lines())
    assert 'plugin "GangScheduling" needs the feature gate GenericWorkload' in lines
    assert 'unknown plugin "Rebalance"' in lines
    assert "did you mean GangScheduling" not in lines
    assert 'unknown plugin "NodeNmae" (did you mean NodeName?)' in lines

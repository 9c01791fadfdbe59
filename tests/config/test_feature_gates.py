import pytest
from tests.config.cases import HEADER

from bayplan.config import (
    IN_TREE,
    ConfigError,
    FeatureGates,
    parse_config,
    parse_feature_gates,
    render_config,
)
from bayplan.config.feature_gate_table import GATES
from bayplan.config.feature_gates import FIXED

SCORING_OFF = parse_feature_gates(["StorageCapacityScoring=false"])


def _problems(*flags: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(flags)
    return caught.value.lines()


def test_the_last_word_on_a_gate_counts() -> None:
    gates = parse_feature_gates(["VolumeLimitScaling=false, CSIVolumeHealth=true", "", " "])
    assert gates == FeatureGates({"VolumeLimitScaling": False, "CSIVolumeHealth": True})
    again = parse_feature_gates(["VolumeLimitScaling=false", "VolumeLimitScaling=T"])
    assert again.on("VolumeLimitScaling")


def test_without_flags_every_gate_has_its_default() -> None:
    gates = parse_feature_gates([])
    assert {name: gates.on(name) for name in GATES} == {g.name: g.default for g in GATES.values()}


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("Nonsense=true", "unrecognized feature gate: Nonsense"),
        (
            "SchedulerQueueingHints=true",
            "unrecognized feature gate: SchedulerQueueingHints (it is always on since v1.37)",
        ),
        ("VolumeLimitScaling", "missing bool value for VolumeLimitScaling"),
        (
            "VolumeLimitScaling=yes",
            "invalid value of VolumeLimitScaling=yes, must be true or false",
        ),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "SchedulerAsyncPreemption=false",
            "this version of bayplan has only SchedulerAsyncPreemption=true",
        ),
    ],
)
def test_a_gate_that_cannot_be_set_so_is_an_error(flag: str, problem: str) -> None:
    assert _problems(flag) == [f"--feature-gates: {problem}"]


def test_all_errors_come_at_once() -> None:
    assert _problems("A=true,B=false", "C=true") == [
        f"--feature-gates: unrecognized feature gate: {name}" for name in "ABC"
    ]


def test_errors_of_different_kinds_come_at_once() -> None:
    problems = _problems(
        "A=true,DynamicResourceAllocation=false,SchedulerAsyncPreemption=false",
        "DRADeviceTaints=perhaps,DRADeviceTaintRules=true",
        "GenericWorkload=false,PodGroupPreemptionPolicy=true",
    )
    kinds = ("unrecognized", "invalid", "locked", "PodGroupPreemptionPolicy is", "has only")
    assert all(any(kind in problem for problem in problems) for kind in kinds)
    assert not any("depends" in p and "DRADeviceTaint" in p for p in problems)


def test_a_feature_needs_those_it_depends_on() -> None:
    problems = _problems("PodGroupPreemptionPolicy=true,GenericWorkload=false")
    assert problems[0].startswith(
        "--feature-gates: PodGroupPreemptionPolicy is enabled, but depends on features that are"
    )


def test_what_is_at_its_default_anyway_may_be_said() -> None:
    flags = [f"{name}={str(GATES[name].default).lower()}" for name in FIXED]
    assert parse_feature_gates(flags).changed.keys() == FIXED


def test_all_alpha_spares_gates_that_were_set_themselves() -> None:
    fixed_off = [f"{name}=false" for name in FIXED if not GATES[name].default]
    given = "AllAlpha=true,GenericWorkload=true,WorkloadWithJob=false"
    gates = parse_feature_gates([given, *fixed_off])
    assert gates.on("TopologyAwareWorkloadScheduling")
    assert gates.on("CompositePodGroup")


def test_the_metric_tells_value_and_stage() -> None:
    values = SCORING_OFF.values()
    assert values["StorageCapacityScoring", GATES["StorageCapacityScoring"].stage] == 0
    assert values["DynamicResourceAllocation", ""] == 1
    assert len(values) == len(GATES)


def test_without_storage_capacity_scoring_volume_binding_has_no_shape() -> None:
    config = parse_config(HEADER, IN_TREE, gates=SCORING_OFF)
    assert config.gates is SCORING_OFF
    args = config.profiles[0].plugin_args["VolumeBinding"]
    assert (args.shape, args.bind_timeout_seconds) == (None, 600)
    shown = render_config(config)
    again = parse_config(shown, IN_TREE, gates=SCORING_OFF)
    assert again.profiles[0].plugin_args == config.profiles[0].plugin_args


def test_a_shape_needs_storage_capacity_scoring() -> None:
    text = (
        f"{HEADER}profiles: [{{pluginConfig: [{{name: VolumeBinding, args: "
        "{shape: [{utilization: 0, score: 0}]}}]}]\n"
    )
    assert parse_config(text, IN_TREE).profiles
    with pytest.raises(ConfigError) as caught:
        parse_config(text, IN_TREE, gates=SCORING_OFF)
    assert caught.value.lines() == [
        "profiles[0].pluginConfig[0].args.shape: needs the feature gate StorageCapacityScoring"
    ]

"""Feature gates, as ``--feature-gates`` of kube-scheduler v1.37 takes them.

`GATES` are those that its binary knows, with stage and default. Most of them are about other
components: they can be set and change nothing here. Of those that are about scheduling, the ones
with a constant here switch code of bayplan, and the ones in `FIXED` have only the value that
bayplan implements. Answers to ``featuregate/feature_gate.go`` of component-base.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from bayplan.config.errors import ConfigError, FieldError
from bayplan.config.feature_gate_table import GATES, NEEDS, Stage

FLAG = "--feature-gates"
STORAGE_CAPACITY_SCORING = "StorageCapacityScoring"
"""Whether VolumeBinding scores, and has the argument ``shape``."""
VOLUME_LIMIT_SCALING = "VolumeLimitScaling"
"""Whether NodeVolumeLimits heeds ``preventPodSchedulingIfMissing`` of CSIDrivers."""
GENERIC_WORKLOAD = "GenericWorkload"
"""Whether Pods with ``spec.schedulingGroup`` are placed with their PodGroup."""
TOPOLOGY_AWARE = "TopologyAwareWorkloadScheduling"
"""Whether ``spec.schedulingConstraints`` of a PodGroup is heeded."""
COMPOSITE_POD_GROUP = "CompositePodGroup"
"""Whether PodGroups that name a CompositePodGroup are placed with it."""

FIXED = frozenset(
    {
        "CoordinatedLeaderElection",
        "DRAConsumableCapacity",
        "DRADerivedAttributes",
        "DRADeviceBindingConditions",
        "DRADeviceCompatibilityGroups",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAFractionalCapacityRange",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevices",
        "DRAPartitionableDevicesType",
        "DRASchedulerFilterTimeout",
        "DRAWorkloadResourceClaims",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingSchedulerPreemption",
        "MatchLabelKeysInPodTopologySpread",
        "NominatedNodeNameForExpectation",
        "PodGroupPreemptionPolicy",
        "PodLevelResources",
        "SchedulerAsyncPreemption",
        "SchedulerPopFromBackoffQ",
        "TaintTolerationComparisonOperators",
    }
)
"""The gates of scheduling that bayplan has at their default alone."""

_REMOVED = {
    "GangScheduling": "it is part of GenericWorkload since v1.37",
    "WorkloadAwarePreemption": "it is part of GenericWorkload since v1.37",
    "SchedulerQueueingHints": "it is always on since v1.37",
    "SidecarContainers": "it is always on since v1.37",
}
_ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The gates that are not at their defaults.

    Attributes:
        changed: the value of each gate that was set, by name.
    """

    changed: Mapping[str, bool] = field(default_factory=dict)

    def on(self, name: str) -> bool:
        """Whether the gate is on; raises KeyError where there is none of that name."""
        return self.changed.get(name, GATES[name].default)

    def values(self) -> dict[tuple[str, ...], float]:
        """The metric ``kubernetes_feature_enabled``: by name and stage."""
        return {(g.name, g.stage.value): float(self.on(g.name)) for g in GATES.values()}


DEFAULT_GATES = FeatureGates()


def parse_feature_gates(flags: Iterable[str]) -> FeatureGates:
    """Read the values of all ``--feature-gates`` flags: ``A=true,B=false``; the last word counts.

    Raises:
        ConfigError: with every gate that cannot be set so.
    """
    given: dict[str, bool] = {}
    problems: list[str] = []
    unclear: set[str] = set()
    for item in (item.strip() for flag in flags for item in flag.split(",")):
        name, equals, value = item.removeprefix("kube:").partition("=")
        name, value = name.strip(), value.strip()
        if not item:
            continue
        if not equals or value not in _BOOLEANS:
            wrong = f"invalid value of {name}={value}, must be true or false"
            problems.append(wrong if equals else f"missing bool value for {name}")
            unclear.add(name)
        elif name not in GATES:
            why = f" ({_REMOVED[name]})" if name in _REMOVED else ""
            problems.append(f"unrecognized feature gate: {name}{why}")
        else:
            given[name] = _BOOLEANS[value]
    gates = FeatureGates(_expanded(given))
    problems += [*_locked(gates), *_unmet(gates, unclear), *_unsupported(gates)]
    if problems:
        raise ConfigError([FieldError(FLAG, problem) for problem in problems])
    return gates


def _expanded(given: Mapping[str, bool]) -> dict[str, bool]:
    """What was set, with AllAlpha and AllBeta spread over the gates that were not."""
    stages = {stage: given[name] for name, stage in _ALL.items() if name in given}
    spread = {gate.name: stages[gate.stage] for gate in GATES.values() if gate.stage in stages}
    return {**spread, **given}


def _locked(gates: FeatureGates) -> Iterator[str]:
    for name, value in gates.changed.items():
        gate = GATES[name]
        if gate.locked and value != gate.default:
            shown, default = str(value).lower(), str(gate.default).lower()
            yield f"cannot set feature gate {name} to {shown}, feature is locked to {default}"


def _unmet(gates: FeatureGates, unclear: Set[str]) -> Iterator[str]:
    """Gates whose needs are not met, but for needs that have a problem of their own."""
    for name, needed in NEEDS.items():
        off = [
            other
            for other in needed
            if not gates.on(other) and other not in unclear and not GATES[other].locked
        ]
        if gates.on(name) and off:
            listed = " ".join(off)
            yield f"{name} is enabled, but depends on features that are disabled: [{listed}]"


def _unsupported(gates: FeatureGates) -> Iterator[str]:
    for name in sorted(FIXED & gates.changed.keys()):
        if gates.on(name) != GATES[name].default:
            only = str(GATES[name].default).lower()
            yield f"this version of bayplan has only {name}={only}"

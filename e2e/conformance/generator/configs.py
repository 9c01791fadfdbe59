"""KubeSchedulerConfigurations: plugins off, weights changed, arguments of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.affinity import node_term
from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import ACCELERATOR, BY_CLASS, FPGA, GPU, TOPOLOGY_KEYS

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

PROFILES = ("default-scheduler", "bayplan", "other-scheduler")
SCORERS = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "TaintToleration",
    "NodeAffinity",
    "PodTopologySpread",
    "InterPodAffinity",
    "VolumeBinding",
    "DynamicResources",
)
FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
EVERYWHERE = (*FILTERS, "ImageLocality", "DynamicResources")
"""What is disabled at all points. DynamicResources is never off at Filter alone: then its Reserve
fails, which bayplan's explain tells and the oracle's, which ends before, does not."""


def make_config(dice: Dice, world: World) -> dict[str, Any]:
    """A configuration with one to three profiles; their names are what Pods may ask for."""
    names = dice.some(PROFILES, 1, 3)
    world.profiles = names
    return without_empty(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": dice.choice((None, 4, 16)),
            "percentageOfNodesToScore": dice.choice((None, 30, 100)),
            "profiles": [_profile(dice, world, name) for name in names],
        }
    )


def _profile(dice: Dice, world: World, name: str) -> dict[str, Any]:
    arguments = (
        _fit(dice, world),
        _balanced(dice, world),
        _inter_pod(dice),
        _spread(dice),
        _node_affinity(dice, world),
        _preemption(dice),
        _volume_binding(dice),
    )
    return without_empty(
        {
            "schedulerName": name,
            "plugins": _plugins(dice),
            "pluginConfig": [
                {"name": plugin, "args": args} for plugin, args in arguments if args is not None
            ],
        }
    )


def _plugins(dice: Dice) -> dict[str, Any]:
    plugins: dict[str, Any] = {}
    if dice.chance(0.4):
        names = dice.some(SCORERS, 1, 3)
        plugins["score"] = {
            "disabled": [{"name": name} for name in names],
            "enabled": [{"name": name, "weight": dice.randint(1, 20)} for name in names],
        }
    elif dice.chance(0.3):
        chosen = dice.some(SCORERS, 1, 4)
        plugins["score"] = {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": name, "weight": dice.randint(1, 5)} for name in chosen],
        }
    if dice.chance(0.2):
        plugins["filter"] = {"disabled": [{"name": dice.choice(FILTERS)}]}
    if dice.chance(0.15):
        plugins["multiPoint"] = {"disabled": [{"name": dice.choice(EVERYWHERE)}]}
    elif dice.chance(0.1):
        weight = dice.randint(2, 9)
        plugins["multiPoint"] = {"enabled": [{"name": dice.choice(SCORERS), "weight": weight}]}
    if dice.chance(0.1):
        plugins["postFilter"] = {
            "disabled": [{"name": dice.choice(("*", "DefaultPreemption", "DynamicResources"))}]
        }
    return plugins


def _shape(dice: Dice) -> list[dict[str, int]]:
    points = sorted(dice.sample(range(101), dice.randint(1, 4)))
    return [{"utilization": point, "score": dice.randint(0, 10)} for point in points]


def _resources(
    dice: Dice, world: World, devices: tuple[str, ...], *, weighted: bool
) -> list[dict[str, Any]]:
    plain = ("cpu", "memory", "ephemeral-storage", GPU, FPGA, "hugepages-2Mi")
    names = dice.some((*plain, *devices), 1, 4)
    if dice.chance(0.3):
        names = list(dict.fromkeys((*names, devices[0])))
    world.scored += [name for name in names if name in devices]
    return [{"name": name, "weight": dice.randint(1, 10) if weighted else 1} for name in names]


def _fit(dice: Dice, world: World) -> tuple[str, dict[str, Any] | None]:
    if dice.chance(0.3):
        return "NodeResourcesFit", None
    kind = dice.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: dict[str, Any] = {"type": kind}
    if dice.chance(0.6) or kind == "RequestedToCapacityRatio":
        devices = (ACCELERATOR, f"{BY_CLASS}gpu", f"{BY_CLASS}any")
        strategy["resources"] = _resources(dice, world, devices, weighted=True)
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": _shape(dice)}
    args: dict[str, Any] = {"scoringStrategy": strategy}
    if dice.chance(0.2):
        args["ignoredResources"] = ["example.com/unheard-of"]
    if dice.chance(0.2):
        args["ignoredResourceGroups"] = [dice.choice(("example.com", "nvidia.com"))]
    return "NodeResourcesFit", args


def _balanced(dice: Dice, world: World) -> tuple[str, dict[str, Any] | None]:
    # With a class that has selectors, kube-scheduler's BalancedAllocation ends in a panic.
    if dice.chance(0.6):
        return "NodeResourcesBalancedAllocation", None
    resources = _resources(dice, world, (f"{BY_CLASS}any",), weighted=False)
    return "NodeResourcesBalancedAllocation", {"resources": resources}


def _inter_pod(dice: Dice) -> tuple[str, dict[str, Any] | None]:
    if dice.chance(0.5):
        return "InterPodAffinity", None
    return "InterPodAffinity", {
        "hardPodAffinityWeight": dice.choice((0, 1, 30, 100)),
        "ignorePreferredTermsOfExistingPods": dice.chance(0.4),
    }


def _spread(dice: Dice) -> tuple[str, dict[str, Any] | None]:
    if dice.chance(0.4):
        return "PodTopologySpread", None
    if dice.chance(0.3):
        return "PodTopologySpread", {"defaultingType": dice.choice(("System", "List"))}
    constraints = [
        {
            "maxSkew": dice.randint(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": dice.choice(("ScheduleAnyway", "DoNotSchedule")),
        }
        for key in dice.some(TOPOLOGY_KEYS, 1, 3)
    ]
    return "PodTopologySpread", {"defaultingType": "List", "defaultConstraints": constraints}


def _node_affinity(dice: Dice, world: World) -> tuple[str, dict[str, Any] | None]:
    added: dict[str, Any] = {}
    if dice.chance(0.1):
        term = node_term(dice, world, "added")
        added["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    if dice.chance(0.2):
        added["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.randint(1, 100), "preference": node_term(dice, world, "added")}
        ]
    return "NodeAffinity", {"addedAffinity": added} if added else None


def _preemption(dice: Dice) -> tuple[str, dict[str, Any] | None]:
    args = {"minCandidateNodesPercentage": dice.choice((1, 100)), "minCandidateNodesAbsolute": 1}
    return "DefaultPreemption", args if dice.chance(0.2) else None


def _volume_binding(dice: Dice) -> tuple[str, dict[str, Any] | None]:
    return "VolumeBinding", {"shape": _shape(dice)} if dice.chance(0.5) else None

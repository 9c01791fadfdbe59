"""Nodes: labels, taints, resources in every notation, images, declared features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import (
    EFFECTS,
    FPGA,
    GPU,
    HOSTNAME,
    IMAGES,
    RACK,
    REGION,
    TAINT_KEYS,
    TAINT_VALUES,
    ZONE,
)

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
DECLARED = ("InPlacePodLevelResourcesVerticalScaling", "RestartAllContainersOnContainerExits")


def add_nodes(dice: Dice, world: World, count: int) -> None:
    """Add that many nodes, spread over a few zones, regions and racks."""
    world.zones = [f"zone-{letter}" for letter in "abcde"[: dice.randint(1, 5)]]
    sizes = [(dice.choice((2, 4, 8, 16, 32)), dice.choice((4, 8, 16, 64))) for _ in range(3)]
    for number in range(count):
        name = f"node-{number:03}"
        world.nodes.append(name)
        zone = dice.choice(world.zones)
        cpus, gibibytes = dice.choice(sizes)
        world.milli[name] = cpus * 1000
        world.add(
            "v1",
            "Node",
            metadata={"name": name, "labels": _labels(dice, name, zone)},
            spec=_spec(dice),
            status=_status(dice, cpus * 1000, gibibytes * 1024),
        )


def _labels(dice: Dice, name: str, zone: str) -> dict[str, str]:
    labels = {HOSTNAME: name, "disk": dice.choice(("ssd", "hdd")), "gen": str(dice.randint(1, 9))}
    if dice.has("nodeWithOddHostname"):
        labels[HOSTNAME] = dice.choice(("shared-host", f"host-of-{name}"))
    if dice.has("nodeWithoutHostname"):
        del labels[HOSTNAME]
    if not dice.has("nodeWithoutZone"):
        labels[ZONE] = zone
    if not dice.has("nodeWithoutRegion"):
        labels[REGION] = "north" if zone < "zone-c" else "south"
    if dice.has("nodeWithRack"):
        labels[RACK] = f"rack-{dice.randint(1, 6)}"
    if dice.has("nodeWithOddGeneration"):
        labels["gen"] = dice.choice(("", "new", "1.5", "007"))
    if dice.has("nodeInPool"):
        labels["pool"] = dice.choice(("a", "b", ""))
    if dice.has("nodeWithBetaZone"):
        labels["failure-domain.beta.kubernetes.io/zone"] = zone
    return labels


def _spec(dice: Dice) -> dict[str, Any]:
    taints: dict[tuple[str, str], dict[str, str]] = {}
    while dice.has("taints"):
        taint = without_empty(
            {
                "key": dice.choice(TAINT_KEYS),
                "value": dice.choice(TAINT_VALUES),
                "effect": dice.choice(EFFECTS),
            }
        )
        taints[taint["key"], taint["effect"]] = taint
    unschedulable = dice.has("unschedulable") and dice.chance(0.4)
    listed = list(taints.values())
    if unschedulable and dice.chance(0.7):
        listed.append(UNSCHEDULABLE_TAINT)
    return without_empty({"taints": listed, "unschedulable": unschedulable or None})


def _status(dice: Dice, milli: int, mebibytes: int) -> dict[str, Any]:
    capacity = {
        "cpu": dice.cpu(milli),
        "memory": dice.size(mebibytes),
        "pods": str(dice.choice((5, 10, 30, 110)) if dice.has("fewPods") else 110),
    }
    if dice.chance(0.8):
        capacity["ephemeral-storage"] = dice.size(dice.choice((2048, 20480, 204800)))
    if dice.has("hugepages"):
        capacity["hugepages-2Mi"] = dice.size(dice.choice((16, 512)))
        capacity["hugepages-1Gi"] = dice.choice(("0", "2Gi"))
    if dice.has("gpuNodes"):
        capacity[GPU] = str(dice.choice((0, 1, 4, 8)))
    if dice.has("extendedNodes"):
        capacity[FPGA] = str(dice.choice((1, 2)))
    allocatable = dict(capacity)
    if dice.chance(0.5):
        allocatable["cpu"] = dice.cpu(milli - 100)
    status: dict[str, Any] = {"capacity": capacity, "allocatable": allocatable}
    if dice.has("nodeWithoutAllocatable"):
        del status["allocatable"]
    status["images"] = _images(dice)
    status["declaredFeatures"] = [feature for feature in DECLARED if dice.has("declaredFeatures")]
    return without_empty(status)


def _images(dice: Dice) -> list[dict[str, Any]]:
    """Images under the names a kubelet reports them by: with a tag, most of them several names."""
    present = []
    for image in IMAGES:
        if not dice.has("images"):
            continue
        full = image if "@" in image or ":" in image else f"{image}:latest"
        names = [full, f"docker.io/library/{full}"] if "/" not in full else [full]
        present.append({"names": names, "sizeBytes": dice.choice((5, 40, 300, 1500)) << 20})
    return present

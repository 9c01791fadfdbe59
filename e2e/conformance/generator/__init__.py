"""Random clusters, valid and rich, that reach every option of every in-tree plugin.

A cluster is determined by its seed and its size. ``generate`` makes its objects and, for half of
the seeds, a scheduler configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from e2e.conformance.generator.claims import ClaimMaker
from e2e.conformance.generator.configs import make_config
from e2e.conformance.generator.devices import DeviceMaker
from e2e.conformance.generator.dice import Dice
from e2e.conformance.generator.groups import add_composites, add_groups
from e2e.conformance.generator.nodes import add_nodes
from e2e.conformance.generator.pods import PodMaker
from e2e.conformance.generator.quotas import CONFIG, QuotaMaker
from e2e.conformance.generator.storage import StorageMaker
from e2e.conformance.generator.workloads import add_workloads
from e2e.conformance.generator.world import World

__all__ = [
    "Case",
    "Size",
    "generate",
    "generate_with_composites",
    "generate_with_groups",
    "generate_with_quotas",
]


@dataclass(frozen=True)
class Size:
    """Between how many and how many nodes and pending Pods a cluster has."""

    nodes: tuple[int, int] = (20, 200)
    pods: tuple[int, int] = (20, 200)


@dataclass
class Case:
    """A cluster to judge: its objects, the configuration to judge it by, if any, and the gates.

    Those of the feature gates that are on, separated by commas.
    """

    name: str
    items: list[dict[str, Any]]
    config: dict[str, Any] | None
    gates: str = ""

    @property
    def running(self) -> str:
        """``namespace/name`` of a Pod on a node that is judged as if it were pending; or ""."""
        profiles = (self.config or {}).get("profiles", [{"schedulerName": "default-scheduler"}])
        profiles = {profile["schedulerName"] for profile in profiles}
        keys = [
            f"{item['metadata'].get('namespace', 'default')}/{item['metadata']['name']}"
            for item in self.items
            if item["kind"] == "Pod"
            and item["spec"].get("nodeName")
            and item["spec"].get("schedulerName", "default-scheduler") in profiles
            and item.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        return keys[len(keys) // 2] if keys else ""


def generate(seed: int, size: Size) -> Case:
    """The cluster of this seed and size."""
    dice, world = Dice(seed), World(profiles=["default-scheduler", "bayplan"])
    add_nodes(dice, world, dice.randint(*size.nodes))
    config = make_config(dice, world) if dice.chance(0.5) else None
    add_workloads(dice, world)
    storage = StorageMaker(dice, world)
    storage.add_infrastructure()
    devices = DeviceMaker(dice, world)
    devices.add_infrastructure()
    claims = ClaimMaker(dice, world, devices)
    claims.add_infrastructure()
    pods = PodMaker(dice, world, storage, claims)
    bound = 0
    for node in world.nodes if pods.crowded else ():
        bound = pods.fill(node, bound)
    for number in range(len(world.nodes) * dice.choice((0, 1, 2) if bound else (0, 1, 2, 4))):
        pods.add_bound(bound + number)
    for number in range(dice.randint(*size.pods)):
        pods.add_pending(number)
    _bind_volumes_in_one_profile(world)
    return Case(f"seed-{seed}", world.items, config)


def _bind_volumes_in_one_profile(world: World) -> None:
    """Give all pending Pods with claims for volumes to be bound the schedulerName of the first.

    A profile of kube-scheduler does not see what another one assumed of a volume until that is
    written, and a simulation writes nothing. docs/differences.md names this.
    """
    claims = [item for item in world.items if item["kind"] == "PersistentVolumeClaim"]
    bound = {_key(claim) for claim in claims if claim["spec"].get("volumeName")}
    pods = [
        item["spec"]
        for item in world.items
        if item["kind"] == "Pod"
        and not item["spec"].get("nodeName")
        and item["spec"].get("schedulerName") in world.profiles
        and any(
            "ephemeral" in volume
            or (_key(item)[0], volume["persistentVolumeClaim"]["claimName"]) not in bound
            for volume in item["spec"].get("volumes", [])
            if "ephemeral" in volume or "persistentVolumeClaim" in volume
        )
    ]
    for spec in pods[1:]:
        spec["schedulerName"] = pods[0]["schedulerName"]


def _key(item: dict[str, Any]) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]


def generate_with_groups(seed: int, size: Size) -> Case:
    """The cluster of this seed and size, with half of its Pods in PodGroups of Kubernetes.

    Of three such clusters two heed the topology that a group asks for.
    """
    case = generate(seed, size)
    add_groups(Dice(seed), case.items)
    gates = ["GenericWorkload", *["TopologyAwareWorkloadScheduling"] * (seed % 3 > 0)]
    return Case(f"groups-{seed}", case.items, case.config, ",".join(gates))


def generate_with_composites(seed: int, size: Size) -> Case:
    """The cluster of this seed and size, with PodGroups, most of them in CompositePodGroups."""
    case, dice = generate(seed, size), Dice(seed)
    add_groups(dice, case.items)
    add_composites(dice, case.items)
    gates = "GenericWorkload,TopologyAwareWorkloadScheduling,CompositePodGroup"
    return Case(f"composites-{seed}", case.items, case.config, gates)


def generate_with_quotas(seed: int, size: Size) -> Case:
    """A cluster of this seed and size for CapacityScheduling."""
    dice, world = Dice(seed), World()
    maker = QuotaMaker(dice, world)
    maker.add_nodes(dice.randint(*size.nodes))
    maker.add_running(len(world.nodes) * dice.choice((2, 3, 4, 5)))
    maker.add_pending(dice.randint(*size.pods))
    maker.add_quotas()
    maker.add_budgets()
    return Case(f"quotas-{seed}", world.items, CONFIG)

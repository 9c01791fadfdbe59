"""What stands around Pods: namespaces, classes, Services and owners, disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import APPS, TIERS, VERSIONS

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

OWNER_KINDS = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "ReplicationController"),
)


def add_workloads(dice: Dice, world: World) -> None:
    """Add everything Pods refer to by name or are matched by, storage excepted."""
    _add_namespaces(dice, world)
    _add_classes(dice, world)
    for namespace in world.namespaces:
        _add_services(dice, world, namespace)
        _add_owners(dice, world, namespace)
        _add_budgets(dice, world, namespace)


def _add_namespaces(dice: Dice, world: World) -> None:
    world.namespaces = ["default", *(f"ns-{letter}" for letter in "abc"[: dice.randint(0, 3)])]
    for name in world.namespaces:
        if dice.chance(0.8):
            labels = without_empty({"team": dice.choice(("red", "blue", ""))})
            world.add("v1", "Namespace", metadata=without_empty({"name": name, "labels": labels}))


def _add_classes(dice: Dice, world: World) -> None:
    values = {"low": -10, "normal": 0, "high": 1000, "urgent": 100000}
    never = dice.choice(list(values))
    default = dice.choice(list(values)) if dice.chance(0.2) else None
    for name, value in values.items():
        world.priority_classes.append(name)
        world.add(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            metadata={"name": name},
            value=value,
            **({"globalDefault": True} if name == default else {}),
            **({"preemptionPolicy": "Never"} if name == never and dice.chance(0.5) else {}),
        )
    for name, overhead in (("sandboxed", {"cpu": "250m", "memory": "120Mi"}), ("plain", None)):
        world.runtime_classes.append(name)
        body: dict[str, Any] = {"overhead": {"podFixed": overhead}} if overhead else {}
        world.add("node.k8s.io/v1", "RuntimeClass", metadata={"name": name}, handler="runc", **body)


def _selector(dice: Dice) -> dict[str, str]:
    labels = {"app": dice.choice(APPS)}
    if dice.chance(0.3):
        labels["tier"] = dice.choice(TIERS)
    return labels


def _add_services(dice: Dice, world: World, namespace: str) -> None:
    for number in range(3):
        if dice.has("services") or dice.chance(0.25):
            world.add(
                "v1",
                "Service",
                metadata={"name": f"service-{number}", "namespace": namespace},
                spec=without_empty(
                    {"ports": [{"port": 80}], "selector": _selector(dice) if number else None}
                ),
            )


def _add_owners(dice: Dice, world: World, namespace: str) -> None:
    world.owners[namespace] = []
    for api_version, kind in OWNER_KINDS:
        if not dice.has("owners") and dice.chance(0.75):
            continue
        labels, name = _selector(dice), f"{kind.lower()}-0"
        selector: dict[str, Any] = {"matchLabels": labels}
        if dice.chance(0.3):
            selector["matchExpressions"] = [{"key": "version", "operator": "In", "values": ["v1"]}]
            labels = {**labels, "version": "v1"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        }
        spec: dict[str, Any] = {"selector": selector, "template": template, "replicas": 3}
        if kind == "ReplicationController":
            spec["selector"] = labels
        if kind == "StatefulSet":
            spec["serviceName"] = name
        uid = f"{kind.lower()}-{namespace}"
        world.add(
            api_version,
            kind,
            metadata={"name": name, "namespace": namespace, "uid": uid},
            spec=spec,
        )
        reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
        world.owners[namespace].append({"reference": reference, "labels": labels})


def _add_budgets(dice: Dice, world: World, namespace: str) -> None:
    for number in range(3):
        if not dice.has("budgets"):
            continue
        selector: dict[str, Any] = {"matchLabels": _selector(dice)}
        if dice.chance(0.2):
            selector = {}
        elif dice.chance(0.3):
            selector = {
                "matchExpressions": [
                    {"key": "version", "operator": "NotIn", "values": [dice.choice(VERSIONS)]}
                ]
            }
        status: dict[str, Any] = {
            "disruptionsAllowed": dice.choice((0, 0, 1, 2)),
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
        }
        if dice.chance(0.2):
            status["disruptedPods"] = {f"bound-{dice.randint(0, 60):04}": "2025-12-30T00:00:00Z"}
        world.add(
            "policy/v1",
            "PodDisruptionBudget",
            metadata={"name": f"budget-{number}", "namespace": namespace},
            spec={"minAvailable": 1, "selector": selector},
            status=status,
        )

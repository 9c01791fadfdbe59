"""What a Pod says about nodes and about other Pods: selectors, affinity, tolerations, spreading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import (
    APPS,
    EFFECTS,
    RACK,
    TAINT_KEYS,
    TAINT_VALUES,
    TIERS,
    TOPOLOGY_KEYS,
    VERSIONS,
    ZONE,
)

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

NODE_VALUES = {
    "disk": ("ssd", "hdd", "tape"),
    "pool": ("a", "b", ""),
    ZONE: ("zone-a", "zone-b", "zone-c"),
    RACK: ("rack-1", "rack-2", "rack-3"),
}


def tolerations(dice: Dice) -> list[dict[str, Any]]:
    """Tolerations of every operator and effect, an empty key included."""
    made: list[dict[str, Any]] = []
    while len(made) < 4 and dice.has("tolerations"):
        toleration: dict[str, Any] = {"effect": dice.choice(("", *EFFECTS))}
        if dice.chance(0.1):
            toleration["operator"] = "Exists"
        else:
            toleration["key"] = dice.choice((*TAINT_KEYS, "node.kubernetes.io/unschedulable"))
            toleration["operator"] = dice.choice(("", "Equal", "Exists"))
            if toleration["operator"] != "Exists":
                toleration["value"] = dice.choice(TAINT_VALUES)
        if toleration["effect"] == "NoExecute" and dice.chance(0.3):
            toleration["tolerationSeconds"] = 60
        made.append(without_empty(toleration))
    return made


def node_selector(dice: Dice) -> dict[str, str]:
    """A nodeSelector of one or two labels."""
    if not dice.has("nodeSelector"):
        return {}
    keys = dice.some(("disk", "pool", ZONE), 1, 2 if dice.chance(0.2) else 1)
    return {key: dice.choice(NODE_VALUES[key]) for key in keys}


def node_affinity(dice: Dice, world: World) -> dict[str, Any]:
    """Required and preferred node affinity."""
    affinity: dict[str, Any] = {}
    if dice.has("requiredNodeAffinity"):
        terms = [node_term(dice, world) for _ in range(dice.choice((1, 1, 2, 3)))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.has("preferredNodeAffinity"):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": dice.choice((1, 10, 50, 100)),
                "preference": node_term(dice, world, "preferred"),
            }
            for _ in range(dice.randint(1, 3))
        ]
    return affinity


def node_term(dice: Dice, world: World, use: str = "required") -> dict[str, Any]:
    """A node selector term; an empty one now and then."""
    term: dict[str, Any] = {}
    if dice.chance(0.9):
        term["matchExpressions"] = [
            _node_requirement(dice, use) for _ in range(dice.choice((1, 1, 2)))
        ]
    if dice.has("matchFields"):
        term["matchFields"] = [
            {
                "key": "metadata.name",
                "operator": dice.choice(("In", "In", "NotIn")),
                "values": [dice.choice([*world.nodes, "no-such-node"])],
            }
        ]
        if dice.chance(0.6):
            term.pop("matchExpressions", None)
    return term


def _node_requirement(dice: Dice, use: str) -> dict[str, Any]:
    operator = dice.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        odd = use != "added" and dice.has(f"unparsableNumber/{use}") and dice.chance(0.3)
        value = "many" if odd else str(dice.randint(0, 9))
        return {"key": "gen", "operator": operator, "values": [value]}
    key = dice.choice(list(NODE_VALUES))
    requirement: dict[str, Any] = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        requirement["values"] = dice.some(NODE_VALUES[key], 1, 2)
    return requirement


def pod_affinity(
    dice: Dice, world: World, labels: dict[str, str], use: str, required: float
) -> dict[str, Any]:
    """Required and preferred terms of podAffinity or podAntiAffinity, as ``use`` says.

    Required ones are thinned out to the given share: every Pod that runs forbids its terms to all.
    """
    affinity: dict[str, Any] = {}
    if dice.has(f"required/{use}") and dice.chance(required):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _pod_term(dice, world, labels) for _ in range(dice.choice((1, 1, 1, 2)))
        ]
    if dice.has(f"preferred/{use}"):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": dice.choice((1, 7, 50, 100)),
                "podAffinityTerm": _pod_term(dice, world, labels),
            }
            for _ in range(dice.choice((1, 1, 2)))
        ]
    return affinity


def _pod_term(dice: Dice, world: World, labels: dict[str, str]) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": dice.choice(TOPOLOGY_KEYS)}
    if not dice.has("nullSelector"):
        term["labelSelector"] = label_selector(dice, labels)
        if dice.has("affinityMatchLabelKeys"):
            free = _free_keys(term["labelSelector"])
            keys = dice.some(free, 1, 2)
            side = dice.choice(("matchLabelKeys", "mismatchLabelKeys"))
            if keys:
                term[side] = keys
    if dice.has("affinityNamespaces"):
        term["namespaces"] = dice.some([*world.namespaces, "elsewhere"], 1, 2)
    if dice.has("namespaceSelector"):
        term["namespaceSelector"] = dice.choice(
            (
                {},
                {"matchLabels": {"team": "red"}},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            )
        )
    return term


def _free_keys(selector: dict[str, Any]) -> list[str]:
    """Label keys that the selector does not use: only those may be matchLabelKeys."""
    used = {*selector.get("matchLabels", {})}
    used |= {one["key"] for one in selector.get("matchExpressions", [])}
    return [key for key in ("version", "tier", "shard", "app") if key not in used]


def label_selector(dice: Dice, labels: dict[str, str]) -> dict[str, Any]:
    """A selector that often matches the Pod's own labels."""
    if dice.has("emptySelector"):
        return {}
    if dice.chance(0.5) and "app" in labels:
        return {"matchLabels": {"app": labels["app"]}}
    if dice.chance(0.5):
        return {"matchLabels": {"app": dice.choice(APPS)}}
    key, values = dice.choice((("app", APPS), ("tier", TIERS), ("version", VERSIONS)))
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: dict[str, Any] = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = dice.some(values, 1, 2)
    return {"matchExpressions": [expression]}


def spread_constraints(dice: Dice, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Topology spread constraints with every option."""
    made: dict[tuple[str, str], dict[str, Any]] = {}
    while len(made) < 3 and dice.has("spread"):
        constraint: dict[str, Any] = {
            "topologyKey": dice.choice(TOPOLOGY_KEYS),
            "maxSkew": dice.choice((1, 1, 2, 5)),
            "whenUnsatisfiable": dice.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        if not dice.has("nullSelector"):
            constraint["labelSelector"] = label_selector(dice, labels)
            free = _free_keys(constraint["labelSelector"])
            if dice.has("spreadMatchLabelKeys") and free:
                constraint["matchLabelKeys"] = dice.some(free, 1, 2)
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and dice.has("minDomains"):
            constraint["minDomains"] = dice.choice((1, 2, 3, 6))
        if dice.has("nodeAffinityPolicy"):
            constraint["nodeAffinityPolicy"] = dice.choice(("Honor", "Ignore"))
        if dice.has("nodeTaintsPolicy"):
            constraint["nodeTaintsPolicy"] = dice.choice(("Honor", "Ignore"))
        made[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    return list(made.values())

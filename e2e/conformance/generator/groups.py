"""PodGroups of Kubernetes: Pods that are alike in what a group needs are put into one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice

SHARE = 0.5
"""Of the Pods that may be in a group, as many are."""


def add_groups(dice: Dice, items: list[dict[str, Any]]) -> None:
    """Put Pods of one namespace, scheduler and priority into groups of two to eight."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for item in items:
        if item["kind"] == "Pod" and _may_be_in_a_group(item) and dice.chance(SHARE):
            alike[_kind(item)].append(item)
    number = 0
    for (namespace, _, priority), pods in sorted(alike.items()):
        begin = 0
        while begin < len(pods):
            end = begin + dice.randint(2, 8)
            name = f"group-{number:03}"
            _add_group(dice, items, name, namespace, priority, pods[begin:end])
            begin, number = end, number + 1


def _may_be_in_a_group(pod: dict[str, Any]) -> bool:
    running = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not running and "resourceClaims" not in pod["spec"]


def _kind(pod: dict[str, Any]) -> tuple[str, ...]:
    spec = pod["spec"]
    namespace = pod["metadata"].get("namespace", "default")
    return namespace, spec.get("schedulerName", ""), spec.get("priorityClassName", "")


def _add_group(
    dice: Dice,
    items: list[dict[str, Any]],
    name: str,
    namespace: str,
    priority: str,
    members: list[dict[str, Any]],
) -> None:
    policy: dict[str, Any] = {"basic": {}}
    if dice.chance(0.75):
        # Sometimes one more than there are: such a gang waits.
        policy = {"gang": {"minCount": dice.randint(1, len(members) + dice.chance(0.2))}}
    spec: dict[str, Any] = {"schedulingPolicy": policy}
    if priority:
        spec["priorityClassName"] = priority
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
    kind = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    items.append({**kind, "metadata": metadata, "spec": spec})
    for member in members:
        member["spec"]["schedulingGroup"] = {"podGroupName": name}

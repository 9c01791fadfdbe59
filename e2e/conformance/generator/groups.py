"""PodGroups of Kubernetes: Pods that are alike in what a group needs are put into one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.world import HOSTNAME, RACK, REGION, ZONE

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice

SHARE = 0.5
"""Of the Pods that may be in a group, as many are."""

LEVELS = (ZONE, ZONE, RACK, RACK, REGION, HOSTNAME, "disk", "example.com/row")
"""What groups are to be together in: all nodes have a disk, none has a row."""


def add_groups(dice: Dice, items: list[dict[str, Any]]) -> None:
    """Put Pods of one namespace, scheduler and priority into groups of up to eight."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    labels = {i["metadata"]["name"]: i["metadata"]["labels"] for i in items if i["kind"] == "Node"}
    for item in items:
        if item["kind"] == "Pod" and _may_be_in_a_group(item) and dice.chance(SHARE):
            alike[_kind(item)].append(item)
    nodes = {i["spec"].get("nodeName") for i in items if i["kind"] == "Pod"} - {None}
    lost, number = nodes - labels.keys(), 0
    for (namespace, _, priority), pods in sorted(alike.items()):
        begin = 0
        while begin < len(pods):
            end = begin + dice.randint(2, 8)
            name = f"group-{number:03}"
            members = pods[begin:end]
            level = dice.choice(LEVELS) if dice.chance(0.6) else ""
            if level and dice.chance(0.85):
                members = _together(members, level, labels)
            _add_group(dice, items, name, namespace, priority, members, level, lost)
            begin, number = end, number + 1


def _may_be_in_a_group(pod: dict[str, Any]) -> bool:
    running = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not running and "resourceClaims" not in pod["spec"]


def _kind(pod: dict[str, Any]) -> tuple[str, ...]:
    spec = pod["spec"]
    namespace = pod["metadata"].get("namespace", "default")
    return namespace, spec.get("schedulerName", ""), spec.get("priorityClassName", "")


def _together(
    members: list[dict[str, Any]], level: str, labels: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """Those without a node, and those with one in the domain of the first that has a domain."""
    of = [labels.get(pod["spec"].get("nodeName", ""), {}).get(level) for pod in members]
    first = next((domain for domain in of if domain is not None), None)
    return [
        pod
        for pod, domain in zip(members, of, strict=True)
        if "nodeName" not in pod["spec"] or (domain is not None and domain == first)
    ]


def _add_group(
    dice: Dice,
    items: list[dict[str, Any]],
    name: str,
    namespace: str,
    priority: str,
    members: list[dict[str, Any]],
    level: str,
    lost: set[str],
) -> None:
    """Add one group.

    Of disruption mode "all" with a Pod on one of the ``lost`` nodes, which do not exist,
    kube-scheduler says that it failed to get the node.
    """
    policy: dict[str, Any] = {"basic": {}}
    if dice.chance(0.75):
        # Sometimes one more than there are: such a gang waits.
        most = max(len(members), 1) + dice.chance(0.2)
        policy = {"gang": {"minCount": dice.randint(1, most)}}
    spec: dict[str, Any] = {"schedulingPolicy": policy}
    if level:
        spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    if priority:
        spec["priorityClassName"] = priority
    if dice.chance(0.3) and lost.isdisjoint(pod["spec"].get("nodeName") for pod in members):
        spec["disruptionMode"] = {"all": {}}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
    kind = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    items.append({**kind, "metadata": metadata, "spec": spec})
    for member in members:
        member["spec"]["schedulingGroup"] = {"podGroupName": name}

"""PodGroups of Kubernetes: Pods that are alike in what a group needs are put into one.

CompositePodGroups likewise: PodGroups that are alike are put into trees of them.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
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


def add_composites(dice: Dice, items: list[dict[str, Any]]) -> None:
    """Put PodGroups of one namespace and priority into trees of up to four levels."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    labels = {i["metadata"]["name"]: i["metadata"]["labels"] for i in items if i["kind"] == "Node"}
    running: dict[str, set[str]] = defaultdict(set)
    schedulers: dict[str, str] = {}
    for pod in items:
        group = pod["spec"].get("schedulingGroup") if pod["kind"] == "Pod" else None
        if group is not None:
            schedulers[group["podGroupName"]] = pod["spec"].get("schedulerName", "")
            running[group["podGroupName"]] |= {pod["spec"].get("nodeName", "")} - {""}
    lost = {node for nodes in running.values() for node in nodes} - labels.keys()
    for item in items:
        if item["kind"] == "PodGroup" and dice.chance(0.85):
            name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
            priority = item["spec"].get("priorityClassName", "")
            alike[namespace, schedulers.get(name, ""), priority].append(item)
    _start_apart(items)
    number = 0
    for (namespace, _, priority), groups in sorted(alike.items()):
        while groups:
            leaves = [groups.pop() for _ in range(min(dice.randint(1, 6), len(groups)))]
            tree = _tree(dice, number, leaves)
            number += len(tree)
            for composite, children in tree:
                below = _leaves_below(composite, tree)
                on_nodes = set().union(*(running[leaf] for leaf in below))
                composite["metadata"]["namespace"] = namespace
                composite["spec"] |= _composite_spec(dice, len(children), on_nodes, labels)
                if priority:
                    composite["spec"]["priorityClassName"] = priority
                if dice.chance(0.2) and lost.isdisjoint(on_nodes):
                    composite["spec"]["disruptionMode"] = {"all": {}}
            # Sometimes one of them is still to be created.
            missing = dice.randrange(len(tree)) if dice.chance(0.06) else None
            items += [one for index, (one, _) in enumerate(tree) if index != missing]


def _start_apart(items: list[dict[str, Any]]) -> None:
    """No two Pods have started in one second: kube-scheduler's order of such victims is not stable.

    Whom preemption for a group spares depends on it, and a large tree has many of them.
    """
    taken: set[str] = set()
    for pod in items:
        start = pod.get("status", {}).get("startTime") if pod["kind"] == "Pod" else None
        while start in taken:
            later = datetime.fromisoformat(start) + timedelta(seconds=1)
            start = later.strftime("%Y-%m-%dT%H:%M:%SZ")
        if start is not None:
            taken.add(start)
            pod["status"]["startTime"] = start


_Tree = list[tuple[dict[str, Any], list[dict[str, Any]]]]


def _tree(dice: Dice, number: int, leaves: list[dict[str, Any]]) -> _Tree:
    """Up to five CompositePodGroups over these PodGroups, each with its children: root first."""
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup"}
    tree: _Tree = []
    depths: list[int] = []
    for index in range(dice.choice((1, 1, 2, 3, 5))):
        name = f"composite-{number + index:03}"
        metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "generation": 1}
        if dice.chance(0.7):
            metadata["creationTimestamp"] = dice.moment(2)
        composite = {**kind, "metadata": metadata, "spec": dict[str, Any]()}
        depth = 1
        if tree:
            above = dice.choice([i for i, depth in enumerate(depths) if depth < 3])
            depth = depths[above] + 1
            _put_below(tree[above], composite)
        tree.append((composite, []))
        depths.append(depth)
    for leaf in leaves:
        if dice.chance(0.7):
            leaf["metadata"]["creationTimestamp"] = dice.moment(2)
        _put_below(dice.choice(tree), leaf)
    return tree


def _put_below(parent: tuple[dict[str, Any], list[dict[str, Any]]], child: dict[str, Any]) -> None:
    composite, children = parent
    child["spec"]["parentCompositePodGroupName"] = composite["metadata"]["name"]
    children.append(child)


def _leaves_below(composite: dict[str, Any], tree: _Tree) -> list[str]:
    """The names of the PodGroups below a CompositePodGroup."""
    children = next(children for one, children in tree if one is composite)
    names: list[str] = []
    for child in children:
        leaf = child["kind"] == "PodGroup"
        names += [child["metadata"]["name"]] if leaf else _leaves_below(child, tree)
    return names


def _composite_spec(
    dice: Dice, children: int, on_nodes: set[str], labels: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """A policy, and mostly a level of which the Pods with nodes are in one domain."""
    spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    if dice.chance(0.6):
        most = max(children, 1) + dice.chance(0.1)
        spec = {"schedulingPolicy": {"gang": {"minGroupCount": dice.randint(1, most)}}}
    if dice.chance(0.4):
        level = dice.choice(LEVELS)
        if len({labels.get(node, {}).get(level) for node in on_nodes}) < 2 or dice.chance(0.1):
            spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    return spec


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

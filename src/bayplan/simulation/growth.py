"""Growth: more nodes like one of a cluster.

A new node is as one that just came: allocatable, labels, taints and annotations of the old one,
without what only the old one has (its name in labels, cordon, conditions, images). With it come its
ResourceSlices, CSINode and NodeResourceTopology, and the Pods that run on every node.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from bayplan.api.kinds import CSI_NODE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.simulation.admission import Objects
from bayplan.simulation.files import ClusterFileError, Entry, Json

ON_EVERY_NODE = ("DaemonSet", "Node")
"""Controllers whose Pods a new node gets, too; static Pods belong to the Node."""
HOSTNAME = "kubernetes.io/hostname"
_STATE_TAINTS = "node.kubernetes.io/"
"""Taints that say how the old node is: cordoned, not ready, under pressure."""
_OF_ONE_NODE = {
    "metadata": ("creationTimestamp", "ownerReferences"),
    "spec": ("unschedulable", "providerID", "podCIDR", "podCIDRs"),
    "status": ("addresses", "conditions", "images", "volumesAttached", "volumesInUse"),
}


@dataclass(frozen=True)
class Growth:
    """What was added.

    Attributes:
        like: the node that the new ones are like.
        nodes: their names.
        pods: the Pods on them, of DaemonSets and static ones.
        uids: of all objects that were added.
    """

    like: str
    nodes: tuple[str, ...]
    pods: tuple[str, ...]
    uids: frozenset[str]


def grow(objects: Objects, number: int, like: str) -> Growth:
    """Add ``number`` nodes like the node called ``like``.

    Raises:
        ClusterFileError: there is no such node.
    """
    names = {node.name for node in objects[NODE]}
    old = next((node for node in objects[NODE] if node.name == like), None)
    if old is None:
        known = ", ".join(sorted(names)[:5]) + (", ..." if len(names) > 5 else "")
        raise ClusterFileError(f"--like {like}: there is no such Node; there are {known or 'none'}")
    free = (end for end in (f"-added-{i}" for i in count(1)) if like + end not in names)
    ends = list(islice(free, number))
    theirs = list(_of_node(objects, like))
    added = [_copy(entry, old, end) for end in ends for entry in (old, *theirs)]
    for entry in added:
        objects[entry.kind].append(entry)
    return Growth(
        like,
        tuple(like + end for end in ends),
        tuple(entry.key for entry in added if entry.kind is POD),
        frozenset(entry.meta["uid"] for entry in added),
    )


def _of_node(objects: Objects, node: str) -> Iterator[Entry]:
    """What a node like this one has, too."""
    yield from (one for one in objects[CSI_NODE] if one.name == node)
    yield from (one for one in objects[RESOURCE_SLICE] if one.spec.get("nodeName") == node)
    for kind in objects:
        if kind.name == "NodeResourceTopology":
            yield from (one for one in objects[kind] if one.name == node)
    claimed = {
        owner.get("uid")
        for claim in objects[RESOURCE_CLAIM]
        for owner in claim.meta.get("ownerReferences", ())
    }
    for pod in objects[POD]:
        ended = pod.status.get("phase") in ("Succeeded", "Failed")
        if pod.spec.get("nodeName") != node or ended or pod.meta.get("uid") in claimed:
            continue
        owners = pod.meta.get("ownerReferences", ())
        if any(owner.get("controller") and owner.get("kind") in ON_EVERY_NODE for owner in owners):
            yield pod


def _copy(entry: Entry, old: Entry, end: str) -> Entry:
    new = Entry(entry.kind, copy.deepcopy(entry.data), entry.where)
    new.meta["name"] = entry.name + end
    new.meta["uid"] = f"{entry.kind.name}-{new.key}"
    if entry.kind is NODE:
        _renew(new, old)
    elif entry.kind is POD:
        new.spec["nodeName"] = old.name + end
    elif entry.kind is RESOURCE_SLICE:
        new.spec["nodeName"] = old.name + end
        pool = new.spec.setdefault("pool", {})
        pool["name"] = pool.get("name", "") + end
    elif entry.kind is not CSI_NODE:
        _free_zones(new.data)
    return new


def _renew(node: Entry, old: Entry) -> None:
    for part, fields in _OF_ONE_NODE.items():
        for field in fields:
            node.data.get(part, {}).pop(field, None)
    labels: dict[str, str] = node.meta.get("labels") or {}
    own = {old.name, labels.get(HOSTNAME, old.name)}
    node.meta["labels"] = {k: node.name if v in own else v for k, v in labels.items()}
    if "taints" in node.spec:
        taints: list[Json] = node.spec["taints"]
        kept = [one for one in taints if not one.get("key", "").startswith(_STATE_TAINTS)]
        node.spec["taints"] = kept


def _free_zones(topology: Mapping[str, Any]) -> None:
    """Of a NodeResourceTopology: everything that may be used is free."""
    for zone in topology.get("zones", ()):
        for resource in zone.get("resources", ()):
            if "allocatable" in resource:
                resource["available"] = resource["allocatable"]


@dataclass(frozen=True)
class Gain:
    """What more nodes change.

    Attributes:
        fits: the Pods that have a node only with them, and which.
        no_longer: the Pods that have a node only without them.
    """

    fits: Mapping[str, str]
    no_longer: tuple[str, ...]


def gain(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> Gain:
    """The difference of two results of `simulate`, without and with the nodes."""
    old, new = (
        {one["pod"]: one["node"] for one in results if one["node"] is not None}
        for results in (before, after)
    )
    fits = {pod: node for pod, node in new.items() if pod not in old}
    return Gain(fits, tuple(sorted(old.keys() - new.keys())))

"""Loss: what of a cluster is left without the nodes of a failure domain.

The nodes with a value of a label are taken away, with their Pods. A Pod that a controller makes
again is pending then; all others are gone. Volumes stay as they are: a Pod whose volume is bound to
the domain finds no node. Claims of devices on these nodes are given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.api.kinds import NODE, POD, RESOURCE_CLAIM
from bayplan.api.workloads import NOT_MADE_AGAIN
from bayplan.simulation.admission import Objects
from bayplan.simulation.files import ClusterFileError, Entry


@dataclass(frozen=True)
class Loss:
    """What was lost.

    Attributes:
        nodes: the names of the nodes.
        pods: the Pods that controllers make again, and where they were.
        gone: the other Pods, and why they do not come back.
    """

    nodes: tuple[str, ...]
    pods: Mapping[str, str]
    gone: Mapping[str, str]


def lose(objects: Objects, label: str, value: str) -> Loss:
    """Take the nodes with ``value`` of ``label`` away.

    Raises:
        ClusterFileError: no node has that label and value.
    """
    nodes = [node for node in objects[NODE] if _labels(node).get(label) == value]
    if not nodes:
        values = sorted({_labels(node)[label] for node in objects[NODE] if label in _labels(node)})
        known = f"the values of {label} are {', '.join(values)}" if values else "no Node has it"
        raise ClusterFileError(f"--lose {label}={value}: no Node has this label; {known}")
    names = {node.name for node in nodes}
    objects[NODE] = [node for node in objects[NODE] if node.name not in names]
    here = [pod for pod in objects[POD] if pod.spec.get("nodeName") in names]
    objects[POD] = [pod for pod in objects[POD] if pod.spec.get("nodeName") not in names]
    _give_back_claims(objects, {pod.meta.get("uid", "") for pod in here})
    # Controllers make Pods anew: in the queue they are behind those that wait already.
    created = (pod.meta.get("creationTimestamp") or "" for pod in (*objects[POD], *here))
    newest = max(created, default="")
    pods: dict[str, str] = {}
    gone: dict[str, str] = {}
    for pod in here:
        if pod.status.get("phase") in ("Succeeded", "Failed"):
            continue
        if why := _why_gone(pod):
            gone[pod.key] = why
        else:
            pods[pod.key] = pod.spec.pop("nodeName")
            pod.data["status"] = {}
            if newest:
                pod.meta["creationTimestamp"] = newest
            objects[POD].append(pod)
    return Loss(tuple(sorted(names)), pods, gone)


def _labels(node: Entry) -> Mapping[str, str]:
    return node.meta.get("labels") or {}


def _why_gone(pod: Entry) -> str:
    """Why nobody makes the Pod again; "" where somebody does."""
    if "deletionTimestamp" in pod.meta:
        return "it was being deleted"
    owners = pod.meta.get("ownerReferences", ())
    kind = next((owner.get("kind", "") for owner in owners if owner.get("controller")), "")
    return NOT_MADE_AGAIN.get(kind, "")


def _give_back_claims(objects: Objects, users: set[str]) -> None:
    """End the claims of these Pods, by uid, and what others have that nobody else uses."""
    kept = []
    for claim in objects[RESOURCE_CLAIM]:
        if any(owner.get("uid") in users for owner in claim.meta.get("ownerReferences", ())):
            continue
        kept.append(claim)
        reserved = claim.status.get("reservedFor", [])
        left = [user for user in reserved if user.get("uid") not in users]
        if len(left) < len(reserved):
            claim.status["reservedFor"] = left
            if not left:
                claim.status.pop("allocation", None)
    objects[RESOURCE_CLAIM] = kept

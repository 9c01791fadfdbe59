"""ResourceClaims without a cluster: they are made from templates, and written when a Pod is placed.

`make_claims` answers to the resourceclaim controller, `bind_claims` to what the plugin's PreBind
writes and the scheduler then sees. Without the latter, a claim that one Pod was given would stay in
flight, and no other Pod could share it.
"""

from __future__ import annotations

import copy

from bayplan.api.kinds import POD, RESOURCE_CLAIM
from bayplan.attempt.commit import Member
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.dynamic_resources.binding import with_user
from bayplan.plugins.dynamic_resources.state import PodDevices
from bayplan.plugins.shared.device_tracker import is_special
from bayplan.simulation.admission import Objects
from bayplan.simulation.file_kinds import RESOURCE_CLAIM_TEMPLATE
from bayplan.simulation.files import Entry


def make_claims(objects: Objects) -> None:
    """Make the claims for templates of pending Pods, and note the claims in the Pods' status.

    A claim is named POD-CLAIM, without the controller's random end. One that the status names, or
    that has this name, is there already. Where the template is missing, no claim is made.
    """
    templates = {entry.key: entry for entry in objects[RESOURCE_CLAIM_TEMPLATE]}
    keys = {entry.key for entry in objects[RESOURCE_CLAIM]}
    for pod in objects[POD]:
        if pod.spec.get("nodeName") or pod.meta.get("deletionTimestamp") or _has_ended(pod):
            continue
        for wanted in pod.spec.get("resourceClaims", []):
            name = wanted.get("resourceClaimTemplateName")
            template = templates.get(f"{pod.namespace}/{name}") if name else None
            statuses = pod.status.setdefault("resourceClaimStatuses", [])
            if template is None or any(s.get("name") == wanted["name"] for s in statuses):
                continue
            claim = _from_template(template, pod, wanted["name"])
            statuses.append({"name": wanted["name"], "resourceClaimName": claim.name})
            if claim.key not in keys:
                keys.add(claim.key)
                objects[RESOURCE_CLAIM].append(claim)


def _has_ended(pod: Entry) -> bool:
    return pod.status.get("phase") in ("Succeeded", "Failed")


def _from_template(template: Entry, pod: Entry, name: str) -> Entry:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.meta["uid"],
        "controller": True,
    }
    meta = {
        "name": f"{pod.name}-{name}",
        "namespace": pod.namespace,
        "ownerReferences": [owner],
        "resourceVersion": "1",
    }
    spec = copy.deepcopy(template.spec.get("spec", {}))
    claim = Entry(RESOURCE_CLAIM, {"metadata": meta, "spec": spec}, pod.where)
    meta["uid"] = f"{RESOURCE_CLAIM.name}-{claim.key}"
    return claim


def bind_claims(objects: ObjectStore, member: Member) -> None:
    """Store what Reserve has given to the claims of a Pod, and the Pod as their user.

    A claim that the scheduler makes for extended resources stays in flight: it is never shared.
    """
    pod = member.pod
    devices = member.state.get("DynamicResources", PodDevices)
    if devices is None:
        return
    for index, claim in enumerate(devices.claims):
        if not is_special(claim) and not claim.reserved_by(pod.uid):
            allocation = devices.allocations.get(index, claim.status.allocation)
            objects.set(RESOURCE_CLAIM, with_user(claim, allocation, pod))

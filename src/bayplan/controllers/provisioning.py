"""Provisioning: one ProvisioningRequest for each group that has no room. Pure functions.

A group has no room when none of its Pods has a node and each says Unschedulable: then it waits for
nodes and for nothing else. The cluster-autoscaler is asked for all of them at once, by an object
of autoscaling.x-k8s.io with as many PodTemplates as there are kinds of Pods. An annotation on each
Pod names the request; so the autoscaler adds no nodes for the Pods one by one.

A request cannot be changed, so another demand, or another try, is another request. Its name follows
from the group, the demand and the number of the try: whoever makes it twice makes it once. A try
has ended when the autoscaler says Failed, BookingExpired or CapacityRevoked; the next one comes
after a backoff. The number of the try is an annotation of the request, so nothing is remembered
here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from bayplan.api.kinds import Kind
from bayplan.api.meta import Condition, Object, Wire
from bayplan.api.pod import Pod, PodShape
from bayplan.api.scheduling import CONSUMES_REQUEST

Json = dict[str, Any]

CONSUMES_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
GROUP_UID = "bayplan.dev/group-uid"
"""On a request, a label: whose it is."""
DEMAND, TRY = "bayplan.dev/demand", "bayplan.dev/try"
ENDED = ("Failed", "BookingExpired", "CapacityRevoked")
BACKOFF_SECONDS = 30.0
"""After the first try; doubled with each one, up to `MOST_BACKOFF_SECONDS`."""
MOST_BACKOFF_SECONDS = 1800.0
MOST_SETS = 32
"""Kinds of Pods that one request may have."""
_NAME_LENGTH = 200
_SPEC = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy")
_VOLUMES = ("name", "persistentVolumeClaim", "ephemeral")


class _Status(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Reference(Wire, frozen=True):
    name: str = ""


class _PodSet(Wire, frozen=True):
    pod_template_ref: _Reference = _Reference()


class _Spec(Wire, frozen=True):
    pod_sets: tuple[_PodSet, ...] = ()


class ProvisioningRequest(Object, frozen=True):
    """What is read of a request."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def group(self) -> str:
        """The uid of the group; "" where somebody else has made the request."""
        return self.labels.get(GROUP_UID, "")

    @property
    def demand(self) -> str:
        """For which Pods, as `Demand.digest`."""
        return self.metadata.annotations.get(DEMAND, "")

    @property
    def number(self) -> int:
        """The how-manieth try."""
        text = self.metadata.annotations.get(TRY, "")
        return int(text) if text.isdecimal() else 1

    @property
    def ended(self) -> float | None:
        """When the try has ended, seconds since the epoch; None while it has not."""
        said = [c for c in self.status.conditions if c.type in ENDED and c.status == "True"]
        times = [c.last_transition_time.timestamp() for c in said if c.last_transition_time]
        return max(times, default=0.0) if said else None


PROVISIONING_REQUEST: Kind[ProvisioningRequest] = Kind.of(
    ProvisioningRequest,
    "autoscaling.x-k8s.io/v1",
    "provisioningrequests",
    namespaced=True,
    optional=True,
)


@dataclass(frozen=True)
class ProvisioningClass:
    """What is asked for.

    Attributes:
        name: spec.provisioningClassName.
        parameters: spec.parameters.
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


class Members(NamedTuple):
    """A group, placed as a whole, and its Pods.

    Attributes:
        kind: of the group.
        group: its object.
        pods: those that have not ended.
    """

    kind: Kind[Any]
    group: Object
    pods: Sequence[Pod]

    @property
    def has_no_room(self) -> bool:
        """Whether all Pods wait for nodes, and nobody leaves for them."""
        return bool(self.pods) and all(map(_has_no_room, self.pods))

    @property
    def waits(self) -> bool:
        """Whether any of its Pods has no node."""
        return any(not pod.node_name for pod in self.pods)


class Demand(NamedTuple):
    """The Pods of a group by kind: those with equal specs are one set.

    Attributes:
        sets: the first Pod of each by name, and how many there are.
        digest: the same for the same group and demand, in every process.
    """

    sets: tuple[tuple[Pod, int], ...]
    digest: str


class Make(NamedTuple):
    """A request to make, for the Pods of ``members``."""

    members: Members
    demand: Demand
    number: int

    @property
    def name(self) -> str:
        """metadata.name."""
        name = self.members.group.name[:_NAME_LENGTH].rstrip(".-")
        return f"{name}-{self.demand.digest}-{self.number}"


class Steps(NamedTuple):
    """What is to be done about a group.

    Attributes:
        make: the request to make, or to have made: its Pods are to name it.
        exists: whether it is there.
        drop: requests that are of no use any more.
        due: when there may be more to do; None for no such time.
    """

    make: Make | None = None
    exists: bool = False
    drop: tuple[ProvisioningRequest, ...] = ()
    due: float | None = None


def demand_of(members: Members) -> Demand:
    """What the Pods of a group ask for."""
    by_spec: dict[bytes, list[Pod]] = {}
    for pod in sorted(members.pods, key=lambda pod: pod.name):
        by_spec.setdefault(pod.shape.memo(_spec), []).append(pod)
    counted = sorted((spec, len(pods)) for spec, pods in by_spec.items())
    digest = sha256(msgspec.msgpack.encode((members.group.uid, counted))).hexdigest()[:10]
    return Demand(tuple((pods[0], len(pods)) for pods in by_spec.values()), digest)


def steps(members: Members, requests: Collection[ProvisioningRequest], now: float) -> Steps:
    """What is to be done about a group, of which ``requests`` are there. ``now``: since the epoch.

    A request stays while any Pod of its group has no node.
    """
    if not members.has_no_room:
        return Steps(drop=() if members.waits else tuple(requests))
    demand = demand_of(members)
    mine = [request for request in requests if request.demand == demand.digest]
    latest = max(mine, key=lambda one: one.number, default=None)
    others = tuple(request for request in requests if request is not latest)
    if len(demand.sets) > MOST_SETS or _is_of_others(members, requests):
        return Steps(drop=tuple(requests))
    if latest is None:
        return Steps(Make(members, demand, 1), drop=others)
    if latest.ended is None:
        return Steps(Make(members, demand, latest.number), exists=True, drop=others)
    due = latest.ended + backoff(latest.number)
    if now < due:
        return Steps(drop=others, due=due)
    return Steps(Make(members, demand, latest.number + 1), drop=tuple(requests))


def backoff(number: int) -> float:
    """Seconds after the how-manieth try."""
    return min(BACKOFF_SECONDS * 2.0 ** min(number - 1, 30), MOST_BACKOFF_SECONDS)


# Bodies


def unnamed(make: Make, class_: ProvisioningClass) -> Iterable[Pod]:
    """The Pods that do not name the request yet."""
    names = {CONSUMES_REQUEST: make.name, CONSUMES_CLASS: class_.name}
    for pod in make.members.pods:
        if not names.items() <= pod.annotations.items():
            yield pod


def annotation(make: Make, class_: ProvisioningClass, uid: str) -> Json:
    """A merge patch for one of them; refused by another Pod of the same name."""
    annotations = {CONSUMES_REQUEST: make.name, CONSUMES_CLASS: class_.name}
    return {"metadata": {"uid": uid, "annotations": annotations}}


def template_name(request: str, number: int) -> str:
    """The PodTemplate of the how-manieth set, from 0."""
    return f"{request}-{number}"


def template(make: Make, number: int, pod: Json) -> Json:
    """The PodTemplate of a set, made of one of its Pods: no commands, no environment."""
    spec = pod["spec"]
    kept = {key: spec[key] for key in _SPEC if key in spec}
    for key in ("initContainers", "containers"):
        if key in spec:
            kept[key] = [{k: one[k] for k in _CONTAINER if k in one} for one in spec[key]]
    volumes = [{k: one[k] for k in _VOLUMES if k in one} for one in spec.get("volumes", ())]
    if kept_volumes := [one for one in volumes if len(one) > 1]:
        kept["volumes"] = kept_volumes
    labels = pod["metadata"].get("labels", {})
    meta = _meta(make, template_name(make.name, number))
    body = {"metadata": {"labels": labels}, "spec": kept}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": body}


def request(make: Make, class_: ProvisioningClass) -> Json:
    """The ProvisioningRequest."""
    meta = _meta(make, make.name)
    meta["annotations"] = {DEMAND: make.demand.digest, TRY: str(make.number)}
    sets = [
        {"count": count, "podTemplateRef": {"name": template_name(make.name, number)}}
        for number, (_, count) in enumerate(make.demand.sets)
    ]
    spec: Json = {"provisioningClassName": class_.name, "podSets": sets}
    if class_.parameters:
        spec["parameters"] = dict(class_.parameters)
    kind = PROVISIONING_REQUEST
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec}


def _meta(make: Make, name: str) -> Json:
    """Gone with the group."""
    kind, group = make.members.kind, make.members.group
    owner = {"apiVersion": kind.api_version, "kind": kind.name}
    owner |= {"name": group.name, "uid": group.uid}
    labels = {GROUP_UID: group.uid}
    meta: Json = {"name": name, "namespace": group.namespace, "labels": labels}
    return meta | {"ownerReferences": [owner]}


def _has_no_room(pod: Pod) -> bool:
    if pod.node_name or pod.deleted is not None or pod.status.nominated_node_name:
        return False
    said = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    return said is not None and (said.status, said.reason) == ("False", "Unschedulable")


def _is_of_others(members: Members, requests: Iterable[ProvisioningRequest]) -> bool:
    """Whether a Pod names a request that we have not made: somebody else asks for nodes."""
    uid = members.group.uid
    ours = {one.name for one in requests if one.group == uid}
    prefix = f"{members.group.name[:_NAME_LENGTH].rstrip('.-')}-"
    named = {pod.annotations.get(CONSUMES_REQUEST, "") for pod in members.pods} - {""}
    return any(name not in ours and not name.startswith(prefix) for name in named)


def _spec(shape: PodShape) -> bytes:
    return msgspec.json.encode(shape.spec)

"""Groups of Pods: what a group asks for, whichever API says it.

A `Group` is made by an adapter. There is one, for PodGroup of scheduling.x-k8s.io: a Pod belongs to
the PodGroup of its own namespace that its label `POD_GROUP_LABEL` names.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.api import quantity
from bayplan.api.kinds import POD_GROUP
from bayplan.api.pod import Pod
from bayplan.api.scheduling import PodGroup
from bayplan.cache.objects import ObjectStore

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


class Group(msgspec.Struct, frozen=True):
    """What a group asks for.

    Attributes:
        key: ``namespace/name``.
        uid: metadata.uid of its object.
        minimum: as many Pods have to fit at once; at least 1.
        room: what all of them will need, by resource; milli-CPU, bytes or counts.
        timeout: seconds that its members may take to get ready to be bound; None for the default.
        created: seconds since the epoch; None where the object does not say.
    """

    key: str
    uid: str
    minimum: int
    room: Mapping[str, int]
    timeout: float | None
    created: float | None


def group_key(pod: Pod) -> str:
    """``namespace/name`` of the group that ``pod`` belongs to; "" for none."""
    name = pod.shape.labels.get(POD_GROUP_LABEL)
    return f"{pod.namespace}/{name}" if name else ""


def find_group(objects: ObjectStore, key: str) -> Group | None:
    """The group called ``key``; None while its object does not exist."""
    pod_group = objects.get(POD_GROUP, key)
    return None if pod_group is None else _of_pod_group(pod_group)


def _of_pod_group(pod_group: PodGroup) -> Group:
    """As scheduler-plugins reads it: a timeout of 0, like none, means the default."""
    spec, created = pod_group.spec, pod_group.metadata.creation_timestamp
    room = {name: quantity.of(name, amount) for name, amount in spec.min_resources.items()}
    return Group(
        pod_group.key,
        pod_group.uid,
        max(spec.min_member, 1),
        room,
        float(spec.schedule_timeout_seconds or 0) or None,
        None if created is None else created.timestamp(),
    )

"""PodGroups: the spec of a group of Pods, and the members of each group.

A `Group` is made by an adapter. The one here is for PodGroup of scheduling.x-k8s.io: a Pod belongs
to the PodGroup of its own namespace that its label `POD_GROUP_LABEL` names. `bayplan.cache.groups`
has those of the label, together with groups for which there is no PodGroup, and
`bayplan.cache.kubernetes_groups` those of Kubernetes itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.api import quantity
from bayplan.api.kinds import POD_GROUP
from bayplan.api.meta import ObjectReference
from bayplan.api.pod import PodShape
from bayplan.api.pod_spec import Resources
from bayplan.api.scheduling import CompositePodGroup, KubernetesPodGroup, PodGroup
from bayplan.cache.group_policy import LABEL, GroupPolicy
from bayplan.cache.group_topology import Levels
from bayplan.cache.sub_groups import SubGroup, asked_of, parts_of

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


class Group(SubGroup, frozen=True, kw_only=True):
    """The spec of a group; as a `SubGroup`, a group is the root of its tree.

    Attributes:
        key: ``namespace/name``.
        uid: metadata.uid of its object, or what no other group has.
        min_resources: what all of them will need, by resource; milli-CPU, bytes or counts.
        timeout: seconds that its members may take to get ready to be bound; None for the default.
        created: seconds since the epoch; None where the object does not say.
        fault: what its object says that cannot be; "" for nothing.
        subject: the object that events about the group are about; None for one of its Pods.
        policy: in what it differs from groups of other sources.
        pod_group: the object, of a PodGroup or CompositePodGroup of Kubernetes.
        children: the groups below a CompositePodGroup, in the order in which they are tried; as
            many as the minimum of the object have to be placed.
    """

    key: str
    uid: str
    min_resources: Mapping[str, int] = {}
    timeout: float | None = None
    created: float | None = None
    fault: str = ""
    subject: ObjectReference | None = None
    policy: GroupPolicy = LABEL
    pod_group: KubernetesPodGroup | None = None
    children: tuple[Group, ...] = ()

    @property
    def is_composite(self) -> bool:
        """Whether the group is one of groups."""
        return isinstance(self.pod_group, CompositePodGroup)

    def tree(self) -> Iterator[Group]:
        """Itself and all groups below it."""
        yield self
        for child in self.children:
            yield from child.tree()

    def leaves(self) -> list[Group]:
        """The PodGroups of the tree, in the order of the tries."""
        if not self.is_composite:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]


def label_key(shape: PodShape) -> str:
    """``namespace/name`` of the PodGroup that the label of such Pods names; "" for none."""
    name = shape.labels.get(POD_GROUP_LABEL)
    return f"{shape.namespace}/{name}" if name else ""


def only_itself(label: str) -> tuple[str, ...]:
    """The hierarchy of a label that is in no other one."""
    return (label,)


def minimum_of(pod_group: PodGroup) -> int:
    """``minMember``, and no less than its sub-groups need; 0 where the PodGroup says nothing."""
    parts, _ = parts_of(pod_group.metadata.annotations, only_itself)
    return max(pod_group.spec.min_member, sum(part.minimum for part in parts))


def of_pod_group(pod_group: PodGroup, levels: Levels) -> Group:
    """What a PodGroup of the label asks for.

    As scheduler-plugins reads it: a timeout of 0, like none, means the default.
    """
    spec, created = pod_group.spec, pod_group.metadata.creation_timestamp
    min_resources, fault = _amounts(spec.min_resources)
    if spec.min_member < 0:
        fault = f"spec.minMember is {spec.min_member}; it must not be negative"
    if (spec.schedule_timeout_seconds or 0) < 0:
        seconds = spec.schedule_timeout_seconds
        fault = f"spec.scheduleTimeoutSeconds is {seconds}; it must not be negative"
    annotations = pod_group.metadata.annotations
    asked = asked_of(annotations, levels, spec.min_member, in_whole_slices=True)
    return Group(
        key=pod_group.key,
        uid=pod_group.uid,
        minimum=asked.minimum,
        topology=asked.topology,
        parts=asked.parts,
        min_resources=min_resources,
        timeout=float(spec.schedule_timeout_seconds or 0) or None,
        created=None if created is None else created.timestamp(),
        fault=fault or asked.fault,
        subject=POD_GROUP.reference(pod_group),
    )


def _amounts(amounts: Resources) -> tuple[dict[str, int], str]:
    """MinResources in milli-CPU, bytes or counts, and what is wrong with one of them."""
    parsed, fault = {}, ""
    for name, amount in amounts.items():
        try:
            parsed[name] = quantity.of(name, amount)
        except quantity.QuantityError as error:
            fault = f"spec.minResources[{name}]: {error}"
        else:
            if parsed[name] < 0:
                fault = f"spec.minResources[{name}] is {amount}; it must not be negative"
    return parsed, fault

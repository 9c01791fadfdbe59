"""Pods: their wire form, and `Pod`, the flat form that the whole pipeline works on.

A Pod of a Deployment differs from its siblings in name, uid and node, not in what it asks for. So
everything scheduling-relevant that siblings share is interned as one `PodShape`: memory and the
work of deriving requests or compiling terms are paid once per shape, and results that depend on the
shape alone are cached by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, TypeVar

import msgspec

from bayplan.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, Wire
from bayplan.api.quantity import Amount

Resources = dict[str, Amount]
T = TypeVar("T")

DROPPED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


class ResourceRequirements(Wire, frozen=True):
    """Requests and limits by resource name; claims by name."""

    requests: Resources = {}
    limits: Resources = {}


class ContainerPort(Wire, frozen=True):
    """A port; only those with a host_port matter to scheduling."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Wire, frozen=True):
    """An entry of restartPolicyRules: what the kubelet does when the rule applies."""

    action: str = ""


class Container(Wire, frozen=True):
    """A container or init container; restart_policy Always makes the latter a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class Toleration(Wire, frozen=True):
    """What taint the Pod tolerates; empty fields match everything."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorTerm(Wire, frozen=True):
    """Requirements on a node's labels and fields, all of which must hold."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True):
    """A node preference and its weight (1-100)."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    """Rules on nodes; nil and empty `required` differ."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire, frozen=True):
    """Pods (by selector and namespaces) in one topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True):
    """A preference among Pod affinity terms (1-100)."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """Pod affinity or anti-affinity: the two have the same form."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True):
    """How evenly matching Pods are to lie over the domains of topology_key."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PvcVolumeSource(Wire, frozen=True):
    """A claim by name."""

    claim_name: str = ""
    read_only: bool = False


class GcePersistentDisk(Wire, frozen=True):
    """A legacy in-tree disk."""

    pd_name: str = ""
    partition: int = 0
    read_only: bool = False


class AwsElasticBlockStore(Wire, frozen=True):
    """A legacy in-tree disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    partition: int = 0
    read_only: bool = False


class IscsiVolume(Wire, frozen=True):
    """A legacy in-tree disk."""

    iqn: str = ""
    target_portal: str = ""
    lun: int = 0
    read_only: bool = False


class RbdVolume(Wire, frozen=True):
    """A legacy in-tree disk; `pool` defaults to rbd."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDisk(Wire, frozen=True):
    """A legacy in-tree disk; only `kind` Managed has a CSI counterpart."""

    disk_name: str = ""
    kind: str | None = None
    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderVolume(Wire, frozen=True):
    """A legacy in-tree disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Wire, frozen=True):
    """A legacy in-tree disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolume(Wire, frozen=True):
    """A legacy in-tree disk."""

    volume_path: str = ""


class CsiVolumeSource(Wire, frozen=True):
    """An inline CSI volume."""

    driver: str = ""


class EphemeralVolume(Wire, frozen=True):
    """A generic ephemeral volume: its claim is named after the Pod and the volume."""


class ImageVolumeSource(Wire, frozen=True):
    """An OCI image mounted as a volume."""

    reference: str = ""


class Volume(Wire, frozen=True):
    """A volume, by the sources that scheduling reads."""

    name: str = ""
    persistent_volume_claim: PvcVolumeSource | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CsiVolumeSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    image: ImageVolumeSource | None = None

    @property
    def matters(self) -> bool:
        """Whether scheduling reads any source of this volume."""
        return any(getattr(self, f) is not None for f in self.__struct_fields__[1:])


class PodSchedulingGate(Wire, frozen=True):
    """A named gate."""

    name: str = ""


class PodResourceClaim(Wire, frozen=True):
    """A reference to a ResourceClaim or its template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Wire, frozen=True):
    """The group of Pods that this one is scheduled with (spec.schedulingGroup)."""

    pod_group_name: str | None = None


class PodOS(Wire, frozen=True):
    """spec.os."""

    name: str = ""


class PodSecurityContext(Wire, frozen=True):
    """The Pod-level security fields that infer a node feature."""

    se_linux_change_policy: str | None = None


class PodSpec(Wire, frozen=True):
    """The scheduling-relevant part of spec that Pods of one template share."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    os: PodOS | None = None
    security_context: PodSecurityContext | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class _WireSpec(PodSpec, frozen=True):
    """PodSpec as decoded: with the one field in which siblings differ."""

    node_name: str = ""


class PodCondition(Wire, frozen=True):
    """One condition of a Pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


class ContainerStatus(Wire, frozen=True):
    """What the kubelet has granted a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}


class PodStatus(Wire, frozen=True):
    """The part of status that scheduling reads."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}


class WirePod(Wire, frozen=True):
    """A Pod as the API server sends it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WireSpec = _WireSpec()
    status: PodStatus = PodStatus()


class PodShape:
    """What Pods of one template in one namespace share; equal shapes are the same object.

    Whoever computes something from the shape alone (requests, compiled terms) keeps it with `memo`.
    """

    __slots__ = ("_memo", "id", "labels", "namespace", "owner", "spec")

    _interned: ClassVar[dict[bytes, PodShape]] = {}
    _count: ClassVar[int] = 0

    def __init__(
        self, namespace: str, labels: dict[str, str], owner: tuple[str, str], spec: PodSpec
    ) -> None:
        self.namespace = namespace
        self.labels = labels
        self.owner = owner
        self.spec = spec
        self._memo: dict[Any, Any] = {}
        PodShape._count += 1
        self.id = PodShape._count

    def memo(self, compute: Callable[[PodShape], T]) -> T:
        """``compute(self)``, computed once per shape; ``compute`` must be a long-lived function."""
        try:
            return self._memo[compute]  # type: ignore[no-any-return]
        except KeyError:
            value = self._memo[compute] = compute(self)
            return value

    @classmethod
    def of(cls, wire: WirePod) -> PodShape:
        """The one shape of this Pod and its siblings."""
        meta, spec = wire.metadata, wire.spec
        owner = _owner(meta)
        volumes = tuple(v for v in spec.volumes if v.matters) if spec.volumes else ()
        shared = _shared(spec, volumes)
        key = _encode((meta.namespace, meta.labels, owner, shared))
        shape = cls._interned.get(key)
        if shape is None:
            if len(cls._interned) >= MAX_SHAPES:
                cls._interned.clear()
            shape = cls._interned[key] = cls(meta.namespace, meta.labels, owner, shared)
        return shape


MAX_SHAPES = 65536
"""Interned shapes kept; past it the table starts anew (equal Pods then get a second shape)."""

_encode = msgspec.json.Encoder().encode
_SHARED_FIELDS = PodSpec.__struct_fields__


def _owner(meta: ObjectMeta) -> tuple[str, str]:
    owner = meta.controller
    return (f"{owner.api_version}/{owner.kind}", owner.name) if owner else ("", "")


def _shared(spec: _WireSpec, volumes: tuple[Volume, ...]) -> PodSpec:
    values = [getattr(spec, f) for f in _SHARED_FIELDS]
    values[_SHARED_FIELDS.index("volumes")] = volumes
    return PodSpec(*values)


class Pod:
    """A Pod as the pipeline sees it; never changed after it was built.

    Attributes:
        spec: the shared `PodSpec`; `node_name` stands apart because siblings differ in it.
        shape: the interned `PodShape`; ``pod.shape is other.shape`` for siblings.
        deleted: deletionTimestamp, or None while the Pod is not terminating.
        controller: apiVersion/kind and name of the controlling owner, both empty without one.
    """

    __slots__ = (
        "_annotations",
        "created",
        "deleted",
        "generation",
        "name",
        "node_name",
        "resource_version",
        "shape",
        "status",
        "uid",
    )

    def __init__(self, wire: WirePod) -> None:
        meta = wire.metadata
        self.name = meta.name
        self.uid = meta.uid
        self.resource_version = meta.resource_version
        self.generation = meta.generation
        self.created = meta.creation_timestamp
        self.deleted = meta.deletion_timestamp
        self.shape = PodShape.of(wire)
        self.node_name = wire.spec.node_name
        self.status = wire.status
        self._annotations: dict[str, str] | None = None
        if meta.annotations:
            kept = {k: v for k, v in meta.annotations.items() if k != DROPPED_ANNOTATION}
            self._annotations = kept or None

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.shape.namespace

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels."""
        return self.shape.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """metadata.annotations, without kubectl's copy of the whole object."""
        return self._annotations or {}

    @property
    def controller(self) -> tuple[str, str]:
        """apiVersion/kind and name of the controlling owner, both empty without one."""
        return self.shape.owner

    @property
    def spec(self) -> PodSpec:
        """The shared spec."""
        return self.shape.spec

    @property
    def priority(self) -> int:
        """spec.priority; 0 when unset."""
        return self.shape.spec.priority

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.shape.namespace}/{self.name}"

    @property
    def terminal(self) -> bool:
        """Whether the Pod has ended and holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    def on_node(self, node_name: str) -> Pod:
        """A copy that is assigned to ``node_name``."""
        copy = object.__new__(Pod)
        for slot in Pod.__slots__:
            setattr(copy, slot, getattr(self, slot))
        copy.node_name = node_name
        return copy

    def __repr__(self) -> str:
        return f"Pod({self.key})"


def decode_pod(data: bytes | msgspec.Raw) -> Pod:
    """A `Pod` from its JSON.

    Raises:
        msgspec.ValidationError: a field has another type than the API gives it.
    """
    return Pod(_decoder.decode(data))


_decoder = msgspec.json.Decoder(WirePod, strict=True)

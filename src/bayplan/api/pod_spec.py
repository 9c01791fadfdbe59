"""The fields of a Pod's spec that scheduling reads: requests, and constraints on the node."""

from __future__ import annotations

import msgspec

from bayplan.api.meta import LabelSelector, LabelSelectorRequirement, Wire
from bayplan.api.quantity import Amount

Resources = dict[str, Amount]


class ResourceRequirements(Wire, frozen=True):
    """Requests and limits by resource name; claims by name."""

    requests: Resources = {}
    limits: Resources = {}


class ContainerPort(Wire, frozen=True):
    """A port; only those with a host_port matter to scheduling."""

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
    """A claim; Pods of one template may differ in its name: `bayplan.api.pod.Pod.claim_names`."""


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
    read_only: bool = False


class RbdVolume(Wire, frozen=True):
    """A legacy in-tree disk; `pool` defaults to rbd."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDisk(Wire, frozen=True):
    """A legacy in-tree disk; only `kind` Managed has a CSI counterpart."""

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
        return self != type(self)(self.name)


class PodSchedulingGate(Wire, frozen=True):
    """A named gate."""

    name: str = ""


class PodResourceClaim(Wire, frozen=True):
    """A reference to a ResourceClaim or its template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodOS(Wire, frozen=True):
    """spec.os."""

    name: str = ""


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
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    os: PodOS | None = None
    restart_policy: str = ""
    active_deadline_seconds: int | None = None

"""Storage objects: claims, volumes, classes, CSI drivers and their capacity."""

from __future__ import annotations

from bayplan.api.meta import LabelSelector, Object, Wire
from bayplan.api.pod_spec import (
    AwsElasticBlockStore,
    AzureDisk,
    CinderVolume,
    GcePersistentDisk,
    NodeSelector,
    PortworxVolume,
    ResourceRequirements,
    Resources,
    VsphereVolume,
)
from bayplan.api.quantity import Amount


class ClaimReference(Wire, frozen=True):
    """A reference to an object (claimRef)."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Wire, frozen=True):
    """What a claim has got."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Resources = {}


class PersistentVolumeClaim(Object, frozen=True):
    """A claim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class CsiPersistentVolumeSource(Wire, frozen=True):
    """The CSI volume behind a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class LocalVolumeSource(Wire, frozen=True):
    """A local volume."""

    path: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True):
    """A volume."""

    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None


class PersistentVolumeStatus(Wire, frozen=True):
    """A volume's phase."""

    phase: str = ""


class PersistentVolume(Object, frozen=True):
    """A volume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Wire, frozen=True):
    """A label and the values allowed for it."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire, frozen=True):
    """Requirements on a node's labels, all of which must hold."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """A storage class."""

    provisioner: str = ""
    parameters: dict[str, str] = {}
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Wire, frozen=True):
    """How many volumes of a driver a node takes; None means no limit."""

    count: int | None = None


class CsiNodeDriver(Wire, frozen=True):
    """A driver on a node."""

    name: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(Wire, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CsiNodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    """What CSI drivers say of a node of the same name."""

    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Wire, frozen=True):
    """A driver's properties."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    """A CSI driver."""

    spec: CsiDriverSpec = CsiDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    """Free space for a class in a part of the cluster."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None


class VolumeAttachmentSource(Wire, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire, frozen=True):
    """An attachment: the driver, the volume and the node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """A volume that is attached to a node, or being attached."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()

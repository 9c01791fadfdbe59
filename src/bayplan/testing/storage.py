"""Storage objects for tests; all have a version, since the volume binder compares versions.

>>> make_pvc("data").bound_to("pv1").obj()
>>> make_pv("pv1").capacity("10Gi").csi("ebs.csi.aws.com").on("zone", "a").obj()
"""

from __future__ import annotations

from bayplan.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from bayplan.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from bayplan.testing.builder import Builder, Json
from bayplan.testing.selectors import expressions, requirement


class ClaimBuilder(Builder[PersistentVolumeClaim]):
    """Builds a `PersistentVolumeClaim`."""

    def size(self, storage: str | None) -> ClaimBuilder:
        """Set the requested size; 1Gi otherwise."""
        return self.spec(resources={"requests": {"storage": storage}} if storage else {})

    def storage_class(self, name: str) -> ClaimBuilder:
        """Set the class; none otherwise."""
        return self.spec(storageClassName=name)

    def modes(self, *modes: str) -> ClaimBuilder:
        """Set the access modes; ReadWriteOnce otherwise."""
        return self.spec(accessModes=list(modes))

    def bound_to(self, volume: str) -> ClaimBuilder:
        """The claim as the PV controller leaves it after binding to ``volume``."""
        self.annotation("pv.kubernetes.io/bind-completed", "yes")
        return self.spec(volumeName=volume).status(phase="Bound")

    def selected(self, node: str) -> ClaimBuilder:
        """Set the node that a volume is being made for."""
        return self.annotation("volume.kubernetes.io/selected-node", node)

    def owned_by(self, uid: str) -> ClaimBuilder:
        """Set the controlling Pod."""
        owner = {"kind": "Pod", "name": "p", "uid": uid, "controller": True}
        return self.meta(ownerReferences=[owner])


class VolumeBuilder(Builder[PersistentVolume]):
    """Builds a `PersistentVolume`."""

    def capacity(self, storage: str) -> VolumeBuilder:
        """Set the size; 1Gi otherwise."""
        return self.spec(capacity={"storage": storage})

    def storage_class(self, name: str) -> VolumeBuilder:
        """Set the class; none otherwise."""
        return self.spec(storageClassName=name)

    def modes(self, *modes: str) -> VolumeBuilder:
        """Set the access modes; ReadWriteOnce otherwise."""
        return self.spec(accessModes=list(modes))

    def csi(self, driver: str, handle: str | None = None) -> VolumeBuilder:
        """Make the volume a CSI volume; the handle is the volume's name unless given."""
        if handle is None:
            handle = self._meta["name"]
        return self.spec(csi={"driver": driver, "volumeHandle": handle})

    def on(self, key: str, *values: str) -> VolumeBuilder:
        """Reachable from nodes with one of these label values."""
        return self.terms(expressions(requirement(key, "In", *values)))

    def terms(self, *terms: Json) -> VolumeBuilder:
        """Set the terms of its node affinity."""
        return self.spec(nodeAffinity={"required": {"nodeSelectorTerms": list(terms)}})

    def claimed_by(self, name: str, uid: str = "", namespace: str = "default") -> VolumeBuilder:
        """Set claimRef."""
        ref = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        return self.spec(claimRef=ref | ({"uid": uid} if uid else {}))


class ClassBuilder(Builder[StorageClass]):
    """Builds a `StorageClass` that waits for the first consumer."""

    def provisioner(self, name: str) -> ClassBuilder:
        """Set the provisioner; csi.example.com otherwise."""
        return self.top(provisioner=name)

    def mode(self, mode: str | None) -> ClassBuilder:
        """Set the volume binding mode."""
        return self.top(volumeBindingMode=mode)

    def topology(self, **values: list[str]) -> ClassBuilder:
        """Add a term to allowedTopologies."""
        term = [{"key": key, "values": allowed} for key, allowed in values.items()]
        self.json.setdefault("allowedTopologies", []).append({"matchLabelExpressions": term})
        return self


class CsiNodeBuilder(Builder[CSINode]):
    """Builds a `CSINode`."""

    def driver(self, name: str, count: int | None = None) -> CsiNodeBuilder:
        """Add a driver, with how many volumes the node takes of it."""
        allocatable = {} if count is None else {"allocatable": {"count": count}}
        entry = {"name": name, "nodeID": self._meta["name"]} | allocatable
        self._spec.setdefault("drivers", []).append(entry)
        return self

    def migrated(self, *plugins: str) -> CsiNodeBuilder:
        """Say which in-tree plugins have moved to CSI."""
        return self.annotation("storage.alpha.kubernetes.io/migrated-plugins", ",".join(plugins))


class DriverBuilder(Builder[CSIDriver]):
    """Builds a `CSIDriver`."""

    def must_be_there(self, enabled: bool | None = True) -> DriverBuilder:
        """spec.preventPodSchedulingIfMissing."""
        return self.spec(preventPodSchedulingIfMissing=enabled)

    def storage_capacity(self, enabled: bool | None = True) -> DriverBuilder:
        """Whether it publishes capacity."""
        return self.spec(storageCapacity=enabled)


class CapacityBuilder(Builder[CSIStorageCapacity]):
    """Builds a `CSIStorageCapacity`."""

    def of(self, class_name: str, capacity: str | None = None, **more: object) -> CapacityBuilder:
        """Set class and capacity, and other fields of the object."""
        given = {} if capacity is None else {"capacity": capacity}
        return self.top(storageClassName=class_name, **given, **more)

    def on(self, **labels: str) -> CapacityBuilder:
        """Reachable from nodes with these labels."""
        return self.top(nodeTopology={"matchLabels": labels})


class AttachmentBuilder(Builder[VolumeAttachment]):
    """Builds a `VolumeAttachment`."""

    def of(self, attacher: str, volume: str | None, node: str) -> AttachmentBuilder:
        """Set driver, volume and node."""
        source = {} if volume is None else {"persistentVolumeName": volume}
        return self.spec(attacher=attacher, nodeName=node, source=source)


def make_pvc(name: str = "c") -> ClaimBuilder:
    """A builder of an unbound claim of 1Gi, ReadWriteOnce, without a class."""
    claim = ClaimBuilder(PERSISTENT_VOLUME_CLAIM, name).version(1).namespace("default")
    return claim.modes("ReadWriteOnce").size("1Gi")


def make_pv(name: str = "pv") -> VolumeBuilder:
    """A builder of an available volume of 1Gi, ReadWriteOnce, without a class."""
    volume = VolumeBuilder(PERSISTENT_VOLUME, name).version(1).status(phase="Available")
    return volume.modes("ReadWriteOnce").capacity("1Gi")


def make_storage_class(name: str = "wait") -> ClassBuilder:
    """A builder of a class of csi.example.com that waits for the first consumer."""
    builder = ClassBuilder(STORAGE_CLASS, name).version(1).provisioner("csi.example.com")
    return builder.mode("WaitForFirstConsumer")


def make_csi_node(name: str = "n") -> CsiNodeBuilder:
    """A builder of a CSINode without drivers."""
    return CsiNodeBuilder(CSI_NODE, name).version(1)


def make_csi_driver(name: str = "csi.example.com") -> DriverBuilder:
    """A builder of a CSIDriver."""
    return DriverBuilder(CSI_DRIVER, name).version(1)


def make_storage_capacity(name: str = "cap") -> CapacityBuilder:
    """A builder of a CSIStorageCapacity."""
    return CapacityBuilder(CSI_STORAGE_CAPACITY, name).version(1).namespace("storage")


def make_volume_attachment(name: str = "va") -> AttachmentBuilder:
    """A builder of a VolumeAttachment."""
    return AttachmentBuilder(VOLUME_ATTACHMENT, name).version(1)

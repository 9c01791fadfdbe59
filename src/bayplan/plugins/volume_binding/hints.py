"""Events of storage objects after which a Pod rejected by VolumeBinding may fit."""

from __future__ import annotations

from bayplan.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan.api.pod import Pod
from bayplan.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint
from bayplan.plugins.shared.claims import uses_claim
from bayplan.plugins.shared.csi_migration import MIGRATED_PLUGINS
from bayplan.plugins.volume_binding.finder import volume_limit


def registrations() -> list[EventRegistration]:
    """The events and their hints."""
    changed = Action.ADD | Action.UPDATE
    claim, volume = PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME
    return [
        EventRegistration(ClusterEvent(STORAGE_CLASS, changed), class_changed),
        EventRegistration(ClusterEvent(claim, changed), claim_changed),
        EventRegistration(ClusterEvent(volume, changed)),
        EventRegistration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        EventRegistration(ClusterEvent(CSI_NODE, changed), csi_node_changed),
        EventRegistration(ClusterEvent(CSI_DRIVER, Action.UPDATE), driver_updated),
        EventRegistration(ClusterEvent(CSI_STORAGE_CAPACITY, changed), capacity_changed),
    ]


def _queue_if(useful: bool) -> Hint:
    return Hint.QUEUE if useful else Hint.SKIP


def class_changed(_pod: Pod, old: StorageClass | None, new: StorageClass) -> Hint:
    """A new class, or other topologies of one (its binding mode never changes)."""
    return _queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def claim_changed(pod: Pod, _old: object, new: PersistentVolumeClaim) -> Hint:
    """Any change of the Pod's own claims."""
    return _queue_if(uses_claim(pod, new))


def csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> Hint:
    """A new CSINode, or in-tree plugins that moved."""
    if old is None:
        return Hint.QUEUE
    before, after = (o.metadata.annotations.get(MIGRATED_PLUGINS) for o in (old, new))
    return _queue_if((before or "") != (after or ""))


def driver_updated(pod: Pod, old: CSIDriver, new: CSIDriver) -> Hint:
    """The driver of an inline volume no longer wants its capacity checked."""
    freed = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    inline = any(v.csi is not None and v.csi.driver == new.name for v in pod.spec.volumes)
    return _queue_if(freed and inline)


def capacity_changed(_pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    """New capacity, or more of it."""
    if old is None:
        return Hint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return _queue_if(after is not None and (before is None or after > before))

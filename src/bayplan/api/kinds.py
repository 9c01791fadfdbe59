"""The kinds that the scheduler watches: where they live in the API, and how to decode them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from bayplan.api import node, pod, storage, workloads

T = TypeVar("T")
Data = bytes | msgspec.Raw


@dataclass(frozen=True)
class Kind:
    """A watched kind.

    Attributes:
        path: API path of the collection over all namespaces, from the server's root.
        decode: one object from its JSON; raises msgspec.ValidationError.
        field_selector: what the server leaves out already.
    """

    name: str
    path: str
    decode: Callable[[Data], Any]
    field_selector: str = ""


def null_is_absent(decode: Callable[[Data], T]) -> Callable[[Data], T]:
    """``decode``, with null taken for absent.

    The API server writes an empty list as null where its Go field has no omitempty (the drivers of
    a CSINode, the names of an image). That is rare, so it costs only those objects.
    """

    def tolerant(data: Data) -> T:
        try:
            return decode(data)
        except msgspec.ValidationError:
            return decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(data))))

    return tolerant


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def _kind(path: str, cls: type) -> Kind:
    return Kind(cls.__name__, path, null_is_absent(msgspec.json.Decoder(cls).decode))


POD = Kind(
    "Pod",
    "/api/v1/pods",
    null_is_absent(pod.decode_pod),
    "status.phase!=Succeeded,status.phase!=Failed",
)
NODE = _kind("/api/v1/nodes", node.Node)
NAMESPACE = _kind("/api/v1/namespaces", workloads.Namespace)
PERSISTENT_VOLUME = _kind("/api/v1/persistentvolumes", storage.PersistentVolume)
PERSISTENT_VOLUME_CLAIM = _kind("/api/v1/persistentvolumeclaims", storage.PersistentVolumeClaim)
STORAGE_CLASS = _kind("/apis/storage.k8s.io/v1/storageclasses", storage.StorageClass)
CSI_NODE = _kind("/apis/storage.k8s.io/v1/csinodes", storage.CSINode)
CSI_DRIVER = _kind("/apis/storage.k8s.io/v1/csidrivers", storage.CSIDriver)
CSI_STORAGE_CAPACITY = _kind(
    "/apis/storage.k8s.io/v1/csistoragecapacities", storage.CSIStorageCapacity
)
VOLUME_ATTACHMENT = _kind("/apis/storage.k8s.io/v1/volumeattachments", storage.VolumeAttachment)
SERVICE = _kind("/api/v1/services", workloads.Service)
REPLICATION_CONTROLLER = _kind("/api/v1/replicationcontrollers", workloads.ReplicationController)
REPLICA_SET = _kind("/apis/apps/v1/replicasets", workloads.ReplicaSet)
STATEFUL_SET = _kind("/apis/apps/v1/statefulsets", workloads.StatefulSet)
POD_DISRUPTION_BUDGET = _kind("/apis/policy/v1/poddisruptionbudgets", workloads.PodDisruptionBudget)

KINDS: dict[str, Kind] = {
    k.name: k
    for k in (
        NODE,
        NAMESPACE,
        PERSISTENT_VOLUME,
        PERSISTENT_VOLUME_CLAIM,
        STORAGE_CLASS,
        CSI_NODE,
        CSI_DRIVER,
        CSI_STORAGE_CAPACITY,
        VOLUME_ATTACHMENT,
        SERVICE,
        REPLICATION_CONTROLLER,
        REPLICA_SET,
        STATEFUL_SET,
        POD_DISRUPTION_BUDGET,
        POD,
    )
}
"""By name; Pods last, so that a file or a first list has what they refer to before them."""

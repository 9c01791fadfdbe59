"""Kinds: the types of API objects, each described in one place.

A `Kind` has the API path of its objects, their Python type, and the name of their cluster events.
Plugins declare the kinds that they read (`Plugin.kinds`); the scheduler watches the union of those
and of `CORE_KINDS`. Kinds are compared by identity: two declarations are two kinds.

The reasons: docs/decisions/0016-kinds.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from bayplan.api import (
    batch,
    network,
    node,
    numa,
    pod,
    queues,
    resource,
    scheduling,
    storage,
    topology,
    workloads,
)
from bayplan.api.meta import GenericObject, Object, ObjectReference

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Data = bytes | msgspec.Raw


@dataclass(frozen=True, eq=False, repr=False)
class Kind(Generic[T_co]):
    """A kind of object, whose decoded type is ``T_co``.

    Attributes:
        name: as manifests write it, such as ``PersistentVolumeClaim``.
        api_version: ``v1``, or group and version, such as ``storage.k8s.io/v1``.
        plural: as paths and RBAC rules write it.
        namespaced: whether its objects are in namespaces.
        decode: one object from its JSON; raises msgspec.ValidationError.
        optional: whether an API server may lack it (the CRD is not installed, the API group is
            off). Then the scheduler starts without it, and takes it up when it appears.
        field_selector: which objects are watched; all when empty.
        namespace: in which they are watched; in all when empty.
        resource: what cluster events, and so kube-scheduler's metrics, call it.
        gate: the feature gate without which it is not watched; none when empty.
    """

    name: str
    api_version: str
    plural: str
    namespaced: bool
    decode: Callable[[Data], T_co]
    optional: bool = False
    field_selector: str = ""
    namespace: str = ""
    resource: str = ""
    gate: str = ""
    _root: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if not self.resource:
            name = f"{self.group}/{self.name}" if self.group else self.name
            object.__setattr__(self, "resource", name)
        prefix = "/apis/" if self.group else "/api/"
        object.__setattr__(self, "_root", prefix + self.api_version)

    @classmethod
    def of(
        cls,
        type_: type[T],
        api_version: str,
        plural: str,
        *,
        namespaced: bool,
        optional: bool = False,
        name: str = "",
        gate: str = "",
    ) -> Kind[T]:
        """A kind whose objects are decoded to ``type_``, a subclass of `bayplan.api.meta.Object`.

        Its name is that of the type unless ``name`` says otherwise.
        """
        decode = null_is_absent(msgspec.json.Decoder(type_).decode)
        name = name or type_.__name__
        return Kind(name, api_version, plural, namespaced, decode, optional, gate=gate)

    @staticmethod
    def generic(
        api_version: str, name: str, plural: str, *, namespaced: bool, optional: bool = True
    ) -> Kind[GenericObject]:
        """A kind without a type of its own, such as a CRD; the same one for the same arguments.

        As kube-scheduler does, events call it ``plural.version.group``.
        """
        return _generic(api_version, name, plural, namespaced, optional)

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "") -> str:
        """API path of the object called ``name``, or of the collection without a name.

        Without a namespace, the collection is what is watched.
        """
        namespace = namespace or self.namespace
        place = f"{self._root}/namespaces/{namespace}" if namespace else self._root
        return f"{place}/{self.plural}/{name}" if name else f"{place}/{self.plural}"

    def reference(self, obj: Object) -> ObjectReference:
        """How events name ``obj``, one of this kind."""
        meta = obj.metadata
        return ObjectReference(self.name, meta.namespace, meta.name, meta.uid, self.api_version)

    def __repr__(self) -> str:
        return f"Kind({self.api_version} {self.name})"


@cache
def _generic(
    api_version: str, name: str, plural: str, namespaced: bool, optional: bool
) -> Kind[GenericObject]:
    group, _, version = api_version.rpartition("/")
    return Kind(
        name,
        api_version,
        plural,
        namespaced,
        GenericObject.decode,
        optional,
        resource=f"{plural}.{version}.{group}" if group else name,
    )


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


_STORAGE = "storage.k8s.io/v1"
_RESOURCE = "resource.k8s.io/v1"

NODE = Kind.of(node.Node, "v1", "nodes", namespaced=False)
POD: Kind[pod.Pod] = Kind(
    "Pod",
    "v1",
    "pods",
    True,
    null_is_absent(pod.decode_pod),
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)
NAMESPACE = Kind.of(workloads.Namespace, "v1", "namespaces", namespaced=False)
PERSISTENT_VOLUME = Kind.of(storage.PersistentVolume, "v1", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIM = Kind.of(
    storage.PersistentVolumeClaim, "v1", "persistentvolumeclaims", namespaced=True
)
STORAGE_CLASS = Kind.of(storage.StorageClass, _STORAGE, "storageclasses", namespaced=False)
CSI_NODE = Kind.of(storage.CSINode, _STORAGE, "csinodes", namespaced=False)
CSI_DRIVER = Kind.of(storage.CSIDriver, _STORAGE, "csidrivers", namespaced=False)
CSI_STORAGE_CAPACITY = Kind.of(
    storage.CSIStorageCapacity, _STORAGE, "csistoragecapacities", namespaced=True
)
VOLUME_ATTACHMENT = Kind.of(
    storage.VolumeAttachment, _STORAGE, "volumeattachments", namespaced=False
)
SERVICE = Kind.of(workloads.Service, "v1", "services", namespaced=True)
REPLICATION_CONTROLLER = Kind.of(
    workloads.ReplicationController, "v1", "replicationcontrollers", namespaced=True
)
REPLICA_SET = Kind.of(workloads.ReplicaSet, "apps/v1", "replicasets", namespaced=True)
STATEFUL_SET = Kind.of(workloads.StatefulSet, "apps/v1", "statefulsets", namespaced=True)
POD_DISRUPTION_BUDGET = Kind.of(
    workloads.PodDisruptionBudget, "policy/v1", "poddisruptionbudgets", namespaced=True
)
PRIORITY_CLASS = Kind.of(
    workloads.PriorityClass, "scheduling.k8s.io/v1", "priorityclasses", namespaced=False
)
RESOURCE_SLICE = Kind.of(
    resource.ResourceSlice, _RESOURCE, "resourceslices", namespaced=False, optional=True
)
RESOURCE_CLAIM = Kind.of(
    resource.ResourceClaim, _RESOURCE, "resourceclaims", namespaced=True, optional=True
)
DEVICE_CLASS = Kind.of(
    resource.DeviceClass, _RESOURCE, "deviceclasses", namespaced=False, optional=True
)
DEVICE_TAINT_RULE = Kind.of(
    resource.DeviceTaintRule, _RESOURCE, "devicetaintrules", namespaced=False, optional=True
)
POD_GROUP = Kind.of(
    scheduling.PodGroup, "scheduling.x-k8s.io/v1alpha1", "podgroups", namespaced=True, optional=True
)
QUEUE = Kind.of(queues.Queue, "bayplan.dev/v1alpha1", "queues", namespaced=False, optional=True)
NODE_KIND = Kind.of(
    queues.NodeKind, "bayplan.dev/v1alpha1", "nodekinds", namespaced=False, optional=True
)
ELASTIC_QUOTA = Kind.of(
    scheduling.ElasticQuota,
    "scheduling.x-k8s.io/v1alpha1",
    "elasticquotas",
    namespaced=True,
    optional=True,
)
KUBERNETES_POD_GROUP = Kind.of(
    scheduling.KubernetesPodGroup,
    "scheduling.k8s.io/v1beta1",
    "podgroups",
    namespaced=True,
    optional=True,
    name="PodGroup",
)
COMPOSITE_POD_GROUP = Kind.of(
    scheduling.CompositePodGroup,
    "scheduling.k8s.io/v1alpha3",
    "compositepodgroups",
    namespaced=True,
    optional=True,
    gate="CompositePodGroup",
)
TOPOLOGY = Kind.of(
    topology.Topology, "kueue.x-k8s.io/v1beta1", "topologies", namespaced=False, optional=True
)
NODE_RESOURCE_TOPOLOGY = Kind.of(
    numa.NodeResourceTopology,
    "topology.node.k8s.io/v1alpha2",
    "noderesourcetopologies",
    namespaced=False,
    optional=True,
)
APP_GROUP = Kind.of(
    network.AppGroup,
    "appgroup.diktyo.x-k8s.io/v1alpha1",
    "appgroups",
    namespaced=True,
    optional=True,
)
NETWORK_TOPOLOGY = Kind.of(
    network.NetworkTopology,
    "networktopology.diktyo.x-k8s.io/v1alpha1",
    "networktopologies",
    namespaced=True,
    optional=True,
)
JOB = Kind.of(batch.Job, "batch/v1", "jobs", namespaced=True, optional=True)
JOB_SET = Kind.of(
    batch.JobSet, "jobset.x-k8s.io/v1alpha2", "jobsets", namespaced=True, optional=True
)
LEADER_WORKER_SET = Kind.of(
    batch.LeaderWorkerSet,
    "leaderworkerset.x-k8s.io/v1",
    "leaderworkersets",
    namespaced=True,
    optional=True,
)

CORE_KINDS: tuple[Kind[object], ...] = (NODE, NAMESPACE, POD)
"""What the scheduler watches whatever its plugins are."""

KINDS: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in vars().copy().values()
    if isinstance(kind, Kind) and kind is not KUBERNETES_POD_GROUP
} | {"PodGroup.scheduling.k8s.io": KUBERNETES_POD_GROUP}
"""By name, those above: all that bayplan has a type for; the second of one name with its group."""

EVENT = Kind.generic("events.k8s.io/v1", "Event", "events", namespaced=True)
LEASE = Kind.generic("coordination.k8s.io/v1", "Lease", "leases", namespaced=True)
"""These two are only written."""

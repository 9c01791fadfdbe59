"""Pods: their wire form, and `Pod`, the flat form that the whole pipeline works on.

Pods of one Deployment differ in name, uid, node and perhaps in the claims of their volumes, and in
nothing else that scheduling reads. The common part is interned as one `PodShape`. Requests and
compiled terms are computed once per shape, and results that depend only on the shape are cached by
it. kube-scheduler's Pod signature has the same purpose.

Pods of a StatefulSet or an indexed Job have individual labels, others individual sizes. So the spec
of a shape has two parts that are interned separately, `PodShape.requests` and
`PodShape.constraints`. Results that depend on one part only are cached by that part.

The reasons: docs/decisions/0003-pod-shapes.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from types import MethodType
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from bayplan.api.frozen_dict import FrozenDict
from bayplan.api.meta import Condition, ObjectMeta, Wire
from bayplan.api.pod_spec import (
    Container,
    PodSpec,
    PvcVolumeSource,
    ResourceRequirements,
    Resources,
    Volume,
)

T = TypeVar("T")

DROPPED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
DISRUPTION_TARGET = "DisruptionTarget"
"""Type of the condition of a Pod that is evicted."""
PREEMPTED = "PreemptionByScheduler"
"""Reason of that condition where a scheduler has preempted the Pod."""


class _WireClaim(PvcVolumeSource, frozen=True):
    """PvcVolumeSource as decoded: with the name."""

    claim_name: str = ""


class _Local(Wire, frozen=True):
    """A volume on the node; `medium` Memory is none."""

    medium: str = ""


class _WireVolume(Volume, frozen=True):
    """Volume as decoded."""

    persistent_volume_claim: _WireClaim | None = None
    empty_dir: _Local | None = None
    host_path: _Local | None = None

    @property
    def matters(self) -> bool:
        """See `Volume.matters`; scheduling does not read files of the node."""
        return self != type(self)(self.name, empty_dir=self.empty_dir, host_path=self.host_path)

    @property
    def is_local(self) -> bool:
        """Whether what is in it is lost on another node."""
        local = self.empty_dir or self.host_path
        return local is not None and local.medium != "Memory"


class _WireSchedulingGroup(Wire, frozen=True):
    """spec.schedulingGroup."""

    pod_group_name: str | None = None


class _WireSpec(PodSpec, frozen=True):
    """PodSpec as decoded: with the fields in which siblings differ."""

    volumes: tuple[_WireVolume, ...] = ()
    node_name: str = ""
    scheduling_group: _WireSchedulingGroup | None = None


class ContainerStatus(Wire, frozen=True):
    """What the kubelet has granted a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}


class PodResourceClaimStatus(Wire, frozen=True):
    """The claim that was made for an entry of spec.resourceClaims; no name: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Wire, frozen=True):
    """The part of status that scheduling reads."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class WirePod(Wire, frozen=True):
    """A Pod as the API server sends it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WireSpec = _WireSpec()
    status: PodStatus = PodStatus()


class _Interned:
    """Something of which equal ones are the same object; `id` is never used twice."""

    __slots__ = ("_memo", "id", "spec")

    _ids: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.id = next(_Interned._ids)
        self._memo: dict[Any, Any] = {}

    def memo(self, compute: Callable[[Self], T]) -> T:
        """``compute(self)``, computed once.

        Shapes outlive plugins, so ``compute`` is a function of a module. What depends on a plugin's
        settings is cached by the plugin itself.

        Raises:
            TypeError: ``compute`` is a method.
        """
        try:
            return self._memo[compute]  # type: ignore[no-any-return]
        except KeyError:
            if isinstance(compute, MethodType):
                raise TypeError(f"{compute} would keep its object alive in every shape") from None
            value = self._memo[compute] = compute(self)
            return value


class SpecPart(_Interned):
    """A part of a spec: `spec` has nothing but the fields of that part."""

    __slots__ = ()


class Spec(_Interned):
    """A whole spec, divided into two parts: every field is in exactly one part.

    Attributes:
        requests: what the containers request, overhead, and Pod-level resources.
        constraints: everything else.
    """

    __slots__ = ("constraints", "requests")

    _specs: ClassVar[dict[bytes, Spec]] = {}
    _parts: ClassVar[dict[bytes, SpecPart]] = {}

    def __init__(self, spec: PodSpec) -> None:
        super().__init__(spec)
        self.requests = self._part(_only_requests(spec))
        self.constraints = self._part(_without_requests(spec))

    @classmethod
    def of(cls, spec: PodSpec) -> Spec:
        """The one object for ``spec``."""
        return _intern(cls._specs, _encode(spec), lambda: cls(spec))

    @classmethod
    def _part(cls, spec: PodSpec) -> SpecPart:
        return _intern(cls._parts, _encode(spec), lambda: SpecPart(spec))


class PodShape(_Interned):
    """What Pods of one template in one namespace share; equal shapes are the same object.

    Whoever computes something from the shape alone (compiled terms) keeps it with `memo`; what
    follows from a part of it is kept with the `memo` of `requests` or `constraints`.
    """

    __slots__ = ("constraints", "labels", "namespace", "owner", "requests")

    _interned: ClassVar[dict[bytes, PodShape]] = {}

    def __init__(
        self, namespace: str, labels: dict[str, str], owner: tuple[str, str], spec: Spec
    ) -> None:
        super().__init__(spec.spec)
        self.namespace = namespace
        self.labels: dict[str, str] = FrozenDict(labels)
        self.owner = owner
        self.requests = spec.requests
        self.constraints = spec.constraints

    @classmethod
    def of(cls, wire: WirePod) -> PodShape:
        """The one shape of this Pod and its siblings."""
        meta, spec = wire.metadata, wire.spec
        owner = _owner(meta)
        volumes = tuple(_nameless(v) for v in spec.volumes if v.matters) if spec.volumes else ()
        shared = Spec.of(_shared(spec, volumes))
        key = _encode((meta.namespace, meta.labels, owner, shared.id))
        return _intern(cls._interned, key, lambda: cls(meta.namespace, meta.labels, owner, shared))


MAX_SHAPES = 65536
"""Most interned shapes; then the table is cleared (equal Pods may get a second shape)."""


def _intern(interned: dict[bytes, T], key: bytes, make: Callable[[], T]) -> T:
    value = interned.get(key)
    if value is None:
        if len(interned) >= MAX_SHAPES:
            interned.clear()
        value = interned[key] = make()
    return value


def _only_requests(spec: PodSpec) -> PodSpec:
    def requests(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            Container(resources=c.resources, restart_policy=c.restart_policy) for c in containers
        )

    return PodSpec(
        containers=requests(spec.containers),
        init_containers=requests(spec.init_containers),
        overhead=spec.overhead,
        resources=spec.resources,
    )


def _without_requests(spec: PodSpec) -> PodSpec:
    def constraints(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(msgspec.structs.replace(c, resources=_NO_RESOURCES) for c in containers)

    return msgspec.structs.replace(
        spec,
        containers=constraints(spec.containers),
        init_containers=constraints(spec.init_containers),
        overhead={},
        resources=None,
    )


_NO_RESOURCES = ResourceRequirements()

_encode = msgspec.json.Encoder().encode
_SOME_CLAIM = PvcVolumeSource()
_shared_values = attrgetter(*PodSpec.__struct_fields__)
_VOLUMES = PodSpec.__struct_fields__.index("volumes")


def _owner(meta: ObjectMeta) -> tuple[str, str]:
    owner = meta.controller
    return (f"{owner.api_version}/{owner.kind}", owner.name) if owner else ("", "")


def _nameless(volume: _WireVolume) -> Volume:
    if volume.persistent_volume_claim is None:
        return volume
    return msgspec.structs.replace(volume, persistent_volume_claim=_SOME_CLAIM)


def _claim_names(volumes: tuple[_WireVolume, ...]) -> tuple[str, ...]:
    claims = [c for v in volumes if (c := v.persistent_volume_claim) is not None]
    return tuple([claim.claim_name for claim in claims]) if claims else ()


def _shared(spec: _WireSpec, volumes: tuple[Volume, ...]) -> PodSpec:
    values = list(_shared_values(spec))
    values[_VOLUMES] = volumes
    return PodSpec(*values)


class Pod:
    """A Pod as the pipeline sees it; immutable.

    Attributes:
        spec: the shared `PodSpec`; `node_name`, `claim_names` and `pod_group` stand apart because
            siblings differ in them.
        claim_names: names of the PersistentVolumeClaims that volumes name, in their order; they
            never change. Claims of generic ephemeral volumes are named after the Pod.
        pod_group: spec.schedulingGroup.podGroupName, which never changes; "" for none.
        local_storage: whether it has files on its node, which are lost elsewhere.
        shape: the interned `PodShape`; ``pod.shape is other.shape`` for siblings.
        deleted: deletionTimestamp, or None while the Pod is not terminating.
        controller: apiVersion/kind and name of the controlling owner, both empty without one.
    """

    __slots__ = (
        "_annotations",
        "claim_names",
        "created",
        "deleted",
        "generation",
        "local_storage",
        "name",
        "node_name",
        "pod_group",
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
        self.claim_names = _claim_names(wire.spec.volumes) if wire.spec.volumes else ()
        self.local_storage = any(volume.is_local for volume in wire.spec.volumes)
        group = wire.spec.scheduling_group
        self.pod_group = "" if group is None else group.pod_group_name or ""
        self.status = wire.status
        self._annotations: dict[str, str] | None = None
        if meta.annotations:
            kept = {k: v for k, v in meta.annotations.items() if k != DROPPED_ANNOTATION}
            self._annotations = FrozenDict(kept) if kept else None

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

    def annotated_like(self, other: Pod) -> bool:
        """Whether both have the same annotations."""
        return self._annotations == other._annotations

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

    @property
    def is_preempted(self) -> bool:
        """Whether the Pod is terminating because a scheduler has preempted it."""
        if self.deleted is None:
            return False
        conditions = (c for c in self.status.conditions if c.type == DISRUPTION_TARGET)
        target = next(conditions, None)
        return target is not None and target.status == "True" and target.reason == PREEMPTED

    def on_node(self, node_name: str) -> Pod:
        """A copy that is assigned to ``node_name``."""
        copy = self._copy()
        copy.node_name = node_name
        return copy

    def off_node(self) -> Pod:
        """A pending copy: without node, and without what the kubelet says."""
        copy = self._copy()
        copy.node_name = ""
        claims = self.status.resource_claim_statuses
        copy.status = PodStatus(resource_claim_statuses=claims)
        return copy

    def nominated_to(self, node_name: str) -> Pod:
        """A copy whose status names ``node_name`` as the nominated node."""
        copy = self._copy()
        copy.status = msgspec.structs.replace(self.status, nominated_node_name=node_name)
        return copy

    def stand_in(self) -> Pod:
        """A pending copy with a uid of its own."""
        copy = self.off_node()
        copy.uid = f"stand-in/{self.uid}"
        return copy

    def evicted(self, condition: Condition, at: datetime) -> Pod:
        """A copy as the API server will show the Pod: with ``condition``, and deleted ``at``."""
        others = (c for c in self.status.conditions if c.type != condition.type)
        copy = self._copy()
        copy.deleted = at
        copy.status = msgspec.structs.replace(self.status, conditions=(*others, condition))
        return copy

    def _copy(self) -> Pod:
        copy = object.__new__(Pod)
        copy.name = self.name
        copy.uid = self.uid
        copy.resource_version = self.resource_version
        copy.generation = self.generation
        copy.local_storage = self.local_storage
        copy.created = self.created
        copy.deleted = self.deleted
        copy.shape = self.shape
        copy.node_name = self.node_name
        copy.claim_names = self.claim_names
        copy.pod_group = self.pod_group
        copy.status = self.status
        copy._annotations = self._annotations
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

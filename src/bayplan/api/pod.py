"""Pods: their wire form, and `Pod`, the flat form that the whole pipeline works on.

A Pod of a Deployment differs from its siblings in name, uid, node and perhaps in which claims its
volumes name, not in what it asks for. So everything scheduling-relevant that siblings share is
interned as one `PodShape`: memory and the work of deriving requests or compiling terms are paid
once per shape, and results that depend on the shape alone are cached by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter
from types import MethodType
from typing import Any, ClassVar, TypeVar

import msgspec

from bayplan.api.meta import ObjectMeta, Wire
from bayplan.api.pod_spec import (
    PodSpec,
    PvcVolumeSource,
    ResourceRequirements,
    Resources,
    Volume,
)

T = TypeVar("T")

DROPPED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


class _WireClaim(PvcVolumeSource, frozen=True):
    """PvcVolumeSource as decoded: with the name."""

    claim_name: str = ""


class _WireVolume(Volume, frozen=True):
    """Volume as decoded."""

    persistent_volume_claim: _WireClaim | None = None


class _WireSpec(PodSpec, frozen=True):
    """PodSpec as decoded: with the fields in which siblings differ."""

    volumes: tuple[_WireVolume, ...] = ()
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
        """``compute(self)``, computed once per shape.

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

    @classmethod
    def of(cls, wire: WirePod) -> PodShape:
        """The one shape of this Pod and its siblings."""
        meta, spec = wire.metadata, wire.spec
        owner = _owner(meta)
        volumes = tuple(_nameless(v) for v in spec.volumes if v.matters) if spec.volumes else ()
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
    """A Pod as the pipeline sees it; never changed after it was built.

    Attributes:
        spec: the shared `PodSpec`; `node_name` and `claim_names` stand apart because siblings
            differ in them.
        claim_names: names of the PersistentVolumeClaims that volumes name, in their order; they
            never change. Claims of generic ephemeral volumes are named after the Pod.
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
        self.claim_names = _claim_names(wire.spec.volumes) if wire.spec.volumes else ()
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

"""Stripped: an object with nothing but what scheduling reads.

An object is decoded to the type that the scheduler uses, and encoded again: what has no field there
(environment, commands, probes, names of secrets, times of heartbeats, managed fields) is left out.
So are resource versions, and annotations that no plugin of bayplan reads. An object of a kind
without a type of bayplan's own, which a user's plugin declares, keeps all but these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from bayplan.api.kinds import POD, Data, Kind, null_is_absent
from bayplan.api.meta import GenericObject, Object, ObjectMeta
from bayplan.api.pod import DISRUPTION_TARGET, WirePod
from bayplan.plugins.preemption_toleration import MINIMUM, SECONDS
from bayplan.plugins.shared.claims import BETA_CLASS
from bayplan.plugins.shared.csi_migration import MIGRATED_PLUGINS
from bayplan.plugins.shared.device_tracker import ANNOTATION as EXTENDED_CLAIM
from bayplan.plugins.volume_binding.binding import BIND_COMPLETED, BOUND_BY_CONTROLLER
from bayplan.plugins.volume_binding.finder import SELECTED_NODE

OWN_PREFIX = "bayplan.dev/"
KEPT_ANNOTATIONS = frozenset(
    {
        BETA_CLASS,
        BIND_COMPLETED,
        BOUND_BY_CONTROLLER,
        MIGRATED_PLUGINS,
        MINIMUM,
        SECONDS,
        SELECTED_NODE,
        EXTENDED_CLAIM,
        "topology.node.k8s.io/fingerprint",
    }
)
"""Annotations that plugins of bayplan read, besides those with `OWN_PREFIX`."""
KEPT_CONDITIONS = frozenset(
    {"PodScheduled", DISRUPTION_TARGET, "PodResizePending", "PodResizeInProgress"}
)
_decode_wire = null_is_absent(msgspec.json.Decoder(WirePod).decode)
_encode = msgspec.json.Encoder().encode


class Stripped(msgspec.Struct, frozen=True):
    """An object of any kind.

    Attributes:
        body: its JSON.
        deleted: its deletionTimestamp; "" without one.
        ended: whether it is a Pod that has succeeded or failed.
    """

    key: str
    uid: str
    body: bytes
    resource_version: str = ""
    deleted: str = ""
    ended: bool = False


def stripping(kind: Kind[Any], annotations: Collection[str] = ()) -> Kind[Stripped]:
    """``kind``, whose objects are decoded to `Stripped`.

    Args:
        kind: the kind.
        annotations: to be kept besides `KEPT_ANNOTATIONS`.
    """
    kept = KEPT_ANNOTATIONS.union(annotations)
    strip = _pod_stripper(kept) if kind is POD else _stripper(kind.decode, kept)
    return replace(kind, decode=strip)


def _pod_stripper(kept: Collection[str]) -> Callable[[Data], Stripped]:
    def strip(data: Data) -> Stripped:
        wire = _decode_wire(data)
        conditions = (c for c in wire.status.conditions if c.type in KEPT_CONDITIONS)
        ended = wire.status.phase in ("Succeeded", "Failed")
        pod = WirePod(
            msgspec.structs.replace(_metadata(wire.metadata, kept), generation=0),
            msgspec.structs.replace(
                wire.spec, volumes=tuple(v for v in wire.spec.volumes if v.matters)
            ),
            msgspec.structs.replace(wire.status, conditions=tuple(conditions)),
        )
        return _stripped(wire.metadata, _encode(pod), ended=ended)

    return strip


def _stripper(
    decode: Callable[[Data], Object], kept: Collection[str]
) -> Callable[[Data], Stripped]:
    def strip(data: Data) -> Stripped:
        obj = decode(data)
        metadata = _metadata(obj.metadata, kept)
        if isinstance(obj, GenericObject):
            fields = {
                **obj.data,
                "metadata": _generic_metadata(obj.data.get("metadata", {}), metadata),
            }
            return _stripped(obj.metadata, _encode(fields))
        return _stripped(obj.metadata, _encode(msgspec.structs.replace(obj, metadata=metadata)))

    return strip


def _metadata(meta: ObjectMeta, kept: Collection[str]) -> ObjectMeta:
    annotations = {
        key: text
        for key, text in meta.annotations.items()
        if key in kept or key.startswith(OWN_PREFIX)
    }
    return msgspec.structs.replace(meta, resource_version="", annotations=annotations)


def _generic_metadata(fields: Mapping[str, Any], kept: ObjectMeta) -> dict[str, Any]:
    left = {k: v for k, v in fields.items() if k not in ("resourceVersion", "annotations")}
    return {**left, "annotations": kept.annotations} if kept.annotations else left


def _stripped(meta: ObjectMeta, body: bytes, *, ended: bool = False) -> Stripped:
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    deleted = meta.deletion_timestamp
    when = "" if deleted is None else deleted.isoformat()
    return Stripped(key, meta.uid, body, meta.resource_version, when, ended)

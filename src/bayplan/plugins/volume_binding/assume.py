"""Assumed volumes and claims: with decisions that the API server does not have yet.

Reserve assumes a changed object. It replaces the stored object until that changes for any reason
(our own write, for example), or until the Pod is unreserved. Scheduling thread only. All profiles
share one `Volumes`, so that no two of them use the same volume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, TypeVar

from bayplan.api.kinds import (
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    Kind,
)
from bayplan.api.meta import Object
from bayplan.api.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeNodeAffinity,
)
from bayplan.cache.index import discard
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.shared import reach
from bayplan.plugins.shared.claims import volume_class
from bayplan.plugins.shared.reach import Reach

T = TypeVar("T", bound=Object)

PlacedCapacity = tuple[CSIStorageCapacity, Reach]
"""What a driver has published, and for which nodes."""

_NO_CLAIM = ""


class AssumeCache(Generic[T]):
    """Objects of one kind, assumed ones first."""

    def __init__(self, objects: ObjectStore, kind: Kind[T]) -> None:
        self._objects = objects
        self._kind = kind
        self._assumed: dict[str, T] = {}
        objects.on_change(kind, self._changed)

    def get(self, key: str) -> T | None:
        """The assumed object, the stored one, or None."""
        return self._assumed.get(key) or self._objects.get(self._kind, key)

    def assume(self, obj: T) -> None:
        """From now on ``obj``, made from the stored object, is what `get` returns."""
        self._assumed[obj.key] = obj

    def restore(self, obj: T) -> None:
        """Undo `assume`, unless the object has changed since or another one was assumed."""
        if self._assumed.get(obj.key) is obj:
            del self._assumed[obj.key]

    def _changed(self, old: T | None, new: T | None) -> None:
        changed = new or old
        assert changed is not None
        assumed = self._assumed.get(changed.key)
        if assumed is None:
            return
        if new is None or new.metadata.resource_version != assumed.metadata.resource_version:
            del self._assumed[changed.key]


class Volumes:
    """Claims and volumes with what is assumed of them, and what there is of each StorageClass."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects
        self.claims = AssumeCache(objects, PERSISTENT_VOLUME_CLAIM)
        self.volumes = AssumeCache(objects, PERSISTENT_VOLUME)
        self._names: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        """StorageClass and the claim that the volume names, if any -> names of such volumes."""
        self._capacities_of: dict[str, dict[str, PlacedCapacity]] = defaultdict(dict)
        self._reaches: dict[str, tuple[VolumeNodeAffinity | None, Reach]] = {}
        objects.on_change(PERSISTENT_VOLUME, self._volume_changed)
        objects.on_change(CSI_STORAGE_CAPACITY, self._capacity_changed)

    def candidates(
        self, class_name: str, claims: Iterable[PersistentVolumeClaim]
    ) -> list[PersistentVolume]:
        """Volumes of a StorageClass without a claim, then volumes with one of ``claims``.

        Each kind is in the order in which its volumes were first seen to be so. A volume that is
        assumed to be another claim's is among them until that is written.
        """
        names = dict(self._names.get((class_name, _NO_CLAIM), ()))
        for claim in claims:
            names.update(self._names.get((class_name, claim.key), ()))
        volumes = map(self.volumes.get, names)
        return [volume for volume in volumes if volume is not None]

    def reach_of(self, volume: PersistentVolume) -> Reach:
        """From where ``volume`` can be reached; computed once per volume."""
        affinity = volume.spec.node_affinity
        cached = self._reaches.get(volume.name)
        if cached is None or cached[0] is not affinity:
            cached = self._reaches[volume.name] = (affinity, reach.of_affinity(affinity))
        return cached[1]

    def capacities(self, class_name: str) -> list[PlacedCapacity]:
        """What CSI drivers have published of the class."""
        return list(self._capacities_of.get(class_name, {}).values())

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and (new is None or _place(old) != _place(new)):
            discard(self._names, _place(old), old.name)
        if old is not None and new is None:
            self._reaches.pop(old.name, None)
        if new is not None:
            self._names[_place(new)][new.name] = None

    def _capacity_changed(
        self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
    ) -> None:
        if old is not None:
            del self._capacities_of[old.storage_class_name][old.key]
        if new is not None:
            reached = reach.of_selector(new.node_topology)
            self._capacities_of[new.storage_class_name][new.key] = new, reached


def _place(volume: PersistentVolume) -> tuple[str, str]:
    """Class and claim under which a volume is looked up."""
    ref = volume.spec.claim_ref
    return volume_class(volume), _NO_CLAIM if ref is None else f"{ref.namespace}/{ref.name}"

"""Prior: what a scheduler's PreBind has written for a Pod before it was bound, to be looked past.

A Pod with volumes or devices is decided first; then claims and volumes are written, and only then
the binding. So when the binding is seen, the claims say already where the Pod has gone. `Prior`
remembers the versions from before, and `Written.undone` puts them back while we decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bayplan.api.kinds import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    RESOURCE_CLAIM,
    STORAGE_CLASS,
    Kind,
)
from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.api.storage import PersistentVolume, PersistentVolumeClaim
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.shared.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_uses,
    volume_class,
)

KINDS = frozenset({PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM})
"""What PreBind writes."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
Key = tuple[Kind[Any], str]


class Written(NamedTuple):
    """An object that PreBind has changed, or made where ``before`` is None."""

    kind: Kind[Any]
    key: str
    before: Any

    @contextmanager
    def undone(self, objects: ObjectStore) -> Iterator[None]:
        """Within it the object is as before."""
        now = objects.get(self.kind, self.key)
        if now is None or now is self.before:
            yield
            return
        if self.before is None:
            objects.remove(self.kind, self.key)
        else:
            objects.set(self.kind, self.before)
        try:
            yield
        finally:
            objects.set(self.kind, now)


class Prior:
    """See the module's docstring. Scheduling thread only."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._before: dict[Key, Any] = {}
        self._users: dict[str, set[Key]] = {}
        """By uid of a Pod: ResourceClaims that were allocated for it."""

    def note(self, kind: Kind[Any], obj: Any) -> None:
        """``obj`` is about to replace what the store has."""
        key, old = (kind, obj.key), self._objects.get(kind, obj.key)
        if not self._given(obj):
            self._before.pop(key, None)
        elif key not in self._before and not self._given(old) and self._is_written(old, obj):
            self._before[key] = old
            if isinstance(obj, ResourceClaim):
                for user in obj.status.reserved_for:
                    self._users.setdefault(user.uid, set()).add(key)

    def gone(self, kind: Kind[Any], key: str) -> None:
        """The object was removed."""
        self._before.pop((kind, key), None)

    def written(self, pod: Pod) -> tuple[Written, ...]:
        """What was written for ``pod``."""
        keys = (key for key in self._keys(pod) if key in self._before)
        return tuple(Written(*key, self._before[key]) for key in keys)

    def forget(self, pod: Pod) -> None:
        """The Pod is bound, or gone: from now on what was written counts."""
        for key in self._keys(pod):
            self._before.pop(key, None)
        self._users.pop(pod.uid, None)

    def _keys(self, pod: Pod) -> Iterator[Key]:
        yield from self._users.get(pod.uid, ())
        for use in claim_uses(pod):
            name = f"{pod.namespace}/{use.name}"
            yield PERSISTENT_VOLUME_CLAIM, name
            claim = self._objects.get(PERSISTENT_VOLUME_CLAIM, name)
            if claim is not None and claim.spec.volume_name:
                yield PERSISTENT_VOLUME, claim.spec.volume_name

    def _is_written(self, old: Any, obj: Any) -> bool:
        """Whether a scheduler has written its decision."""
        match obj:
            case PersistentVolumeClaim():
                return old is not None and self._waits_for_consumer(claim_class(obj))
            case PersistentVolume():
                return self._waits_for_consumer(volume_class(obj))
        return True

    def _waits_for_consumer(self, name: str) -> bool:
        storage = self._objects.get(STORAGE_CLASS, name)
        return storage is not None and storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    @staticmethod
    def _given(obj: Any) -> bool:
        """Whether it is decided where the object belongs."""
        match obj:
            case ResourceClaim():
                return obj.status.allocation is not None
            case PersistentVolumeClaim():
                return bool(obj.spec.volume_name) or SELECTED_NODE in obj.metadata.annotations
            case PersistentVolume():
                return obj.spec.claim_ref is not None
        return False

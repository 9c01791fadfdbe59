"""BindingTask: writes a Pod's volume decisions to the API server and waits until they are done.

The scheduler writes the claim into a chosen volume, or the chosen node into a claim; the PV
controller and the provisioners do the rest. A task is made at Reserve, on the scheduling thread,
and carried out by a binding worker. The worker never reads the cluster cache: the scheduling thread
hands every change of the task's objects over (`tasks`), and the one of the two that completes the
picture settles the outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import msgspec

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.api.meta import Object
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.storage import (
    ClaimReference,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from bayplan.client.connection import MERGE_PATCH
from bayplan.client.errors import ApiError
from bayplan.framework.handle import ClusterWriter
from bayplan.plugins.shared import reach
from bayplan.plugins.shared.claims import not_found
from bayplan.plugins.shared.csi_migration import TranslationError, migrated_affinity, plugin_of
from bayplan.plugins.shared.csi_nodes import migrated_plugins
from bayplan.plugins.volume_binding.finder import SELECTED_NODE, PodVolumes
from bayplan.plugins.volume_binding.matching import names

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class _FailedError(Exception):
    """The binding can no longer succeed; the Pod must be scheduled again."""


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the PV controller has finished with ``claim``."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """``volume`` as bound to ``claim``; the same object if already bound."""
    annotations = volume.metadata.annotations
    if not names(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = annotations | {BOUND_BY_CONTROLLER: "yes"}
    ref = ClaimReference("PersistentVolumeClaim", claim.namespace, claim.name, claim.uid)
    old, key = volume.spec.claim_ref, (claim.namespace, claim.name, claim.uid)
    same = old is not None and (old.namespace, old.name, old.uid) == key
    if same and annotations is volume.metadata.annotations:
        return volume
    replace = msgspec.structs.replace
    return replace(
        volume,
        metadata=replace(volume.metadata, annotations=annotations),
        spec=replace(volume.spec, claim_ref=ref),
    )


def selected_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """``claim`` with ``node_name`` selected for provisioning."""
    annotations = claim.metadata.annotations | {SELECTED_NODE: node_name}
    replace = msgspec.structs.replace
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


class BindingTask:
    """What is to be written and waited for, for one Pod on one node.

    Attributes:
        written: keys of the objects whose change has reached the API server.
    """

    def __init__(self, pod: Pod, node: Node, csi_node: CSINode | None, found: PodVolumes) -> None:
        self.pod = pod
        self.node: Node | None = node
        self.csi_node = csi_node
        self.static = [(claim, volume, bound_to(volume, claim)) for claim, volume in found.static]
        self.provisions = [(claim, selected_for(claim, node.name)) for claim in found.provisions]
        self.written: set[str] = set()
        self._node_name = node.name
        self._claim_uids = {claim.uid for claim, _ in self.provisions}
        self._claims = {c.key: c for c in (*(s[0] for s in self.static), *found.provisions)}
        self._claim_keys = frozenset(self._claims)
        self._volumes = {volume.name: volume for _, volume, _ in self.static}
        self._expected: dict[str, str] | None = None
        """Resource versions, by key, that our own writes made."""
        self._pod_gone = False
        self._lock = threading.Lock()
        self._outcome: Future[str | None] = Future()

    @property
    def volumes(self) -> Iterable[PersistentVolume]:
        """The volumes as they will be."""
        return (after for _, _, after in self.static)

    @property
    def claims(self) -> Iterable[PersistentVolumeClaim]:
        """The claims to be provisioned as they will be."""
        return (after for _, after in self.provisions)

    # Binding worker

    def run(self, writer: ClusterWriter, timeout: float) -> str | None:
        """Write and wait, at most ``timeout`` seconds after the last write.

        Returns:
            None on success, else what went wrong.
        """
        try:
            expected = self._write(writer)
        except ApiError as error:
            return str(error)
        with self._lock:
            self._expected = expected
            self._settle()
        try:
            trouble = self._outcome.result(timeout)
        except TimeoutError:
            trouble = "context deadline exceeded"
        return f"binding volumes: {trouble}" if trouble else None

    def give_up(self) -> None:
        """Wait no longer. Any thread."""
        with self._lock:
            if not self._outcome.done():
                self._outcome.set_result("context canceled")

    def _write(self, writer: ClusterWriter) -> dict[str, str]:
        """Send what differs from what is stored; returns the resource versions to look out for."""
        versions = {}
        for claim, before, after in self.static:
            stored = before
            if after is not before:
                path = PERSISTENT_VOLUME.path(name=after.name)
                body = _volume_patch(after, claim)
                stored = PERSISTENT_VOLUME.decode(writer.patch(path, body, MERGE_PATCH))
            self.written.add(after.key)
            versions[after.key] = stored.metadata.resource_version
        for _, after_claim in self.provisions:
            path = PERSISTENT_VOLUME_CLAIM.path(after_claim.namespace, after_claim.name)
            body = _patch(after_claim, {SELECTED_NODE: self._node_name}, {})
            written = PERSISTENT_VOLUME_CLAIM.decode(writer.patch(path, body, MERGE_PATCH))
            self.written.add(after_claim.key)
            versions[after_claim.key] = written.metadata.resource_version
        return versions

    # Scheduling thread

    def volume_changed(self, name: str, volume: PersistentVolume | None) -> None:
        """A volume is new, changed or gone (None)."""
        ref = volume.spec.claim_ref if volume is not None else None
        if name in self._volumes or (ref is not None and ref.uid in self._claim_uids):
            with self._lock:
                _put(self._volumes, name, volume)
                self._settle()

    def claim_changed(self, key: str, claim: PersistentVolumeClaim | None) -> None:
        """A claim is new, changed or gone (None)."""
        if key in self._claim_keys:
            with self._lock:
                _put(self._claims, key, claim)
                self._settle()

    def node_changed(self, node: Node | None) -> None:
        """The node has changed or is gone (None)."""
        with self._lock:
            self.node = node
            self._settle()

    def csi_node_changed(self, csi_node: CSINode | None) -> None:
        """The CSINode of the node is new, changed or gone (None)."""
        with self._lock:
            self.csi_node = csi_node

    def pod_changed(self, gone: bool) -> None:
        """The Pod no longer counts on its node, or does again."""
        with self._lock:
            self._pod_gone = gone
            self._settle()

    # Both, with the lock

    def _settle(self) -> None:
        """Set the outcome if there is one by now; see checkBindings."""
        if self._expected is None or self._outcome.done():
            return
        try:
            if self._is_bound():
                self._outcome.set_result(None)
        except _FailedError as error:
            self._outcome.set_result(str(error))

    def _is_bound(self) -> bool:
        if self.node is None:
            missing = not_found("node", self._node_name)
            raise _FailedError(f'failed to get node "{self._node_name}": {missing}')
        if self._pod_gone:
            raise _FailedError(f"pod does not exist any more: {not_found('pod', self.pod.name)}")
        static = all(self._is_static_bound(after, claim) for claim, _, after in self.static)
        return static and all(self._is_provisioned(claim) for claim, _ in self.provisions)

    def _is_static_bound(self, chosen: PersistentVolume, wanted: PersistentVolumeClaim) -> bool:
        volume = self._volumes.get(chosen.name)
        if volume is None:
            missing = not_found("persistentvolumes", chosen.name)
            raise _FailedError(f"failed to check binding: {missing}")
        claim = self._claims.get(wanted.key)
        if claim is None:
            missing = not_found("persistentvolumeclaims", wanted.key)
            raise _FailedError(f"failed to check binding: {missing}")
        if self._is_outdated(volume):
            return False
        self._check_reach(volume)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise _FailedError(f'ClaimRef got reset for pv "{volume.name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, wanted: PersistentVolumeClaim) -> bool:
        claim = self._claims.get(wanted.key)
        if claim is None:
            missing = not_found("persistentvolumeclaims", wanted.key)
            raise _FailedError(f"failed to check provisioning pvc: {missing}")
        if self._is_outdated(claim):
            return False
        if not claim.metadata.annotations:
            raise _FailedError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node_name:
            # The provisioner takes the annotation away where it cannot make a volume.
            raise _FailedError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return False  # The claim may be seen before its volume is.
            self._check_reach(volume)
        return is_fully_bound(claim)

    def _is_outdated(self, obj: Object) -> bool:
        """Whether ``obj`` is older than what our own write made of it."""
        assert self._expected is not None
        expected, seen = self._expected[obj.key], obj.metadata.resource_version
        return expected != seen and (len(expected), expected) > (len(seen), seen)

    def _check_reach(self, volume: PersistentVolume) -> None:
        assert self.node is not None
        affinity = volume.spec.node_affinity
        plugin = plugin_of(volume.spec)
        if plugin is not None and plugin in migrated_plugins(self.csi_node):
            try:
                affinity = migrated_affinity(volume)
            except TranslationError as error:
                what = f"could not translate pv: {error}"
                raise _FailedError(f"failed to translate pv to csi: {what}") from None
        if not reach.includes(reach.of_affinity(affinity), self.node.labels):
            raise _FailedError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{self._node_name}": '
                "no matching NodeSelectorTerms"
            )


def _put(objects: dict[str, Any], key: str, obj: Object | None) -> None:
    if obj is None:
        objects.pop(key, None)
    else:
        objects[key] = obj


def _volume_patch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bytes:
    """The change of a volume, refused by the server if the volume has changed meanwhile."""
    ref = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.metadata.resource_version,
    }
    added = {BOUND_BY_CONTROLLER} & volume.metadata.annotations.keys()
    return _patch(
        volume, {k: volume.metadata.annotations[k] for k in added}, {"spec": {"claimRef": ref}}
    )


def _patch(obj: Object, annotations: dict[str, str], more: dict[str, Any]) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": obj.metadata.resource_version}
    if annotations:
        metadata["annotations"] = annotations
    return msgspec.json.encode({"metadata": metadata} | more)

"""AttachedVolumes: the distinct CSI volumes of each node, counted as Pods and objects change.

A volume counts once per node and driver, however many Pods there use it and whether or not a
VolumeAttachment names it, too. Which CSI volume a claim stands for can change while its Pod is
placed (it gets bound, its PV comes and goes); every Pod's contribution is kept, so that it can be
subtracted exactly and counted again.

In-tree volumes are always counted as migrated: only nodes with a limit, which have a CSINode, are
ever asked about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from bayplan.api.kinds import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.pod_spec import Volume
from bayplan.api.storage import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from bayplan.cache.index import discard
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.shared.claims import claim_class, claim_uses, not_owner
from bayplan.plugins.shared.csi_migration import (
    CsiVolume,
    TranslationError,
    inline_to_csi,
    plugin_of,
    provisioner_driver,
    volume_to_csi,
)
from bayplan.plugins.shared.row_columns import RowColumns


class InlineError(ValueError):
    """An inline in-tree volume has no CSI counterpart."""


class NotOwnerError(ValueError):
    """The claim of an ephemeral volume belongs to another object."""


def is_attachable(constraints: SpecPart) -> bool:
    """Whether any volume of the Pod can count against a limit."""
    return any(
        v.persistent_volume_claim is not None or v.ephemeral is not None or plugin_of(v) is not None
        for v in constraints.spec.volumes
    )


def inline_volumes(constraints: SpecPart) -> tuple[Volume, ...]:
    """The Pod's inline in-tree volumes."""
    return tuple(v for v in constraints.spec.volumes if plugin_of(v))


@dataclass
class _Held:
    """What one placed Pod contributes."""

    row: int
    pod: Pod
    volumes: frozenset[CsiVolume] = frozenset()
    claims: list[str] = field(default_factory=list)


class AttachedVolumes:
    """Counts over the full table; a `Listener` of it. Shared by all profiles."""

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore) -> None:
        self._nodes = nodes
        self._objects = objects
        self._counts = RowColumns(nodes)
        self._held: dict[str, _Held] = {}
        self._users: dict[str, set[str]] = defaultdict(set)
        """Claim -> uids of placed Pods."""
        self._bound: dict[str, set[str]] = defaultdict(set)
        """PersistentVolume -> claims that name it."""
        self._used: dict[int, Counter[CsiVolume]] = defaultdict(Counter)
        self._rows: dict[CsiVolume, set[int]] = defaultdict(set)
        self._attached: dict[int, set[CsiVolume]] = defaultdict(set)
        self._attachments: dict[str, dict[str, VolumeAttachment]] = defaultdict(dict)
        """Node name -> VolumeAttachments by name."""
        self._attached_to: dict[str, dict[str, str]] = defaultdict(dict)
        """PersistentVolume -> VolumeAttachment -> node name."""
        self.broken: dict[int, dict[str, str]] = defaultdict(dict)
        """Row -> uid -> what is wrong with the volumes of that Pod. Rows without are left out."""
        objects.on_change(PERSISTENT_VOLUME_CLAIM, self._claim_changed)
        objects.on_change(PERSISTENT_VOLUME, self._volume_changed)
        objects.on_change(STORAGE_CLASS, self._class_changed)
        objects.on_change(VOLUME_ATTACHMENT, self._attachment_changed)
        nodes.listen(self)
        for row, pods in enumerate(nodes.pods):
            for pod in pods.values():
                self.pod_added(row, pod)

    # Questions

    def count(self, driver: str) -> IntArray:
        """How many distinct volumes of ``driver`` each node has, ``(n,)``."""
        return self._counts[driver]

    def rows(self, volume: CsiVolume) -> Iterable[int]:
        """Rows where a Pod uses ``volume``."""
        return self._rows.get(volume, ())

    def used(self, row: int) -> Counter[CsiVolume]:
        """The volumes that Pods on ``row`` use, with how many do; a copy."""
        return Counter(self._used.get(row, ()))

    def attached(self, row: int) -> set[CsiVolume]:
        """The volumes that VolumeAttachments name for the node of ``row``."""
        return self._attached.get(row, set())

    def resolve(self, pod: Pod, claims: list[str] | None = None) -> frozenset[CsiVolume]:
        """The CSI volumes of ``pod``, placed or not; claims that do not exist are left out.

        ``claims`` gets the keys of those that were looked at.

        Raises:
            NotOwnerError: an ephemeral volume's claim belongs to another.
            InlineError: an inline volume cannot be translated.
        """
        volumes = {inline_volume(v) for v in pod.shape.constraints.memo(inline_volumes)}
        for use in claim_uses(pod):
            key = f"{pod.namespace}/{use.name}"
            if claims is not None:
                claims.append(key)
            claim = self._objects.get(PERSISTENT_VOLUME_CLAIM, key)
            if claim is None:
                continue
            if use.ephemeral and (trouble := not_owner(claim, pod)):
                raise NotOwnerError(trouble)
            if (volume := self.claimed(claim)) is not None:
                volumes.add(volume)
        return frozenset(volumes)

    def claimed(self, claim: PersistentVolumeClaim, *, migrated: bool = True) -> CsiVolume | None:
        """The CSI volume behind ``claim``, or a stand-in for the one to be provisioned.

        ``migrated``: an in-tree volume counts as the CSI volume that it has become.
        """
        volume = self._objects.get(PERSISTENT_VOLUME, claim.spec.volume_name)
        if volume is None:
            return self._to_provision(claim, migrated=migrated)
        if volume.spec.csi is None and not migrated:
            return None
        try:
            csi = volume_to_csi(volume)
        except TranslationError:
            return None
        return csi if csi and csi.driver and csi.handle else None

    def _to_provision(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CsiVolume | None:
        storage_class = self._objects.get(STORAGE_CLASS, claim_class(claim))
        driver = provisioner_driver(storage_class.provisioner) if storage_class else None
        if not migrated and storage_class and driver != storage_class.provisioner:
            return None
        return CsiVolume(driver, f"to be provisioned for {claim.key}") if driver else None

    # Pods and nodes

    def pod_added(self, row: int, pod: Pod) -> None:
        """Count its volumes."""
        if pod.shape.constraints.memo(is_attachable):
            self._hold(row, pod)

    def pod_removed(self, _row: int, pod: Pod) -> None:
        """No longer count its volumes."""
        if pod.uid in self._held:
            self._release(pod.uid)

    def node_changed(self, row: int) -> None:
        """The row may have another node now: count its attachments again."""
        self._count_attachments(row)

    def _hold(self, row: int, pod: Pod) -> None:
        held = self._held[pod.uid] = _Held(row, pod)
        try:
            held.volumes = self.resolve(pod, held.claims)
        except (NotOwnerError, InlineError) as error:
            self.broken[row][pod.uid] = str(error)
        for key in held.claims:
            self._users[key].add(pod.uid)
        for volume in held.volumes:
            self._use(row, volume)

    def _release(self, uid: str) -> _Held:
        held = self._held.pop(uid)
        discard(self.broken, held.row, uid)
        for key in set(held.claims):
            discard(self._users, key, uid)
        for volume in held.volumes:
            self._no_longer_use(held.row, volume)
        return held

    def _use(self, row: int, volume: CsiVolume) -> None:
        used = self._used[row]
        used[volume] += 1
        if used[volume] == 1:
            self._rows[volume].add(row)
            if volume not in self.attached(row):
                self._counts[volume.driver][row] += 1

    def _no_longer_use(self, row: int, volume: CsiVolume) -> None:
        used = self._used[row]
        used[volume] -= 1
        if not used[volume]:
            discard(self._used, row, volume)
            discard(self._rows, volume, row)
            if volume not in self.attached(row):
                self._counts[volume.driver][row] -= 1

    # Objects

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        if old is not None and old.spec.volume_name:
            discard(self._bound, old.spec.volume_name, old.key)
        if new is not None and new.spec.volume_name:
            self._bound[new.spec.volume_name].add(new.key)
        changed = new or old
        assert changed is not None
        self._count_users([changed.key])

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        changed = new or old
        assert changed is not None
        self._count_users(self._bound.get(changed.name, ()))
        for node_name in self._attached_to.get(changed.name, {}).values():
            self._count_node_attachments(node_name)

    def _class_changed(self, _old: object, _new: object) -> None:
        """Classes rarely change, so all Pods with claims are counted again."""
        self._count_users(list(self._users))

    def _count_users(self, claims: Iterable[str]) -> None:
        for uid in {uid for key in claims for uid in self._users.get(key, ())}:
            held = self._release(uid)
            self._hold(held.row, held.pod)

    def _attachment_changed(
        self, old: VolumeAttachment | None, new: VolumeAttachment | None
    ) -> None:
        if old is not None:
            discard(self._attachments, old.spec.node_name, old.name)
            discard(self._attached_to, _volume_name(old), old.name)
            self._count_node_attachments(old.spec.node_name)
        if new is not None:
            self._attachments[new.spec.node_name][new.name] = new
            self._attached_to[_volume_name(new)][new.name] = new.spec.node_name
            self._count_node_attachments(new.spec.node_name)

    def _count_node_attachments(self, node_name: str) -> None:
        row = self._nodes.row(node_name)
        if row is not None:
            self._count_attachments(row)

    def _count_attachments(self, row: int) -> None:
        attachments = self._attachments.get(self._nodes.names[row] or "", {})
        before, after = (
            self.attached(row),
            set(filter(None, map(self._volume, attachments.values()))),
        )
        used = self._used.get(row, Counter())
        for volumes, sign in ((before - after, -1), (after - before, 1)):
            for volume in volumes:
                if volume not in used:
                    self._counts[volume.driver][row] += sign
        if after:
            self._attached[row] = after
        else:
            self._attached.pop(row, None)

    def _volume(self, attachment: VolumeAttachment) -> CsiVolume | None:
        volume = self._objects.get(PERSISTENT_VOLUME, _volume_name(attachment))
        if volume is None or volume.spec.csi is None or not attachment.spec.attacher:
            return None
        return CsiVolume(attachment.spec.attacher, volume.spec.csi.volume_handle)


def inline_volume(volume: Volume) -> CsiVolume:
    """The CSI volume behind an inline in-tree volume.

    Raises:
        InlineError: there is none.
    """
    try:
        csi = inline_to_csi(volume)
    except TranslationError as error:
        raise InlineError(f"converting volume({volume.name}) from inline to csi: {error}") from None
    assert csi is not None
    return csi


def _volume_name(attachment: VolumeAttachment) -> str:
    return attachment.spec.source.persistent_volume_name or ""

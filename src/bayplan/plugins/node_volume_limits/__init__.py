"""NodeVolumeLimits: at most as many volumes of a CSI driver on a node as the CSINode allows.

And no volume on a node without its driver, where the CSIDriver asks for that with
``preventPodSchedulingIfMissing``.

The counts are columns (`AttachedVolumes`); a Pod's new volumes are compared with what is left on
all nodes at once. Rows where some of its volumes are in use already, and worlds of a what-if table
in which Pods came or went, are few and counted one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from bayplan.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import Volume
from bayplan.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.feature_gates import VOLUME_LIMIT_SCALING
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Integers, Plugin
from bayplan.framework.points import EnqueueExtensions, FilterNodes, PodMoves, PreFilter
from bayplan.framework.status import SKIP, Code, Status
from bayplan.plugins.node_volume_limits.attached_volumes import (
    AttachedVolumes,
    InlineError,
    NotOwnerError,
    inline_volume,
    inline_volumes,
    is_attachable,
)
from bayplan.plugins.shared import csi_nodes
from bayplan.plugins.shared.claims import UsesVolumes, claim_uses, not_found, not_owner, uses_claim
from bayplan.plugins.shared.csi_migration import CsiVolume, plugin_of
from bayplan.plugins.shared.csi_nodes import CsiNodes

LIMIT_EXCEEDED = Status.unschedulable("node(s) exceed max volume count")


@dataclass
class _World:
    """The volumes in use on one row of a what-if table, and Pods there that cannot be counted."""

    used: Counter[CsiVolume]
    broken: dict[str, str]

    def copy(self) -> _World:
        return _World(Counter(self.used), dict(self.broken))


@dataclass
class _State:
    """What the Pod brings.

    Attributes:
        volumes: by driver; None if they cannot be determined (see the two codes).
        migrated_code: reason code for nodes with a CSINode, where in-tree volumes count.
        other_code: the same for nodes without.
        missing: ``(n,)`` codes of the full table: not 0 where a driver is missing that has to be
            there; None where there is no such driver.
        statuses: what codes mean; code 0 is Success.
        rows: of a what-if table: its rows in the full table.
        worlds: by row of a what-if table, where Pods were added or removed.
    """

    volumes: dict[str, set[CsiVolume]] = field(default_factory=dict)
    migrated_code: int = 0
    other_code: int = 0
    missing: IntArray | None = None
    statuses: list[Status] = field(default_factory=lambda: [Status(), LIMIT_EXCEEDED])
    rows: IntArray | None = None
    worlds: dict[int, _World] = field(default_factory=dict)

    def code(self, status: Status) -> int:
        """A reason code for ``status``; a negative one for an error."""
        if status not in self.statuses:
            self.statuses.append(status)
        index = self.statuses.index(status)
        return -index if status.code is Code.ERROR else index

    def what_if(self, rows: IntArray) -> _State:
        origins = rows if self.rows is None else self.rows[rows]
        pairs = enumerate(rows.tolist())
        worlds = {i: self.worlds[row].copy() for i, row in pairs if row in self.worlds}
        return replace(self, rows=origins, worlds=worlds)


class NodeVolumeLimits(Plugin, PreFilter, UsesVolumes, FilterNodes, PodMoves, EnqueueExtensions):
    """See the module's docstring."""

    kinds = (
        CSI_DRIVER,
        CSI_NODE,
        PERSISTENT_VOLUME_CLAIM,
        PERSISTENT_VOLUME,
        STORAGE_CLASS,
        VOLUME_ATTACHMENT,
    )

    def __init__(self, args: object, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._drivers_must_be_there = handle.gates.on(VOLUME_LIMIT_SCALING)
        self._csi_nodes = handle.objects.shared(CsiNodes, handle.nodes, handle.objects)
        self._attached = handle.objects.shared(AttachedVolumes, handle.nodes, handle.objects)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Find the Pod's CSI volumes; Skip when none of its volumes can be one."""
        if not pod.spec.volumes or not pod.shape.constraints.memo(is_attachable):
            return SKIP
        mine = _State()
        new_volumes = self._new_volumes(pod, migrated=True)
        if isinstance(new_volumes, Status):
            mine.migrated_code = mine.code(new_volumes)
            other = self._new_volumes(pod, migrated=False)
            mine.other_code = mine.code(other) if isinstance(other, Status) else 0
        else:
            by_driver = defaultdict(set)
            for volume in new_volumes:
                by_driver[volume.driver].add(volume)
            mine.volumes = dict(by_driver)
        if self._drivers_must_be_there:
            self._look_for_drivers(mine, pod)
        state.write(self.name, mine)
        return None

    def _new_volumes(self, pod: Pod, migrated: bool) -> set[CsiVolume] | Status:
        """The CSI volumes of a Pod to be placed, or the fault that prevents this.

        Without a fault their order does not matter; faults are reported in the order of
        the Pod's volumes.
        """
        inline = {v.name: v for v in pod.shape.constraints.memo(inline_volumes)} if migrated else {}
        uses = iter(claim_uses(pod))
        volumes: set[CsiVolume] = set()
        for volume in pod.spec.volumes:
            try:
                if volume.name in inline:
                    volumes.add(inline_volume(volume))
                elif volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                    csi = self._claimed(pod, *next(uses), migrated=migrated)
                    if isinstance(csi, Status):
                        return csi
                    volumes |= {csi} if csi else set()
            except (InlineError, NotOwnerError) as error:
                return Status.error(str(error))
        return volumes

    def _claimed(
        self, pod: Pod, name: str, ephemeral: bool, *, migrated: bool
    ) -> CsiVolume | Status | None:
        if not name:
            return Status.error("PersistentVolumeClaim had no name")
        key = f"{pod.namespace}/{name}"
        claim = self.handle.objects.get(PERSISTENT_VOLUME_CLAIM, key)
        if claim is None:
            missing = not_found("persistentvolumeclaim", name)
            return Status.unresolvable(f"looking up PVC {key}: {missing}")
        if ephemeral and (trouble := not_owner(claim, pod)):
            raise NotOwnerError(trouble)
        return self._attached.claimed(claim, migrated=migrated)

    def _look_for_drivers(self, mine: _State, pod: Pod) -> None:
        """Find the nodes without a driver that must be installed.

        Nodes without a CSINode have no driver at all, but in-tree volumes are not migrated there.
        """
        on_known = {driver for driver in mine.volumes if self._must_be_there(driver)}
        if not on_known and not mine.migrated_code:
            return
        others = self._new_volumes(pod, migrated=False)
        drivers = set() if isinstance(others, Status) else {volume.driver for volume in others}
        on_other = {driver for driver in drivers if self._must_be_there(driver)}
        known = self._csi_nodes.known
        missing = np.zeros(len(self.handle.nodes), np.int64)
        for driver in sorted(on_known | on_other, reverse=True):
            absent = np.where(
                known, (driver in on_known) & ~self._csi_nodes.installed(driver), driver in on_other
            )
            missing[absent] = mine.code(
                Status.unschedulable(f"{driver} CSI driver is not installed on the node")
            )
        mine.missing = missing

    def _must_be_there(self, driver: str) -> bool:
        csi_driver = self.handle.objects.get(CSI_DRIVER, driver)
        return csi_driver is not None and bool(csi_driver.spec.prevent_pod_scheduling_if_missing)

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int) -> None:
        """In the world of ``row``, ``other`` uses its volumes."""
        if (world := self._world(state, other, row)) is None:
            return
        try:
            world.used.update(self._attached.resolve(other))
        except (InlineError, NotOwnerError) as error:
            world.broken[other.uid] = str(error)

    def remove_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int
    ) -> None:
        """In the world of ``row``, ``other`` no longer uses its volumes."""
        if (world := self._world(state, other, row)) is None:
            return
        if world.broken.pop(other.uid, None) is None:
            world.used.subtract(self._attached.resolve(other))

    def _world(self, state: CycleState, other: Pod, row: int) -> _World | None:
        mine = state.get(self.name, _State)
        if mine is None or not other.shape.constraints.memo(is_attachable):
            return None
        assert mine.rows is not None
        if row not in mine.worlds:
            origin = int(mine.rows[row])
            broken = dict(self._attached.broken.get(origin, {}))
            mine.worlds[row] = _World(self._attached.used(origin), broken)
        return mine.worlds[row]

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """Codes as in the state's statuses."""
        mine = state.read(self.name, _State)
        codes = self._without_drivers(mine, nodes)
        if mine.missing is None:
            return codes
        missing = mine.missing[_origin(nodes)]
        return np.where(missing != 0, missing, codes)

    def _without_drivers(self, mine: _State, nodes: NodeTable) -> Integers:
        """Codes as if no driver had to be there."""
        if mine.migrated_code:
            known = self._csi_nodes.known[_origin(nodes)]
            return np.where(known, mine.migrated_code, mine.other_code)
        codes = self._codes(mine)
        if nodes.origin is None:
            return codes
        codes = codes[nodes.origin]
        for row, world in mine.worlds.items():
            origin = int(nodes.origin[row])
            codes[row] = self._world_code(mine, origin, world.used, world.broken)
        return codes

    def _codes(self, mine: _State) -> Integers:
        """The answer for every row of the full table."""
        exceeded: BoolArray = np.zeros(len(self.handle.nodes), np.bool_)
        for driver, volumes in mine.volumes.items():
            exceeded |= self._attached.count(driver) + len(volumes) > self._csi_nodes.limit(driver)
        codes = exceeded.astype(np.int32)
        special = set(self._attached.broken) if mine.volumes else set()
        special |= {r for vs in mine.volumes.values() for v in vs for r in self._attached.rows(v)}
        for row in special:
            broken = self._attached.broken.get(row, {})
            codes[row] = self._world_code(mine, row, self._attached.used(row), broken)
        return codes

    def _world_code(
        self, mine: _State, row: int, used: Counter[CsiVolume], broken: dict[str, str]
    ) -> int:
        """The code for one row of the full table if its Pods used ``used``."""
        if not mine.volumes or not self._csi_nodes.limited[row]:
            return 0
        if broken:
            # Of several, that of the Pod which has been on the node for the longest time.
            placed = self.handle.nodes.pods[row]
            uid = next((uid for uid in placed if uid in broken), next(iter(broken)))
            return mine.code(Status.error(broken[uid]))
        in_use = {volume for volume, users in used.items() if users > 0}
        there = in_use | self._attached.attached(row)
        for driver, volumes in mine.volumes.items():
            new = len(volumes - in_use)
            count = sum(volume.driver == driver for volume in there)
            if new and count + new > self._csi_nodes.limit(driver)[row]:
                return mine.code(LIMIT_EXCEEDED)
        return 0

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What the code stands for in this cycle."""
        mine = state.read(self.name, _State)
        return mine.statuses[abs(code)]

    def events_to_register(self) -> list[EventRegistration]:
        """What may undo a rejection."""
        return [
            EventRegistration(ClusterEvent(CSI_NODE, Action.ADD)),
            EventRegistration(ClusterEvent(CSI_NODE, Action.UPDATE), _csi_node_updated),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _pod_deleted),
            EventRegistration(ClusterEvent(PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_added),
            EventRegistration(ClusterEvent(VOLUME_ATTACHMENT, Action.DELETE), _attachment_deleted),
        ]


def _origin(nodes: NodeTable) -> IntArray | slice:
    return slice(None) if nodes.origin is None else nodes.origin


def _csi_node_updated(_pod: Pod, old: CSINode, new: CSINode) -> Hint:
    before = csi_nodes.limits(old)
    raised = any(n > before.get(driver, 0) for driver, n in csi_nodes.limits(new).items())
    installed = {d.name for d in new.spec.drivers} - {d.name for d in old.spec.drivers}
    return Hint.QUEUE if raised or installed else Hint.SKIP


def _pod_deleted(_pod: Pod, old: Pod, _new: object) -> Hint:
    was_placed = bool(old.node_name or old.status.nominated_node_name)
    return Hint.QUEUE if was_placed and old.shape.constraints.memo(is_attachable) else Hint.SKIP


def _claim_added(pod: Pod, _old: object, new: PersistentVolumeClaim) -> Hint:
    return Hint.QUEUE if uses_claim(pod, new) else Hint.SKIP


def _attachment_deleted(pod: Pod, old: VolumeAttachment, _new: object) -> Hint:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        if plugin_of(volume) and _attaches(old.spec.attacher, volume):
            return Hint.QUEUE
    return Hint.SKIP


def _attaches(attacher: str, volume: Volume) -> bool:
    """Whether ``attacher`` is the driver of an inline volume; any volume's, if unknown."""
    try:
        return inline_volume(volume).driver == attacher
    except InlineError:
        return True

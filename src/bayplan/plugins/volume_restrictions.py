"""VolumeRestrictions: disks for one node at a time, and claims for one Pod at a time.

- A legacy GCE, AWS, iSCSI or RBD disk keeps a Pod from nodes where another Pod has it, unless both
  only read (AWS: always).
- A claim with access mode ReadWriteOncePod that a placed Pod uses keeps others from every node.
  Evicting that Pod helps, so what-if tables count per row what was removed there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.pod_spec import Volume
from bayplan.api.storage import PersistentVolumeClaim
from bayplan.cache.node_table import IntArray, Listener, LiveNodeTable, NodeTable
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Plugin
from bayplan.framework.points import (
    EnqueueExtensions,
    FilterNodes,
    MovesElsewhere,
    PreFilter,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.claims import UsesVolumes, names_claim, not_found

DISK_CONFLICT = Status.unschedulable("node(s) had no available disk")
CLAIM_IN_USE = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_REASONS = {1: DISK_CONFLICT, 2: CLAIM_IN_USE}


class Disk(NamedTuple):
    """A legacy disk as a Pod uses it."""

    identity: tuple[str, ...]
    monitors: frozenset[str]
    """RBD: the same disk only if the two share a monitor."""
    read_only: bool

    def conflicts(self, other: Disk) -> bool:
        """Whether the two uses exclude each other on one node."""
        return (
            self.identity == other.identity
            and not (self.read_only and other.read_only)
            and (self.identity[0] != "rbd" or bool(self.monitors & other.monitors))
        )


def disks(constraints: SpecPart) -> tuple[Disk, ...]:
    """The legacy disks of a Pod."""
    return tuple(disk for volume in constraints.spec.volumes for disk in _disks(volume))


def _disks(volume: Volume) -> Iterable[Disk]:
    nobody: frozenset[str] = frozenset()
    if (gce := volume.gce_persistent_disk) is not None:
        yield Disk(("gce", gce.pd_name), nobody, gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        yield Disk(("aws", aws.volume_id), nobody, read_only=False)
    if (iscsi := volume.iscsi) is not None:
        yield Disk(("iscsi", iscsi.iqn), nobody, iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        yield Disk(("rbd", rbd.pool, rbd.image), frozenset(rbd.monitors), rbd.read_only)


def disks_conflict(pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether a disk of ``pod`` excludes one of the ``others`` from the same node."""
    mine = pod.shape.constraints.memo(disks)
    theirs = [disk for other in others for disk in other.shape.constraints.memo(disks)]
    return any(a.conflicts(b) for a in mine for b in theirs)


class VolumeUse(Listener):
    """Who uses what: legacy disks by row, claims in the whole cluster."""

    def __init__(self, nodes: LiveNodeTable) -> None:
        self._claims: Counter[str] = Counter()
        self._disk_rows: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
        nodes.listen(self)
        for row, pods in enumerate(nodes.pods):
            for pod in pods.values():
                self.pod_added(row, pod)

    def claim_in_use(self, key: str) -> bool:
        """Whether a placed Pod uses the claim ``namespace/name``."""
        return key in self._claims

    def rows(self, wanted: Iterable[Disk]) -> set[int]:
        """Rows with a Pod that has any of these disks in some way."""
        return {row for disk in wanted for row in self._disk_rows.get(disk.identity, ())}

    def pod_added(self, row: int, pod: Pod) -> None:
        """Count its disks and claims."""
        if pod.spec.volumes:
            self._count(row, pod, 1)

    def pod_removed(self, row: int, pod: Pod) -> None:
        """No longer count them."""
        if pod.spec.volumes:
            self._count(row, pod, -1)

    def _count(self, row: int, pod: Pod, sign: int) -> None:
        for name in pod.claim_names:
            _add(self._claims, f"{pod.namespace}/{name}", sign)
        for disk in pod.shape.constraints.memo(disks):
            rows = self._disk_rows[disk.identity]
            _add(rows, row, sign)
            if not rows:
                del self._disk_rows[disk.identity]


def _add(counter: Counter[Any], key: Any, sign: int) -> None:
    counter[key] += sign
    if not counter[key]:
        del counter[key]


class _State:
    """The Pod's ReadWriteOncePod claims, and the number of other users of these claims.

    `conflicts` is one number for the whole cluster, or ``(m,)``: one per world of a what-if table.
    """

    def __init__(self, claims: frozenset[str], conflicts: IntArray) -> None:
        self.claims = claims
        self.conflicts = conflicts

    def what_if(self, rows: IntArray) -> _State:
        worlds = self.conflicts[rows] if self.conflicts.ndim else self.conflicts
        return _State(self.claims, np.broadcast_to(worlds, rows.shape).copy())

    def uses(self, other: Pod) -> int:
        # As in kube-scheduler, claims are compared by name alone: a claim of the same name in
        # another namespace counts.
        return sum(name in self.claims for name in other.claim_names)


class VolumeRestrictions(
    Plugin, PreFilter, UsesVolumes, FilterNodes, MovesElsewhere, EnqueueExtensions
):
    """See the module's docstring."""

    kinds = (PERSISTENT_VOLUME_CLAIM,)

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._use = handle.objects.shared(VolumeUse, handle.nodes)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Find the Pod's exclusive claims; Skip when neither they nor disks are in the way."""
        if not pod.spec.volumes:
            return SKIP
        exclusive = set()
        for name in pod.claim_names:
            claim = self.handle.objects.get(PERSISTENT_VOLUME_CLAIM, f"{pod.namespace}/{name}")
            if claim is None:
                return Status.unresolvable(not_found("persistentvolumeclaim", name))
            if "ReadWriteOncePod" in claim.spec.access_modes:
                exclusive.add(name)
        used = sum(self._use.claim_in_use(f"{pod.namespace}/{name}") for name in exclusive)
        if not used and not pod.shape.constraints.memo(disks):
            return SKIP
        state.write(self.name, _State(frozenset(exclusive), np.array(used, np.int64)))
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int) -> None:
        """In the world of ``row``, ``other`` uses its claims."""
        if (mine := state.get(self.name, _State)) is not None:
            mine.conflicts[row] += mine.uses(other)

    def remove_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int
    ) -> None:
        """In the world of ``row``, ``other`` no longer uses its claims."""
        if (mine := state.get(self.name, _State)) is not None:
            mine.conflicts[row] -= mine.uses(other)

    def move_elsewhere(
        self, pods: int, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int
    ) -> None:
        """What if ``pods`` more like ``other`` were on its own node? Claims are in use anywhere."""
        (self.add_pod if pods > 0 else self.remove_pod)(state, pod, other, nodes, row)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where a disk is in the way, 2 where a claim is."""
        conflicts = state.read(self.name, _State).conflicts
        codes = np.broadcast_to(np.where(conflicts > 0, 2, 0), (len(nodes),)).astype(np.int64)
        pod_disks = pod.shape.constraints.memo(disks)
        if pod_disks:
            full = nodes.origin is None
            for row in self._use.rows(pod_disks) if full else range(len(nodes)):
                if disks_conflict(pod, nodes.pods[row].values()):
                    codes[row] = 1
        return codes

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What the code stands for."""
        return _REASONS[code]

    def events_to_register(self) -> list[EventRegistration]:
        """What may undo a rejection."""
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _pod_deleted),
            EventRegistration(ClusterEvent(NODE, Action.ADD)),
            EventRegistration(ClusterEvent(PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_added),
        ]


def _claim_added(pod: Pod, _old: object, new: PersistentVolumeClaim) -> Hint:
    return Hint.QUEUE if names_claim(pod, new) else Hint.SKIP


def _pod_deleted(pod: Pod, old: Pod, _new: object) -> Hint:
    if old.namespace != pod.namespace:
        return Hint.SKIP
    shared = set(pod.claim_names) & set(old.claim_names)
    return Hint.QUEUE if shared or disks_conflict(pod, [old]) else Hint.SKIP

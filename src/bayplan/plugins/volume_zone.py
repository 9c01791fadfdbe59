"""VolumeZone: a Pod goes to nodes in the zone and region of its volumes.

Only PersistentVolumes that carry such labels constrain; nodes without any zone or region label are
taken to be in the only zone there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.api.pod import Pod
from bayplan.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from bayplan.cache.node_table import ABSENT, BoolArray, IntArray, NodeTable
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Plugin
from bayplan.framework.points import EnqueueExtensions, FilterNodes, PreFilter
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    UsesVolumes,
    claim_class,
    names_claim,
    not_found,
)
from bayplan.plugins.shared.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONE_DELIMITER,
)
from bayplan.plugins.shared.reach import rows_with

CONFLICT = Status.unresolvable("node(s) had no available volume zone")

_TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_STABLE = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class RequiredLabel(NamedTuple):
    """A label that nodes must have with one of some values."""

    key: str
    values: frozenset[str]


class _Demands(NamedTuple):
    """What the volumes of a Pod demand of its node."""

    topologies: Sequence[RequiredLabel]


def topologies(volume: PersistentVolume) -> list[RequiredLabel]:
    """What the zone and region labels of ``volume`` demand; labels with an empty part do not."""
    demands = []
    for key in _TOPOLOGY_LABELS:
        if key in volume.labels:
            parts = [part.strip() for part in volume.labels[key].split(ZONE_DELIMITER)]
            if all(parts):
                demands.append(RequiredLabel(key, frozenset(parts)))
    return demands


class VolumeZone(Plugin, PreFilter, UsesVolumes, FilterNodes, EnqueueExtensions):
    """See the module's docstring."""

    kinds = (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Collect what the Pod's bound volumes demand; Skip when that is nothing."""
        if not pod.spec.volumes:
            return SKIP
        demands: list[RequiredLabel] = []
        for name in pod.claim_names:
            demanded = self._demands(pod, name)
            if isinstance(demanded, Status):
                return demanded
            demands += demanded
        if not demands:
            return SKIP
        state.write(self.name, _Demands(demands))
        return None

    def _demands(self, pod: Pod, claim_name: str) -> list[RequiredLabel] | Status:
        """What the volume of one claim demands, or why nothing can be said."""
        objects = self.handle.objects
        if not claim_name:
            return Status.unresolvable("PersistentVolumeClaim had no name")
        claim = objects.get(PERSISTENT_VOLUME_CLAIM, f"{pod.namespace}/{claim_name}")
        if claim is None:
            return Status.unresolvable(not_found("persistentvolumeclaim", claim_name))
        if not claim.spec.volume_name:
            return self._unbound(claim) or []
        volume = objects.get(PERSISTENT_VOLUME, claim.spec.volume_name)
        if volume is None:
            return Status.unresolvable(not_found("persistentvolume", claim.spec.volume_name))
        return topologies(volume)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """Why an unbound claim must wait; None where VolumeBinding will find a volume for it."""
        name = claim_class(claim)
        if not name:
            return Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self.handle.objects.get(STORAGE_CLASS, name)
        if storage_class is None:
            return Status.unresolvable(not_found("storageclass.storage.k8s.io", name))
        if storage_class.volume_binding_mode is None:
            return Status.unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return Status.unresolvable("PersistentVolume had no name")

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where a demand is not met."""
        fits = np.ones(len(nodes), np.bool_)
        for demand in state.read(self.name, _Demands).topologies:
            fits &= _meets(demand, nodes)
        zoned = np.zeros(len(nodes), np.bool_)
        for key in _TOPOLOGY_LABELS:
            zoned |= nodes.label(key).codes != ABSENT
        return (zoned & ~fits).astype(np.int64)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """The only reason there is."""
        return CONFLICT

    def events_to_register(self) -> list[EventRegistration]:
        """What may undo a rejection."""
        changed = Action.ADD | Action.UPDATE
        return [
            EventRegistration(ClusterEvent(STORAGE_CLASS, Action.ADD), _class_added),
            EventRegistration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventRegistration(ClusterEvent(PERSISTENT_VOLUME_CLAIM, changed), _claim_changed),
            EventRegistration(ClusterEvent(PERSISTENT_VOLUME, changed), _volume_changed),
        ]


def _meets(demand: RequiredLabel, nodes: NodeTable) -> BoolArray:
    """The rows with the label, for a beta label also under the stable name."""
    column = nodes.label(demand.key)
    own = rows_with(column, demand.values)
    stable = _STABLE.get(demand.key)
    if stable is None:
        return own
    fallback = rows_with(nodes.label(stable), demand.values)
    return np.where(column.codes == ABSENT, fallback, own)


def _class_added(_pod: Pod, _old: object, new: StorageClass) -> Hint:
    delayed = new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return Hint.QUEUE if delayed else Hint.SKIP


def _claim_changed(pod: Pod, _old: object, new: PersistentVolumeClaim) -> Hint:
    return Hint.QUEUE if names_claim(pod, new) else Hint.SKIP


def _volume_changed(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
    moved = old is None or topologies(old) != topologies(new)
    return Hint.QUEUE if moved else Hint.SKIP

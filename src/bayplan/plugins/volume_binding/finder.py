"""FoundVolumes: for one Pod and every node, the volumes for the Pod's claims, or why none.

Bound claims must have a volume that the node can reach. Unbound ones of a class that waits for the
first consumer get an existing volume or, failing that, one that the class's provisioner can make
for the node. This answers to FindPodVolumes of kube-scheduler, for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import CSI_DRIVER, STORAGE_CLASS
from bayplan.api.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.framework.interface import Integers
from bayplan.framework.status import Status
from bayplan.plugins.shared import reach
from bayplan.plugins.shared.claims import claim_class
from bayplan.plugins.shared.csi_migration import TranslationError, migrated_affinity, plugin_of
from bayplan.plugins.shared.csi_nodes import CsiNodes
from bayplan.plugins.shared.reach import FirstReach
from bayplan.plugins.volume_binding.assume import Volumes
from bayplan.plugins.volume_binding.matching import NO_VOLUME, match, size

SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

NODE_CONFLICT, BIND_CONFLICT, NO_SPACE, NO_SUCH_VOLUME = 1, 2, 4, 8
_REASONS = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NO_SPACE: "node(s) did not have enough free storage",
    NO_SUCH_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


@dataclass
class PodVolumeClaims:
    """A Pod's claims: bound ones, and claims that are bound after a node is selected."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)


@dataclass
class PodVolumes:
    """What a Pod's unbound claims get on one node.

    Attributes:
        static: claims with the volumes that they will be bound to.
        provisions: claims for which a volume is to be made.
    """

    static: list[tuple[PersistentVolumeClaim, PersistentVolume]]
    provisions: list[PersistentVolumeClaim]


class FoundVolumes:
    """The answer for all rows of one table.

    Attributes:
        nodes: the table.
        codes: ``(n,)``: 0, a sum of reasons, or, below 0, an error; see `status`.
        static: per claim that was looked for: the volumes of its class that it or another of the
            Pod's claims might get, and which of them it would get on each row (`NO_VOLUME`: none).
        capacity: per claim to be provisioned: the capacities of its class, and which each row has.
    """

    def __init__(
        self, claims: PodVolumeClaims, nodes: NodeTable, volumes: Volumes, csi_nodes: CsiNodes
    ) -> None:
        self.nodes = nodes
        self._volumes = volumes
        self._csi_nodes = csi_nodes
        self._errors: list[str] = []
        self.static: list[tuple[PersistentVolumeClaim, list[PersistentVolume], IntArray]] = []
        self.capacity: list[
            tuple[PersistentVolumeClaim, list[CSIStorageCapacity], IntArray, BoolArray]
        ] = []
        self._selected = [c for c in claims.delayed if SELECTED_NODE in c.metadata.annotations]
        self.codes: Integers = np.zeros(len(nodes), np.int32)
        failed = self._check_bound(claims.bound)
        if claims.delayed:
            self._find_unbound([c for c in claims.delayed if c not in self._selected])
        for rows, code in failed:
            self.codes[rows] = code

    def status(self, code: int) -> Status:
        """What a code says."""
        if code < 0:
            return Status.error(self._errors[-code - 1])
        return Status.unresolvable(*(text for bit, text in _REASONS.items() if code & bit))

    def at(self, row: int) -> PodVolumes:
        """What the Pod's claims get on the node of ``row``, which must fit."""
        static, provisions = [], list(self._selected)
        for claim, volumes, chosen in self.static:
            if (index := int(chosen[row])) == NO_VOLUME:
                provisions.append(claim)
            else:
                static.append((claim, volumes[index]))
        return PodVolumes(static, provisions)

    # Bound claims

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim]) -> list[tuple[BoolArray, int]]:
        """Check bound claims in order; a later claim only where all earlier ones fit."""
        failed: list[tuple[BoolArray, int]] = []
        fits: BoolArray = np.ones(len(self.nodes), np.bool_)
        for claim in claims:
            volume = self._volumes.volumes.get(claim.spec.volume_name)
            if volume is None:
                self.codes[fits] = NO_SUCH_VOLUME
                break
            if plugin_of(volume.spec) is not None:
                fits = self._check_migrated(volume, fits, failed)
            elif (affinity := self._volumes.reach_of(volume)) != reach.ANYWHERE:
                reached = fits & reach.rows(affinity, self.nodes)
                self.codes[fits & ~reached] = NODE_CONFLICT
                fits = reached
        return failed

    def _check_migrated(
        self, volume: PersistentVolume, fits: BoolArray, failed: list[tuple[BoolArray, int]]
    ) -> BoolArray:
        """Check an in-tree volume; where its plugin has migrated, check the CSI volume."""
        plugin = plugin_of(volume.spec)
        assert plugin is not None
        moved = self._csi_nodes.migrated(plugin)
        moved = moved if self.nodes.origin is None else moved[self.nodes.origin]
        reached = reach.rows(self._volumes.reach_of(volume), self.nodes)
        try:
            affinity = migrated_affinity(volume)
            after_move = reach.rows(reach.of_affinity(affinity), self.nodes)
        except TranslationError as error:
            self._errors.append(f"could not translate pv: {error}")
            failed.append((fits & moved, -len(self._errors)))
            after_move = np.zeros(len(self.nodes), np.bool_)
        reached = fits & np.where(moved, after_move, reached)
        self.codes[fits & ~reached] = NODE_CONFLICT
        return reached

    # Unbound claims

    def _find_unbound(self, claims: Sequence[PersistentVolumeClaim]) -> None:
        """Match ``claims``, smallest first, and see to the provisioning of the others."""
        here = self._selected_rows()
        self.codes[~here] |= BIND_CONFLICT
        of_class = {
            name: self._volumes.candidates(name, claims) for name in map(claim_class, claims)
        }
        for claim in sorted(claims, key=lambda c: size(c.spec.resources.requests)):
            name = claim_class(claim)
            volumes = of_class[name]
            chosen_already = [chosen for c, _, chosen in self.static if claim_class(c) == name]
            self.static.append(
                (
                    claim,
                    volumes,
                    match(claim, volumes, self._volumes.reach_of, self.nodes, chosen_already),
                )
            )
        for claim in self._selected:
            here = self._provision(claim, here, here)
        for claim, _, chosen in self.static:
            here = self._provision(claim, here & (chosen == NO_VOLUME), here)

    def _selected_rows(self) -> BoolArray:
        """Rows of the node selected for claims that are being provisioned already."""
        here = np.ones(len(self.nodes), np.bool_)
        for claim in self._selected:
            only = np.zeros(len(self.nodes), np.bool_)
            row = self.nodes.row(claim.metadata.annotations[SELECTED_NODE])
            if row is not None:
                only[row] = True
            here &= only
        return here

    def _provision(
        self, claim: PersistentVolumeClaim, needed: BoolArray, here: BoolArray
    ) -> BoolArray:
        """Whether a volume can be made for ``claim`` where it is ``needed``.

        Returns:
            Those rows of ``here`` that still fit.
        """
        if not needed.any():
            return here
        storage_class = self._volumes.objects.get(STORAGE_CLASS, claim_class(claim))
        assert storage_class is not None, "only claims of an existing class are delayed"
        if storage_class.provisioner in ("", NO_PROVISIONER):
            possible = np.zeros(len(self.nodes), np.bool_)
        else:
            allowed = reach.of_topologies(storage_class.allowed_topologies)
            possible = reach.rows(allowed, self.nodes)
        self.codes[needed & ~possible] |= BIND_CONFLICT
        enough = self._enough_space(claim, storage_class, needed & possible)
        self.codes[needed & possible & ~enough] |= NO_SPACE
        return here & ~(needed & ~(possible & enough))

    def _enough_space(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, needed: BoolArray
    ) -> BoolArray:
        """Where the driver has published enough space, if it publishes any."""
        driver = self._volumes.objects.get(CSI_DRIVER, storage_class.provisioner)
        requested = claim.spec.resources.requests.get("storage")
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return np.ones(len(self.nodes), np.bool_)
        requested_bytes = quantity.value(requested)
        large = [
            each
            for each in self._volumes.capacities(storage_class.name)
            if (limit := volume_limit(each[0])) is not None and limit >= requested_bytes
        ]
        first = FirstReach(self.nodes, (reached for _, reached in large)).best()
        self.capacity.append((claim, [c for c, _ in large], first, needed))
        enough: BoolArray = first >= 0
        return enough


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume, in bytes, that fits; None where nothing is said."""
    limit = capacity.maximum_volume_size
    limit = capacity.capacity if limit is None else limit
    return None if limit is None else quantity.value(limit)

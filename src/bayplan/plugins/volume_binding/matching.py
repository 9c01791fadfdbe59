"""Which PersistentVolume an unbound claim would get on each node.

A volume that names the claim already (pre-bound by its owner) is the only choice, reachable or not.
Otherwise it is the smallest available one that offers what the claim asks for and that the node can
reach; equal ones by the order in which they were first seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from bayplan.api import quantity, selectors
from bayplan.api.pod_spec import Resources
from bayplan.api.storage import PersistentVolume, PersistentVolumeClaim
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.plugins.shared import reach
from bayplan.plugins.shared.claims import claim_class, volume_class
from bayplan.plugins.shared.reach import FirstReach, Reach

ReachOf = Callable[[PersistentVolume], Reach]

NO_VOLUME = -1
_FILESYSTEM = "Filesystem"


def size(resources: Resources) -> int | Fraction:
    """Bytes of storage, exactly; 0 when nothing is said."""
    return _exact(resources.get("storage", 0))


@lru_cache(maxsize=4096)
def _exact(amount: quantity.Amount) -> int | Fraction:
    # Comparing integers takes a tenth of the time, and there are many volumes to compare.
    exact = quantity.parse(amount)
    return exact.numerator if exact.denominator == 1 else exact


def names(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether ``volume`` is bound, or promised by its owner, to ``claim``."""
    ref = volume.spec.claim_ref
    if ref is None or (ref.name, ref.namespace) != (claim.name, claim.namespace):
        return False
    return not ref.uid or ref.uid == claim.uid


def match(
    claim: PersistentVolumeClaim,
    volumes: Sequence[PersistentVolume],
    reach_of: ReachOf,
    nodes: NodeTable,
    taken: Sequence[IntArray],
) -> IntArray:
    """What ``claim`` would get on each node.

    Args:
        claim: an unbound claim.
        volumes: of its class, with all that no other claim has; some that one has do no harm.
        reach_of: from where a volume can be reached.
        nodes: full table or what-if.
        taken: what the Pod's other claims get: indices into ``volumes`` per row.

    Returns:
        Indices into ``volumes``, `NO_VOLUME` where there is none, ``(n,)``.
    """
    chosen = np.full(len(nodes), NO_VOLUME, np.int64)
    undecided = np.ones(len(nodes), np.bool_)
    usable = _usable(claim, volumes)
    for i in usable:
        if volumes[i].spec.claim_ref is not None:
            here = undecided & ~_among(i, taken, len(nodes))
            reachable = reach.rows(reach_of(volumes[i]), nodes)
            chosen[here & reachable] = i
            undecided &= ~here
    if undecided.any():
        best = _smallest(claim, usable, volumes, reach_of, nodes, taken)
        chosen[undecided] = best[undecided]
    return chosen


def _among(index: int, taken: Sequence[IntArray], n: int) -> np.ndarray:
    satisfied = np.zeros(n, np.bool_)
    for others in taken:
        satisfied |= others == index
    return satisfied


def _smallest(
    claim: PersistentVolumeClaim,
    usable: Sequence[int],
    volumes: Sequence[PersistentVolume],
    reach_of: ReachOf,
    nodes: NodeTable,
    taken: Sequence[IntArray],
) -> IntArray:
    available = _available(claim, usable, volumes)
    first = FirstReach(nodes, (reach_of(volumes[i]) for i in available))
    index = np.array([*available, NO_VOLUME], np.int64)
    best = index[first.best()]
    for others in taken:
        for row in np.flatnonzero((best == others) & (best != NO_VOLUME)).tolist():
            used = {int(other[row]) for other in taken}
            free = (available[at] for at in first.at(row) if available[at] not in used)
            best[row] = next(free, NO_VOLUME)
    return best


def _usable(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> list[int]:
    """The volumes that ``claim`` can use: free or reserved for the claim, and of the right kind."""
    wanted = claim.spec
    least = size(wanted.resources.requests)
    mode, attributes = wanted.volume_mode or _FILESYSTEM, wanted.volume_attributes_class_name or ""

    def could_serve(volume: PersistentVolume) -> bool:
        spec = volume.spec
        return (
            (spec.claim_ref is None or names(volume, claim))
            and size(spec.capacity) >= least
            and (spec.volume_mode or _FILESYSTEM) == mode
            and (spec.volume_attributes_class_name or "") == attributes
            and volume.metadata.deletion_timestamp is None
        )

    return [i for i, volume in enumerate(volumes) if could_serve(volume)]


def _available(
    claim: PersistentVolumeClaim, usable: Sequence[int], volumes: Sequence[PersistentVolume]
) -> list[int]:
    """Volumes that are available and satisfy ``claim``, smallest first."""
    selector = claim.spec.selector
    selected = selectors.label_selector(selector) if selector else None
    name, modes = claim_class(claim), set(claim.spec.access_modes)

    def offers(volume: PersistentVolume) -> bool:
        return (
            volume.spec.claim_ref is None
            and volume.status.phase == "Available"
            and volume_class(volume) == name
            and modes.issubset(volume.spec.access_modes)
            and (selected is None or selected(volume.labels))
        )

    candidates = [i for i in usable if offers(volumes[i])]
    return sorted(candidates, key=lambda i: size(volumes[i].spec.capacity))

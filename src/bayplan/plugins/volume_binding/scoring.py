"""How full the volumes of a node would be, as a score."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from bayplan.api import quantity
from bayplan.api.pod_spec import Resources
from bayplan.cache.node_table import IntArray
from bayplan.plugins.shared.claims import claim_class
from bayplan.plugins.volume_binding.finder import FoundVolumes
from bayplan.plugins.volume_binding.matching import NO_VOLUME


class _Use:
    """Bytes requested of and offered by one StorageClass, per row."""

    def __init__(self, n: int) -> None:
        self.requested = np.zeros(n, np.int64)
        self.capacity = np.zeros(n, np.int64)
        self.there = np.zeros(n, np.bool_)


def scores(found: FoundVolumes, curve: IntArray) -> IntArray:
    """The mean over StorageClasses of what ``curve`` says of their utilization, ``(n,)``.

    A node where any claim gets an existing volume is judged by those alone.
    """
    n = len(found.codes)
    static = _static_use(found, n)
    is_static = np.zeros(n, np.bool_)
    for use in static.values():
        is_static |= use.there
    dynamic = _dynamic_use(found, n)
    return np.where(is_static, _mean(static, curve, n), _mean(dynamic, curve, n))


def _static_use(found: FoundVolumes, n: int) -> dict[str, _Use]:
    uses: dict[str, _Use] = defaultdict(lambda: _Use(n))
    for claim, volumes, chosen in found.static:
        sizes = [*(_storage(volume.spec.capacity) for volume in volumes), 0]
        there = chosen != NO_VOLUME
        use = uses[claim_class(claim)]
        use.requested += there * _storage(claim.spec.resources.requests)
        use.capacity += np.array(sizes, np.int64)[chosen]
        use.there |= there
    return uses


def _dynamic_use(found: FoundVolumes, n: int) -> dict[str, _Use]:
    uses: dict[str, _Use] = defaultdict(lambda: _Use(n))
    for claim, capacities, at, needed in found.capacity:
        there = needed & (at >= 0)
        free = [*(quantity.value(c.capacity or 0) for c in capacities), 0]
        use = uses[claim_class(claim)]
        use.requested += there * _storage(claim.spec.resources.requests)
        use.capacity = np.where(there, np.array(free, np.int64)[at], use.capacity)
        use.there |= there
    return uses


def _mean(uses: dict[str, _Use], curve: IntArray, n: int) -> IntArray:
    total, classes = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for use in uses.values():
        full = (use.capacity == 0) | (use.requested > use.capacity)
        share = use.requested * 100 // np.where(use.capacity == 0, 1, use.capacity)
        total += use.there * curve[np.where(full, 100, share)]
        classes += use.there
    mean: npt.NDArray[np.float64] = np.floor(total / np.maximum(classes, 1) + 0.5)
    return mean.astype(np.int64)


def _storage(resources: Resources) -> int:
    return quantity.value(resources.get("storage", 0))

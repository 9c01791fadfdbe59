"""DeviceOffers: the devices of nodes behind an extended resource, for scores.

Where a node itself offers none of a resource, and a DeviceClass stands for it, the devices that the
class accepts are what the node offers, and those in use are what is taken of it.
"""

from __future__ import annotations

import numpy as np

from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.plugins.shared.device_tracker import device_tracker

Columns = tuple[IntArray, IntArray]
"""What nodes offer, and what is taken of it."""


class DeviceOffers:
    """The offers for plugins that score resources with a device class."""

    def __init__(self, handle: InTreeHandle) -> None:
        self._classes = handle.objects.shared(DeviceClasses, handle.objects)
        # The tracker itself: without DynamicResources there is no other reference.
        self._tracker = device_tracker(handle)

    @property
    def epoch(self) -> int:
        """Changes when the offers of some node may have."""
        return self._tracker.fleet.epoch

    def added_to(self, columns: Columns, resource: str, nodes: NodeTable) -> Columns:
        """``columns`` of ``resource``, with devices where the nodes offer none of it."""
        allocatable, requested = columns
        device_class = self._classes.behind(resource)
        if device_class is None or allocatable.all():
            return columns
        counts = self._tracker.fleet.counts(device_class)
        rows = slice(None) if nodes.origin is None else nodes.origin
        devices = (allocatable == 0) & (counts.capacity[rows] > 0)
        return (
            np.where(devices, counts.capacity[rows], allocatable),
            np.where(devices, counts.in_use[rows], requested),
        )

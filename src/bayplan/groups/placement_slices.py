"""PlacementSlices: the slices of a PodGroup of Kubernetes on one placement.

The minimum of a gang of which no Pod has a node is laid out at once (`bayplan.groups.slice_fill`).
All other Pods are tried one after the other, each where its slice may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.homes import copies_of
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.attempt.slice_homes import Home, in_slices
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.pod_groups import Group
from bayplan.engine.runtime import Framework
from bayplan.framework.placements import PodGroupInfo
from bayplan.groups import domains
from bayplan.groups.capacity import GroupCapacity
from bayplan.groups.decision import Placed
from bayplan.groups.domains import Domain, Share
from bayplan.groups.fill import Fill, Rejected
from bayplan.groups.packed_fill import PackedFill
from bayplan.groups.slice_fill import SliceFill
from bayplan.groups.slice_packing import Steps
from bayplan.groups.words_label import in_slices_of

MOST_ATTEMPTS = 8
"""For each Pod that is laid out."""


class PlacementSlices:
    """See the module's docstring.

    Args:
        framework: the profile of the Pods.
        fill: places them.
        nodes: the table.
        group: the PodGroup, which has slices.
        info: its Pods.
        capacity: of these.
        within: ``(n,)`` bool, the rows of the placement; None for all.
        steps: how much work packings may do.

    Attributes:
        shares: the domains of what was laid out.
    """

    def __init__(
        self,
        framework: Framework,
        fill: Fill,
        nodes: NodeTable,
        group: Group,
        info: PodGroupInfo,
        capacity: GroupCapacity,
        within: BoolArray | None,
        steps: Steps,
    ) -> None:
        self._steps = steps
        self._framework, self._fill, self._nodes = framework, fill, nodes
        self._group, self._info, self._capacity = group, info, capacity
        self._within = Home(within)
        self.shares: Sequence[Share] = ()

    def lay_out(self) -> Rejected | None:
        """Place the minimum of a gang at once, or nothing; a Pod that has no node, and why."""
        if fault := domains.fault(self._nodes, self._group):
            return self._info.pods[0], Rejection(Reason.UNSCHEDULABLE, fault)
        info, topology = self._info, self._group.topology
        if info.scheduled or not info.pod_group.is_gang or topology is None:
            return None
        pods = info.pods[: self._group.minimum]
        capacity, rows = self._capacity, self._within.rows
        packed = PackedFill(
            self._framework, self._fill, self._nodes, self._group, {"": pods}, rows, self._steps
        )
        may_pack = packed.applies and capacity.at_most(rows) >= len(pods)
        if may_pack and packed.first and packed.run():
            self.shares = packed.slices[""]
            return None
        slices = SliceFill(self._fill, self._nodes, topology, pods, capacity, rows)
        (domain,) = slices.ordered([self._everything()])
        failed = slices.run(domain, self._fill.attempts + MOST_ATTEMPTS * len(pods))
        if failed is None:
            self.shares = slices.shares
            return None
        if may_pack and not packed.first and packed.run():
            self.shares = packed.slices[""]
            return None
        if failed:
            return failed[0]
        held = f"at most {domain.holds} of {len(pods)} fit{in_slices_of(self._group)}"
        return pods[0], Rejection(Reason.UNSCHEDULABLE, held, capacity.plugins)

    def home(self, pod: Pod, placed: Iterable[Placed]) -> Home:
        """Where one Pod may go, after ``placed`` of its group."""
        members = [*self._info.scheduled, *(one.member.pod for one in placed)]
        copies = copies_of(self._framework, self._nodes, pod)
        return in_slices(self._nodes, self._group.slices, pod, members, copies, self._within)

    def _everything(self) -> Domain:
        """The whole placement as a domain."""
        rows = self._within.rows
        codes = None if rows is None else np.where(rows, 0, -1).astype(np.int32)
        return Domain("", "", codes, 0, self._capacity.at_most(rows))

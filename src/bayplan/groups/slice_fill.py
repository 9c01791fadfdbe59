"""SliceFill: places the Pods of a group that has slices, or of a sub-group, slice by slice.

Arithmetic says how many slices go in which domains (`bayplan.groups.slice_tree`); the ordinary
attempts prove it. A domain that turns out to hold fewer Pods counts as smaller from then on, and
the slices are laid out anew, until they are placed or there is no layout left.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason
from bayplan.cache.group_topology import GroupTopology
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.slice_ranks import cut
from bayplan.groups.capacity import GroupCapacity
from bayplan.groups.domains import Domain, Share
from bayplan.groups.fill import Fill, Rejected
from bayplan.groups.slice_tree import SliceTree


class SliceFill:
    """The slices of one part of a group.

    Args:
        fill: places Pods.
        nodes: the table.
        topology: of the part; it has slices.
        pods: as many as the minimum of the part.
        capacity: of all Pods of the part.
        within: ``(n,)`` bool, the rows that may be used; None for all.

    Attributes:
        shares: where the slices were placed last.
        reached: how many Pods were placed in the last layout that failed.
    """

    def __init__(
        self,
        fill: Fill,
        nodes: NodeTable,
        topology: GroupTopology,
        pods: Sequence[Pod],
        capacity: GroupCapacity,
        within: BoolArray | None,
    ) -> None:
        self._fill, self._minimum, self._size = fill, len(pods), topology.slices[0].size
        self._count, self._pods = cut(pods, topology.slices)
        self._tree = SliceTree(nodes, topology, capacity, within, self._count)
        self.shares: list[Share] = []
        self.reached = 0

    def ordered(self, domains: Sequence[Domain]) -> list[Domain]:
        """The same with what each holds in whole slices: most Pods first, then the best.

        One that does not hold all slices holds less than the minimum.
        """
        held = [self._tree.held(domain) for domain in domains]
        least = self._minimum - 1
        counted = [
            d if count >= self._count else d._replace(holds=min(count * self._size, least))
            for d, count in zip(domains, held, strict=True)
        ]
        return sorted(counted, key=lambda d: (-d.holds, self._tree.sort_key(d)))

    def run(self, domain: Domain, most_attempts: int) -> list[Rejected] | None:
        """Place all slices in the domain, or nothing.

        Returns:
            None, or why a Pod was not placed in the last layout that was tried.
        """
        mark = len(self._fill.placed)
        rejected: list[Rejected] = []
        while (leaves := self._tree.leaves(domain)) and self._fill.attempts <= most_attempts:
            if self._fill_leaves(leaves, rejected):
                return None
            self.reached = len(self._fill.placed) - mark
            self._fill.undo(mark)
            if any(why.reason is Reason.SCHEDULER_ERROR for _, why in rejected):
                break
        return rejected

    def _fill_leaves(self, leaves: Sequence[Share], rejected: list[Rejected]) -> bool:
        """Whether all slices were placed in these domains; if not, why a Pod was ``rejected``."""
        first, self.shares = 0, []
        for leaf, slices in leaves:
            numbers = range(first, first + slices)
            pods = [pod for number in numbers for pod in self._pods.get(number, ())]
            before = len(self._fill.placed)
            rejected[:] = self._fill.run(pods, leaf.rows)
            placed = len(self._fill.placed) - before
            if placed < len(pods):
                self._tree.holds_only(leaf, placed)
                return False
            self.shares.append((leaf, placed))
            first += slices
        return True

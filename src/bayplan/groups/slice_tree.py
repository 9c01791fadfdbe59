"""SliceTree: the domains that slices of a group may go to, from the nodes up.

How many slices fit in a domain is a bound (`GroupCapacity`), which is exact for Pods that are alike
and of which each node takes a number, whatever is elsewhere. What turns out to hold less is told
(`SliceTree.holds_only`), and the next layout counts with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.cache.group_topology import GroupTopology, SlicePlacement
from bayplan.cache.node_table import BoolArray, CodeArray, IntArray, NodeTable
from bayplan.groups.capacity import GroupCapacity
from bayplan.groups.domains import Domain, Share
from bayplan.groups.slice_layout import Layout, Rank, layout
from bayplan.groups.slice_problem import SliceProblem, held, product
from bayplan.groups.slice_tables import Weights


class SliceTree:
    """The domains of the innermost slices' level, and those of the levels above.

    Args:
        nodes: the table.
        topology: of the group or sub-group; it has slices.
        capacity: of its Pods.
        within: ``(n,)`` bool, the rows that may be used; None for all.
        count: how many of the outermost slices there are.
    """

    def __init__(
        self,
        nodes: NodeTable,
        topology: GroupTopology,
        capacity: GroupCapacity,
        within: BoolArray | None,
        count: int,
    ) -> None:
        self._topology, self._count = topology, count
        self.level = topology.slices[-1].topology
        self._values = nodes.label(self.level).values
        self._levels = topology.levels[: topology.levels.index(self.level)]
        sizes = [layer.size for layer in topology.slices]
        layers = [layer.topology for layer in topology.slices]
        self._ratios = {
            level: outer // inner
            for level, outer, inner in zip(layers, sizes, sizes[1:], strict=False)
        }
        codes = nodes.label(self.level).codes.copy()
        for level in layers[:-1]:
            codes[nodes.label(level).codes < 0] = -1
        if within is not None:
            codes[~within] = -1
        self._codes: CodeArray = codes
        self._leaves: IntArray = np.unique(codes[codes >= 0]).astype(np.int64)
        fit, room = capacity.by_domain(codes, len(self._values))
        self._fit, self._room = fit[self._leaves], room[self._leaves]
        # A slice with fewer Pods than its size takes the room of a whole one.
        whole = count * sizes[0]
        spare = np.minimum(self._room, whole) if capacity.bounds else whole
        all_fit = self._fit >= capacity.total
        self._fit[all_fit] = np.maximum(self._fit, spare)[all_fit]
        _, row = np.unique(codes, return_index=True)
        rows = row[len(row) - len(self._leaves) :]
        self._above = {level: nodes.domains(level)[rows] for level in self._levels}
        numbers = [len(np.unique(codes)) for codes in self._above.values()]
        inner = count * sizes[0] // sizes[-1]
        self._weights = Weights(self._room, [*numbers, len(self._leaves)], inner)
        self._layouts: dict[tuple[str, int], Layout | None] = {}

    def held(self, domain: Domain) -> int:
        """How many of the outermost slices fit in the domain, at most."""
        problem, factor = self._problem(domain)
        return held(problem) // factor

    def leaves(self, domain: Domain) -> list[Share]:
        """The innermost domains for all slices, and how many each gets; none where they do not fit.

        Neighbours follow each other, and those of one outer slice, too.
        """
        found, inside = self._layout(domain), self._inside(domain)
        if found is None:
            return []
        paths = [*(self._above[level] for level in self._levels), self._leaves]
        used = np.flatnonzero(found.slices)
        used = used[np.lexsort([path[inside[used]] for path in reversed(paths)])]
        return [(self._leaf(int(inside[at])), int(found.slices[at])) for at in used]

    def holds_only(self, leaf: Domain, pods: int) -> None:
        """No more than so many Pods fit in a leaf."""
        at = self._leaves == leaf.code
        self._fit[at] = np.minimum(self._fit[at], pods)
        self._layouts.clear()

    def sort_key(self, domain: Domain) -> tuple[Rank, int, str]:
        """Lower for a domain that holds all slices in a better way than another one does."""
        found = self._layout(domain)
        room = int(self._room[self._inside(domain)].sum())
        if self._topology.placement is SlicePlacement.MOST_FREE:
            room = -room
        return (found.rank if found else (0, 0, 0)), room, domain.value

    def _layout(self, domain: Domain) -> Layout | None:
        key = domain.level, domain.code
        if key not in self._layouts:
            problem, _ = self._problem(domain)
            self._layouts[key] = layout(problem, self._weights, self._topology.placement)
        return self._layouts[key]

    def _leaf(self, index: int) -> Domain:
        code = int(self._leaves[index])
        return Domain(self.level, self._values[code], self._codes, code, int(self._fit[index]))

    def _inside(self, domain: Domain) -> IntArray:
        if not domain.level:
            return np.arange(len(self._leaves))
        if domain.level == self.level:
            return np.flatnonzero(self._leaves == domain.code)
        return np.flatnonzero(self._above[domain.level] == domain.code)

    def _problem(self, domain: Domain) -> tuple[SliceProblem, int]:
        """The slices in one domain, and of how many of its own slices an outermost one is made."""
        inside, levels = self._inside(domain), self._below(domain)
        ratios = [self._ratios.get(level, 0) for level in levels]
        outer = [ratio for level, ratio in self._ratios.items() if level not in levels]
        factor = product(outer)
        problem = SliceProblem(
            self._fit[inside] // self._topology.slices[-1].size,
            self._room[inside],
            [self._above[level][inside] for level in levels],
            ratios,
            self._count * factor,
        )
        return problem, factor

    def _below(self, domain: Domain) -> Sequence[str]:
        """The levels between the domain and the leaves."""
        if not domain.level:
            return self._levels
        if domain.level == self.level:
            return ()
        return self._levels[self._levels.index(domain.level) + 1 :]

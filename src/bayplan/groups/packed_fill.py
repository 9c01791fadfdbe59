"""PackedFill: slices of unlike Pods, or of several parts of a group, placed in one packing.

Where slices of one part of a group are of Pods that are all alike, `bayplan.groups.slice_fill`
finds the best domains. Otherwise what one Pod takes matters to others, which
`bayplan.groups.slice_packing` knows. The ordinary attempts prove the answer: each domain with the
nodes that scores prefer, or if that fails, all Pods on just the nodes of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.sub_groups import SubGroup
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.groups.domains import Domain, Share
from bayplan.groups.fill import Fill
from bayplan.groups.group_packing import At, GroupPacking
from bayplan.groups.slice_packing import Steps, pack
from bayplan.groups.slice_tables import TooLargeError


class PackedFill:
    """One packing of a group of which no Pod has a node.

    Args:
        framework: the profile of the Pods.
        fill: places them.
        nodes: the table.
        group: what is asked for.
        pods: by part, those of its own that minimums need.
        within: ``(n,)`` bool, the rows that may be used; None for all.
        steps: how much work it may do.

    Attributes:
        applies: whether numbers of Pods are not enough to place its slices.
        first: whether this is asked before other searches, as it finds what is asked for; else it
            is for where these find nothing.
        rows: by part, ``(n,)`` the rows that it is limited to; None for all.
        domains: by part that requires one, the domain that it is in.
        slices: by part that has slices, the domains of these, with the number of Pods in each.
    """

    def __init__(
        self,
        framework: Framework,
        fill: Fill,
        nodes: NodeTable,
        group: SubGroup,
        pods: Mapping[str, Sequence[Pod]],
        within: BoolArray | None,
        steps: Steps,
    ) -> None:
        self._steps = steps
        self._framework, self._fill, self._nodes = framework, fill, nodes
        self._group, self._within = group, within
        self._packing = GroupPacking(nodes, group, pods)
        self.applies = steps.any and self._packing.applies
        self.first = self._packing.is_tight
        self.rows: dict[str, BoolArray | None] = {}
        self.domains: dict[str, Domain] = {}
        self.slices: dict[str, list[Share]] = {}

    def run(self) -> bool:
        """Place all Pods, or none, and say which."""
        try:
            how = pack(self._packing.problem(self._framework, self._within), self._steps)
        except (TooLargeError, AttemptFault):
            # Another search goes on; its first attempt meets the fault as well, and reports it.
            return False
        if how is None:
            return False
        parts = list(self._group.walk())
        places = {part.name: self._packing.places(part, how) for part in parts}
        self._limit(self._group, places, self._within)
        mark = len(self._fill.placed)
        for prove in (self._in_domains, self._on_nodes):
            if all(prove(part, places[part.name]) for part in parts):
                return True
            self._fill.undo(mark)
        return False

    def _limit(
        self, part: SubGroup, places: Mapping[str, Sequence[At]], within: BoolArray | None
    ) -> None:
        """Note the domains of a part and of all parts below."""
        rows = [row for below in part.walk() for _, row in places[below.name]]
        if part.required_level:
            domain = self._domain(part.required_level, rows[0], len(rows), within)
            self.domains[part.name], within = domain, domain.rows
        self.rows[part.name] = within
        if part.slices:
            at = self._nodes.label(part.slices[-1].topology).codes[rows]
            _, first, number = np.unique(at, return_index=True, return_counts=True)
            self.slices[part.name] = [
                (self._domain(part.slices[-1].topology, rows[i], count, within), count)
                for i, count in sorted(zip(first.tolist(), number.tolist(), strict=True))
            ]
        for below in part.parts:
            self._limit(below, places, within)

    def _domain(self, level: str, row: int, pods: int, within: BoolArray | None) -> Domain:
        """The domain of a row, with so many Pods."""
        column = self._nodes.label(level)
        code = int(column.codes[row])
        codes = column.codes if within is None else np.where(within, column.codes, -1)
        return Domain(level, column.values[code], codes.astype(np.int32), code, pods)

    def _in_domains(self, part: SubGroup, places: Sequence[At]) -> bool:
        """Whether all Pods of a part get nodes in their domains."""
        left = [pod for pod, _ in places]
        shares = [(domain.rows, count) for domain, count in self.slices.get(part.name, ())]
        for rows, count in shares or [(self.rows[part.name], len(left))]:
            before = len(self._fill.placed)
            self._fill.run(left[:count], rows)
            if len(self._fill.placed) - before < count:
                return False
            del left[:count]
        return True

    def _on_nodes(self, _part: SubGroup, places: Sequence[At]) -> bool:
        """Whether all Pods get their nodes."""
        return all(
            self._fill.place(pod, np.arange(len(self._nodes)) == row) is None for pod, row in places
        )

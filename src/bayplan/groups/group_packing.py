"""GroupPacking: a group with slices as a problem of `bayplan.groups.slice_packing`, and its answer.

What goes beside what on a node is known by resources; each kind of Pod by itself has the bound of
`bayplan.engine.capacity`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.group_topology import SlicePlacement
from bayplan.cache.node_table import BoolArray, CodeArray, IntArray, NodeTable
from bayplan.cache.slice_ranks import cut, slice_id
from bayplan.cache.sub_groups import SubGroup
from bayplan.engine.capacity import PodKind, kind_of
from bayplan.engine.runtime import Framework
from bayplan.groups.capacity import kinds_of
from bayplan.groups.packing_problem import (
    How,
    PackingNode,
    PackingPart,
    PackingProblem,
    Vector,
    cuts,
    taken,
)
from bayplan.preemption.member_fit import Free, amounts_of

MOST_COLUMNS = 8
"""Kinds of Pods, by part; of more the vectors are too many in any case."""

At = tuple[Pod, int]
"""A Pod and its row."""


class GroupPacking:
    """One group of which no Pod has a node.

    Args:
        nodes: the table.
        group: what is asked for.
        pods: by part, those of its own that minimums need.
    """

    def __init__(
        self, nodes: NodeTable, group: SubGroup, pods: Mapping[str, Sequence[Pod]]
    ) -> None:
        self._nodes, self._parts, self._pods = nodes, list(group.walk()), pods
        topologies = [part.topology for part in self._parts if part.topology is not None]
        self._levels = max((topology.levels for topology in topologies), key=len, default=())
        labels = {part.required_level for part in self._parts}
        labels |= {layer.topology for part in self._parts for layer in part.slices}
        self._labels = labels - {""}
        self._columns: list[tuple[str, PodKind]] = [
            (part.name, kind) for part in self._parts for kind in kinds_of(pods[part.name])
        ]

    @property
    def applies(self) -> bool:
        """Whether slices are of unlike Pods, or beside other parts, and can be packed at all."""
        sliced = [part for part in self._parts if part.slices]
        return (
            bool(sliced)
            and 1 < len(self._columns) <= MOST_COLUMNS
            and self._labels <= set(self._levels)
            and all(map(self._is_whole, sliced))
        )

    @property
    def is_tight(self) -> bool:
        """Whether all parts ask for the tightest domains, and none for preferred ones."""
        topologies = [part.topology for part in self._parts if part.topology is not None]
        return all(
            topology.placement is SlicePlacement.TIGHTEST and not topology.preferred
            for topology in topologies
        )

    def _is_whole(self, part: SubGroup) -> bool:
        """Whether there are whole slices, of one kind if there are slices in slices."""
        number, slices = cut(self._pods[part.name], part.slices)
        outer, inner = part.slices[0].size, part.slices[-1].size
        full = all(len(pods) == inner for pods in slices.values())
        alike = not self._has_ranks(part) or len(self._slices(part)) == 1
        return (
            full
            and number * outer == len(self._pods[part.name])
            and (alike or len(part.slices) == 1)
        )

    # The problem

    def problem(self, framework: Framework, within: BoolArray | None) -> PackingProblem:
        """What is asked.

        Args:
            framework: the profile of the Pods.
            within: ``(n,)`` bool, the rows that may be used; None for all.

        Raises:
            AttemptFault: a plugin broke.
        """
        kinds = kinds_of(pod for part in self._parts for pod in self._pods[part.name])
        bounds = [framework.search.capacity.of(pod, kinds).copies for pod in kinds.values()]
        amounts = [amounts_of(pod) for pod in kinds.values()]
        resources = sorted({name for each in amounts for name in each})
        number = Counter(
            (part.name, kind_of(pod)) for part in self._parts for pod in self._pods[part.name]
        )
        index = list(kinds)
        return PackingProblem(
            self._rooms(bounds, resources, within),
            [tuple(each.get(name, 0) for name in resources) for each in amounts],
            [(index.index(column[1]), number[column]) for column in self._columns],
            [self._part(part) for part in self._parts],
            len(self._used),
        )

    def _rooms(
        self, bounds: Sequence[IntArray], resources: Sequence[str], within: BoolArray | None
    ) -> list[PackingNode]:
        usable = np.any([copies > 0 for copies in bounds], axis=0)
        rows = np.flatnonzero(usable if within is None else usable & within)
        columns = Free(self._nodes, resources).columns
        copies = np.array(bounds)[:, rows].T
        free = np.array([columns[name][rows] for name in resources]).T
        paths = np.array([self._codes(level)[rows] for level in self._used]).T
        rooms = copies.sum(axis=1).tolist()
        lists = (rows.tolist(), paths.tolist(), copies.tolist(), free.tolist(), rooms)
        return [
            PackingNode(row, tuple(path), tuple(most), tuple(left), room)
            for row, path, most, left, room in zip(*lists, strict=True)
        ]

    @property
    def _used(self) -> Sequence[str]:
        """The levels down to the last one that a part asks about."""
        return self._levels[: 1 + max(map(self._levels.index, self._labels))]

    def _codes(self, level: str) -> CodeArray:
        return self._nodes.label(level).codes

    def _part(self, part: SubGroup) -> PackingPart:
        names = {below.name for below in part.walk()}
        return PackingPart(
            tuple(at for at, (name, _) in enumerate(self._columns) if name in names),
            self._levels.index(part.required_level) if part.required_level else -1,
            {self._levels.index(layer.topology): layer.size for layer in part.slices},
            list(self._slices(part).items()) if self._has_ranks(part) else (),
        )

    def _has_ranks(self, part: SubGroup) -> bool:
        """Whether the Pods are unlike and have an index, so that slices differ."""
        pods = self._pods[part.name]
        ranked = bool(part.slices) and all(slice_id(pod.shape, 1) is not None for pod in pods)
        return ranked and len(set(map(kind_of, pods))) > 1

    def _slices(self, part: SubGroup) -> Counter[Vector]:
        """How often there is each slice, as its numbers of Pods by kind."""
        _, slices = cut(self._pods[part.name], part.slices)
        return Counter(self._vector(part, pods) for _, pods in sorted(slices.items()))

    def _vector(self, part: SubGroup, pods: Sequence[Pod]) -> Vector:
        counts = Counter(map(kind_of, pods))
        return tuple(counts[kind] for name, kind in self._columns if name == part.name)

    # The answer

    def places(self, part: SubGroup, how: How) -> list[At]:
        """The part's own Pods and where they go, domain by domain."""
        pods, slices = self._pods[part.name], list[Sequence[Pod]]()
        if part.slices:
            slices = [each for _, each in sorted(cut(pods, part.slices)[1].items())]
            pods = [pod for each in slices for pod in each]
        if not self._has_ranks(part):
            return self._dealt(part, pods, how)
        alike: dict[Vector, list[Sequence[Pod]]] = {}
        for each in reversed(slices):
            alike.setdefault(self._vector(part, each), []).append(each)
        kinds, index = list(self._slices(part)), self._parts.index(part)
        places: list[At] = []
        for domain in cuts(how):
            if domain.part == index:
                numbers = zip(kinds, domain.numbers, strict=True)
                mine = [alike[kind].pop() for kind, number in numbers for _ in range(number)]
                places += self._dealt(part, [pod for each in mine for pod in each], domain.below)
        return places

    def _dealt(self, part: SubGroup, pods: Sequence[Pod], how: How) -> list[At]:
        """These Pods, in their order, on the nodes of ``how``."""
        left: dict[PodKind, list[Pod]] = {}
        for pod in reversed(pods):
            left.setdefault(kind_of(pod), []).append(pod)
        codes = [self._codes(level) for level in self._used]
        nodes = sorted(taken(how), key=lambda one: (*(code[one.row] for code in codes), one.row))
        return [
            (left[kind].pop(), node.row)
            for node in nodes
            for (name, kind), number in zip(self._columns, node.vector, strict=True)
            if name == part.name
            for _ in range(number)
        ]

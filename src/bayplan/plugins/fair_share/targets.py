"""Targets: the nodes on which room is made for a preemptor, one kind after the other.

On nodes of a kind that has columns of its own a Pod counts for these, so what is guaranteed, and
which limit is in the way, depends on the kind. A target says of each Pod of the preemptor to which
kind it is to go: all go to the same one, but for those that may not, which go to their first one.
All nodes without such columns are one target.

An example: a group has workers that need nodes of kind ``a100``, and a driver that may go to nodes
of no kind alone. There is one target: the workers on ``a100``, the driver on other nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable
from bayplan.cache.queue_tree import QueueTree, Structure
from bayplan.cache.queue_tree.kinds import NO_KIND
from bayplan.framework.effects import Effect
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import RoomRequest, RoomTrial

Target = Mapping[PodShape, int]
"""The kind of nodes for Pods of each shape; `NO_KIND` stands for all without columns."""


def compared(structure: Structure, target: Target) -> BoolArray:
    """(r,) the columns of which the share rule looks at what queues use.

    Those of a kind that is divided by itself, or else those of all nodes. None where Pods of the
    preemptor go to several such kinds, or to one and to other nodes.
    """
    mask = np.zeros(len(structure.resources), np.bool_)
    together = {structure.compared(kind) for kind in target.values()}
    if len(together) == 1:
        mask[list(*together)] = True
    return mask


def inside(queues: QueueTree, target: Target, rows: IntArray) -> BoolArray:
    """(n,) on which nodes, at these rows, Pods yield by the share rule: see `compared`."""
    divided = queues.structure.divided
    if not divided:
        return np.ones(len(rows), np.bool_)
    codes, kinds = queues.kinds.codes[rows], divided.intersection(target.values())
    on_divided: BoolArray = np.isin(codes, list(kinds or divided))
    return on_divided if kinds else ~on_divided


def targets(queues: QueueTree, preemptor: Preemptor) -> Iterator[Target]:
    """The targets, in the order of the queue of the first Pod."""
    shapes = {pod.shape: pod for pod in preemptor.pods}
    columns = {kind for kind, _, _ in queues.structure.kind_columns}
    if not columns:
        yield dict.fromkeys(shapes, NO_KIND)
        return
    choices = {
        shape: [kind if kind in columns else NO_KIND for kind in queues.possible_kinds(pod)]
        for shape, pod in shapes.items()
    }
    tried: list[Target] = []
    kinds = dict.fromkeys(kind for choice in choices.values() for kind in choice)
    for kind in kinds or [NO_KIND]:
        target = {
            shape: kind if kind in choice else next(iter(choice), NO_KIND)
            for shape, choice in choices.items()
        }
        if target not in tried:
            tried.append(target)
            yield target


class OnTarget:
    """A request for room on the nodes of a target; see `bayplan.framework.room.RoomRequest`."""

    def __init__(
        self, request: RoomRequest, target: Target, queues: QueueTree, nodes: LiveNodeTable
    ) -> None:
        self._request, self._target, self._nodes = request, target, nodes
        self._columns = [kind for kind, _, _ in queues.structure.kind_columns]
        self._codes = queues.kinds.codes
        self.preemptor: Preemptor = request.preemptor
        self.effects: list[Effect] = request.effects

    def _is_inside(self, pod: Pod) -> BoolArray:
        kind = self._target[pod.shape]
        if kind == NO_KIND:
            return ~np.isin(self._codes, self._columns)
        inside: BoolArray = self._codes == kind
        return inside

    def rows_for(self, pod: Pod) -> BoolArray:
        """See `RoomRequest`."""
        return self._request.rows_for(pod) & self._is_inside(pod)

    def plan_without(self, victims: Sequence[Pod]) -> Mapping[str, str] | None:
        """See `RoomRequest`; None as well where a Pod fits elsewhere only."""
        plan = self._request.plan_without(victims)
        if plan is None:
            return None
        rows = {pod: self._nodes.row(plan.get(pod.uid, "")) for pod in self.preemptor.pods}
        placed = ((pod, row) for pod, row in rows.items() if row is not None)
        return plan if all(self._is_inside(pod)[row] for pod, row in placed) else None

    def trial_without(self, victims: Sequence[Pod]) -> AbstractContextManager[RoomTrial]:
        """See `RoomRequest`."""
        return self._request.trial_without(victims)

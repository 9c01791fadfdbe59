"""ReservedFor: Pods without a GPU leave enough beside the GPUs that are free.

A node whose CPUs are all taken by Pods without GPUs has GPUs that nobody can use. So a node keeps,
for each free unit of a scarce resource, an amount of others: a Pod that asks for none of the scarce
resource has to leave it. At Filter such a node is rejected, at Score it is worse the less is left::

    left  = free - request of the Pod, of each resource that is kept and that the Pod requests
    kept  = amount for one unit x free units of the scarce resource
    score = 100 x left / kept, at most 100, of the resource where it is least

With the defaults Filter answers as ``proportional`` of Volcano's resource-strategy-fit, but for
Pods that request none of what is kept: they take nothing, and are let in.

A group whose Pods request none of the scarce resource is bounded by what is left beside all that is
free of it. Where some of its Pods do, they may take the GPUs, and so free what is kept for these:
then nothing bounds the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import NODE
from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.requests import spec_requests, units
from bayplan.config.args import ReservedForArgs
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    UNBOUNDED,
    Depends,
    Integers,
    Plugin,
    PodPart,
)
from bayplan.framework.points import BoundsCopies, EnqueueExtensions, FilterNodes, ScoreNodes
from bayplan.framework.status import Status


class _Kept(NamedTuple):
    """What nodes keep free of a resource for a unit of a scarce one, in the table's units."""

    scarce: str
    resource: str
    amount: int


class ReservedFor(Plugin, FilterNodes, BoundsCopies, ScoreNodes, EnqueueExtensions):
    """See the module's docstring."""

    Args = ReservedForArgs
    filter_depends = Depends.RESOURCES
    score_depends = Depends.RESOURCES
    reads = PodPart.REQUESTS

    def __init__(self, args: ReservedForArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._scarce = tuple(args.resources)
        self._kept = [
            _Kept(scarce, name, quantity.of(name, amount))
            for scarce, kept in args.resources.items()
            for name, amount in kept.items()
        ]

    def filter_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """0, or which of what is kept would not be left, from 1."""
        codes = np.zeros(len(nodes), np.int16)
        for code, left, kept in self._left(pod, nodes):
            codes[(kept > 0) & (left < kept) & (codes == 0)] = code
        return codes

    def reasons(self, _state: CycleState, _pod: Pod, code: int) -> Status:
        """What is kept; preemption may help."""
        kept = self._kept[code - 1]
        return Status.unschedulable(f"node(s) kept {kept.resource} for free {kept.scarce}")

    def copies(self, state: CycleState, pod: Pod, nodes: NodeTable) -> dict[str, IntArray]:
        """How often the request is there beside what is kept."""
        requests = pod.shape.requests.memo(_amounts)
        taken = [other.shape.requests.memo(_amounts) for other in state.beside]
        bounds: dict[str, IntArray] = {}
        for code, left, kept in self._left(pod, nodes):
            scarce, resource, _ = self._kept[code - 1]
            if any(amounts.get(scarce) for amounts in taken):
                continue
            request = requests[resource]
            most = np.where(kept > 0, (left + request - kept) // request, UNBOUNDED)
            bounds[f"{resource} beside what is kept for {scarce}"] = most
        return bounds

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """0 to 100, 100 where enough is left."""
        scores = np.full(len(nodes), MAX_NODE_SCORE, np.int64)
        for _, left, kept in self._left(pod, nodes):
            share = MAX_NODE_SCORE * np.maximum(left, 0) // np.maximum(kept, 1)
            np.minimum(scores, np.where(kept > 0, share, MAX_NODE_SCORE), out=scores)
        return scores

    def _left(self, pod: Pod, nodes: NodeTable) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Code, amount left with ``pod`` and amount to be kept, for each resource that counts."""
        requests = pod.shape.requests.memo(_amounts)
        if any(requests.get(name) for name in self._scarce):
            return
        for code, (scarce, resource, amount) in enumerate(self._kept, 1):
            request = requests.get(resource, 0)
            if not request:
                continue
            units_free = np.maximum(nodes.allocatable(scarce) - nodes.requested(scarce), 0)
            left = nodes.allocatable(resource) - nodes.requested(resource) - request
            yield code, left, units_free * amount

    def events_to_register(self) -> list[EventRegistration]:
        """Pods deleted or scaled down, Pods bound to scarce units, nodes with other amounts."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        changed = Action.ADD | Action.DELETE | Action.UPDATE_POD_SCALE_DOWN
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, changed)),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)),
            EventRegistration(node),
        ]


def _amounts(requests: SpecPart) -> dict[str, int]:
    return {name: units(name, a) for name, a in requests.memo(spec_requests).items()}

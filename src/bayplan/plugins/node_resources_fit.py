"""NodeResourcesFit: a node must have room for what the Pod requests; how full it is scores.

A node's reasons are packed into one code: bit 0 for the number of Pods, bit i for the i-th resource
of the Pod's needs, and the bit after these where no eviction could help, because the node as a
whole is too small. Codes are as narrow as the needs allow: mostly one byte. For a Pod of more
resources than an integer has bits, the combinations that occur are numbered (`_Combinations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import DEVICE_CLASS, NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import nonzero_requests, pod_requests, spec_requests, units
from bayplan.cache.shape_cache import SHAPES_KEPT
from bayplan.config.args import NodeResourcesFitArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Depends, Integers, Plugin, PodPart
from bayplan.framework.placements import GroupPlacement, PodGroupInfo
from bayplan.framework.points import (
    BoundsCopies,
    EnqueueExtensions,
    ExplainsFilter,
    FilterNodes,
    PlacementScore,
    ScoreNodes,
)
from bayplan.framework.status import Status
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.plugins.shared.resource_names import CORE, is_extended, is_scalar
from bayplan.plugins.shared.resource_scoring import (
    ScoredResource,
    device_epoch,
    device_offers,
    scored_resources,
)
from bayplan.plugins.shared.scoring_strategies import share_used_together, strategy

Needs = tuple[tuple[str, int], ...]
"""(resource, amount) for everything that a Pod requests, in the order of the reasons."""

_TOO_MANY_PODS = 1
_MOST_NEEDS = 61
"""With the first and the last bit, codes stay positive in 64 bits."""


class NodeResourcesFit(
    Plugin, FilterNodes, ExplainsFilter, BoundsCopies, ScoreNodes, PlacementScore, EnqueueExtensions
):
    """Filters by free resources, scores by the configured strategy; full placements first."""

    Args = NodeResourcesFitArgs
    kinds = (DEVICE_CLASS,)
    filter_depends = Depends.RESOURCES
    score_depends = Depends.RESOURCES
    reads = PodPart.REQUESTS

    def __init__(self, args: Any, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._classes = handle.objects.shared(DeviceClasses, handle.objects)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._specs = args.scoring_strategy.resources
        self._devices = device_offers(self._specs, handle)
        if self._devices is not None:
            # Nodes that are as full may differ in the devices that are in use.
            self.score_depends = Depends.RESOURCES | Depends.NODE
        self._strategy = strategy(args.scoring_strategy)
        self._needs_of = lru_cache(SHAPES_KEPT)(self._checked_needs)
        self._scored_of = lru_cache(SHAPES_KEPT)(self._scored)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """What each node lacks, as bits; see the module's docstring."""
        needs = self._needs_of(pod.shape.requests)
        too_small = _too_small(needs)
        many = len(needs) > _MOST_NEEDS
        kind = np.dtype(object) if many else _code_type(too_small)
        codes: Integers = (nodes.pod_count >= nodes.allowed_pods).astype(kind)
        for bit, (name, amount) in enumerate(needs, 1):
            allocatable = nodes.allocatable(name)
            lacking: BoolArray = allocatable - nodes.requested(name) < amount
            if not lacking.any():
                continue
            if self._classes.behind(name) is not None:
                lacking &= allocatable != 0  # elsewhere DynamicResources answers for it
            hopeless = lacking & (allocatable < amount)
            if many:
                codes |= lacking.astype(kind) * (1 << bit) | hopeless.astype(kind) * too_small
                continue
            codes |= lacking.view(np.uint8) * kind.type(1 << bit)
            codes |= hopeless.view(np.uint8) * kind.type(too_small)
        return pod.shape.requests.memo(_Combinations).numbers(codes) if many else codes

    def copies(self, state: CycleState, pod: Pod, nodes: NodeTable) -> dict[str, IntArray]:
        """What is free, divided by what the Pod requests; no limit where devices answer for it."""
        copies = {"pods": nodes.allowed_pods - nodes.pod_count}
        for name, amount in self._needs_of(pod.shape.requests):
            if self._classes.behind(name) is None:
                copies[name] = (nodes.allocatable(name) - nodes.requested(name)) // amount
        return copies

    def epoch(self, pod: Pod) -> int:
        """Which classes stand for extended resources decides what is asked of the node.

        For the score of such a resource, the devices in use count as well.
        """
        if self._devices is None:
            return self._classes.epoch
        return self._classes.epoch + device_epoch(self._scored_of(pod.shape.requests))

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """All resources that the node lacks; unresolvable where the node is too small."""
        needs = self._needs_of(pod.shape.requests)
        if len(needs) > _MOST_NEEDS:
            code = pod.shape.requests.memo(_Combinations).bits(code)
        reasons = ["Too many pods"] if code & _TOO_MANY_PODS else []
        lacking = (name for bit, (name, _) in enumerate(needs, 1) if code >> bit & 1)
        reasons += [f"Insufficient {name}" for name in lacking]
        return (Status.unresolvable if code & _too_small(needs) else Status.unschedulable)(*reasons)

    def explain_filter(self, state: CycleState, pod: Pod, rows: IntArray) -> list[str]:
        """By resource, the node with the least lack; or no node has any."""
        nodes, sentences = self.handle.nodes, []
        for name, amount in (("pods", 1), *self._needs_of(pod.shape.requests)):
            offers, used = nodes.allocatable(name), nodes.requested(name)
            if name == "pods":
                offers, used = nodes.allowed_pods, nodes.pod_count
            if self._classes.behind(name) is not None:
                continue
            if not offers.any():
                sentences.append(f"No node has {name}{_meant(name, nodes)}")
                continue
            free = (offers - used)[rows]
            lack = amount - free
            # Of the nodes that lack some the one that lacks the least, rather one that offers any.
            nearest = int(np.lexsort((lack, offers[rows] == 0, lack <= 0))[0])
            if lack[nearest] > 0:
                needs, has = quantity.shown_apart(name, amount, int(free[nearest]))
                short, node = quantity.shown(name, int(lack[nearest])), nodes.names[rows[nearest]]
                text = f"{name}: needs {needs}; {node} has {has} free, {short} too few."
                sentences.append(text)
        return sentences

    def _checked_needs(self, requests: SpecPart) -> Needs:
        return tuple((n, a) for n, a in requests.memo(_needs) if not self._is_ignored(n))

    def _is_ignored(self, name: str) -> bool:
        group = name.partition("/")[0]
        return is_extended(name) and (name in self._ignored or group in self._ignored_groups)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """0 to 100 by the strategy, with the Pod on the node."""
        return self._strategy(self._scored_of(pod.shape.requests), nodes)

    def score_placement(
        self,
        state: CycleState,
        group: PodGroupInfo,
        placement: GroupPlacement,
        pods: Sequence[Pod],
        nodes: NodeTable,
    ) -> int:
        """How full its nodes are together with ``pods``, whatever the strategy for one node is.

        Devices do not count.
        """
        amounts: Counter[str] = Counter()
        for pod in pods:
            amounts.update({r.name: r.amount for r in self._scored_of(pod.shape.requests)})
        resources = [
            ScoredResource(spec.name, spec.weight, amounts[spec.name])
            for spec in self._specs
            if spec.name in CORE or amounts[spec.name]
        ]
        return share_used_together(resources, nodes, placement.rows)

    def _scored(self, part: SpecPart) -> tuple[ScoredResource, ...]:
        # The Pod's own pod-level resources do not count here; kube-scheduler leaves them out.
        return scored_resources(self._specs, part.memo(nonzero_requests), self._devices)

    def _room_added(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        requested = {"pods": 1, **dict(pod.shape.requests.memo(_needs))}
        names = [n for n in requested if _offered(new, n) or self._classes.behind(n) is None]
        if any(_offered(new, n) < requested[n] for n in names):
            return Hint.SKIP
        more = old is None or any(_offered(new, n) > _offered(old, n) for n in names)
        return Hint.QUEUE if more else Hint.SKIP

    def events_to_register(self) -> list[EventRegistration]:
        """Pods deleted or scaled down; nodes added or with more allocatable."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        freed = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        own = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)
        return [
            EventRegistration(freed, _room_freed),
            EventRegistration(own),
            EventRegistration(node, self._room_added),
        ]


def _needs(requests: SpecPart) -> Needs:
    amounts = {name: units(name, a) for name, a in requests.memo(spec_requests).items()}
    scalars = sorted(name for name in amounts if name not in CORE and is_scalar(name))
    return tuple((n, amounts[n]) for n in (*CORE, *scalars) if amounts.get(n))


def _meant(name: str, nodes: NodeTable) -> str:
    """The resource of a node whose name is nearly ``name``."""
    offered = {other for node in nodes for other in node.node.status.allocatable}
    near = get_close_matches(name, sorted(offered), n=1)
    return f"; was {near[0]} meant?" if near else "."


class _Combinations:
    """What nodes lack for Pods of one kind, as bits, and the number of each combination."""

    def __init__(self, _: SpecPart) -> None:
        self._bits: list[int] = [0]
        self._numbers: dict[int, int] = {0: 0}

    def numbers(self, combinations: Integers) -> IntArray:
        """``(n,)`` Python integers as numbers, new ones where they are new."""
        return np.array([self._number(bits) for bits in combinations.tolist()], np.int64)

    def _number(self, bits: int) -> int:
        number = self._numbers.setdefault(bits, len(self._bits))
        if number == len(self._bits):
            self._bits.append(bits)
        return number

    def bits(self, number: int) -> int:
        """The combination of that number."""
        return self._bits[number]


def _too_small(needs: Needs) -> int:
    """The bit for a node that is too small."""
    return 1 << len(needs) + 1


@lru_cache
def _code_type(highest_bit: int) -> np.dtype[Any]:
    return np.min_scalar_type(2 * highest_bit - 1)


def _room_freed(pod: Pod, old: Pod, new: Pod | None) -> Hint:
    if new is None:
        had_room = old.node_name or old.status.nominated_node_name
        return Hint.QUEUE if had_room else Hint.SKIP
    before, after = pod_requests(old).amounts, pod_requests(new).amounts
    freed = any(before.get(n, 0) > after.get(n, 0) for n, _ in pod.shape.requests.memo(_needs))
    return Hint.QUEUE if freed else Hint.SKIP


def _offered(node: Node, resource: str) -> int:
    return quantity.of(resource, node.status.allocatable.get(resource, 0))

"""Taken: what is drawn of a world, copied at one moment on the thread that the world belongs to.

The copy is shallow, since nodes and Pods are immutable; `bayplan.view.columns` makes columns of it
on any thread.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_load import NodeLoads
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree.report import reports
from bayplan.config.args import LoadSource
from bayplan.explain.names import Names
from bayplan.profiles import Profiles
from bayplan.view.devices import Counts, devices
from bayplan.world import World


class Taken(NamedTuple):
    """What is drawn of a world, at one moment.

    Attributes:
        nodes: node objects, ``(n,)``.
        on_nodes: the Pods on each of them, assumed ones included, ``(n,)``.
        offered: by resource, what each node offers, ``(n,)``; ``pods`` is one of the resources.
        requested: what its Pods request, likewise.
        load: by resource, the measured use as a share of the capacity, ``(n,)``; NaN where it is
            not known. Empty without a source.
        shares: by the name of a lens, a share of each node, likewise.
        devices: by column, the counts of `bayplan.view.devices`.
        pending: the Pods that have neither node nor ended.
        binding: uids of the Pods that are not bound yet, but have a node.
        queues: by the id of a shape, the Queue that its Pods count in.
        groups: by the id of a shape, the key of the group of its Pods.
        reports: the Queues, as ``bayplan queues -o json`` has them.
        messages: by uid, what is said of Pods that wait, as it may be read.
        at: seconds since the epoch.
    """

    nodes: Sequence[Node]
    on_nodes: Sequence[Collection[Pod]]
    offered: Mapping[str, IntArray]
    requested: Mapping[str, IntArray]
    load: Mapping[str, Any]
    shares: Mapping[str, Any]
    devices: Counts
    pending: Sequence[Pod]
    binding: Collection[str]
    queues: Mapping[int, str]
    groups: Mapping[int, str]
    reports: Sequence[dict[str, Any]]
    messages: Mapping[str, str]
    at: float


def take(world: World, profiles: Profiles, only: str = "") -> Taken:
    """What there is to draw of ``world``. On the thread that the world belongs to.

    Args:
        world: the cluster.
        profiles: whose plugins say where the load of nodes comes from (the first counts), and have
            lenses of their own; these only for a reader who may know everything.
        only: a namespace: for a reader who may know of its Pods, and of the rest what is requested
            and offered; "" for a reader who may know everything.
    """
    table = world.cache.nodes
    rows = table.exists.nonzero()[0]
    offered = {name: table.allocatable(name)[rows] for name in sorted(table.resources)}
    requested = {name: table.requested(name)[rows] for name in offered}
    offered["pods"], requested["pods"] = table.allowed_pods[rows], table.pod_count[rows]
    on_nodes = [
        tuple([p for p in table.pods[row].values() if not only or p.namespace == only])
        for row in rows.tolist()
    ]
    is_assumed = world.cache.is_assumed
    pending = [
        pod
        for pod in world.handlers.pods.values()
        if not pod.node_name and (not only or pod.namespace == only) and not is_assumed(pod.uid)
    ]
    shapes = {pod.shape.id: pod for pods in (*on_nodes, pending) for pod in pods}
    queues: dict[int, str] = {}
    if world.queues.active:
        structure = world.queues.refresh_shares().structure
        for shape, pod in shapes.items():
            row = world.queues.leaf(pod)
            queues[shape] = structure.name(row) if row >= 0 else ""
    key_of = world.cache.groups.key_of_shape
    hidden = Names(world, (only,)).hidden
    nodes = [node for row in rows.tolist() if (node := table.nodes[row]) is not None]
    shares = {} if only else profiles.node_shares()
    return Taken(
        nodes,
        on_nodes,
        offered,
        requested,
        _load(world, profiles.load_sources(), rows),
        {name: values[rows] for name, values in shares.items()},
        devices(world.cache.objects, [node.name for node in nodes]),
        pending,
        {pod.uid for pods in on_nodes for pod in pods if is_assumed(pod.uid)},
        queues,
        {shape: key for shape, pod in shapes.items() if (key := key_of(pod.shape))},
        [one for one in _reports(world) if not only or one["queue"] in queues.values()],
        {pod.uid: hidden(said(pod)) if only else said(pod) for pod in pending},
        time.time(),
    )


def _load(world: World, sources: Sequence[LoadSource], rows: IntArray) -> dict[str, Any]:
    if not sources:
        return {}
    load = world.cache.nodes.column(NodeLoads)[sources[0]]
    return {name: values[rows] for name, values in load.mean.items()}


def _reports(world: World) -> list[dict[str, Any]]:
    if not world.queues.active:
        return []
    return [
        {
            "queue": queue.name,
            "depth": queue.depth,
            "pending": queue.pending,
            "resources": {
                name: {**amounts._asdict(), "borrowed": amounts.borrowed}
                for name, amounts in queue.amounts.items()
            },
        }
        for queue in reports(world.queues, 0.0)
    ]


def said(pod: Pod) -> str:
    """What was said last of a Pod without a node: the condition PodScheduled; "" for nothing."""
    conditions = (c for c in pod.status.conditions if c.type == "PodScheduled")
    condition = next(conditions, None)
    if condition is None or condition.status == "True":
        return ""
    return condition.message or condition.reason

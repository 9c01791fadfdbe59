"""Simulate: place all pending Pods, one after the other, each seeing those before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.attempt.report import cut_note
from bayplan.framework.faults import AttemptFault
from bayplan.queue.active import sort_key
from bayplan.queue.queued_pod import QueuedPod
from bayplan.simulation.attempt import Attempt, attempt
from bayplan.simulation.name_order import NameOrder

Placement = dict[str, Any]
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Usage:
    """How much of a resource all nodes together have, and how much of it is requested.

    In milli-CPU, bytes or counts.
    """

    resource: str
    allocatable: int
    requested: int


def usage(core: Core) -> list[Usage]:
    """The usage of every resource that a node offers, by name; Pods count as one, too."""
    nodes = core.cache.nodes
    names = {name for node in nodes for name in node.node.status.allocatable} - {"pods"}
    used = [
        Usage(name, int(nodes.allocatable(name).sum()), int(nodes.requested(name).sum()))
        for name in sorted(names)
    ]
    return [*used, Usage("pods", int(nodes.allowed_pods.sum()), int(nodes.pod_count.sum()))]


def simulate(core: Core, pods: list[Pod]) -> list[Placement]:
    """Place ``pods`` in the order of the queue; one that fits nowhere is not tried again.

    Each goes to the first by name of its best nodes. Preemption is only told of: nobody leaves.
    """
    order = NameOrder()
    return [_place(core, attempt(core, pod), order) for pod in _in_queue_order(core, pods)]


def _in_queue_order(core: Core, pods: list[Pod]) -> list[Pod]:
    """By QueueSort; equal Pods by their creation, then by their order in the file."""
    if not pods:
        return []
    by_age = sorted(pods, key=lambda pod: pod.created or _NEVER)
    queue_sort = core.profiles[pods[0].spec.scheduler_name].plugins.queue_sort[0]
    line = [QueuedPod(pod, now) for now, pod in enumerate(by_age)]
    return [queued.pod for queued in sorted(line, key=sort_key(queue_sort))]


def _place(core: Core, tried: Attempt, order: NameOrder) -> Placement:
    placement: Placement = {"pod": tried.pod.key, "node": None}
    selection = tried.selection
    message = tried.message
    if selection is not None and selection.best is not None:
        placement["best"] = order.names(core.cache.nodes, selection.best)
        message = _assume(core, tried, selection.node_name)
        if not message:
            placement["node"] = selection.node_name
    placement["message"] = cut_note(message)
    return placement


def _assume(core: Core, tried: Attempt, node_name: str) -> str:
    """Count the Pod on the node and reserve what it needs; returns why that failed."""
    assumed = core.cache.assume(tried.pod, node_name)
    core.queue.nominator.remove(assumed.uid)
    try:
        status = tried.framework.lifecycle.reserve(tried.state, assumed, node_name)
        message = "" if status.ok else status.message
    except AttemptFault as error:
        message = str(error)
    if message:
        tried.framework.lifecycle.unreserve(tried.state, assumed, node_name)
        core.cache.forget(assumed.uid)
    return message

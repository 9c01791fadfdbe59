"""NodePorts: two Pods on a node cannot have the same host port.

Ports conflict when port and protocol are the same and so is the IP, or either IP is 0.0.0.0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.pod import Pod
from bayplan.cache.node_table import HostPort, IntArray, NodeTable, host_ports
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Plugin, PodPart
from bayplan.framework.points import BoundsCopies, EnqueueExtensions, FilterNodes, PreFilter
from bayplan.framework.status import SKIP, Status

_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104
_REASON = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(Plugin, PreFilter, FilterNodes, BoundsCopies, EnqueueExtensions):
    """Filters nodes where a host port of the Pod is taken."""

    filter_depends = Depends.NODE | Depends.PODS
    reads = PodPart.CONSTRAINTS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip for a Pod without host ports."""
        return None if pod.shape.constraints.memo(host_ports) else SKIP

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where a port is taken."""
        ports = pod.shape.constraints.memo(host_ports)
        codes = np.zeros(len(nodes), np.int64)
        rows = [r for r, used in enumerate(nodes.host_ports) if used and _conflict(ports, used)]
        codes[rows] = 1
        return codes

    def copies(self, state: CycleState, pod: Pod, nodes: NodeTable) -> dict[str, IntArray] | None:
        """One a node, for a Pod with host ports."""
        if not pod.shape.constraints.memo(host_ports):
            return None
        return {"host ports": np.ones(len(nodes), np.int64)}

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return _REASON

    def events_to_register(self) -> list[EventRegistration]:
        """A new node, or a Pod that frees one of the ports."""
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _port_freed),
            EventRegistration(ClusterEvent(NODE, Action.ADD)),
        ]


def _conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    return any(
        (protocol, port) == (their_protocol, their_port)
        and (ip == their_ip or _ALL_ADDRESSES in (ip, their_ip))
        for ip, protocol, port in wanted
        for their_ip, their_protocol, their_port in used
    )


def _port_freed(pod: Pod, old: Pod, _new: Pod | None) -> Hint:
    if not old.node_name and not old.status.nominated_node_name:
        return Hint.SKIP
    ports, freed = (p.shape.constraints.memo(host_ports) for p in (pod, old))
    return Hint.QUEUE if _conflict(ports, freed) else Hint.SKIP

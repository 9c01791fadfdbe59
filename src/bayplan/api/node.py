"""Nodes: labels, taints, capacity and container images."""

from __future__ import annotations

from datetime import datetime

from bayplan.api.meta import Object, Wire
from bayplan.api.pod_spec import Resources
from bayplan.api.quantity import Amount


class Taint(Wire, frozen=True):
    """A taint; equal taints compare equal (time_added is not read)."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ContainerImage(Wire, frozen=True):
    """An image on a node: all names of the image and the size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeCondition(Wire, frozen=True):
    """A node condition."""

    type: str = ""
    status: str = ""
    last_transition_time: datetime | None = None


class NodeSpec(Wire, frozen=True):
    """The part of a node's spec that scheduling reads."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCapacity(Wire, frozen=True):
    """What the node has in all, of which a part is reserved for the system."""

    cpu: Amount | None = None
    memory: Amount | None = None


class NodeStatus(Wire, frozen=True):
    """The part of a node's status that scheduling reads."""

    capacity: NodeCapacity = NodeCapacity()
    allocatable: Resources = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()


class NodeMetrics(Object, frozen=True):
    """What a node uses, as metrics-server measured it (metrics.k8s.io/v1beta1)."""

    timestamp: datetime | None = None
    usage: Resources = {}


class Node(Object, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

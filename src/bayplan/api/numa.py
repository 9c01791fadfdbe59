"""NodeResourceTopology of topology.node.k8s.io: the NUMA zones of a node, and what is free there.

An exporter on each node writes the object, some seconds after Pods have started or ended.
"""

from __future__ import annotations

from bayplan.api.meta import Object, Wire
from bayplan.api.quantity import Amount


class ZoneAttribute(Wire, frozen=True):
    """A name and a value, of a zone or of the whole node."""

    name: str = ""
    value: str = ""


class ZoneCost(Wire, frozen=True):
    """The distance to another zone."""

    name: str = ""
    value: int = 0


class ZoneResource(Wire, frozen=True):
    """What a zone has of a resource; `available` is what no Pod has for itself alone."""

    name: str = ""
    capacity: Amount | None = None
    allocatable: Amount | None = None
    available: Amount | None = None


class Zone(Wire, frozen=True):
    """A part of a node; a NUMA zone if its type is Node."""

    name: str = ""
    type: str = ""
    costs: tuple[ZoneCost, ...] = ()
    attributes: tuple[ZoneAttribute, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(Object, frozen=True):
    """The zones of the node that has the same name."""

    zones: tuple[Zone, ...] = ()
    attributes: tuple[ZoneAttribute, ...] = ()
    topology_policies: tuple[str, ...] = ()

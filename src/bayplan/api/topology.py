"""Topology of kueue.x-k8s.io: a hierarchy of node labels."""

from __future__ import annotations

from bayplan.api.meta import Object, Wire


class TopologyLevel(Wire, frozen=True):
    """One level."""

    node_label: str = ""


class TopologySpec(Wire, frozen=True):
    """The levels, the widest first."""

    levels: tuple[TopologyLevel, ...] = ()


class Topology(Object, frozen=True):
    """A Topology; nodes with the same value of a level's label are in one domain of this level."""

    spec: TopologySpec = TopologySpec()

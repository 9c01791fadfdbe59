"""The names that the objects of a generated cluster share, and the vocabulary of all clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "example.com/rack"
TOPOLOGY_KEYS = (ZONE, HOSTNAME, REGION, RACK)

APPS = ("web", "api", "db", "cache", "batch")
TIERS = ("front", "back")
VERSIONS = ("v1", "v2", "v3")
TAINT_KEYS = ("dedicated", "gpu", "maintenance", "node.kubernetes.io/not-ready")
TAINT_VALUES = ("", "a", "b")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = (
    "nginx",
    "nginx:1.27",
    "redis:7",
    "registry.example.com/team/app:v1",
    "registry.example.com/team/app:v2",
    "registry.example.com/tools@sha256:" + "ab" * 32,
)
GPU = "nvidia.com/gpu"
FPGA = "example.com/fpga"
ACCELERATOR = "example.com/accelerator"
"""Offered by few nodes; device classes may stand for it."""
BY_CLASS = "deviceclass.resource.kubernetes.io/"
"""What a class always stands for, with its name behind it."""


@dataclass
class World:
    """What has been made so far; later parts refer to it by name.

    Attributes:
        scored: resources that a class may stand for and a configuration has scored.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    milli: dict[str, int] = field(default_factory=dict)
    zones: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    priority_classes: list[str] = field(default_factory=list)
    runtime_classes: list[str] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    scored: list[str] = field(default_factory=list)
    claims: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, api_version: str, kind: str, **body: Any) -> dict[str, Any]:
        """Add an object and return it."""
        item = {"apiVersion": api_version, "kind": kind, **body}
        self.items.append(item)
        return item

"""The kinds that are read from files only; no scheduler of a cluster watches these.

The API server has applied priority and runtime classes to Pods already, and controllers have made
Pods of workloads and claims of templates.
"""

from __future__ import annotations

from bayplan.api.kinds import (
    JOB,
    JOB_SET,
    KINDS,
    LEADER_WORKER_SET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from bayplan.api.node import NodeMetrics

DEPLOYMENT = Kind.generic("apps/v1", "Deployment", "deployments", namespaced=True)
RUNTIME_CLASS = Kind.generic("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
RESOURCE_CLAIM_TEMPLATE = Kind.generic(
    "resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True
)
NODE_METRICS = Kind.of(
    NodeMetrics, "metrics.k8s.io/v1beta1", "nodes", namespaced=False, optional=True
)
"""Read where a plugin scores by measured load; metrics-server cannot be watched."""

READABLE: dict[Kind[object], str] = {kind: name for name, kind in KINDS.items()} | {
    kind: kind.name for kind in (DEPLOYMENT, RESOURCE_CLAIM_TEMPLATE, RUNTIME_CLASS)
}
"""What is read of every file, whatever the plugins declare; by what name the schema has it."""

MAKE_PODS: tuple[Kind[object], ...] = (
    DEPLOYMENT,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    JOB,
    JOB_SET,
    LEADER_WORKER_SET,
)
"""Workloads whose Pods `bayplan.simulation.workloads` makes."""

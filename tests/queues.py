"""Queues for tests, and a cluster whose scheduler knows them."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster
from tests.groups import GATES, Composite

from bayplan.api.kinds import NAMESPACE, NODE_KIND, QUEUE
from bayplan.api.queues import NodeKind, Queue
from bayplan.testing import Builder, Json, PodBuilder, make_object, make_pod

CREATED = "2026-01-01T00:00:{:02d}Z"


def queue(name: str, namespaces: str = "", created: int = 0, **spec: Any) -> Builder[Queue]:
    """A Queue; ``spec`` in the words of the API.

    Args:
        name: of the Queue.
        namespaces: those that it selects, by name, divided by blanks.
        created: seconds by which it is younger than others.
    """
    if namespaces:
        names = {"key": "kubernetes.io/metadata.name", "operator": "In"}
        spec["namespaceSelector"] = {"matchExpressions": [{**names, "values": namespaces.split()}]}
    builder = make_object(QUEUE, name).uid(name).spec(**spec)
    return builder.meta(creationTimestamp=CREATED.format(created))


def node_kind(name: str, *, created: int = 0, **labels: str) -> Builder[NodeKind]:
    """A NodeKind of the nodes with these labels."""
    builder = make_object(NODE_KIND, name).uid(name).spec(nodeSelector={"matchLabels": labels})
    return builder.meta(creationTimestamp=CREATED.format(created))


def queues_profile(*others: str, **args: Any) -> Json:
    """A profile with FairShare, and the other plugins in place of PrioritySort if one sorts."""
    disabled = [{"name": "PrioritySort"}] if "Coscheduling" in others else []
    return {
        "schedulerName": "bayplan",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": name} for name in ("FairShare", *others)],
                "disabled": disabled,
            },
            "postFilter": {"enabled": [{"name": "FairShare"}]},
            "podGroupPostFilter": {"enabled": [{"name": "FairShare"}]},
        },
        "pluginConfig": [{"name": "FairShare", "args": args}],
    }


def queue_cluster(*plugins: str, **args: Any) -> Cluster:
    """A cluster whose scheduler keeps to Queues."""
    return Cluster(profiles=[queues_profile(*plugins, **args)])


def cluster_of_tenants() -> Cluster:
    """One whose scheduler places groups of all sources, too; evicted Pods stay."""
    profile = queues_profile("Coscheduling")
    profile["pluginConfig"].append({"name": "Coscheduling", "args": {"inferGroups": ["Job"]}})
    cluster = Cluster(profiles=[profile], feature_gates=GATES)
    cluster.writer.on_deleted = None
    cluster.add(*Composite.roots())
    return cluster


def name_space(cluster: Cluster, name: str, **labels: str) -> None:
    """The namespace has these labels now."""
    labels["kubernetes.io/metadata.name"] = name
    cluster.add(make_object(NAMESPACE, name).labels(labels))


def pod(name: str, namespace: str, cpu: str = "1", priority: int = 0) -> PodBuilder:
    """A Pod of a namespace."""
    builder = make_pod(name).namespace(namespace).req(cpu=cpu)
    return builder.spec(priority=priority) if priority else builder


def pods(prefix: str, number: int, namespace: str, cpu: str = "1") -> list[PodBuilder]:
    """Pods called PREFIX-0 and so on."""
    return [pod(f"{prefix}-{i}", namespace, cpu) for i in range(number)]


def used(cluster: Cluster, name: str, resource: str = "cpu") -> int:
    """What the queue uses, in units of the scheduler."""
    return _of(cluster, name, resource, "used")


def demand(cluster: Cluster, name: str, resource: str = "cpu") -> int:
    """What the queue uses and waits for."""
    return _of(cluster, name, resource, "demand")


def share(cluster: Cluster, name: str, resource: str = "cpu") -> int:
    """What the queue is entitled to."""
    return _of(cluster, name, resource, "share")


def _of(cluster: Cluster, name: str, resource: str, column: str) -> int:
    sums = cluster.world.queues.refresh_shares()
    names = [queue.name for queue in sums.structure.queues]
    amounts = getattr(sums, column)
    return int(amounts[names.index(name), sums.structure.resources.index(resource)])

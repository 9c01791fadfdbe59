"""A cluster whose scheduler has CapacityScheduling, with quotas and Pods for it."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import ELASTIC_QUOTA
from bayplan.api.scheduling import ElasticQuota
from bayplan.plugins.capacity_scheduling import CapacityScheduling
from bayplan.plugins.capacity_scheduling.quotas import Quota, Quotas
from bayplan.testing import Cluster, PodBuilder, make_node, make_pod
from bayplan.testing.builder import Builder, Json, make_object

PROFILE: Json = {
    "schedulerName": "bayplan",
    "plugins": {
        "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
        "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
    },
}
"""As scheduler-plugins documents it."""


def quota_cluster(**nodes: int) -> Cluster:
    """A cluster with these nodes, each with so many CPUs."""
    cluster = Cluster(config={"profiles": [PROFILE]})
    for name, cpu in nodes.items():
        cluster.add(make_node(name).capacity(cpu=str(cpu), memory="64Gi", pods=110))
    return cluster


def quota(
    namespace: str, minimum: Any = None, maximum: Any = None, name: str = "quota"
) -> Builder[ElasticQuota]:
    """An ElasticQuota; absent lists are left out."""
    limits = {"min": minimum, "max": maximum}
    builder = make_object(ELASTIC_QUOTA, name).namespace(namespace)
    return builder.spec(**{key: value for key, value in limits.items() if value is not None})


def pod(key: str, cpu: int = 1, priority: int = 0) -> PodBuilder:
    """A Pod called ``namespace/name``."""
    namespace, name = key.split("/")
    return make_pod(name).namespace(namespace).req(cpu=str(cpu)).priority(priority)


def place(cluster: Cluster, node: str, *pods: PodBuilder) -> None:
    """These Pods run on the node, each a second longer than the one after it."""
    for second, builder in enumerate(pods):
        cluster.add(builder.node(node).start_time(f"2026-01-01T00:00:{second:02}Z"))


def quotas_of(cluster: Cluster) -> Quotas:
    """The index of the plugin."""
    return cluster.plugin(CapacityScheduling)._quotas


def quota_of(cluster: Cluster, namespace: str) -> Quota | None:
    """The quota that counts in a namespace."""
    return quotas_of(cluster).by_namespace.get(namespace)


def victims(cluster: Cluster, builder: PodBuilder) -> list[str]:
    """Who would have to leave for the Pod, which is not in the cluster."""
    post_filter = cluster.explain(builder).get("postFilter", {})
    leaving: list[str] = post_filter.get("victims", [])
    return leaving

"""A cluster whose scheduler has CapacityScheduling, with quotas and Pods for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.api.kinds import ELASTIC_QUOTA
from bayplan.api.scheduling import ElasticQuota
from bayplan.plugins.capacity_scheduling import CapacityScheduling
from bayplan.plugins.capacity_scheduling.quotas import Quotas
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


def minimum_of(quotas: Quotas, namespace: str) -> dict[str, int] | None:
    """What the namespace is guaranteed, without zeros; None without a quota."""
    return _by_name(quotas, namespace, quotas.structure.minimum)


def used_of(quotas: Quotas, namespace: str) -> dict[str, int] | None:
    """What the namespace uses, without zeros; None without a quota."""
    return _by_name(quotas, namespace, quotas.sums.used_rows)


def _by_name(
    quotas: Quotas, namespace: str, rows: Sequence[Sequence[int]]
) -> dict[str, int] | None:
    row = quotas.structure.row_of.get(namespace)
    if row is None:
        return None
    return nonzero(dict(zip(quotas.structure.resources, rows[row], strict=True)))


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts without zeros."""
    return {name: amount for name, amount in amounts.items() if amount}


def victims(cluster: Cluster, builder: PodBuilder) -> list[str]:
    """Who would have to leave for the Pod, which is not in the cluster."""
    post_filter = cluster.explain(builder).get("postFilter", {})
    leaving: list[str] = post_filter.get("victims", [])
    return leaving

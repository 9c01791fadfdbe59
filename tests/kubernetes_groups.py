"""PodGroups of Kubernetes and their Pods for tests."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
from tests.core_harness import Cluster

from bayplan.api.kinds import KUBERNETES_POD_GROUP
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.inbox.messages import Changed, Removed
from bayplan.testing import Cluster as PublicCluster
from bayplan.testing import PodBuilder, make_pod

GATE = "GenericWorkload=true"
_versions = count(1)


def workload_cluster(*plugins: Any, gates: str = GATE, **settings: Any) -> Cluster:
    """A cluster whose scheduler places PodGroups of Kubernetes."""
    return Cluster(*plugins, feature_gates=gates, **settings)


def gang(name: str, minimum: int, **spec: Any) -> KubernetesPodGroup:
    """A PodGroup with the policy gang."""
    return kubernetes_group(name, schedulingPolicy={"gang": {"minCount": minimum}}, **spec)


def basic(name: str, **spec: Any) -> KubernetesPodGroup:
    """A PodGroup with the policy basic."""
    return kubernetes_group(name, schedulingPolicy={"basic": {}}, **spec)


def kubernetes_group(name: str, **spec: Any) -> KubernetesPodGroup:
    """A PodGroup; ``spec`` in the words of the API."""
    meta = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": 1}
    meta["resourceVersion"] = str(next(_versions))
    return KUBERNETES_POD_GROUP.decode(msgspec.json.encode({"metadata": meta, "spec": spec}))


def show(cluster: PublicCluster, *groups: KubernetesPodGroup) -> None:
    """These PodGroups are new or have changed."""
    cluster.tell(*(Changed(KUBERNETES_POD_GROUP, group) for group in groups))


def hide(cluster: Cluster, *groups: KubernetesPodGroup) -> None:
    """These PodGroups are gone."""
    cluster.tell(*(Removed(KUBERNETES_POD_GROUP, group) for group in groups))


def members(group: str, number: int, cpu: str = "1", first: int = 0) -> list[PodBuilder]:
    """Pods of a group, called GROUP-0 and so on."""
    return [
        make_pod(f"{group}-{i}").pod_group(group).req(cpu=cpu) for i in range(first, first + number)
    ]


def conditions(cluster: Cluster) -> list[tuple[str, str, str, str]]:
    """(PodGroup, status, reason, message) of the conditions that were written."""
    said = cluster.recorder.group_conditions
    return [(name, c.status, c.reason, c.message) for name, c in said]

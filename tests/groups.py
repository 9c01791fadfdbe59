"""PodGroups and their Pods for tests."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
from tests.core_harness import Cluster

from bayplan.api.kinds import POD_GROUP
from bayplan.api.scheduling import PodGroup
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.inbox.messages import Changed, Removed
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod
from bayplan.testing.builder import Json

_versions = count(1)


def groups_profile(**args: Any) -> Json:
    """A profile that has Coscheduling in place of PrioritySort."""
    return {
        "schedulerName": "bayplan",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": "Coscheduling"}],
                "disabled": [{"name": "PrioritySort"}],
            }
        },
        "pluginConfig": [{"name": "Coscheduling", "args": args}],
    }


def group_cluster(*plugins: Any, **args: Any) -> Cluster:
    """A cluster whose scheduler places groups."""
    profile = groups_profile(**args)
    profile["plugins"]["multiPoint"]["enabled"] += [{"name": p.name} for p in plugins]
    return Cluster(*plugins, profiles=[profile])


def pod_group(name: str, **spec: Any) -> PodGroup:
    """A PodGroup; ``spec`` in the words of the API."""
    meta = {"name": name, "namespace": "default", "uid": name}
    meta["resourceVersion"] = str(next(_versions))
    return POD_GROUP.decode(msgspec.json.encode({"metadata": meta, "spec": spec}))


def show(cluster: Cluster, *groups: PodGroup) -> None:
    """These PodGroups are new or have changed."""
    cluster.tell(*(Changed(POD_GROUP, group) for group in groups))


def hide(cluster: Cluster, *groups: PodGroup) -> None:
    """These PodGroups are gone."""
    cluster.tell(*(Removed(POD_GROUP, group) for group in groups))


def members(group: str, number: int, cpu: str = "1", first: int = 0) -> list[PodBuilder]:
    """Pods of a group, called GROUP-0 and so on."""
    return [
        make_pod(f"{group}-{i}").label(POD_GROUP_LABEL, group).req(cpu=cpu)
        for i in range(first, first + number)
    ]


def nodes(number: int, cpu: str = "4") -> list[NodeBuilder]:
    """Nodes n0, n1 and so on."""
    return [
        make_node(f"n{i}").capacity(cpu=cpu, memory="64Gi", pods=110).label("host", f"n{i}")
        for i in range(number)
    ]


def names_of(cluster: Cluster, group: str) -> set[str]:
    """The Pods of the group that were bound."""
    return {pod for pod, _ in cluster.bound if pod.startswith(f"{group}-")}

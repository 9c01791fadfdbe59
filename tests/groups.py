"""PodGroups and their Pods for tests."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
from tests.core_harness import Cluster

from bayplan.api.kinds import POD_GROUP
from bayplan.api.scheduling import PodGroup
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.sub_groups import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SUB_GROUP_LABEL,
    SUB_GROUPS,
)
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


def pod_group(name: str, topology: Json | None = None, **spec: Any) -> PodGroup:
    """A PodGroup; ``spec`` in the words of the API, ``topology`` as `topology` has it."""
    meta: Json = {"name": name, "namespace": "default", "uid": name}
    meta["resourceVersion"] = str(next(_versions))
    meta["annotations"] = topology or {}
    return POD_GROUP.decode(msgspec.json.encode({"metadata": meta, "spec": spec}))


def topology(required: str = "", preferred: str = "") -> Json:
    """Annotations of a PodGroup."""
    pairs = {REQUIRED_TOPOLOGY: required, PREFERRED_TOPOLOGY: preferred}
    return {key: value for key, value in pairs.items() if value}


def sub_groups(*items: Json) -> Json:
    """The annotation of a PodGroup that lists its sub-groups."""
    return {SUB_GROUPS: msgspec.json.encode(items).decode()}


def show(cluster: Cluster, *groups: PodGroup) -> None:
    """These PodGroups are new or have changed."""
    cluster.tell(*(Changed(POD_GROUP, group) for group in groups))


def hide(cluster: Cluster, *groups: PodGroup) -> None:
    """These PodGroups are gone."""
    cluster.tell(*(Removed(POD_GROUP, group) for group in groups))


def members(
    group: str, number: int, cpu: str = "1", first: int = 0, sub_group: str = ""
) -> list[PodBuilder]:
    """Pods of a group, called GROUP-0 and so on, or GROUP-SUB_GROUP-0."""
    name = f"{group}-{sub_group}" if sub_group else group
    pods = [
        make_pod(f"{name}-{i}").label(POD_GROUP_LABEL, group).req(cpu=cpu)
        for i in range(first, first + number)
    ]
    return [pod.label(SUB_GROUP_LABEL, sub_group) for pod in pods] if sub_group else pods


def nodes(number: int, cpu: str = "4", prefix: str = "n") -> list[NodeBuilder]:
    """Nodes n0, n1 and so on."""
    return [
        make_node(f"{prefix}{i}")
        .capacity(cpu=cpu, memory="64Gi", pods=110)
        .label("host", f"{prefix}{i}")
        for i in range(number)
    ]


def racks(*sizes: int, cpu: str = "1") -> list[NodeBuilder]:
    """Racks r0, r1 and so on of so many nodes each; two of them make a zone."""
    return [
        node.label("rack", f"r{rack}").label("zone", f"z{rack // 2}")
        for rack, size in enumerate(sizes)
        for node in nodes(size, cpu, prefix=f"r{rack}n")
    ]


def racks_of(cluster: Cluster, group: str) -> set[str]:
    """Where the Pods of the group were bound."""
    return {node.partition("n")[0] for pod, node in cluster.bound if pod.startswith(f"{group}-")}


def names_of(cluster: Cluster, group: str) -> set[str]:
    """The Pods of the group that were bound."""
    return {pod for pod, _ in cluster.bound if pod.startswith(f"{group}-")}

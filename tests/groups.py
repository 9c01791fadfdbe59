"""Groups and their Pods for tests, from every source, and clusters whose scheduler places them.

What holds for groups of every source should be tested with all of them: a `Source` makes the same
group in its own way, and is a parameter of a test by `every_source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import pytest
from tests.core_harness import Cluster
from tests.owners import make_job, pods_of_job

from bayplan.api.kinds import COMPOSITE_POD_GROUP, KUBERNETES_POD_GROUP, POD_GROUP
from bayplan.api.scheduling import CompositePodGroup, KubernetesPodGroup, PodGroup
from bayplan.cache.group_topology import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_PLACEMENT,
    SLICES,
)
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.sub_groups import SUB_GROUP_LABEL, SUB_GROUPS
from bayplan.framework.interface import Plugin
from bayplan.testing import Builder, Json, NodeBuilder, PodBuilder, make_node, make_object, make_pod

T = TypeVar("T")

GATE = "GenericWorkload=true"
GATES = f"{GATE},TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"


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
    """A cluster whose scheduler places PodGroups that Pods name by a label."""
    return _cluster(plugins, groups_profile(**args))


def workload_cluster(*plugins: Any, gates: str = GATE, **settings: Any) -> Cluster:
    """A cluster whose scheduler places PodGroups of Kubernetes."""
    return Cluster(*plugins, feature_gates=gates, **settings)


def cluster_of_all(*plugins: type[Plugin]) -> Cluster:
    """A cluster whose scheduler places groups of all sources; evicted Pods stay."""
    cluster = _cluster(plugins, groups_profile(inferGroups=["Job"]), GATES)
    cluster.writer.on_deleted = None
    cluster.add(*Composite.roots())
    return cluster


def _cluster(plugins: Sequence[type[Plugin]], profile: Json, gates: str = "") -> Cluster:
    profile["plugins"]["multiPoint"]["enabled"] += [{"name": plugin.name} for plugin in plugins]
    return Cluster(*plugins, profiles=[profile], feature_gates=gates)


# Objects


def pod_group(name: str, topology: Json | None = None, **spec: Any) -> Builder[PodGroup]:
    """A PodGroup; ``spec`` in the words of the API, ``topology`` as `topology` has it."""
    return make_object(POD_GROUP, name).uid(name).meta(annotations=topology or {}).spec(**spec)


def topology(required: str = "", preferred: str = "") -> Json:
    """Annotations of a PodGroup."""
    pairs = {REQUIRED_TOPOLOGY: required, PREFERRED_TOPOLOGY: preferred}
    return {key: value for key, value in pairs.items() if value}


def slices(*layers: tuple[str, int], placement: str = "", required: str = "") -> Json:
    """The annotations of a PodGroup with these layers of slices, (label, size) each."""
    items = [{"topology": label, "size": size} for label, size in layers]
    annotations = topology(required) | {SLICES: msgspec.json.encode(items).decode()}
    return annotations | ({SLICE_PLACEMENT: placement} if placement else {})


def sub_groups(*items: Json) -> Json:
    """The annotation of a PodGroup that lists its sub-groups."""
    return {SUB_GROUPS: msgspec.json.encode(items).decode()}


def gang(name: str, minimum: int, **spec: Any) -> Builder[KubernetesPodGroup]:
    """A PodGroup of Kubernetes with the policy gang."""
    return kubernetes_group(name, schedulingPolicy={"gang": {"minCount": minimum}}, **spec)


def basic(name: str, **spec: Any) -> Builder[KubernetesPodGroup]:
    """A PodGroup of Kubernetes with the policy basic."""
    return kubernetes_group(name, schedulingPolicy={"basic": {}}, **spec)


def kubernetes_group(name: str, **spec: Any) -> Builder[KubernetesPodGroup]:
    """A PodGroup of Kubernetes; ``spec`` in the words of the API."""
    group = make_object(KUBERNETES_POD_GROUP, name).uid(f"uid-of-{name}")
    return group.meta(generation=1).spec(**spec)


def composite(
    name: str, minimum: int = 0, parent: str = "", **spec: Any
) -> Builder[CompositePodGroup]:
    """A CompositePodGroup: a gang of so many groups, or with 0 basic."""
    policy = {"gang": {"minGroupCount": minimum}} if minimum else {"basic": {}}
    group = make_object(COMPOSITE_POD_GROUP, name).uid(f"uid-of-composite-{name}")
    return below(group.meta(generation=1).spec(schedulingPolicy=policy, **spec), parent)


def below(group: Builder[T], parent: str) -> Builder[T]:
    """The group with that CompositePodGroup as its parent; as it is where there is none."""
    return group.spec(parentCompositePodGroupName=parent) if parent else group


def members(
    group: str, number: int, cpu: str = "1", first: int = 0, sub_group: str = ""
) -> list[PodBuilder]:
    """Pods that name the group by the label, called GROUP-0 and so on, or GROUP-SUB_GROUP-0."""
    name = f"{group}-{sub_group}" if sub_group else group
    pods = [
        make_pod(f"{name}-{i}").label(POD_GROUP_LABEL, group).req(cpu=cpu)
        for i in range(first, first + number)
    ]
    return [pod.label(SUB_GROUP_LABEL, sub_group) for pod in pods] if sub_group else pods


def gang_members(group: str, number: int, cpu: str = "1", first: int = 0) -> list[PodBuilder]:
    """Pods of a group of Kubernetes, called GROUP-0 and so on."""
    return [
        make_pod(f"{group}-{i}").pod_group(group).req(cpu=cpu) for i in range(first, first + number)
    ]


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


# What came of it


def racks_of(cluster: Cluster, group: str) -> set[str]:
    """Where the Pods of the group were bound."""
    return {node.partition("n")[0] for pod, node in cluster.bound if pod.startswith(f"{group}-")}


def names_of(cluster: Cluster, group: str) -> set[str]:
    """The Pods of the group that were bound."""
    return {pod for pod, _ in cluster.bound if pod.startswith(f"{group}-")}


def conditions(cluster: Cluster) -> list[tuple[str, str, str, str]]:
    """(PodGroup, status, reason, message) of the conditions that were written."""
    said = cluster.recorder.group_conditions
    return [(name, c.status, c.reason, c.message) for name, c in said]


# The same group from every source


class Source:
    """Where groups come from.

    Attributes:
        name: for ids of tests.
        key: what messages call the group g.
        later_ones_go_singly: whether Pods beyond the minimum, and later ones, are placed singly.
    """

    name = ""
    key = "default/g"
    later_ones_go_singly = True

    def __str__(self) -> str:
        return self.name

    def group(
        self, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> Builder[object]:
        """The object of the group.

        Args:
            minimum: as many Pods have to be placed at once.
            rack: the label of the one domain that it asks for; "" for none.
            priority: of its Pods.
            name: of the group.
        """
        raise NotImplementedError

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        """Pods of the group, whose names begin with its name and a hyphen."""
        raise NotImplementedError

    def is_told(self, cluster: Cluster, bound: int, needed: int) -> bool:
        """Whether it was said of the group last that so many of its Pods are bound."""
        text = f"Bound: {bound} Pods, of which {needed} are needed"
        return cluster.notes[-1] == ("Scheduled", text)


class Label(Source):
    """PodGroups of scheduler-plugins, which Pods name by a label."""

    name = "label"

    def group(
        self, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> Builder[object]:
        return pod_group(name, topology(rack), minMember=minimum)

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        return members(name, number, cpu, first)


class Kubernetes(Source):
    """PodGroups of Kubernetes, which Pods name in spec.schedulingGroup."""

    name = "kubernetes"
    later_ones_go_singly = False

    def group(
        self, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> Builder[object]:
        group = gang(name, minimum, priority=priority, disruptionMode={"all": {}})
        constraints = {"topology": [{"key": rack}]}
        return group.spec(schedulingConstraints=constraints) if rack else group

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        return gang_members(name, number, cpu, first)

    def is_told(self, cluster: Cluster, bound: int, needed: int) -> bool:
        """A condition says that the group is bound, without numbers."""
        return conditions(cluster)[-1] == ("g", "True", "Scheduled", "")


class Composite(Kubernetes):
    """PodGroups of Kubernetes, each below two CompositePodGroups."""

    name = "composite"
    key = "default/CompositePodGroup/root-of-g-0"

    @staticmethod
    def roots() -> list[Builder[CompositePodGroup]]:
        """What the groups g and h are below: two CompositePodGroups for each priority."""
        trees = [(f"{name}-{priority}", priority) for name in "gh" for priority in range(6)]
        roots = [composite(f"root-of-{tree}", 1, priority=priority) for tree, priority in trees]
        return [*roots, *(composite(f"over-{tree}", parent=f"root-of-{tree}") for tree, _ in trees)]

    def group(
        self, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> Builder[object]:
        return below(super().group(minimum, rack, priority, name), f"over-{name}-{priority}")


class Inferred(Source):
    """Groups without an object of their own: the Pods of an indexed Job."""

    name = "inferred"
    key = "default/Job/g"

    def group(
        self, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> Builder[object]:
        job = make_job(name, minimum, completions=minimum).uid(f"job-{name}")
        return job.annotation(REQUIRED_TOPOLOGY, rack) if rack else job

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        job = make_job(name).uid(f"job-{name}")
        return pods_of_job(job, range(first, first + number), cpu)


SOURCES = [Label(), Kubernetes(), Composite(), Inferred()]
every_source = pytest.mark.parametrize("source", SOURCES, ids=str)

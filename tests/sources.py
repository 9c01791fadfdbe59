"""Groups of every source, made in the same way: what holds for one should hold for all.

A source is a parameter of a test: ``@pytest.mark.parametrize("source", SOURCES, ids=str)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests import groups, kubernetes_groups, owners, queues
from tests.core_harness import Cluster

from bayplan.api.batch import Job
from bayplan.cache.sub_groups import REQUIRED_TOPOLOGY
from bayplan.framework.interface import Plugin
from bayplan.testing import PodBuilder
from bayplan.testing.builder import Builder, Json

GATES = f"{kubernetes_groups.GATE},TopologyAwareWorkloadScheduling=true"


class Source:
    """Where groups come from.

    Attributes:
        name: for ids of tests.
        later_ones_go_singly: whether Pods beyond the minimum, and later ones, are placed singly.
    """

    name = ""
    later_ones_go_singly = True

    def __str__(self) -> str:
        return self.name

    def show(
        self, cluster: Cluster, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> None:
        """The object of the group is new or has changed.

        Args:
            cluster: sees it.
            minimum: as many Pods have to be placed at once.
            rack: the label of the one domain that it asks for; "" for none.
            priority: of its Pods.
            name: of the group.
        """
        raise NotImplementedError

    def hide(self, cluster: Cluster) -> None:
        """The object of the group g is gone."""
        raise NotImplementedError

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        """Pods of the group, whose names begin with its name and a hyphen."""
        raise NotImplementedError


class Label(Source):
    """PodGroups of scheduler-plugins, which Pods name by a label."""

    name = "label"

    def show(
        self, cluster: Cluster, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> None:
        topology = groups.topology(rack) if rack else None
        groups.show(cluster, groups.pod_group(name, topology, minMember=minimum))

    def hide(self, cluster: Cluster) -> None:
        groups.hide(cluster, groups.pod_group("g"))

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        return groups.members(name, number, cpu, first)


class Kubernetes(Source):
    """PodGroups of Kubernetes, which Pods name in spec.schedulingGroup."""

    name = "kubernetes"
    later_ones_go_singly = False

    def show(
        self, cluster: Cluster, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> None:
        spec: Json = {"priority": priority, "disruptionMode": {"all": {}}}
        if rack:
            spec["schedulingConstraints"] = {"topology": [{"key": rack}]}
        kubernetes_groups.show(cluster, kubernetes_groups.gang(name, minimum, **spec))

    def hide(self, cluster: Cluster) -> None:
        kubernetes_groups.hide(cluster, kubernetes_groups.gang("g", 1))

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        return kubernetes_groups.members(name, number, cpu, first)


class Inferred(Source):
    """Groups without an object of their own: the Pods of an indexed Job."""

    name = "inferred"

    @staticmethod
    def _job(name: str, minimum: int) -> Builder[Job]:
        return owners.make_job(name, minimum, completions=minimum).uid(f"job-{name}")

    def show(
        self, cluster: Cluster, minimum: int, rack: str = "", priority: int = 0, name: str = "g"
    ) -> None:
        job = self._job(name, minimum)
        cluster.add(job.annotation(REQUIRED_TOPOLOGY, rack) if rack else job)

    def hide(self, cluster: Cluster) -> None:
        cluster.remove(self._job("g", 1))

    def members(
        self, number: int, cpu: str = "1", first: int = 0, name: str = "g"
    ) -> list[PodBuilder]:
        return owners.pods_of_job(self._job(name, 1), range(first, first + number), cpu)


def cluster_of_all(*plugins: type[Plugin]) -> Cluster:
    """A cluster whose scheduler places groups of all sources."""
    return _cluster(groups.groups_profile(inferGroups=["Job"]), plugins)


def cluster_of_tenants() -> Cluster:
    """The same, and its scheduler knows Queues."""
    profile = queues.queues_profile("Coscheduling")
    profile["pluginConfig"].append({"name": "Coscheduling", "args": {"inferGroups": ["Job"]}})
    return _cluster(profile)


def _cluster(profile: Json, plugins: Sequence[type[Plugin]] = ()) -> Cluster:
    profile["plugins"]["multiPoint"]["enabled"] += [{"name": plugin.name} for plugin in plugins]
    cluster = Cluster(*plugins, profiles=[profile], feature_gates=GATES)
    cluster.writer.on_deleted = None
    return cluster


SOURCES = [Label(), Kubernetes(), Inferred()]
every_source = pytest.mark.parametrize("source", SOURCES, ids=str)

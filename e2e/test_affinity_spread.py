"""Pods near others, away from others, and spread: real Deployments, on a real API server.

Each scenario runs under bayplan and under kube-scheduler: what is expected holds for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import SOON, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Workloads:
    """Deployments and Services of one test; labels are ``app`` = name."""

    def __init__(self, cluster: Cluster, scheduler: str) -> None:
        from kubernetes import client  # noqa: PLC0415

        self.cluster = cluster
        self.scheduler = scheduler
        self.apps: Any = client.AppsV1Api(cluster.api.api_client)

    def deploy(self, name: str, replicas: int, strategy: Json | None = None, **spec: Any) -> None:
        """Create a Deployment, and wait until its ReplicaSet is there before it makes any Pod."""
        body: Json = {
            "metadata": {"name": name},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}},
        }
        made = pod(name, self.scheduler, labels={"app": name}, **spec)
        body["spec"]["template"] = {
            "metadata": {"labels": made["metadata"]["labels"]},
            "spec": made["spec"],
        }
        if strategy:
            body["spec"]["strategy"] = strategy
        where = self.cluster.namespace
        self.apps.create_namespaced_deployment(where, body, _preload_content=False)
        wait_until(lambda: self.observed(name), SOON, f"the ReplicaSet of {name}")
        self.scale(name, replicas)

    def observed(self, name: str) -> bool:
        found = self.apps.read_namespaced_deployment(name, self.cluster.namespace)
        return bool(found.status.observed_generation == found.metadata.generation)

    def scale(self, name: str, replicas: int) -> None:
        self.change(name, {"replicas": replicas})

    def change(self, name: str, spec: Json) -> None:
        self.apps.patch_namespaced_deployment(
            name, self.cluster.namespace, {"spec": spec}, _preload_content=False
        )

    def serve(self, name: str) -> None:
        """Create a Service for those Pods."""
        spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
        body = {"metadata": {"name": name}, "spec": spec}
        self.cluster.api.create_namespaced_service(
            self.cluster.namespace, body, _preload_content=False
        )

    def pods(self, name: str) -> list[Json]:
        """Its Pods, without those that are ending."""
        found = self.cluster.pods().values()
        ours = (p for p in found if p["metadata"].get("labels", {}).get("app") == name)
        return [p for p in ours if "deletionTimestamp" not in p["metadata"]]

    def nodes(self, name: str, bound: int) -> Counter[str]:
        """Wait until so many Pods have nodes; how many are on each."""

        def placed() -> Counter[str] | None:
            nodes = [p["spec"]["nodeName"] for p in self.pods(name) if p["spec"].get("nodeName")]
            return Counter(nodes) if len(nodes) == bound else None

        return wait_until(placed, SOON, f"{bound} Pods of {name} bound")

    def waiting(self, name: str, text: str) -> str:
        """Wait until one Pod waits with ``text`` in its message; its name."""

        def waits() -> str:
            names = (pod["metadata"]["name"] for pod in self.pods(name))
            return next((one for one in names if self.cluster.waits(one, text)), "")

        return wait_until(waits, SOON, f"a Pod of {name} waits: {text}")


@pytest.fixture
def workloads(cluster: Cluster, scheduler: str) -> Iterator[Workloads]:
    made = Workloads(cluster, scheduler)
    yield made
    # In the foreground: with nothing left that could make a Pod again.
    kinds = "deployments,services"
    options = ("--all", "--cascade=foreground")
    cluster.kubectl("delete", kinds, *options, namespace=cluster.namespace)


def per_zone(nodes: Counter[str]) -> Counter[str]:
    """Counts of Pods by zone, where a node's name begins with its zone."""
    zones: Counter[str] = Counter()
    for node, count in nodes.items():
        zones[node[0]] += count
    return zones


def spread(app: str, key: str = ZONE, **more: Any) -> list[Json]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [constraint | {"labelSelector": {"matchLabels": {"app": app}}} | more]


def near(app: str, key: str = ZONE, **more: Any) -> Any:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} | more
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


# Topology spread


def test_a_deployment_is_spread_over_zones_however_many_nodes_they_have(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(*(NodeSpec(name, zone=name[0]) for name in ("a1", "a2", "a3", "b1", "c1")))
    workloads.deploy("web", 6, topologySpreadConstraints=spread("web"), cpu="100m")
    assert per_zone(workloads.nodes("web", 6)) == {"a": 2, "b": 2, "c": 2}
    workloads.scale("web", 9)
    assert per_zone(workloads.nodes("web", 9)) == {"a": 3, "b": 3, "c": 3}


def test_a_full_zone_holds_the_others_back_until_it_has_room(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(NodeSpec("a1", zone="a", cpu="8"), NodeSpec("b1", zone="b", cpu="1"))
    workloads.deploy("web", 4, topologySpreadConstraints=spread("web"), cpu="1")
    workloads.waiting(
        "web",
        (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology "
            "spread constraints. preemption: 0/2 nodes are available: "
            f"2 {NO_VICTIMS}."
        ),
    )
    assert per_zone(workloads.nodes("web", 3)) == {"a": 2, "b": 1}
    cluster.nodes(NodeSpec("b2", zone="b"))
    assert per_zone(workloads.nodes("web", 4)) == {"a": 2, "b": 2}


def test_a_node_without_the_zone_takes_no_pod_that_must_be_spread(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(NodeSpec("lost"))
    workloads.deploy("web", 1, topologySpreadConstraints=spread("web"))
    name = workloads.waiting(
        "web",
        (
            "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints "
            "(missing required label). "
        ),
    )
    cluster.kubectl("label", "node", "lost", f"{ZONE}=found")
    assert cluster.wait_bound(name) == {name: "lost"}


@pytest.mark.parametrize("owner", ["ReplicaSet", "Service"])
def test_pods_that_ask_for_nothing_are_spread_with_those_of_their(
    cluster: Cluster, workloads: Workloads, owner: str
) -> None:
    """The empty large node would be best for each of them alone."""
    cluster.nodes(NodeSpec("large", zone="a", cpu="64", memory="256Gi"))
    alone = [pod(f"alone-{i}", workloads.scheduler, cpu="100m") for i in range(2)]
    if owner == "Service":
        workloads.serve("web")
    cluster.nodes(NodeSpec("b1", zone="b", cpu="2"), NodeSpec("c1", zone="c", cpu="2"))
    cluster.create(*alone)
    assert cluster.wait_bound("alone-0", "alone-1") == {"alone-0": "large", "alone-1": "large"}
    if owner == "ReplicaSet":
        workloads.deploy("web", 3, cpu="100m")
    else:
        names = [f"web-{i}" for i in range(3)]
        cluster.create(
            *(pod(name, workloads.scheduler, {"app": "web"}, cpu="100m") for name in names)
        )
    assert workloads.nodes("web", 3) == {"large": 1, "b1": 1, "c1": 1}


# Pod affinity


def test_a_pod_waits_for_the_one_that_it_must_be_near_and_follows_it(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(*(NodeSpec(name, zone=name[0]) for name in ("a1", "b1", "b2", "c1")))
    workloads.deploy("web", 2, affinity={"podAffinity": near("cache")}, cpu="100m")
    workloads.waiting(
        "web",
        (
            "0/4 nodes are available: 4 node(s) didn't match pod affinity rules. "
            "preemption: 0/4 nodes are available: "
            f"4 {NOT_HELPFUL}."
        ),
    )
    cluster.create(
        pod("cache", workloads.scheduler, {"app": "cache"}, nodeSelector={HOST: "b1"}, cpu="1")
    )
    assert per_zone(workloads.nodes("web", 2)) == {"b": 2}


def test_the_first_of_a_group_that_must_stay_together_goes_anywhere(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(*(NodeSpec(name, zone=name[0]) for name in ("a1", "a2", "b1", "b2")))
    workloads.deploy("web", 6, affinity={"podAffinity": near("web")}, cpu="100m")
    assert list(per_zone(workloads.nodes("web", 6)).values()) == [6]


def test_affinity_reaches_into_namespaces_by_their_labels(
    cluster: Cluster, workloads: Workloads
) -> None:
    selected = {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}
    others = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
    cluster.nodes(NodeSpec("a1", zone="a"), NodeSpec("b1", zone="b"))
    cluster.create(pod("cache", workloads.scheduler, {"app": "cache"}, nodeSelector={HOST: "b1"}))
    cluster.wait_bound("cache")
    for name, selector in (("web", selected), ("lonely", others)):
        affinity = {"podAffinity": near("cache", namespaceSelector=selector)}
        cluster.create(pod(name, workloads.scheduler, affinity=affinity))
    assert cluster.wait_bound("web") == {"web": "b1"}
    cluster.wait_condition("lonely", text="2 node(s) didn't match pod affinity rules")


# Pod anti-affinity


def test_replicas_that_avoid_each_other_wait_for_a_host_of_their_own(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    workloads.deploy("db", 3, affinity={"podAntiAffinity": near("db", HOST)}, cpu="100m")
    workloads.waiting(
        "db",
        (
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. "
            "preemption: 0/2 nodes are available: "
            f"2 {NO_VICTIMS}."
        ),
    )
    cluster.nodes(NodeSpec("n3"))
    assert workloads.nodes("db", 3) == {"n1": 1, "n2": 1, "n3": 1}


def test_a_pod_that_wants_to_be_alone_keeps_others_away_until_it_goes(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(NodeSpec("only"))
    alone = {"podAntiAffinity": near("noisy", HOST)}
    cluster.create(pod("quiet", workloads.scheduler, affinity=alone))
    cluster.wait_bound("quiet")
    cluster.create(pod("noisy", workloads.scheduler, {"app": "noisy"}))
    cluster.wait_condition(
        "noisy",
        text="0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    )
    cluster.delete("quiet")
    cluster.wait_bound("noisy")


def test_a_rollout_avoids_only_pods_of_its_own_revision(
    cluster: Cluster, workloads: Workloads
) -> None:
    """matchLabelKeys: old and new replicas may share hosts, two of one revision may not."""
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    apart = {"podAntiAffinity": near("web", HOST, matchLabelKeys=["pod-template-hash"])}
    surge = {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}
    workloads.deploy("web", 2, surge, affinity=apart, cpu="100m")
    old = workloads.nodes("web", 2)
    revision = {p["metadata"]["labels"]["pod-template-hash"] for p in workloads.pods("web")}
    workloads.change("web", {"template": {"metadata": {"annotations": {"revision": "2"}}}})

    def rolled_out() -> Any:
        found = {p["metadata"]["labels"]["pod-template-hash"] for p in workloads.pods("web")}
        return len(found) == 1 and found != revision

    wait_until(rolled_out, SOON, "the rollout")
    assert workloads.nodes("web", 2) == old == {"n1": 1, "n2": 1}


def test_a_preference_to_keep_apart_is_followed_while_that_is_possible(
    cluster: Cluster, workloads: Workloads
) -> None:
    cluster.nodes(NodeSpec("a1", zone="a", cpu="64"), NodeSpec("b1", zone="b", cpu="4"))
    (term,) = near("web")["requiredDuringSchedulingIgnoredDuringExecution"]
    wish = {"weight": 100, "podAffinityTerm": term}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    cluster.create(pod("web-0", workloads.scheduler, {"app": "web"}, cpu="1", affinity=affinity))
    assert cluster.wait_bound("web-0") == {"web-0": "a1"}
    cluster.create(pod("web-1", workloads.scheduler, {"app": "web"}, cpu="1", affinity=affinity))
    assert cluster.wait_bound("web-1") == {"web-1": "b1"}

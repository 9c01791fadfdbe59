"""NUMA zones in a real process; the tests write NodeResourceTopologies, as exporters do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import pack

import pytest
from xxhash import xxh64_hexdigest, xxh64_intdigest

from e2e.cluster import DEPLOY, OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

GROUP, VERSION, PLURAL = "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"
PLUGIN = "NodeResourceTopologyMatch"
CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{PLURAL}.{GROUP}",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"kind": "NodeResourceTopology", "plural": PLURAL, "singular": PLURAL[:-3] + "y"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
NAME = f"crd/{PLURAL}.{GROUP}"


def install(cluster: Cluster) -> None:
    cluster.put(CRD)
    cluster.kubectl("wait", "--for=condition=Established", NAME, "--timeout=300s")


@pytest.fixture
def run(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Callable[[], Bayplan]]:
    """Starts a scheduler with the plugin, which may read the objects; there is no CRD yet."""
    rights = DEPLOY / "components" / "node-resource-topology" / "rbac.yaml"
    cluster.kubectl("apply", "-f", str(rights))
    args = {"cacheResyncPeriodSeconds": 1, "scoringStrategy": {"type": "MostAllocated"}}
    profile = {
        "schedulerName": OTHER,
        "plugins": {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": 10}]}},
        "pluginConfig": [{"name": PLUGIN, "args": args}],
    }
    yield lambda: start(cluster.config(profiles=[profile]))
    cluster.kubectl("delete", NAME, "--ignore-not-found")
    cluster.kubectl("delete", "-f", str(rights))


def guaranteed(name: str, cpu: int) -> Json:
    made = pod(name, OTHER)
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return made


def export(cluster: Cluster, node: str, *cpus: object, shows: tuple[str, ...] = ()) -> None:
    """Write what an exporter would: a zone with so many free CPUs each, and whom it knows."""
    digest = xxh64_intdigest
    seed = digest(cluster.namespace.encode())
    hashes = sorted(digest(name.encode(), seed) for name in shows)
    mark = xxh64_hexdigest(b"".join(pack("<Q", h) for h in hashes))
    attributes = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": f"pfp0v001{mark}",
    }
    zones = [
        {
            "name": f"node-{i}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "8", "allocatable": "8", "available": str(free)},
                {
                    "name": "memory",
                    "capacity": "32Gi",
                    "allocatable": "32Gi",
                    "available": "20Gi",
                },
            ],
        }
        for i, free in enumerate(cpus)
    ]
    cluster.put(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeResourceTopology",
            "metadata": {"name": node},
            "attributes": [{"name": n, "value": v} for n, v in attributes.items()],
            "zones": zones,
        }
    )


def test_zones_count_once_there_are_objects_and_wake_those_who_wait(
    cluster: Cluster, run: Callable[[], Bayplan]
) -> None:
    run()
    cluster.nodes(NodeSpec("numa-a", cpu="16"))
    cluster.create(guaranteed("before", 9))
    assert cluster.wait_bound("before") == {"before": "numa-a"}
    cluster.delete("before")
    install(cluster)
    export(cluster, "numa-a", 4, 4)
    cluster.wait_refused(guaranteed("probe", 6))
    cluster.create(guaranteed("large", 6))
    cluster.wait_condition("large", text="cannot align container")
    export(cluster, "numa-a", 4, 6)
    assert cluster.wait_bound("large") == {"large": "numa-a"}


def test_a_zone_is_given_once_while_the_object_is_old(
    cluster: Cluster, run: Callable[[], Bayplan]
) -> None:
    install(cluster)
    cluster.nodes(NodeSpec("numa-a", cpu="16"))
    export(cluster, "numa-a", 8, 5)
    run()
    cluster.create(guaranteed("too-large", 9))
    cluster.wait_condition("too-large", text="cannot align container")
    cluster.create(guaranteed("one", 5))
    cluster.wait_bound("one")
    cluster.create(guaranteed("other", 5))
    cluster.wait_condition("other", text="cannot align container")
    wait_until(
        lambda: cluster.pod("one")["status"]["phase"] == "Running", SOON, "the first one to run"
    )
    export(cluster, "numa-a", 3, 5, shows=("one",))
    assert cluster.wait_bound("other") == {"other": "numa-a"}


def test_an_object_with_a_gap_is_named_and_counted(
    cluster: Cluster, run: Callable[[], Bayplan]
) -> None:
    install(cluster)
    cluster.nodes(NodeSpec("numa-a", cpu="16"), NodeSpec("numa-b", cpu="16"))
    export(cluster, "numa-a", "-8", 2)
    export(cluster, "numa-b", 8, 8)
    bayplan = run()
    wait_until(
        lambda: bayplan.metric("bayplan_plugin_value", plugin=PLUGIN, name="faults") == 1,
        SOON,
        "the fault",
    )
    cluster.create(guaranteed("web", 4))
    assert cluster.wait_bound("web") == {"web": "numa-b"}
    text = "zones[0].resources[0].available: there cannot be -8 cpu"
    wait_until(lambda: bayplan.lines(text), SOON, "a line in the log")

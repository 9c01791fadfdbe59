"""AppGroups and a NetworkTopology in a real process, as users of scheduler-plugins have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from e2e.cluster import DEPLOY, OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

PLUGIN = "NetworkOverhead"
APP_GROUP, TOPOLOGY = "appgroup.diktyo.x-k8s.io", "networktopology.diktyo.x-k8s.io"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "format": "int64", "minimum": 0}


def struct(*required: str, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def array(of: Json) -> Json:
    return {"type": "array", "items": of}


REFERENCE = struct(
    *("kind", "name", "selector"),
    **dict.fromkeys(("kind", "name", "selector", "apiVersion", "namespace"), TEXT),
)
DEPENDENCY = struct("workload", workload=REFERENCE, maxNetworkCost={**NUMBER, "maximum": 10000})
WORKLOAD = struct("workload", workload=REFERENCE, dependencies=array(DEPENDENCY))
ORDER = struct(workload=REFERENCE, index={"type": "integer"})
COST = struct("destination", "networkCost", destination=TEXT, networkCost=NUMBER)
ORIGIN = struct("origin", origin=TEXT, costList=array(COST))
BY_KEY = struct("topologyKey", "originList", topologyKey=TEXT, originList=array(ORIGIN))
WEIGHTS = struct("name", "topologyList", name=TEXT, topologyList=array(BY_KEY))


def crd(group: str, kind: str, plural: str, spec: Json, status: Json) -> Json:
    schema = struct(spec=spec, status=status)
    version = {"name": "v1alpha1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


CRDS = (
    crd(
        APP_GROUP,
        "AppGroup",
        "appgroups",
        struct("workloads", workloads=array(WORKLOAD), numMembers=NUMBER),
        struct(topologyOrder=array(ORDER)),
    ),
    crd(
        TOPOLOGY,
        "NetworkTopology",
        "networktopologies",
        struct("weights", "configmapName", configmapName=TEXT, weights=array(WEIGHTS)),
        struct(),
    ),
)
NAMES = [f"crd/{each['metadata']['name']}" for each in CRDS]


def shop(most: int, on: str = "db") -> Json:
    """web depends on a workload, at a cost of at most so much; there are web and db."""
    web, db, other = ({"kind": "Deployment", "name": n, "selector": n} for n in ("web", "db", on))
    needs = [{"workload": other, "maxNetworkCost": most}]
    return {
        "apiVersion": f"{APP_GROUP}/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": "shop"},
        "spec": {"workloads": [{"workload": web, "dependencies": needs}, {"workload": db}]},
        "status": {"topologyOrder": [{"workload": db, "index": 1}, {"workload": web, "index": 2}]},
    }


def costs(zones: Mapping[tuple[str, str], int]) -> Json:
    origins = [
        {"origin": one, "costList": [{"destination": other, "networkCost": cost}]}
        for (one, other), cost in zones.items()
    ]
    by_key = [{"topologyKey": ZONE, "originList": origins}]
    return {
        "apiVersion": f"{TOPOLOGY}/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default"},
        "spec": {
            "configmapName": "netperf",
            "weights": [{"name": "UserDefined", "topologyList": by_key}],
        },
    }


def member(name: str, workload: str, node: str = "") -> Json:
    made = pod(name, OTHER, cpu="1")
    made["metadata"]["labels"] = {APP_GROUP: "shop", f"{APP_GROUP}.workload": workload}
    if node:
        made["spec"]["nodeName"] = node
    return made


def zone(name: str) -> NodeSpec:
    return NodeSpec(f"network-{name}", cpu="4", labels={REGION: "r", ZONE: name})


@pytest.fixture
def run(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Callable[[], Bayplan]]:
    """Starts a scheduler with both plugins, which may read the objects; there are no CRDs yet."""
    rights = DEPLOY / "components" / "network-overhead" / "rbac.yaml"
    cluster.kubectl("apply", "-f", str(rights))
    namespaces = ["not-there", cluster.namespace]
    profile = {
        "schedulerName": OTHER,
        "plugins": {
            "multiPoint": {"enabled": [{"name": PLUGIN, "weight": 10}]},
            "queueSort": {"enabled": [{"name": "TopologicalSort"}], "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [
            {"name": name, "args": {"namespaces": namespaces}}
            for name in (PLUGIN, "TopologicalSort")
        ],
    }
    yield lambda: start(cluster.config(profiles=[profile]))
    cluster.kubectl("delete", "--ignore-not-found", *NAMES)
    cluster.kubectl("delete", "-f", str(rights))


def install(cluster: Cluster) -> None:
    cluster.put(*CRDS)
    cluster.kubectl("wait", "--for=condition=Established", *NAMES, "--timeout=300s")


def test_pods_are_placed_by_dependencies_once_the_objects_are_there(
    cluster: Cluster, run: Callable[[], Bayplan]
) -> None:
    bayplan = run()
    cluster.nodes(zone("a"), zone("b"))
    cluster.create(member("db", "db", "network-a"))
    missing = {"plugin": PLUGIN, "name": "missing_objects"}
    cluster.create(member("early", "web"))
    cluster.wait_bound("early")
    assert bayplan.metric("bayplan_plugin_events_total", **missing) > 0
    install(cluster)
    cluster.put(shop(20), costs({("b", "a"): 90}))
    cluster.kubectl("cordon", "network-a")
    cluster.wait_refused(member("probe", "web"))
    cluster.create(member("web", "web"))
    cluster.wait_condition("web", text="does not meet several network requirements")
    cluster.put(costs({("b", "a"): 15}))
    assert cluster.wait_bound("web") == {"web": "network-b"}


def test_what_is_wrong_in_an_object_is_an_event_and_counted(
    cluster: Cluster, run: Callable[[], Bayplan]
) -> None:
    install(cluster)
    cluster.nodes(zone("a"), zone("b"))
    cluster.put(shop(20, on="cache"), costs({("b", ""): 15}))
    bayplan = run()
    faults = {"plugin": PLUGIN, "name": "faults"}
    wait_until(lambda: bayplan.metric("bayplan_plugin_value", **faults) == 2, SOON, "both faults")
    path = "spec.workloads[0].dependencies[0].workload.selector"
    text = f'{path}: no workload of the AppGroup has "cache"'
    wait_until(lambda: bayplan.lines(text), SOON, "a line in the log")
    cluster.create(member("web", "web"))
    cluster.wait_bound("web")
    said = "get", "events", "-o=jsonpath={.items[*].reason}"
    wait_until(
        lambda: (
            {"InvalidAppGroup", "InvalidNetworkTopology"}
            <= set(cluster.kubectl(*said, namespace=cluster.namespace).split())
        ),
        SOON,
        "both events",
    )


def watched(bayplan: Bayplan) -> set[str]:
    """The kinds of this file that the process has lists of."""
    kinds = ("AppGroup", "NetworkTopology")
    metric = "bayplan_informer_synced"
    return {kind for kind in kinds if bayplan.metric(metric, kind=kind)}


def test_the_objects_are_watched_only_with_the_plugins(
    cluster: Cluster, run: Callable[[], Bayplan], start: Callable[..., Bayplan]
) -> None:
    install(cluster)
    bayplan = run()
    wait_until(lambda: len(watched(bayplan)) == 2, SOON, "both lists")
    without = start(cluster.config(name="e2e-without"))
    wait_until(lambda: without.metric("bayplan_informer_synced", kind="Pod"), SOON, "its lists")
    assert watched(without) == set()

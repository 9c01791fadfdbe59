"""Kinds of nodes on a real API server: order, limits, claims, and what is told of wrong objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import SOON, Bayplan, Cluster, Json
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT
from e2e.test_tenants import (
    BLUE,
    EVICTIONS,
    PROFILE,
    RED,
    bound,
    deploy,
    has_account,
    pods,
    queue,
    verdicts,
    wait_for,
)

pytestmark = pytest.mark.e2e

CRDS = [f"--filename={ROOT / 'deploy' / 'crds' / name}.yaml" for name in ("queues", "nodekinds")]
TEAMS = (RED, BLUE)


@pytest.fixture
def kinds(cluster: Cluster) -> Iterator[Cluster]:
    """The CRDs, the kinds fast and slow, and namespaces; nothing is left behind."""
    cluster.kubectl("apply", *CRDS)
    cluster.kubectl("wait", "--for=condition=Established", *CRDS, "--timeout=300s")
    for name in TEAMS:
        meta = {"name": name, "labels": {"team": name}}
        cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        wait_until(lambda name=name: has_account(cluster, name), SOON, "a ServiceAccount")  # type: ignore[misc]
    for name in ("fast", "slow"):
        kind(cluster, name, tier=name)
    yield cluster
    cluster.kubectl("delete", "queues,nodekinds", "--all")
    for name in TEAMS:
        cluster.kubectl("delete", "deployments,pods", "--all", "--force", namespace=name)
    wait_until(lambda: not any(pods(cluster, name) for name in TEAMS), SOON, "the end of Pods")


@pytest.fixture
def bayplan(kinds: Cluster, start: Callable[..., Bayplan]) -> Bayplan:
    """A scheduler with FairShare, and a node of each kind."""
    kinds.nodes(
        NodeSpec("f", cpu="4", labels={"tier": "fast"}),
        NodeSpec("s", cpu="4", labels={"tier": "slow"}),
    )
    return start(kinds.config(profiles=[PROFILE]))


def kind(cluster: Cluster, name: str, **labels: str) -> None:
    """Make or change a NodeKind."""
    document = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "NodeKind"}
    spec = {"nodeSelector": {"matchLabels": labels}}
    cluster.put({**document, "metadata": {"name": name}, "spec": spec})


def on(cluster: Cluster, namespace: str) -> list[str]:
    """The nodes of the Pods of a namespace."""
    nodes = (pod["spec"].get("nodeName", "") for pod in pods(cluster, namespace))
    return sorted(filter(None, nodes))


def test_pods_go_by_the_order_of_kinds_and_their_limits(cluster: Cluster, bayplan: Bayplan) -> None:
    its = [{"name": "slow", "limit": {"cpu": 1}}, {"name": "fast", "limit": {"cpu": 2}}]
    queue(cluster, "red", RED, nodeKinds=its, nodeKindPolicy="Required")
    deploy(cluster, RED, 4)
    wait_for(cluster, 3)
    assert on(cluster, RED) == ["f", "f", "s"]
    text = (
        "limit of cpu on slow nodes of queue red is 1: 1 used, 1 requested, "
        "limit of cpu on fast nodes of queue red is 2: 2 used, 1 requested"
    )
    wait_until(lambda: verdicts(cluster, RED) == {("QueueLimit", text): 1}, SOON, "one to be held")
    assert bayplan.metric("bayplan_queue_used", queue="red", resource="cpu@fast") == 2

    its[1]["limit"] = {"cpu": 3}
    queue(cluster, "red", RED, nodeKinds=its, nodeKindPolicy="Required")
    wait_for(cluster, 4)
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.mark.parametrize(
    ("its", "rule"),
    [
        ({"guaranteed": {"cpu": 2}}, "guaranteed"),
        # The queue has no share of all nodes together.
        ({"weight": 1}, "share"),
    ],
)
def test_what_a_queue_is_entitled_to_on_a_kind_is_taken_back_there(
    cluster: Cluster, bayplan: Bayplan, its: Json, rule: str
) -> None:
    queue(cluster, "blue", BLUE)
    queue(cluster, "red", RED, weight=0, nodeKinds=[{"name": "fast"} | its])
    deploy(cluster, BLUE, 8)
    wait_for(cluster, 0, 8)
    deploy(cluster, RED, 3)
    wait_for(cluster, 2, 6)
    assert on(cluster, RED) == ["f", "f"]
    assert on(cluster, BLUE) == ["f"] * 2 + ["s"] * 4
    assert bayplan.metric(EVICTIONS, queue="blue", rule=rule) == 2
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    assert bound(cluster, RED, BLUE) == (2, 6)


@pytest.mark.usefixtures("bayplan")
def test_a_kind_without_nodes_is_told(cluster: Cluster) -> None:
    queue(cluster, "red", RED, nodeKinds=[{"name": "nobody"}])
    kind(cluster, "rare", tier="rare")

    def told() -> set[tuple[str, str]]:
        found = cluster.kubectl("get", "events", "-o=json", namespace="default")
        items = json.loads(found)["items"]
        return {(e["involvedObject"]["name"], e["reason"]) for e in items}

    expected = {("rare", "NoNodes"), ("red", "UnknownNodeKind")}
    wait_until(lambda: expected <= told(), SOON, "events on both")


@pytest.mark.usefixtures("bayplan")
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeKinds": [{"name": "fast"}, {"name": "fast"}]}, id="named twice"),
        pytest.param({"nodeKindPolicy": "Always"}, id="unknown policy"),
        pytest.param({"nodeKinds": [{"name": "fast", "weight": -1}]}, id="negative weight"),
        pytest.param(
            {"nodeKinds": [{"name": "fast", "guaranteed": {"cpu": 2}, "limit": {"cpu": 1}}]},
            id="above the limit",
        ),
    ],
)
def test_the_api_server_refuses_what_is_wrong(cluster: Cluster, spec: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="red"):
        queue(cluster, "red", **spec)


@pytest.mark.usefixtures("kinds")
def test_the_api_server_refuses_a_kind_of_all_nodes(cluster: Cluster) -> None:
    document: Json = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "NodeKind"}
    with pytest.raises(Exception, match="must not be empty"):
        cluster.put({**document, "metadata": {"name": "all"}, "spec": {"nodeSelector": {}}})

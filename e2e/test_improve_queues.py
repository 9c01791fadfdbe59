"""Queues that improve themselves, on a real control plane and with the shipped roles.

serve-0, of a StatefulSet, runs on n1 and is in the way of train. Nobody asks for a plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bayplan.client.hold import DURATION
from e2e.cluster import DEPLOY, NAME, OTHER, SOON, SYSTEM, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.test_improve import (
    FINALIZER,
    N1,
    N2,
    ROLES,
    finalizers,
    lease,
    let_go,
    node_of,
    settle,
    stateful_set,
)
from e2e.test_tenants import PROFILE

pytestmark = pytest.mark.e2e

CRD = f"--filename={DEPLOY / 'crds' / 'queues.yaml'}"
OWN_ROLES = DEPLOY / "components" / "improve-queues" / "rbac.yaml"
MINUTE = 60
ELECTED = {"leaderElect": False, "resourceName": NAME}


@pytest.fixture(scope="module")
def shared(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster of its own: where another scheduler has the same Lease both answer orders."""
    with ExitStack() as stack:
        made = new_cluster(stack)
        made.kubectl("apply", CRD)
        made.kubectl("wait", "--for=condition=Established", CRD, "--timeout=300s")
        made.kubectl("apply", "-f", str(ROLES))
        yield made


@pytest.fixture
def roles(shared: Cluster) -> Iterator[None]:
    """The scheduler may apply plans."""
    shared.kubectl("apply", "-f", str(OWN_ROLES))
    yield
    shared.kubectl("delete", "-f", str(OWN_ROLES), "--ignore-not-found")


@pytest.fixture
def scene(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Bayplan]:
    """A scheduler; one move is needed, and a Queue that may have it made."""
    bayplan = start(config(cluster))
    cluster.nodes(NodeSpec(N1, cpu="4"))
    cluster.put(stateful_set("1"), namespace=cluster.namespace)
    wait_until(lambda: node_of(cluster, "serve-0") == N1, SOON, "a node for serve-0")
    try:
        cluster.nodes(NodeSpec(N2, cpu="2"))
        settle(cluster, "serve-0")
        cluster.create(pod("train", OTHER, cpu="4"))
        wait_until(lambda: cluster.condition("train"), SOON, "train to wait")
        cluster.put(queue(1))
        yield bayplan
    finally:
        cluster.kubectl("delete", "statefulset", "serve", namespace=cluster.namespace)
        with suppress(RuntimeError):  # it may be gone
            finalizers(cluster, "serve-0")
        cluster.kubectl("delete", "queue", "research")
        cluster.kubectl(
            "delete", "lease", "bayplan-improve", "--ignore-not-found", namespace=SYSTEM
        )


def config(cluster: Cluster) -> Path:
    return cluster.config(profiles=[PROFILE], leaderElection=ELECTED)


def queue(most: int) -> Json:
    improve = {"maxMovesPerHour": most, "everySeconds": MINUTE, "minAgeSeconds": MINUTE}
    return {
        "apiVersion": "bayplan.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"namespaceSelector": {}, "improve": improve},
    }


def said(cluster: Cluster) -> list[str]:
    """Reason and note of the events about the Queue."""
    found = json.loads(cluster.kubectl("get", "events.events.k8s.io", "-A", "-o=json"))
    return [
        f"{event['reason']}: {event['note']}"
        for event in found["items"]
        if event["regarding"]["kind"] == "Queue"
    ]


def moved(cluster: Cluster) -> list[Json]:
    """What the Lease says of what Queues have moved."""
    found: list[Json] = json.loads(lease(cluster)["metadata"]["annotations"]["bayplan.dev/moved"])
    return found


def leaves(cluster: Cluster, name: str) -> bool:
    return "deletionTimestamp" in cluster.pods().get(name, {"metadata": {}})["metadata"]


def test_without_the_roles_it_is_refused_and_with_them_the_move_is_made(
    scene: Bayplan, cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    wait_until(lambda: said(cluster), MINUTE + SOON, "an event about the Queue")
    (refused,) = said(cluster)
    assert refused.startswith("ImproveEnded: Nothing was touched: ")
    assert "forbidden" in refused
    assert node_of(cluster, "serve-0") == N1
    request.getfixturevalue("roles")
    wait_until(lambda: node_of(cluster, "train") == N1, MINUTE + SOON, "a node for train")
    assert node_of(cluster, "serve-0") == N2
    text = f"{cluster.namespace}/train fits; evicted: {cluster.namespace}/serve-0"
    done = f"Improved: 1 move made, and Pod {text} from {N1} to {N2}"
    wait_until(lambda: done in said(cluster), SOON, "the event about what was done")
    plans = "bayplan_improve_plans_total"
    results = {it: scene.metric(plans, queue="research", result=it) for it in ("made", "refused")}
    assert results == {"made": 1, "refused": 1}
    assert scene.metric("bayplan_improve_moves_total", queue="research") == 1
    wait_until(lambda: not lease(cluster)["spec"].get("holderIdentity"), SOON, "a free Lease")
    assert [(it["queue"], it["moves"]) for it in moved(cluster)] == [("research", 1)]
    wait_until(scene.holds_what_the_api_server_has, SOON, "no difference")


@pytest.mark.usefixtures("roles")
def test_the_scheduler_is_killed_in_the_middle(
    scene: Bayplan, cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    finalizers(cluster, "serve-0", FINALIZER)
    wait_until(lambda: leaves(cluster, "serve-0"), MINUTE + SOON, "the eviction of serve-0")
    scene.kill()
    second = start(config(cluster))
    cluster.create(pod("late", OTHER, cpu="2", nodeSelector={"kubernetes.io/hostname": N2}))
    cluster.wait_bound("late", timeout=DURATION + SOON)
    let_go(cluster)
    wait_until(lambda: N1 in placed(cluster), SOON, "the room on n1 to be used")
    assert [(it["queue"], it["moves"]) for it in moved(cluster)] == [("research", 1)]
    assert second.metric("bayplan_improve_moves_total") == 0
    assert not leaves(cluster, "serve-0")


def placed(cluster: Cluster) -> tuple[str, str]:
    return node_of(cluster, "train"), node_of(cluster, "serve-0")

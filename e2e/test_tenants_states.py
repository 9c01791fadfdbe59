"""On a real API server: Pods that are never evicted, queues that close, limits that are lowered."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.cluster import OTHER, SOON, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.test_tenants import (  # noqa: F401 - fixtures
    BLUE,
    RED,
    bayplan,
    create,
    namespaces,
    pods,
    queue,
    staying,
    tenants,
    verdicts,
)

pytestmark = pytest.mark.e2e

NEVER = {"bayplan.dev/preemptible": "false"}
CPU = "1"


def run(cluster: Cluster, namespace: str, *some: Json) -> None:
    """These Pods run."""
    create(cluster, namespace, *some)
    names = {one["metadata"]["name"] for one in some}
    wait_until(lambda: names <= {*staying(cluster, namespace)}, SOON, f"{names} on nodes")


def says(cluster: Cluster, namespace: str, reason: str, text: str) -> None:
    """Wait until a Pod that waits says so."""
    wait_until(
        lambda: any(r == reason and m.startswith(text) for r, m in verdicts(cluster, namespace)),
        SOON,
        f"{reason}: {text}",
    )


def events(cluster: Cluster) -> str:
    """What events say."""
    fields = "{.items[*].message}{.items[*].note}"
    return cluster.kubectl("get", "events", "--all-namespaces", f"-o=jsonpath={fields}")


def changed(cluster: Cluster, **spec: Any) -> None:
    """The Queue is like this now."""
    queue(cluster, "red", RED, **spec)


@pytest.mark.usefixtures("priorities", "bayplan")
def test_pods_that_are_never_evicted_stay_and_are_within_the_guarantee(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("t1", cpu="2"))
    changed(cluster, guaranteed={"cpu": 1})
    queue(cluster, "blue", BLUE)
    run(cluster, RED, pod("steady", OTHER, NEVER, cpu=CPU))
    create(cluster, RED, pod("more", OTHER, NEVER, cpu=CPU))
    text = "guarantee of cpu of queue red is 1: 1 used by Pods that are never evicted"
    says(cluster, RED, "QueueLimit", text)
    run(cluster, BLUE, pod("lent", OTHER, cpu=CPU))
    high = pod("high", OTHER, cpu=CPU, priorityClassName="e2e-high")
    create(cluster, RED, high)
    create(cluster, "default", high)
    wait_until(lambda: not staying(cluster, BLUE), SOON, "the end of what was lent")
    assert "steady" in staying(cluster, RED)


@pytest.mark.usefixtures("bayplan")
def test_a_closed_queue_takes_no_pods_until_it_opens(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("t1", cpu="4"))
    changed(cluster)
    run(cluster, RED, pod("first", OTHER, cpu=CPU))
    changed(cluster, state="Draining")
    create(cluster, RED, pod("second", OTHER, cpu=CPU))
    says(cluster, RED, "QueueClosed", "queue red is Draining")
    changed(cluster, state="Closed")
    says(cluster, RED, "QueueClosed", "queue red is Closed")
    assert staying(cluster, RED) == ["first"]
    changed(cluster, state="Open")
    wait_until(lambda: len(staying(cluster, RED)) == 2, SOON, "both Pods")


@pytest.mark.usefixtures("bayplan")
def test_a_limit_that_is_lowered_evicts_as_many_as_it_has_to(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("t1", cpu="8"))
    changed(cluster)
    run(cluster, RED, *(pod(f"p{i}", OTHER, cpu=CPU) for i in range(4)))
    changed(cluster, limit={"cpu": 3}, evictOverLimitAfterSeconds=1)
    wait_until(lambda: len(pods(cluster, RED)) == 3, SOON, "the end of one")
    note = "limit of cpu of queue red is 3: 4 used; 1 Pods are evicted"
    wait_until(lambda: note in events(cluster), SOON, note)
    changed(cluster, state="Closed", evictOverLimitAfterSeconds=1)
    wait_until(lambda: not pods(cluster, RED), SOON, "the end of all")

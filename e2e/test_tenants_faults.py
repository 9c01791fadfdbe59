"""Reclaim under faults: leaders that die in the middle, and controllers that never give in.

`BAYPLAN_LOAD=full` provokes for ten minutes in place of half a minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import cycle

import pytest

from e2e.cluster import OTHER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.test_tenants import (
    BLUE,
    EVICTIONS,
    PROFILE,
    RED,
    bayplan,
    create,
    deploy,
    gang,
    namespaces,
    pods,
    queue,
    staying,
    tenants,
    wait_for,
)

__all__ = ["bayplan", "namespaces", "tenants"]

pytestmark = pytest.mark.e2e

PROVOKED = 600.0 if os.environ.get("BAYPLAN_LOAD") == "full" else 30.0
"""Seconds for which there is another reason to evict as soon as the last one is dealt with."""
QUIET = 5.0
"""Seconds in which a circle of evictions would have gone round, and in which nothing happens."""
SLOWLY = {"qps": 0.5, "burst": 1}
"""So slowly that there are seconds between two evictions of one reclaim."""
LEASE = {
    "leaderElect": True,
    "resourceName": "e2e-tenants",
    "resourceNamespace": SYSTEM,
    "leaseDuration": "24s",
    "renewDeadline": "18s",
    "retryPeriod": "1s",
}


def test_the_leader_is_killed_in_the_middle_of_a_reclaim(
    tenants: Cluster, start: Callable[..., Bayplan]
) -> None:
    """The next one goes on where it ended: no Pod more is evicted, nobody else takes the room."""
    tenants.nodes(NodeSpec("t1", cpu="4"), NodeSpec("t2", cpu="4"))
    queue(tenants, "red", RED, guaranteed={"cpu": 6})
    queue(tenants, "blue", BLUE)
    create(tenants, BLUE, *(pod(f"blue-{i}", OTHER, cpu="1") for i in range(8)))
    first = start(tenants.config(profiles=[PROFILE]))
    wait_for(tenants, 0, 8)
    first.kill()

    fast = tenants.config(profiles=[PROFILE], leaderElection=LEASE)
    slow = tenants.config(profiles=[PROFILE], leaderElection=LEASE, clientConnection=SLOWLY)
    # The Lease of deploy/ is held by other tests' scheduler, and it may use no other one.
    admin = {"kubeconfig": tenants.plane.kubeconfig}
    leader = start(slow, **admin)
    wait_until(lambda: leader.lines("Leading"), SOON, "one leads")
    other = start(fast, **admin)

    gang(tenants, RED, 6)
    wait_until(lambda: len(pods(tenants, BLUE)) < 8, SOON, "the first is evicted")
    leader.kill()
    left = len(pods(tenants, BLUE))
    assert not other.lines("Leading")
    create(tenants, BLUE, *(pod(f"late-{i}", OTHER, cpu="1") for i in range(8)))
    wait_for(tenants, 6, 2)
    assert left > 2, "it was too late to prove anything"
    assert all(name.startswith("blue-") for name in staying(tenants, BLUE))
    wait_until(other.holds_what_the_api_server_has, SOON, "no difference")


def test_evictions_end_although_controllers_make_every_pod_anew(
    tenants: Cluster, bayplan: Bayplan
) -> None:
    """Each CPU that was given away wrongly costs one eviction at most, and then all is quiet.

    Of eight CPUs each tenant has a share of four. Red's Pods need three: with one it has less than
    its share, and two would be more than blue has then. Whoever is deleted leaves room for the
    other tenant's Pods, which may be there first, and then it is taken back.
    """
    tenants.nodes(NodeSpec("t1", cpu="4"), NodeSpec("t2", cpu="4"))
    queue(tenants, "red", RED)
    queue(tenants, "blue", BLUE)
    deploy(tenants, BLUE, 12)
    wait_for(tenants, 0, 8)
    deploy(tenants, RED, 4, cpu="3")
    wait_for(tenants, 1, 5)

    allowed = 3
    end = time.monotonic() + PROVOKED
    for rounds, (namespace, cpus) in enumerate(cycle(((RED, 3), (BLUE, 1)))):
        if time.monotonic() >= end and rounds >= 2:
            break
        name = staying(tenants, namespace)[0]
        tenants.api.delete_namespaced_pod(
            name, namespace, grace_period_seconds=0, _preload_content=False
        )
        allowed += cpus
        wait_for(tenants, 1, 5)
        assert bayplan.metric(EVICTIONS) <= allowed, f"after {rounds + 1} deletions"

    evicted = bayplan.metric(EVICTIONS)
    time.sleep(QUIET)
    assert bayplan.metric(EVICTIONS) == evicted
    assert bayplan.metric(EVICTIONS, queue="red") == 0, "it never has more than its share"
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference")

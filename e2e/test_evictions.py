"""Nobody is evicted beyond need beside a busy machine, by Pods that take their time to end.

The nodes have no kubelet: a Pod that is bound never gets a start time, and one that is deleted is
terminating until the test ends it. How many have to go is known by counting.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from e2e.belongings import OURS
from e2e.cluster import SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

BUSY = 4
"""Processes that do nothing but take CPU."""
CPUS = 6
"""Of each node; every Pod takes one."""
CRD = ROOT / "deploy" / "crds" / "elasticquotas.yaml"
TEAMS = ("team-a", "team-b")


@pytest.fixture(autouse=True)
def busy() -> Iterator[None]:
    """The machine is busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


class SlowEnds(threading.Thread):
    """Ends terminating Pods 0.3 to 2.5 seconds after it has seen that they are.

    Args:
        cluster: where.
        namespaces: of the Pods.
    """

    def __init__(self, cluster: Cluster, *namespaces: str) -> None:
        super().__init__(daemon=True)
        self._cluster, self._namespaces = cluster, namespaces
        self._due: dict[str, float] = {}
        self._random = random.Random(1)
        self._over = threading.Event()

    def run(self) -> None:
        """See the class."""
        while not self._over.wait(0.1):
            for namespace in self._namespaces:
                for name, one in self._cluster.pods(namespace).items():
                    if "deletionTimestamp" in one["metadata"]:
                        self._end_when_due(namespace, name, one["metadata"]["uid"])

    def _end_when_due(self, namespace: str, name: str, uid: str) -> None:
        now = time.monotonic()
        if now >= self._due.setdefault(uid, now + self._random.uniform(0.3, 2.5)):
            self._cluster.api.delete_namespaced_pod(
                name, namespace, grace_period_seconds=0, _preload_content=False
            )

    def stop(self) -> None:
        """Waits until it has stopped."""
        self._over.set()
        self.join()


@pytest.fixture
def slow_ends(cluster: Cluster) -> Iterator[None]:
    """Pods take their time to end."""
    ends = SlowEnds(cluster, cluster.namespace, *TEAMS)
    ends.start()
    yield
    ends.stop()


def bare_nodes(cluster: Cluster, number: int) -> list[str]:
    """Nodes on which nobody runs Pods: kwok takes those for its own that have the annotation."""
    names = [f"bare-{i}" for i in range(number)]
    for name in names:
        manifest = NodeSpec(name, cpu=str(CPUS), labels={OURS: ""}).manifest()
        del manifest["metadata"]["annotations"]
        cluster.api.create_node(manifest, _preload_content=False)
    return names


def slow(name: str, scheduler: str, **more: Any) -> Json:
    """A Pod of 1 CPU that may take long to end, on a node of ours whatever becomes of the node."""
    return pod(
        name,
        scheduler,
        cpu="1",
        terminationGracePeriodSeconds=30,
        tolerations=[{"operator": "Exists"}],
        nodeSelector={OURS: ""},  # nodes of others are cordoned, which it tolerates, too
        **more,
    )


def is_nominated(cluster: Cluster, name: str) -> bool:
    """Whether room is made for the Pod, or it has a node."""
    one = cluster.pod(name)
    return bool(one["status"].get("nominatedNodeName") or one["spec"].get("nodeName"))


def staying(cluster: Cluster, prefix: str, namespace: str = "") -> list[str] | None:
    """The Pods that have a node; None while any of them is terminating."""
    pods = [one for name, one in cluster.pods(namespace).items() if name.startswith(prefix)]
    if any("deletionTimestamp" in one["metadata"] for one in pods):
        return None
    return [one["metadata"]["name"] for one in pods if "nodeName" in one["spec"]]


@pytest.mark.usefixtures("classes", "deployed", "slow_ends")
def test_as_many_pods_go_as_pods_of_higher_priority_come(cluster: Cluster) -> None:
    nodes = bare_nodes(cluster, 4)
    room, takers = len(nodes) * CPUS, 12
    cluster.create(*(slow(f"low-{i:02}", "nobody") for i in range(room)))
    for i in range(room):
        cluster.bind(f"low-{i:02}", nodes[i % len(nodes)])
    high = [f"high-{i:02}" for i in range(takers)]
    for name in high:
        cluster.create(slow(name, "bayplan", priorityClassName="e2e-vip"))
        wait_until(partial(is_nominated, cluster, name), SOON, f"a victim for {name}")
    cluster.wait_bound(*high)
    left = wait_until(lambda: staying(cluster, "low-"), SOON, "the end of all that was evicted")
    assert len(left or ()) == room - takers
    assert cluster.overcommitted() == {}


@pytest.fixture
def teams(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[None]:
    """Two teams with a quota of three each, and the scheduler that keeps to quotas."""
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    for team in TEAMS:
        cluster.kubectl("create", "namespace", team)
        quota = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": team},
            "spec": {"min": {"cpu": str(CPUS // 2)}, "max": {"cpu": str(CPUS)}},
        }
        path = cluster.plane.folder / f"{team}.json"
        path.write_text(json.dumps(quota))
        cluster.kubectl("apply", "-f", str(path))
    start(ROOT / "examples" / "quotas" / "config.yaml")
    yield
    for team in TEAMS:
        cluster.api.delete_collection_namespaced_pod(
            team, grace_period_seconds=0, _preload_content=False
        )
    cluster.kubectl("delete", "namespace", *TEAMS, "--wait=false")
    for team in TEAMS:
        cluster.kubectl("wait", "--for=delete", f"namespace/{team}", f"--timeout={SOON:.0f}s")


@pytest.mark.usefixtures("classes", "teams", "slow_ends")
def test_a_team_takes_back_its_minimum_and_leaves_the_other_one_its_own(cluster: Cluster) -> None:
    bare_nodes(cluster, 1)
    create = cluster.api.create_namespaced_pod
    for i in range(CPUS):
        body = slow(f"a-{i}", "bayplan-quotas", priorityClassName="e2e-vip")
        create("team-a", body, _preload_content=False)
    wait_until(
        lambda: len(staying(cluster, "a-", "team-a") or ()) == CPUS, SOON, "team-a everywhere"
    )
    for i in range(CPUS):
        create("team-b", slow(f"b-{i}", "bayplan-quotas"), _preload_content=False)
    wait_until(
        lambda: len(staying(cluster, "b-", "team-b") or ()) == CPUS // 2, SOON, "team-b's minimum"
    )
    left = wait_until(lambda: staying(cluster, "a-", "team-a"), SOON, "the end of team-a's victims")
    assert len(left or ()) == CPUS // 2
    assert cluster.overcommitted() == {}

"""A shadow beside a kube-scheduler that places PodGroups: decisions about gangs are verdicts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from bayplan.client.errors import NotFound
from e2e.cluster import SOON, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.programs import OTHER_KUBE_SCHEDULER, is_reference
from e2e.shadow_judge import KUBE
from e2e.shadows import Shadow
from e2e.test_pod_groups_upstream import GATE, GATES, SERVED, create_gang

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not is_reference(), reason=OTHER_KUBE_SCHEDULER),
]

GANGS = 24
NODES = 6


@pytest.fixture(scope="module")
def workload_cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A control plane that serves PodGroups, with kube-scheduler, which looks at all nodes."""
    with ExitStack() as stack:
        cluster = new_cluster(stack, GATES, SERVED)
        profiles = [{"schedulerName": KUBE}]
        config = cluster.config(KUBE, profiles=profiles, percentageOfNodesToScore=100)
        assert cluster.plane.start_kube_scheduler(config, GATE) is not None
        yield cluster


def members(gang: str, count: int, cpu: str) -> list[Json]:
    """Pods of a gang."""
    made = [pod(f"{gang}-{i}", KUBE, cpu=cpu, memory="64Mi") for i in range(count)]
    for each in made:
        each["spec"]["schedulingGroup"] = {"podGroupName": gang}
    return made


def decided(cluster: Cluster, names: list[str]) -> bool:
    """Whether each Pod has a node, or was refused one and is to evict nobody."""
    for name in names:
        with suppress(NotFound):
            one = cluster.pod(name)
            refused = cluster.condition(name).get("reason") == "Unschedulable"
            nominated = one["status"].get("nominatedNodeName")
            if not one["spec"].get("nodeName") and (not refused or nominated):
                return False
    return True


def test_beside_kube_scheduler_no_decision_about_a_gang_differs(
    workload_cluster: Cluster,
) -> None:
    cluster, dice = workload_cluster, random.Random(7)
    cluster.nodes(*(NodeSpec(f"g{i}", cpu=str(3 + i % 3)) for i in range(NODES)))
    shadow = Shadow(cluster.plane, cluster.kubeconfig, [GATE])
    shadow.start()
    try:
        for number in range(GANGS):
            count = dice.randrange(2, 6)
            gang = f"gang{number}"
            cpu = f"{dice.randrange(200, 1500)}m" if number % 4 else "3500m"
            # All of them are its minimum, so both schedulers decide about all of them at once.
            create_gang(cluster, gang, count)
            names = list(cluster.create(*members(gang, count, cpu)))
            wait_until(lambda n=names: decided(cluster, n), SOON, f"a decision about {gang}")  # type: ignore[misc]
            if number % 6 == 5:
                cluster.kubectl("delete", "pods", "--all", namespace=cluster.namespace)
        report = shadow.settled()
    finally:
        shadow.kill()
        cluster.clear()
    assert [json.dumps(one) for one in report.get("differences", ())] == []
    assert report["agreed"] == report["compared"] >= GANGS
    assert report.get("notCompared", {}).keys() <= {"inFlight"}
    assert report["outcomes"].keys() & {"same", "equal"}
    assert "sameMessage" in report["outcomes"]

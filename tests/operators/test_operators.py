"""Groups as operators write them are placed as they come.

The files have what KubeRay, Kubeflow Trainer, MPI-operator and Spark-operator create, field by
field, with the Pods' containers cut short.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core_harness import Cluster
from tests.groups import groups_profile, nodes

from bayplan.testing import Cluster as Confirmed
from bayplan.testing import make_pod

FOLDER = Path(__file__).parent
OF_KUBERAY = "scheduler-plugins-scheduler"
OPERATORS = ["kuberay", "trainer", "mpi-operator"]
"""Those whose minimum is all Pods; together they request 7 or 8 CPUs."""


def cluster_of(operator: str) -> Confirmed:
    """A cluster whose scheduler serves the Pods of that operator."""
    profile = groups_profile() | {"schedulerName": scheduler_of(operator)}
    return Confirmed(config={"profiles": [profile]})


def scheduler_of(operator: str) -> str:
    return OF_KUBERAY if operator == "kuberay" else "bayplan"


def bound(cluster: Confirmed) -> set[str]:
    """The names of the Pods that have a node."""
    return {pod.name for pod in cluster.world.handlers.pods.values() if pod.node_name}


@pytest.mark.parametrize("operator", OPERATORS)
def test_all_pods_are_placed_at_once(operator: str) -> None:
    cluster = cluster_of(operator)
    cluster.add(*nodes(4))
    cluster.apply(FOLDER / f"{operator}.yaml")
    cluster.run()
    assert len(bound(cluster)) == 4


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_is_placed_where_one_has_no_room(operator: str) -> None:
    cluster = cluster_of(operator)
    cluster.add(*nodes(2, cpu="3"))
    cluster.apply(FOLDER / f"{operator}.yaml")
    cluster.run()
    assert bound(cluster) == set()
    cluster.add(*nodes(4, cpu="3"))
    cluster.wait(11)
    cluster.run()
    assert len(bound(cluster)) == 4


def test_workers_that_kuberay_adds_later_go_singly() -> None:
    """It does not change the PodGroup when a RayCluster is scaled."""
    cluster = cluster_of("kuberay")
    cluster.add(*nodes(4))
    cluster.apply(FOLDER / "kuberay.yaml")
    cluster.run()
    late = make_pod("train-workers-worker-late").req(cpu="2")
    late.label("scheduling.x-k8s.io/pod-group", "train").spec(schedulerName=OF_KUBERAY)
    cluster.add(late)
    cluster.run()
    assert cluster.node_of(late)


def test_a_time_out_of_0_as_mpi_operator_writes_it_is_the_default() -> None:
    cluster = cluster_of("mpi-operator")
    cluster.apply(FOLDER / "mpi-operator.yaml")
    (entry,) = cluster.world.queue.groups
    assert entry.group is not None
    assert entry.group.timeout is None


def test_a_driver_of_spark_waits_until_its_executors_have_room_too() -> None:
    cluster = cluster_of("spark-operator")
    cluster.add(*nodes(1))
    cluster.apply(FOLDER / "spark-operator.yaml")
    cluster.run()
    assert bound(cluster) == set()
    cluster.add(*nodes(2))
    cluster.wait(11)
    cluster.run()
    assert bound(cluster) == {"etl-driver"}
    executors = [make_pod(f"etl-exec-{i}").req(cpu="2", memory="2Gi") for i in (1, 2, 3)]
    for executor in executors:
        executor.label("scheduling.x-k8s.io/pod-group", "spark-etl-pg")
    cluster.add(*executors)
    cluster.run()
    assert all(map(cluster.node_of, executors))


def test_a_driver_of_spark_evicts_for_the_room_that_its_executors_will_need() -> None:
    cluster = Cluster(profiles=[groups_profile()])
    cluster.add(*nodes(2))
    cluster.add(
        *(make_pod(f"low-{i}").req(cpu="1").priority(-1).node(f"n{i % 2}") for i in range(8))
    )
    cluster.apply(FOLDER / "spark-operator.yaml")
    cluster.run()
    assert len(cluster.writer.deleted) >= 7

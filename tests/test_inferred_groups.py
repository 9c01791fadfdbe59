"""Pods without a PodGroup whose owner says that they belong together, through the scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import group_cluster, groups_profile, nodes, racks, sub_groups
from tests.owners import (
    jobs_of,
    make_job,
    make_job_set,
    make_leader_worker_set,
    pods_of_group,
    pods_of_job,
    replicated,
)

from bayplan.cache.sub_groups import SUB_GROUP_LABEL
from bayplan.config import ConfigError
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder, make_pod


def inferring(*owners: str, **args: Any) -> Cluster:
    """A cluster whose scheduler infers groups from these kinds of owners."""
    return group_cluster(inferGroups=list(owners), **args)


def nodes_of(cluster: Cluster, pods: list[PodBuilder]) -> list[str]:
    """Where each counts; "" for nowhere."""
    return [cluster.counted_on(pod) for pod in pods]


def test_the_pods_of_an_indexed_job_are_placed_at_once_or_not_at_all() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 6, completions=6)
    pods = pods_of_job(job, range(6))
    cluster.add(*nodes(1), job, *pods[:5])
    cluster.run()
    assert nodes_of(cluster, pods) == [""] * 6
    cluster.wait(6)
    cluster.run()
    assert cluster.notes[-1] == ("WaitingForMembers", "WaitingForMembers 5/6")

    cluster.add(pods[5])
    cluster.run()
    assert nodes_of(cluster, pods) == [""] * 6
    assert cluster.notes[-1][1].startswith("NoRoom: at most 4 of 6 fit, short by cpu")

    cluster.add(*nodes(2))
    cluster.wait(11)
    cluster.run()
    assert "" not in nodes_of(cluster, pods)
    assert cluster.notes[-1] == ("Scheduled", "Bound: 6 Pods, of which 6 are needed")
    assert cluster.events[-1].pod == "sweep"
    assert cluster.is_at_rest()


def test_without_the_argument_the_owner_means_nothing() -> None:
    cluster = inferring()
    pods = pods_of_job(make_job("sweep", 6), range(6))
    cluster.add(*nodes(1), *pods)
    cluster.run()
    assert sorted(nodes_of(cluster, pods)) == ["", "", "n0", "n0", "n0", "n0"]


def test_a_job_that_is_seen_after_its_pods_wakes_them() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 2)
    pods = pods_of_job(job, range(2))
    cluster.add(*nodes(1), *pods)
    cluster.run()
    cluster.wait(6)
    cluster.run()
    text = "WaitingForJob: there is no Job default/sweep"
    assert cluster.notes[-1] == ("WaitingForJob", text)
    cluster.add(job)
    cluster.run()
    assert nodes_of(cluster, pods) == ["n0"] * 2


def test_the_last_wave_of_a_job_needs_no_more_pods_than_are_left() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 4, completions=6)
    cluster.add(*nodes(1), job)
    first, last = pods_of_job(job, range(4)), pods_of_job(job, range(4, 6))
    cluster.add(*first)
    cluster.run()
    cluster.add(*(pod.node("n0") for pod in first))
    cluster.remove(*first)
    cluster.add(*last)
    cluster.run()
    assert [cluster.state(pod) for pod in last] == [QueueState.GROUPED] * 2
    cluster.add(job.status(succeeded=4))
    cluster.run()
    assert nodes_of(cluster, last) == ["n0"] * 2


def test_a_leader_worker_set_may_have_sub_groups_by_the_labels_of_its_templates() -> None:
    cluster = inferring("LeaderWorkerSet", topologyLevels=["rack"])
    parts = ({"name": "leader"}, {"name": "ring", "minMember": 3, "requiredTopology": "rack"})
    leaders = make_leader_worker_set("serve", 4)
    for key, value in sub_groups(*parts).items():
        leaders.annotation(key, value)
    leader, *workers = pods_of_group(leaders, 0, range(4))
    leader.label(SUB_GROUP_LABEL, "leader")
    ring = [pod.label(SUB_GROUP_LABEL, "ring") for pod in workers]
    cluster.add(*racks(2, 2), leaders, leader, *ring)
    cluster.run()
    assert nodes_of(cluster, [leader, *ring]) == [""] * 4
    cluster.add(*racks(0, 0, 3))
    cluster.wait(11)
    cluster.run()
    assert {node[:2] for node in nodes_of(cluster, ring)} == {"r2"}
    assert cluster.counted_on(leader) != ""


def test_a_pod_in_place_of_a_lost_one_goes_singly() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 2)
    pods = pods_of_job(job, range(2))
    cluster.add(*nodes(1), job, *pods)
    cluster.run()
    cluster.add(*(pod.node("n0") for pod in pods))
    cluster.remove(pods[0])
    (new,) = pods_of_job(job, range(1))
    cluster.add(new)
    cluster.run()
    assert cluster.counted_on(new) == "n0"


def test_all_jobs_of_a_job_set_are_one_group() -> None:
    cluster = inferring("Job", "JobSet")
    whole = make_job_set("train", replicated("driver", 1, 1), replicated("workers", 2, 2))
    jobs = [*jobs_of(whole, "driver"), *jobs_of(whole, "workers")]
    pods = [pod for job in jobs for pod in pods_of_job(job, range(job.json["spec"]["parallelism"]))]
    cluster.add(*nodes(1), whole, *jobs, *pods)
    cluster.run()
    assert nodes_of(cluster, pods) == [""] * 5
    cluster.add(*nodes(2))
    cluster.wait(11)
    cluster.run()
    assert "" not in nodes_of(cluster, pods)
    assert cluster.events[-1].pod == "train"


def test_a_job_set_that_starts_in_order_does_not_wait_for_what_comes_later() -> None:
    cluster = inferring("JobSet")
    whole = make_job_set(
        "train",
        replicated("driver", 1, 1),
        replicated("workers", 1, 2),
        startupPolicy={"startupPolicyOrder": "InOrder"},
    )
    (driver,), (workers,) = jobs_of(whole, "driver"), jobs_of(whole, "workers")
    cluster.add(*nodes(1), whole, driver, *pods_of_job(driver, range(1)))
    cluster.run()
    assert [pod for pod, _ in cluster.bound] == ["train-driver-0-0-x0"]
    cluster.add(workers, *pods_of_job(workers, range(2)))
    cluster.run()
    assert len(cluster.bound) == 3


def test_each_group_of_a_leader_worker_set_is_one_by_itself() -> None:
    cluster = inferring("LeaderWorkerSet")
    leaders = make_leader_worker_set("serve", 3)
    first, second = (pods_of_group(leaders, group, range(3)) for group in range(2))
    cluster.add(*nodes(1, cpu="5"), leaders, *first, *second[:2])
    cluster.run()
    assert nodes_of(cluster, first) == ["n0"] * 3
    assert nodes_of(cluster, second[:2]) == [""] * 2
    cluster.add(second[2])
    cluster.run()
    assert nodes_of(cluster, second) == [""] * 3
    assert cluster.notes[-1][1].startswith("NoRoom: at most 2 of 3 fit")


def test_a_leader_whose_workers_wait_for_it_does_not_wait_for_them() -> None:
    cluster = inferring("LeaderWorkerSet")
    leaders = make_leader_worker_set("serve", 3, startupPolicy="LeaderReady")
    pods = pods_of_group(leaders, 0, range(3))
    cluster.add(*nodes(1), leaders, pods[0])
    cluster.run()
    assert cluster.counted_on(pods[0]) == "n0"
    cluster.add(*pods[1:])
    cluster.run()
    assert nodes_of(cluster, pods) == ["n0"] * 3


def test_an_inferred_group_is_kept_in_one_domain_its_later_pods_too() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 2).annotation("bayplan.dev/required-topology", "rack")
    pods = pods_of_job(job, range(5))
    cluster.add(*racks(4, 3), job, *pods[:2])
    cluster.run()
    assert {node[:2] for node in nodes_of(cluster, pods[:2])} == {"r1"}
    cluster.add(*pods[2:])
    cluster.run()
    assert sorted(node[:2] for node in nodes_of(cluster, pods)) == ["", "", "r1", "r1", "r1"]


def test_an_inferred_group_is_evicted_as_a_whole() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 3)
    pods = [pod.node("n0") for pod in pods_of_job(job, range(3))]
    single = make_pod("single").req(cpu="1").node("n0")
    cluster.add(*nodes(1), job, *pods, single)
    other = make_job("urgent", 2)
    cluster.writer.on_deleted = None
    cluster.add(other, *(p.priority(9) for p in pods_of_job(other, range(2))))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["sweep-0-x0", "sweep-1-x1", "sweep-2-x2"]


def test_one_pod_spares_a_node_with_an_inferred_group() -> None:
    cluster = inferring("Job")
    job = make_job("sweep", 1)
    (member,) = pods_of_job(job, range(1), cpu="4")
    single = make_pod("single").req(cpu="4").priority(1)
    cluster.add(*nodes(2), job, member.node("n0"), single.node("n1"))
    cluster.add(make_pod("urgent").req(cpu="4").priority(9))
    cluster.run()
    assert cluster.writer.deleted == ["single"]


@pytest.mark.parametrize("kinds", [["Jobs"], ["Job", "StatefulSet"]])
def test_a_kind_that_groups_cannot_be_inferred_from_is_refused(kinds: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        inferring(*kinds)
    path = f"profiles[0].pluginConfig[0].args.inferGroups[{len(kinds) - 1}]"
    assert path in str(error.value)


def test_a_reload_begins_and_ends_to_infer_groups() -> None:
    cluster = inferring()
    begun, waits = make_job("begun", 3), make_job("waits", 3)
    first, second = pods_of_job(begun, range(3)), pods_of_job(waits, range(3))
    blocker = make_pod("blocker").req(cpu="3").node("n0")
    cluster.add(*nodes(1), begun, waits, blocker, first[0].node("n0"), *second[:1])
    cluster.run()
    assert cluster.state(second[0]) is QueueState.UNSCHEDULABLE

    cluster.reload(profiles=[groups_profile(inferGroups=["Job"])])
    assert cluster.state(second[0]) is QueueState.GROUPED
    cluster.add(first[1], second[1])
    cluster.run()
    # The group of which a Pod ran before the reload has begun.
    assert cluster.state(first[1]) is QueueState.UNSCHEDULABLE
    assert cluster.world.cache.groups.nodes_of("default/Job/begun") == {"n0": 1}

    cluster.reload(profiles=[groups_profile()])
    cluster.remove(blocker)
    cluster.wait(11)
    cluster.run()
    assert nodes_of(cluster, [first[1], *second[:2]]) == ["n0"] * 3
    assert cluster.is_at_rest()

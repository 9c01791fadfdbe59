"""Who is evicted together: groups of one API, for Pods and groups of the other."""

from __future__ import annotations

from tests.groups import (
    gang,
    gang_members,
    groups_profile,
    members,
    nodes,
    pod_group,
    workload_cluster,
)
from tests.queues import pods as queued_pods
from tests.queues import queue, queues_profile

from bayplan.testing import labels_are, make_pod


def test_a_pod_that_preempts_takes_a_group_that_is_one_unit_as_a_whole() -> None:
    cluster = workload_cluster()
    cluster.writer.on_deleted = None
    cluster.add(gang("low", 2, disruptionMode={"all": {}}), *nodes(2, cpu="1"))
    cluster.add(*(pod.node(f"n{i}") for i, pod in enumerate(gang_members("low", 2))))
    cluster.add(make_pod("high").req(cpu="1").priority(9))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["low-0", "low-1"]


def test_a_pod_that_preempts_takes_a_smaller_victim_rather_than_a_group_that_is_one_unit() -> None:
    """The group is the more important of the two on n0, and its Pod on n1 is needed nowhere."""
    cluster = workload_cluster()
    cluster.writer.on_deleted = None
    cluster.add(gang("low", 2, disruptionMode={"all": {}}))
    alone = make_pod("alone").req(cpu="1").start_time("2020-01-01T00:00:00Z")
    cluster.add(*nodes(2, cpu="2"), alone.node("n0"), make_pod("top").req(cpu="1").node("n1"))
    cluster.add(*(pod.node(f"n{i}") for i, pod in enumerate(gang_members("low", 2))))
    cluster.add(make_pod("high").req(cpu="1").priority(9).node_selector({"host": "n0"}))
    cluster.run()
    assert cluster.writer.deleted == ["alone"]


def test_a_group_that_is_one_unit_stays_if_one_of_its_pods_may_not_go() -> None:
    cluster = workload_cluster()
    cluster.add(gang("low", 2, disruptionMode={"all": {}}), *nodes(2, cpu="1"))
    first, second = gang_members("low", 2)
    cluster.add(first.node("n0"), second.node("n1").priority(9))
    cluster.add(make_pod("high").req(cpu="1").priority(9))
    cluster.run()
    assert cluster.writer.deleted == []


def test_a_gang_that_preempts_leaves_a_group_of_the_label_that_it_may_take_only_in_part() -> None:
    cluster = workload_cluster(profiles=[groups_profile()])
    cluster.add(pod_group("v", minMember=2))
    first, second = members("v", 2)
    cluster.add(*nodes(2, cpu="1"), first.node("n0"), second.node("n1").priority(9))
    cluster.add(gang("g", 1, priority=9))
    cluster.add(*(pod.priority(9) for pod in gang_members("g", 1)))
    cluster.run()
    assert cluster.writer.deleted == []


def test_a_group_of_the_label_takes_a_gang_of_kubernetes_as_a_whole() -> None:
    cluster = workload_cluster(profiles=[groups_profile()])
    cluster.writer.on_deleted = None
    cluster.add(gang("v", 2))
    cluster.add(*nodes(2, cpu="1"), *(p.node(f"n{i}") for i, p in enumerate(gang_members("v", 2))))
    cluster.add(pod_group("g", minMember=1), *(pod.priority(9) for pod in members("g", 1)))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["v-0", "v-1"]


def test_a_queue_takes_a_gang_of_kubernetes_back_as_a_whole() -> None:
    cluster = workload_cluster(profiles=[queues_profile()])
    cluster.writer.on_deleted = None
    cluster.add(queue("mine", "x", guaranteed={"cpu": 2}), queue("lent", "default"))
    cluster.add(gang("v", 2))
    cluster.add(*nodes(2, cpu="1"), *(p.node(f"n{i}") for i, p in enumerate(gang_members("v", 2))))
    cluster.add(*queued_pods("mine", 1, "x"))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["v-0", "v-1"]


def test_members_on_other_nodes_of_a_domain_leave_that_domain_too() -> None:
    """Both Pods of the group keep the preemptor out of their zone; one of them is on each node."""
    cluster = workload_cluster()
    cluster.writer.on_deleted = None
    cluster.add(gang("low", 2, disruptionMode={"all": {}}))
    cluster.add(*(node.label("zone", "a") for node in nodes(2, cpu="4")))
    running = (pod.label("app", "db") for pod in gang_members("low", 2))
    cluster.add(*(pod.node(f"n{i}") for i, pod in enumerate(running)))
    preemptor = make_pod("high").req(cpu="1").priority(9)
    cluster.add(preemptor.pod_anti_affinity("zone", labels_are({"app": "db"})))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["low-0", "low-1"]

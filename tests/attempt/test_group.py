"""Plans of groups: what is placed, within which nodes, and what becomes of it."""

from __future__ import annotations

import numpy as np
from tests.core_harness import Cluster, uid_of
from tests.groups import group_cluster, members, nodes, pod_group, show

from bayplan.attempt.commit import Commit
from bayplan.attempt.group import Planner
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group


def planner(cluster: Cluster) -> Planner:
    """A planner beside the one of the scheduler."""
    commit = Commit(cluster.world.cache, cluster.world.nominator)
    return Planner(cluster.world.cache, commit, cluster.core.selector)


def group(cluster: Cluster, name: str) -> Group:
    """What the PodGroup of that name asks for."""
    found = cluster.world.cache.groups.find(f"default/{name}")
    assert found is not None
    return found


def rows(cluster: Cluster, *names: str) -> BoolArray:
    """These nodes as a domain."""
    return np.array([name in names for name in cluster.nodes.names])


def test_a_plan_within_a_domain_uses_no_other_node_and_is_dropped_without_a_trace() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(3))
    show(cluster, pod_group("g", minMember=3))
    pods = [builder.obj() for builder in members("g", 3)]
    plans, asked = planner(cluster), group(cluster, "g")
    plan = plans.plan_within(cluster.framework, asked, pods, rows(cluster, "n1"), dry_run=True)
    assert isinstance(plan, Plan)
    assert {member.pod.node_name for member in plan.members} == {"n1"}
    assert plan.left == ()
    plans.drop(plan)
    assert all(cluster.world.cache.pod(pod.uid) is None for pod in pods)
    assert cluster.nodes.requested("cpu").sum() == 0


def test_nodes_outside_of_the_domain_are_rejected_by_name() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(3))
    show(cluster, pod_group("g", minMember=5))
    pods = [builder.obj() for builder in members("g", 5)]
    outcome = planner(cluster).plan_within(
        cluster.framework, group(cluster, "g"), pods, rows(cluster, "n0"), dry_run=True
    )
    assert isinstance(outcome, GroupRejection)
    assert outcome.fit == 4
    assert outcome.sentence == (
        "NoRoom: 4 of 5 fit, short by cpu. default/g-4: 0/3 nodes are available: 1 Insufficient "
        "cpu, 2 node(s) were outside of the group's topology domain."
    )
    assert outcome.plugins == {"NodeResourcesFit"}


def test_a_nomination_outside_of_the_domain_does_not_count() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(2))
    show(cluster, pod_group("g", minMember=1))
    (pod,) = members("g", 1)
    plan = planner(cluster).plan_within(
        cluster.framework,
        group(cluster, "g"),
        [pod.nominated("n0").obj()],
        rows(cluster, "n1"),
        dry_run=True,
    )
    assert isinstance(plan, Plan)
    assert plan.members[0].pod.node_name == "n1"
    assert uid_of(pod) == plan.members[0].pod.uid

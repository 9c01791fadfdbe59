"""Plans of groups: what is placed, within which nodes, and what becomes of it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core_harness import Cluster, uid_of
from tests.groups import group_cluster, members, nodes

from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.groups.fill import Fill
from bayplan.groups.placers import Placers
from bayplan.groups.planner import Planner


def placers(cluster: Cluster) -> Placers:
    """Others beside those of the scheduler."""
    return Placers(cluster.world.cache, cluster.world.nominator, cluster.core.placers.selector)


def planner(cluster: Cluster) -> Planner:
    """A planner beside the one of the scheduler."""
    return placers(cluster).planner


def group(cluster: Cluster, name: str) -> Group:
    """What the PodGroup of that name asks for."""
    found = cluster.world.cache.groups.find(f"default/{name}")
    assert found is not None
    return found


def rows(cluster: Cluster, *names: str) -> BoolArray:
    """These nodes as a domain."""
    return np.array([name in names for name in cluster.nodes.names])


def search(cluster: Cluster, *, acting: bool = False) -> Fill:
    """A search for Pods, beside the one of the scheduler."""
    beside = placers(cluster)
    return Fill(cluster.framework, beside.selector, beside.commit, beside.nominator, acting=acting)


def test_a_search_within_a_domain_uses_no_other_node_and_is_undone_without_a_trace() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(3))
    pods = [builder.obj() for builder in members("g", 3)]
    found = search(cluster)
    assert found.run(pods, rows(cluster, "n1")) == []
    assert {member.pod.node_name for member in found.members} == {"n1"}
    found.undo(1)
    assert [cluster.world.cache.pod(pod.uid) is not None for pod in pods] == [True, False, False]
    found.undo()
    assert cluster.nodes.requested("cpu").sum() == 0
    assert found.placed == []


@pytest.mark.parametrize(("acting", "kept"), [(False, [3, 2]), (True, [0, 0])])
def test_the_nodes_that_were_as_good_are_kept_to_explain_only(
    acting: bool, kept: list[int]
) -> None:
    cluster = group_cluster()
    cluster.add(*nodes(3))
    found = search(cluster, acting=acting)
    found.run([builder.obj() for builder in members("g", 2)])
    placements = [placed.placement for placed in found.placed]
    assert [placement.best.count for placement in placements] == kept
    assert [len(placement.fit.feasible) > 0 for placement in placements] == [not acting] * 2
    assert [placement.feasible for placement in placements] == [3, 3]


def test_a_search_for_no_more_than_so_many_leaves_the_others_untried() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(3))
    found = search(cluster)
    assert found.run([builder.obj() for builder in members("g", 5)], most=2) == []
    assert [member.pod.name for member in found.members] == ["g-0", "g-1"]
    assert found.attempts == 2


def test_nodes_outside_of_the_domain_are_rejected_by_name() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(3))
    found = search(cluster)
    ((pod, rejection),) = found.run(
        [builder.obj() for builder in members("g", 6)], rows(cluster, "n0")
    )
    assert len(found.members) == 4
    assert pod.name == "g-4"
    assert found.attempts == 5
    assert rejection.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were outside of the group's "
        "topology domain."
    )


def test_a_nomination_outside_of_the_domain_does_not_count() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(2))
    (pod,) = members("g", 1)
    found = search(cluster)
    assert found.run([pod.nominated("n0").obj()], rows(cluster, "n1")) == []
    assert found.members[0].pod.node_name == "n1"
    assert uid_of(pod) == found.members[0].pod.uid

"""Gangs: what is counted of groups goes with their Pods."""

from __future__ import annotations

from tests.groups import (
    gang,
    gang_members,
    group_cluster,
    members,
    nodes,
    pod_group,
    sub_groups,
    workload_cluster,
)

from bayplan.preemption.gangs import Gangs
from bayplan.testing import make_pod


def test_a_group_whose_pods_are_gone_leaves_nothing_behind() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", sub_groups({"name": "a"}, {"name": "b"})))
    a = [pod.node("n0") for pod in members("g", 2, sub_group="a")]
    b = [pod.node("n1") for pod in members("g", 1, sub_group="b")]
    cluster.add(*nodes(2), *a, *b)
    gangs = Gangs(
        cluster.nodes,
        cluster.world.cache.objects,
        cluster.world.cache.groups,
        cluster.cache.kubernetes_groups,
    )
    gangs.refresh()
    assert gangs._running == {"default/g": {"a": 2, "b": 1}}
    assert gangs.needed([pod.obj() for pod in a]) == {a[0].obj().uid: "default/g"}
    cluster.remove(a[1], *b)
    gangs.refresh()
    assert gangs._running == {"default/g": {"a": 1}}
    cluster.remove(a[0])
    gangs.refresh()
    assert gangs._running == {}


def test_who_is_one_victim_changes_with_pods_of_the_group_on_any_node() -> None:
    """So an outcome of a dry run on n0 is not kept when the group gets a Pod on n1."""
    cluster = workload_cluster()
    cluster.add(gang("g", 2, disruptionMode={"all": {}}))
    one, two = gang_members("g", 2)
    cluster.add(*nodes(2), one.node("n0"))
    cache = cluster.cache
    gangs = Gangs(cluster.nodes, cache.objects, cache.groups, cache.kubernetes_groups)
    gangs.refresh()
    before = gangs.version
    cluster.add(two.node("n1"))
    gangs.refresh()
    assert gangs.version != before
    group = gangs.whole(one.obj())
    assert group is not None
    assert [pod.name for pod in gangs.members(group)] == ["g-0", "g-1"]
    assert gangs.whole(make_pod("alone").obj()) is None

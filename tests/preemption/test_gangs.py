"""Gangs: what is counted of groups goes with their Pods."""

from __future__ import annotations

from tests.groups import group_cluster, members, nodes, pod_group, show, sub_groups

from bayplan.preemption.gangs import Gangs


def test_a_group_whose_pods_are_gone_leaves_nothing_behind() -> None:
    cluster = group_cluster()
    show(cluster, pod_group("g", sub_groups({"name": "a"}, {"name": "b"})))
    a = [pod.node("n0") for pod in members("g", 2, sub_group="a")]
    b = [pod.node("n1") for pod in members("g", 1, sub_group="b")]
    cluster.add(*nodes(2), *a, *b)
    gangs = Gangs(cluster.nodes, cluster.world.cache.objects, cluster.world.cache.groups)
    gangs.refresh()
    assert gangs._running == {"default/g": {"a": 2, "b": 1}}
    assert gangs.needed([pod.obj() for pod in a]) == {a[0].obj().uid: "default/g"}
    cluster.remove(a[1], *b)
    gangs.refresh()
    assert gangs._running == {"default/g": {"a": 1}}
    cluster.remove(a[0])
    gangs.refresh()
    assert gangs._running == {}

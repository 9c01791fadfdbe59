"""Events wake the groups that they concern, and ask no others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import (
    Source,
    cluster_of_all,
    every_source,
    gang,
    gang_members,
    group_cluster,
    members,
    names_of,
    nodes,
    pod_group,
    racks,
    sub_groups,
    topology,
    workload_cluster,
)

from bayplan.api.kinds import KUBERNETES_POD_GROUP, NODE, POD_GROUP, TOPOLOGY
from bayplan.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from bayplan.plugins.coscheduling import Coscheduling
from bayplan.plugins.gang_scheduling import GangScheduling
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder

ROOM = {"minResources": {"cpu": "5"}}
RACK = topology(required="rack")


def is_tried_in_vain(cluster: Cluster) -> set[str]:
    """The only group is tried and waits for an event; returns who rejected it."""
    cluster.wait(11)
    cluster.run()
    (entry,) = cluster.queue.groups
    assert entry.state is QueueState.UNSCHEDULABLE
    return set(entry.rejectors)


@pytest.mark.parametrize("first", [{}, ROOM, RACK], ids=["nothing", "room", "a-level"])
@pytest.mark.parametrize("then", [ROOM, RACK], ids=["room", "a-level"])
def test_what_a_group_asks_for_while_it_waits_is_what_wakes_it(first: Any, then: Any) -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1, cpu="1"))
    _show(cluster, first, minimum=2)
    cluster.add(*members("g", 2))
    is_tried_in_vain(cluster)
    _show(cluster, then, minimum=1)
    assert is_tried_in_vain(cluster) == {"Coscheduling"}
    cluster.add(*(racks(1) if then is RACK else nodes(5, cpu="1")))
    cluster.wait(11)
    cluster.run()
    assert names_of(cluster, "g")


def _show(cluster: Cluster, asks: Any, minimum: int) -> None:
    annotations, spec = (asks, {}) if asks is RACK else ({}, asks)
    cluster.add(pod_group("g", annotations, minMember=minimum, **spec))


def asked_and_woken(
    plugin: Any, event: ClusterEvent, old: Any, new: Any, pods: dict[str, PodBuilder]
) -> tuple[set[str], set[str]]:
    """The groups that an index finds for the event, and those that the hint wakes."""
    asked, woken = set(), set()
    for registration in plugin.events_to_register():
        if not registration.event.matches(event):
            continue
        for name, builder in pods.items():
            pod, index = builder.obj(), registration.index
            keys = index.event_keys(old, new) if index is not None else None
            if keys is None or set(keys) & set(index.pod_keys(pod)):
                asked.add(name)
            if registration.hint(pod, old, new) is Hint.QUEUE:
                woken.add(name)
    return asked, woken


@pytest.mark.parametrize(
    ("resource", "action", "concerned"),
    [
        pytest.param(POD_GROUP, Action.UPDATE_OTHER, {"room"}, id="pod-group"),
        pytest.param(TOPOLOGY, Action.UPDATE_OTHER, {"level", "parts"}, id="levels"),
        pytest.param(NODE, Action.UPDATE_NODE_LABEL, {"level", "parts"}, id="labels"),
        pytest.param(NODE, Action.UPDATE_NODE_ALLOCATABLE, {"room"}, id="larger-node"),
        pytest.param(NODE, Action.ADD, {"level", "parts", "room"}, id="new-node"),
        pytest.param(Resource.ASSIGNED_POD, Action.DELETE, {"room"}, id="pod-left"),
    ],
)
def test_an_event_asks_the_groups_that_it_concerns(
    resource: Any, action: Action, concerned: set[str]
) -> None:
    cluster = group_cluster()
    part = {"name": "part", "requiredTopology": "rack"}
    groups = [
        pod_group("plain"),
        pod_group("room", **ROOM),
        pod_group("level", RACK),
        pod_group("parts", sub_groups(part)),
    ]
    cluster.add(*groups)
    names = ["plain", "room", "level", "parts", "without-object"]
    pods = {name: members(name, 1)[0] for name in names}
    old = {POD_GROUP: groups[1].obj(), Resource.ASSIGNED_POD: members("plain", 1)[0].obj()}.get(
        resource
    )
    new = groups[1].obj() if resource is POD_GROUP else None
    plugin, event = cluster.plugin(Coscheduling), ClusterEvent(resource, action)
    asked, woken = asked_and_woken(plugin, event, old, new, pods)
    assert asked == woken == concerned


@pytest.mark.parametrize(("old", "new"), [(None, "one"), ("one", None)], ids=["new", "gone"])
def test_a_pod_group_that_comes_or_goes_asks_its_group(old: str | None, new: str | None) -> None:
    cluster = group_cluster()
    objects = {None: None, "one": pod_group("one").obj()}
    pods = {name: members(name, 1)[0] for name in ("one", "two")}
    event = ClusterEvent(POD_GROUP, Action.ADD if old is None else Action.DELETE)
    plugin = cluster.plugin(Coscheduling)
    found = asked_and_woken(plugin, event, objects[old], objects[new], pods)
    assert found == ({"one"}, {"one"})


@pytest.mark.parametrize(
    ("resource", "action"),
    [
        (KUBERNETES_POD_GROUP, Action.ADD),
        (KUBERNETES_POD_GROUP, Action.UPDATE_OTHER),
        (Resource.UNSCHEDULED_POD, Action.ADD),
        (Resource.ASSIGNED_POD, Action.ADD),
    ],
    ids=str,
)
def test_an_event_asks_the_gang_that_it_concerns(resource: Any, action: Action) -> None:
    cluster = workload_cluster()
    pods = {name: gang_members(name, 1)[0] for name in ("one", "two")}
    cluster.add(gang("one", 2), gang("two", 2))
    new = gang("one", 2) if resource is KUBERNETES_POD_GROUP else gang_members("one", 2)[1]
    old = gang("one", 3).obj() if action is Action.UPDATE_OTHER else None
    plugin, event = cluster.plugin(GangScheduling), ClusterEvent(resource, action)
    assert asked_and_woken(plugin, event, old, new.obj(), pods) == ({"one"}, {"one"})


@pytest.mark.parametrize("size", [1, 2])
@every_source
def test_what_is_said_of_its_pods_does_not_bring_a_group_back(source: Source, size: int) -> None:
    cluster = cluster_of_all()
    pods = source.members(size, cpu="2")
    cluster.add(source.group(size), *nodes(1, cpu="1"), *pods)
    cluster.run()
    (entry,) = cluster.queue.groups
    cluster.add(*(pod.condition("PodScheduled", "False", reason="Unschedulable") for pod in pods))
    cluster.wait(11)
    cluster.run()
    assert list(cluster.queue.groups) == [entry]
    assert entry.attempts == 1


def test_a_group_goes_on_when_its_pod_of_another_priority_leaves() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1), pod_group("g", minMember=2))
    odd = members("g", 1, first=2)[0].priority(1)
    cluster.add(*members("g", 2), odd)
    cluster.run()
    assert cluster.bound == []
    cluster.remove(odd)
    cluster.run()
    assert names_of(cluster, "g") == {"g-0", "g-1"}

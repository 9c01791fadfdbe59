"""What the API server shows, in any order it may come, and what cache and queue make of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster, profile, shown, uid_of
from tests.scripted import scripted

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM, POD, Kind
from bayplan.framework import Status
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Resource
from bayplan.inbox.messages import Changed, Removed, Replaced
from bayplan.queue.states import QueueState
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod, make_pvc


def node(name: str = "n1") -> NodeBuilder:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=10)


def cluster_with(*objects: Any) -> Cluster:
    cluster = Cluster()
    cluster.add(*objects)
    return cluster


def requested(cluster: Cluster, name: str = "n1") -> int:
    row = cluster.cache.nodes.row(name)
    assert row is not None
    return int(cluster.cache.nodes.requested("cpu")[row])


def again(pod: PodBuilder) -> PodBuilder:
    """A Pod of the same name, made anew."""
    return make_pod(pod.json["metadata"]["name"]).req(cpu="1")


# One name, two Pods


@pytest.mark.parametrize("node_name", ["", "n1"], ids=["pending", "assigned"])
@pytest.mark.parametrize("removal", ["before", "missed", "late"])
def test_a_pod_made_anew_under_the_same_name_replaces_its_predecessor(
    node_name: str, removal: str
) -> None:
    first = make_pod("p").req(cpu="3")
    if node_name:
        first.node(node_name)
    cluster = cluster_with(node(), first)
    second = again(first)
    if removal == "before":
        cluster.remove(first)
    cluster.add(second)
    if removal == "late":
        cluster.remove(first)
    assert cluster.state(first) is QueueState.OUTSIDE
    assert cluster.counted_on(first) == ""
    assert cluster.state(second) is QueueState.ACTIVE
    cluster.run()
    assert cluster.bound == [("p", "n1")]
    assert requested(cluster) == 1000
    assert list(cluster.handlers.pods) == ["default/p"]
    assert cluster.is_at_rest()


def test_a_successor_that_has_a_node_counts_there_and_its_predecessor_no_more() -> None:
    first = make_pod("p").req(cpu="3")
    cluster = cluster_with(node(), first)
    second = again(first).node("n1")
    cluster.add(second)
    cluster.remove(first)
    assert requested(cluster) == 1000
    assert cluster.queue.pop() is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_successor_that_has_ended_leaves_nothing_of_its_predecessor(phase: str) -> None:
    first = make_pod("p").req(cpu="3").node("n1")
    cluster = cluster_with(node(), first)
    cluster.add(again(first).phase(phase))
    assert requested(cluster) == 0
    assert cluster.handlers.pods == {}


# Pods that have a node


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    pod = make_pod("p").req(cpu="3").node("n1")
    waits = make_pod("waits").req(cpu="2")
    cluster = cluster_with(node(), pod, waits)
    cluster.run()
    assert cluster.state(waits) is QueueState.UNSCHEDULABLE
    cluster.add(pod.phase(phase))
    assert requested(cluster) == 0
    assert cluster.state(waits) is QueueState.BACKOFF
    cluster.remove(pod)
    assert cluster.is_at_rest()


def test_a_pod_that_had_ended_before_it_was_seen_is_no_news() -> None:
    waits = make_pod("waits").req(cpu="9")
    cluster = cluster_with(node(), waits)
    cluster.run()
    cluster.add(make_pod("p").req(cpu="1").node("n1").phase("Failed"))
    cluster.remove(make_pod("unknown").node("n1"))
    assert cluster.state(waits) is QueueState.UNSCHEDULABLE


def test_a_pod_that_is_resized_in_place_counts_with_what_it_has_now() -> None:
    pod = make_pod("p").req(cpu="3").node("n1")
    waits = make_pod("waits").req(cpu="2")
    cluster = cluster_with(node(), pod, waits)
    cluster.run()
    pod.json["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    held = {"name": "c1", "resources": {"requests": {"cpu": "3"}}}
    cluster.add(pod.status(containerStatuses=[held]))
    assert requested(cluster) == 3000, "the kubelet has not given it up yet"
    assert cluster.state(waits) is QueueState.UNSCHEDULABLE
    cluster.add(pod.status(containerStatuses=[held | {"resources": {"requests": {"cpu": "1"}}}]))
    assert requested(cluster) == 1000
    assert cluster.state(waits) is QueueState.BACKOFF
    assert cluster.is_at_rest()


def test_what_changes_nothing_that_counts_moves_no_row() -> None:
    pod = make_pod("p").req(cpu="3").node("n1")
    cluster = cluster_with(node(), pod)
    position = cluster.cache.nodes.pod_journal.position
    cluster.add(pod.phase("Running").condition("Ready", "True"))
    assert cluster.cache.nodes.pod_journal.position == position
    kept = cluster.cache.pod(uid_of(pod))
    assert kept is not None
    assert kept.status.phase == "Running"


def test_a_pod_on_a_node_that_is_not_known_yet_counts_when_it_comes() -> None:
    pod = make_pod("p").req(cpu="3").node("n1")
    cluster = cluster_with(pod)
    cluster.add(pod.phase("Running"))
    cluster.add(node())
    assert requested(cluster) == 3000
    assert cluster.is_at_rest()


def test_a_node_that_goes_and_comes_back_has_its_pods_again() -> None:
    stays, goes = make_pod("stays").req(cpu="1").node("n1"), make_pod("goes").req(cpu="1")
    n1 = node()
    cluster = cluster_with(n1, stays, goes)
    cluster.run()
    cluster.remove(n1)
    assert cluster.cache.nodes.node_count == 0
    cluster.remove(goes)
    cluster.add(n1)
    assert requested(cluster) == 1000
    cluster.remove(stays)
    assert requested(cluster) == 0
    assert cluster.is_at_rest()


def test_pods_of_other_schedulers_never_enter_the_queue() -> None:
    foreign = make_pod("p").spec(schedulerName="other").nominated("n1")
    cluster = cluster_with(node(), foreign)
    cluster.add(foreign.label("a", "b"))
    assert cluster.queue.pop() is None
    assert cluster.nominated(foreign) == [""]
    cluster.add(foreign.node("n1"))
    assert cluster.counted_on(foreign) == "n1"
    cluster.remove(foreign)
    assert cluster.cache.counts() == {"nodes": 1, "pods": 0, "assumed_pods": 0}


# Pods without a node


def test_a_waiting_pod_that_is_bound_by_somebody_else_leaves_the_queue() -> None:
    pod = make_pod("p").req(cpu="9")
    cluster = cluster_with(node(), pod)
    cluster.run()
    cluster.add(pod.node("n1"))
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert cluster.counted_on(pod) == "n1"


def test_a_waiting_pod_that_is_deleted_leaves_the_queue() -> None:
    pod = make_pod("p").req(cpu="9")
    cluster = cluster_with(node(), pod)
    cluster.run()
    cluster.remove(pod)
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert cluster.is_at_rest()


@pytest.mark.parametrize("end", ["deleted", "moved"])
def test_the_end_of_a_nomination_wakes_pods_of_no_higher_priority(end: str) -> None:
    nominated = make_pod("nominated").priority(5).req(cpu="1").gate("later").nominated("n1")
    same = make_pod("same").priority(5).req(cpu="9")
    higher = make_pod("higher").priority(6).req(cpu="9")
    cluster = cluster_with(node(), nominated, same, higher)
    cluster.run()
    assert cluster.state(same) is cluster.state(higher) is QueueState.UNSCHEDULABLE
    if end == "deleted":
        cluster.remove(nominated)
    else:
        cluster.add(nominated.nominated("n2"))
    assert cluster.state(same) is QueueState.BACKOFF
    assert cluster.state(higher) is QueueState.UNSCHEDULABLE


def test_a_gate_that_is_removed_lets_the_pod_in() -> None:
    pod = make_pod("p").req(cpu="1").gate("a")
    cluster = cluster_with(node(), pod)
    cluster.run()
    assert cluster.state(pod) is QueueState.GATED
    cluster.add(pod.spec(schedulingGates=[]))
    cluster.run()
    assert cluster.bound == [("p", "n1")]


# Messages that repeat, and fresh lists


def test_the_same_version_twice_is_said_once() -> None:
    pod = make_pod("p").req(cpu="9")
    n1 = node()
    cluster = cluster_with(n1, pod)
    cluster.run()
    seen, seen_node = pod.obj(), n1.obj()
    row_moves = cluster.cache.nodes.node_journal.position
    cluster.tell(Changed(POD, seen), Changed(NODE, seen_node))
    cluster.tell(Replaced(POD, [seen]), Replaced(NODE, [seen_node]))
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    assert cluster.cache.nodes.node_journal.position == row_moves


def test_objects_without_a_version_are_always_news() -> None:
    cluster = Cluster()
    bare = node().obj()
    cluster.tell(Changed(NODE, bare), Changed(NODE, node().label("a", "b").obj()))
    assert cluster.cache.nodes.info(0).labels == {"a": "b"}


def test_a_fresh_list_says_what_is_gone_what_is_new_and_what_changed() -> None:
    gone, stays, changes = make_pod("gone"), make_pod("stays"), make_pod("changes")
    assigned = make_pod("assigned").req(cpu="1").node("n1")
    for pod in (gone, stays, changes):
        pod.req(cpu="9")
    cluster = cluster_with(node(), gone, stays, changes, assigned)
    cluster.run()
    kept = stays.obj()
    changes.json["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    new = make_pod("new").req(cpu="1")
    cluster.tell(Replaced(POD, [kept, shown(changes), shown(new)]))
    assert cluster.state(gone) is QueueState.OUTSIDE
    assert cluster.state(changes) is QueueState.BACKOFF
    assert cluster.state(new) is QueueState.ACTIVE
    assert cluster.counted_on(assigned) == ""
    assert sorted(cluster.handlers.pods) == ["default/changes", "default/new", "default/stays"]
    assert cluster.is_at_rest()


def test_a_fresh_list_with_a_pod_made_anew_drops_its_predecessor() -> None:
    first = make_pod("p").req(cpu="3").node("n1")
    cluster = cluster_with(node(), first)
    second = again(first)
    cluster.tell(Replaced(POD, [shown(second)]))
    assert requested(cluster) == 0
    assert cluster.state(second) is QueueState.ACTIVE


def test_a_fresh_list_of_nodes_makes_room_for_all_and_drops_the_rest() -> None:
    old = node("old")
    cluster = cluster_with(old)
    cluster.tell(Replaced(NODE, [shown(node(f"n{i}")) for i in range(200)]))
    nodes = cluster.cache.nodes
    assert nodes.node_count == 200
    assert len(nodes) == 200
    assert nodes.row("old") is None


# Nodes and all other kinds wake who waits for them


def waiting_for(*patterns: tuple[Resource | Kind[Any], Action]) -> tuple[Cluster, PodBuilder]:
    """A cluster with a Pod whose rejector has registered these events."""
    registered = [EventRegistration(ClusterEvent(*pattern)) for pattern in patterns]
    no = scripted("No", pre_filter=Status.unresolvable("no"), events_to_register=lambda: registered)
    no.kinds = (PERSISTENT_VOLUME_CLAIM,)
    cluster = Cluster(no, profiles=[profile("No", bare=True)])
    pod = make_pod("p")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    return cluster, pod


@pytest.mark.parametrize(
    ("action", "change"),
    [
        (Action.ADD, lambda c: c.add(node("n2"))),
        (Action.DELETE, lambda c: c.remove(node("n1"))),
        (Action.UPDATE_NODE_LABEL, lambda c: c.add(node().label("a", "b"))),
        (Action.UPDATE_NODE_TAINT, lambda c: c.add(node().taint("a"))),
        (Action.UPDATE_NODE_ALLOCATABLE, lambda c: c.add(node().capacity(cpu="5"))),
        (Action.UPDATE_NODE_CONDITION, lambda c: c.add(node().condition("Ready", "True"))),
        (Action.UPDATE_NODE_ANNOTATION, lambda c: c.add(node().annotation("a", "b"))),
    ],
    ids=lambda value: value.name if isinstance(value, Action) else "",
)
def test_a_change_of_a_node_wakes_who_waits_for_that_change(action: Action, change: Any) -> None:
    other = Action.ALL & ~action
    sleeps, pod = waiting_for((NODE, other & ~Action.ADD & ~Action.UPDATE_NODE_TAINT))
    change(sleeps)
    assert sleeps.state(pod) is QueueState.UNSCHEDULABLE
    wakes, pod = waiting_for((NODE, action))
    change(wakes)
    assert wakes.state(pod) is QueueState.BACKOFF


def test_an_unknown_node_that_goes_is_no_news() -> None:
    cluster, pod = waiting_for((NODE, Action.DELETE))
    cluster.remove(node("unknown"))
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE


@pytest.mark.parametrize("action", [Action.ADD, Action.UPDATE, Action.DELETE])
def test_a_change_of_any_other_object_wakes_who_waits_for_it(action: Action) -> None:
    kind = PERSISTENT_VOLUME_CLAIM
    before = make_pvc("c").meta(resourceVersion="1").obj()
    after = make_pvc("c").meta(resourceVersion="2").obj()
    cluster, pod = waiting_for((kind, action))
    if action is not Action.ADD:
        cluster.tell(Changed(kind, before))
        cluster.tell(Changed(kind, before))
        assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    if action is Action.ADD:
        cluster.tell(Replaced(kind, [before]))
    elif action is Action.UPDATE:
        cluster.tell(Changed(kind, after))
    else:
        cluster.tell(Replaced(kind, []))
    assert cluster.state(pod) is QueueState.BACKOFF
    expected = {Action.ADD: before, Action.UPDATE: after}.get(action)
    assert cluster.cache.objects.get(kind, "default/c") == expected


def test_an_unknown_object_that_goes_is_no_news() -> None:
    kind = PERSISTENT_VOLUME_CLAIM
    cluster, pod = waiting_for((kind, Action.DELETE))
    cluster.tell(Removed(kind, make_pvc("c").obj()))
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE

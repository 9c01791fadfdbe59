"""The queue with groups of all sources, while writes, watch events and reloads are under way.

The machine uses a whole scheduler, since the queue alone does not know who is placed, and an API
server with delays (`tests.live_groups`). After every step the queue is compared with itself and
with what was shown to it; in the end all is let in, and nobody waits who has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.live_cluster import cpu_of
from tests.live_groups import (
    CONFIGURATIONS,
    GROUPS,
    KUBERNETES,
    LABEL,
    GroupsCluster,
    LiveMachine,
)
from tests.properties import length

from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.client.errors import ServerError
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.states import QueueState

NODES = ["n0", "n1"]
LABELLED = [name for name, source in GROUPS.items() if source.kind == LABEL]
REFUSED = ServerError("etcdserver: request timed out", status=500)


class GroupsMachine(LiveMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = self.world.queue

    # What users do

    @initialize(minimums=st.tuples(*(st.integers(0, 3) for _ in GROUPS)))
    def begin(self, minimums: tuple[int, ...]) -> None:
        self.world.set_node("n0")
        for name, minimum in zip(GROUPS, minimums, strict=True):
            if minimum:
                self.world.set_group(name, minimum)

    @rule(
        cpu=st.integers(1, 4),
        priority=st.integers(0, 2),
        gated=st.sampled_from([False, False, True]),
    )
    def create_a_pod(self, cpu: int, priority: int, gated: bool) -> None:
        self.world.come("", cpu=cpu, priority=priority, gated=gated)

    @rule(
        group=st.sampled_from(sorted(GROUPS)),
        number=st.integers(1, 3),
        gated=st.sampled_from([False, False, False, True]),
        odd=st.sampled_from([False, False, False, False, True]),
    )
    def create_members(self, group: str, number: int, gated: bool, odd: bool) -> None:
        """The first of them may be gated, or of another priority than the others."""
        for index in range(number):
            self.world.come(group, gated=gated and not index, odd=odd and not index)

    @precondition(lambda self: self.names())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.api.delete(self.one(data, self.names()))

    @precondition(lambda self: self.gated())
    @rule(data=st.data())
    def open_the_gate(self, data: st.DataObject) -> None:
        self.world.ungate(self.one(data, self.gated()))

    @precondition(lambda self: self.names())
    @rule(data=st.data())
    def change_the_label(self, data: st.DataObject) -> None:
        """To a group of Pods of the same size and priority, or to none."""
        name = self.one(data, self.names())
        pod = self.api.pods[name]
        old = self.world.group_of(pod.obj())
        if old and GROUPS[old].kind != LABEL:
            return
        size = cpu_of(pod.obj()), pod.obj().priority
        equal = [g for g in LABELLED if size == (GROUPS[g].cpu, GROUPS[g].priority)]
        self.api.update(pod.label(POD_GROUP_LABEL, self.one(data, ["", *equal])))

    @rule(name=st.sampled_from(sorted(GROUPS)), minimum=st.integers(-1, 3))
    def change_a_group(self, name: str, minimum: int) -> None:
        """Kubernetes' groups have none with the policy basic; -1: the object goes."""
        if minimum > 0 or (minimum == 0 and GROUPS[name].kind == KUBERNETES):
            self.world.set_group(name, minimum)
        elif minimum < 0 and name in self.world.minimums:
            self.world.drop_group(name)

    @rule(name=st.sampled_from(NODES), state=st.sampled_from(["ready"] * 4 + ["cordoned", "gone"]))
    def change_a_node(self, name: str, state: str) -> None:
        if state != "gone":
            self.world.set_node(name, cordoned=state == "cordoned")
        elif name in self.world.nodes:
            self.world.drop_node(name)

    @rule(name=st.sampled_from(sorted(CONFIGURATIONS)))
    def reload(self, name: str) -> None:
        self.world.reload(name)

    # What happens by itself

    @rule()
    def schedule(self) -> None:
        self.world.schedule()

    @rule()
    def schedule_all(self) -> None:
        while self.world.schedule():
            pass

    @precondition(lambda self: self.api.requests)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        self.api.store(data.draw(st.integers(0, len(self.api.requests) - 1)), REFUSED)

    @rule()
    def relist(self) -> None:
        self.world.cluster.tell(self.api.relist())

    # What must hold

    @invariant()
    def every_pod_is_in_exactly_one_state(self) -> None:
        parts = self.queue.pending_pods()
        there = Counter(queued.uid for part in parts.values() for queued in part)
        assert not there or max(there.values()) == 1
        for state, part in parts.items():
            for queued in part:
                assert queued.state is state
                assert self.queue.get(queued.uid) is queued
        pods = {pod.uid for pod in self.queue.waiting_pods()}
        assert set(there) == pods | {entry.uid for entry in self.queue.groups}

    @invariant()
    def nobody_is_lost(self) -> None:
        cluster = self.world.cluster
        shown = {pod.uid: pod for pod in cluster.handlers.pods.values()}
        for pod in shown.values():
            if not pod.node_name and pod.deleted is None:
                assert pod.uid in self.queue or cluster.cache.is_assumed(pod.uid)
        for pod in self.queue.waiting_pods():
            queued = self.queue.get(pod.uid)
            assert queued is not None
            if queued.state is not QueueState.IN_FLIGHT:
                assert pod is shown[pod.uid]
                assert not pod.node_name

    @invariant()
    def members_agree_with_the_entry_of_their_group(self) -> None:
        grouped = {queued.uid: queued for queued in self.queue.pending_pods()[QueueState.GROUPED]}
        members = Counter(uid for entry in self.queue.groups for uid in entry.members)
        assert members == Counter(grouped.keys())
        for entry in self.queue.groups:
            for uid, queued in entry.members.items():
                assert queued is grouped[uid]
                if entry.state is not QueueState.IN_FLIGHT:
                    assert self.queue.groups.entry_of_pod(queued.pod) is entry
            assert entry.members or entry.state is QueueState.IN_FLIGHT
            gathering = entry.gathering()
            for queued in list(entry.members.values()):
                entry.add_member(queued)  # counted anew
            assert entry.gathering() == gathering
            if (
                entry.state not in (QueueState.IN_FLIGHT, QueueState.GATED)
                and gathering is not None
            ):
                assert "UnequalPriorities" not in gathering.message

    @invariant()
    def a_group_has_begun_while_a_pod_of_it_has_a_node(self) -> None:
        cache, groups = self.world.cluster.cache, self.queue.groups
        staying = [pod for pod in cache.pods() if pod.deleted is None]
        for name in GROUPS:
            keys = [f"default/{name}", f"default/Job/{name}"]
            for key in keys:
                mine = [pod for pod in staying if cache.groups.key_of(pod) == key]
                if any(not cache.is_assumed(pod.uid) for pod in mine):
                    assert groups.has_begun(key)
                if not mine:
                    assert not groups.has_begun(key)

    @invariant()
    def in_flight_are_those_whose_bindings_have_not_come_back(self) -> None:
        in_flight = self.queue.pending_pods()[QueueState.IN_FLIGHT]
        pods = [queued for queued in in_flight if not isinstance(queued, QueuedGroup)]
        assert len(pods) == self.world.cluster.in_flight
        # A group is in flight only as long as Pods of it are.
        assert len(pods) > 0 or not in_flight
        if not in_flight:
            assert self.queue.in_flight_events() == {"PodPopped": 0}

    @invariant()
    def the_counts_are_those_of_the_states(self) -> None:
        entities: Counter[tuple[str, str]] = Counter()
        pods: Counter[str] = Counter()
        for state, part in self.queue.pending_pods().items():
            if state in (QueueState.IN_FLIGHT, QueueState.GROUPED):
                continue
            for queued in part:
                is_group = isinstance(queued, QueuedGroup)
                entities[state.value, "podgroup" if is_group else "pod"] += 1
                pods[state.value] += not is_group
        for entry in self.queue.groups:
            if entry.state is QueueState.IN_FLIGHT:
                pods["pending"] += len(entry.members)
            else:
                where = "incomplete" if entry.group is None else entry.state.value
                pods[where] += len(entry.members)
        assert +Counter(self.queue.entity_counts()) == +entities
        assert +Counter(self.queue.counts()) == +pods

    @invariant()
    def rejections_are_those_of_who_waits(self) -> None:
        waiting = [
            queued
            for state, part in self.queue.pending_pods().items()
            if state is not QueueState.IN_FLIGHT
            for queued in part
        ]
        rejections = Counter(plugin for queued in waiting for plugin in queued.rejectors)
        for plugin in (*rejections, "NodeResourcesFit", "Coscheduling", "GangScheduling"):
            metric = self.world.cluster.metric(
                "scheduler_unschedulable_pods", plugin=plugin, profile="bayplan"
            )
            assert metric == rejections[plugin], plugin

    @invariant()
    def only_pods_that_wait_are_nominated(self) -> None:
        nominator = self.world.cluster.world.nominator
        for node in nominator.nominated_nodes():
            for pod in nominator.nominated_pods(node):
                assert pod.uid in self.queue

    @invariant()
    def who_waits_for_time_has_a_timer(self) -> None:
        parts = self.queue.pending_pods()
        waits = (
            parts[QueueState.BACKOFF] or parts[QueueState.UNSCHEDULABLE] or parts[QueueState.GATED]
        )
        assert (self.queue.next_timer() is not None) is bool(waits)

    # Choices

    def names(self) -> list[str]:
        return sorted(self.api.pods)

    def gated(self) -> list[str]:
        pods = (pod.obj() for pod in self.api.pods.values())
        return sorted(pod.name for pod in pods if pod.spec.scheduling_gates)

    def one(self, data: st.DataObject, names: list[str]) -> str:
        return data.draw(st.sampled_from(names))


GroupsMachine.TestCase.settings = length(60, steps=50)
TestGroups = GroupsMachine.TestCase


def test_a_pod_that_is_deleted_after_a_reload_does_not_come_back_with_its_group() -> None:
    """It waits with a group in flight, which the new configuration does not know."""
    world = GroupsCluster()
    world.set_node("n0")
    world.set_group("lb", 1)
    for _ in range(3):  # two of them fit
        world.come("lb")
    world.show(3)
    world.schedule()
    world.reload("no groups but those of Kubernetes")
    (left,) = set(world.api.pods) - {name for name, _ in world.cluster.bound}
    world.api.delete(left)
    world.show(1)
    world.settle()
    assert left not in {pod.name for pod in world.queue.waiting_pods()}
    assert world.cluster.is_at_rest()


def gone(world: GroupsCluster, name: str) -> None:
    """The Pod is deleted, and its kubelet has ended it."""
    world.api.delete(name)
    world.api.end(name)


def terminating(world: GroupsCluster, name: str) -> None:
    """The Pod is being deleted."""
    world.api.delete(name)


def relabelled(world: GroupsCluster, name: str) -> None:
    """The Pod is of another group from now on."""
    world.api.update(world.api.pods[name].label(POD_GROUP_LABEL, "lb"))


@pytest.mark.parametrize("leave", [gone, terminating, relabelled])
@pytest.mark.parametrize(("group", "key"), [("la", "default/la"), ("ja", "default/Job/ja")])
def test_a_group_has_not_begun_once_its_pod_has_left_before_the_answer_to_its_binding(
    group: str, key: str, leave: Callable[[GroupsCluster, str], None]
) -> None:
    """The watch is ahead of the answer."""
    world = GroupsCluster()
    world.set_node("n0")
    world.set_group(group, 1)
    name = world.come(group)
    world.show(1)
    world.schedule()
    world.api.store()
    world.show(1)
    assert world.queue.groups.has_begun(key)
    leave(world, name)
    world.show(2)
    assert not world.queue.groups.has_begun(key)
    world.answer()
    assert not world.queue.groups.has_begun(key)


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound", "being bound"])
def test_a_group_has_not_begun_whose_pod_changes_before_its_eviction_is_seen(
    *, is_bound: bool
) -> None:
    """New labels of the Pod, or its binding, are shown while its deletion is under way."""
    world = GroupsCluster()
    world.set_node("n0")
    world.set_group("la", 1)
    name = world.come("la")
    world.show(1)
    world.schedule()
    if is_bound:
        world.arrive()
    world.come("", cpu=4, priority=2)
    world.show(1)
    world.schedule()
    if not is_bound:
        world.api.store()
    world.api.update(world.api.pods[name].label("app", "changed"))
    world.show(2)
    cache, uid = world.cluster.cache, world.api.pods[name].obj().uid
    assert not cache.is_assumed(uid)
    assert cache.is_eviction_assumed(uid)
    assert not world.queue.groups.has_begun("default/la")


@pytest.mark.parametrize("deleted", [False, True], ids=["the group gathers", "its Pods go"])
def test_pods_are_woken_by_the_end_of_a_nomination_that_was_never_stored(*, deleted: bool) -> None:
    """No change that the API server shows says that the room is free."""
    world = GroupsCluster()
    world.set_node("n0")
    world.set_group("lb", 1)
    victim = world.come("", cpu=4)
    world.settle()
    nominated = world.come("lb")
    world.show(1)
    world.schedule()
    assert len(world.api.requests) == 2
    world.api.store(1, REFUSED)
    while world.arrive():
        pass
    assert world.api.terminating == [victim]
    assert not world.api.pods[nominated].obj().status.nominated_node_name
    other = world.come("lb", odd=True)
    waiting = world.come("", cpu=3)
    world.api.end(victim)
    world.show(3)
    world.schedule()
    assert world.queue.nominator.nominated_pods("n0")
    queued = world.queue.get(world.api.pods[waiting].obj().uid)
    assert queued is not None
    assert queued.state is QueueState.UNSCHEDULABLE
    if deleted:
        world.api.delete(nominated)
        world.api.delete(other)
    world.settle()
    assert world.api.pods[waiting].obj().node_name == "n0"

"""Groups: all of the minimum is placed, or nothing, and the group is told why.

What holds for groups of every source is in `tests.test_groups_of_every_source`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import group_cluster, groups_profile, members, names_of, nodes, pod_group
from tests.properties import length
from tests.scripted import scripted

from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.client.errors import ServerError
from bayplan.framework import Status
from bayplan.queue.states import QueueState
from bayplan.testing import make_pod
from bayplan.testing.builder import Json


def test_a_group_that_does_not_fit_holds_nothing_and_says_what_is_short() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=5))
    pods = members("g", 5)
    cluster.add(*nodes(1), *pods)
    cluster.run()
    assert cluster.bound == []
    assert all(cluster.counted_on(pod) == "" for pod in pods)
    (note,) = [note for reason, note in cluster.notes if reason == "NoRoom"]
    assert note.startswith("NoRoom: at most 4 of 5 fit, short by cpu")
    text = "the group default/g does not fit at once, short by cpu"
    assert [(name, c.reason, c.message) for name, c in cluster.recorder.conditions] == [
        (f"g-{i}", "Unschedulable", text) for i in range(5)
    ]
    assert cluster.is_at_rest()

    # What does not change is not written on Pods again, and on the group once in a while.
    conditions, notes = len(cluster.recorder.conditions), len(cluster.notes)
    cluster.wait(390)
    cluster.run()
    assert (len(cluster.recorder.conditions), len(cluster.notes)) == (conditions, notes)
    cluster.wait(390)
    cluster.run()
    assert len(cluster.recorder.conditions) == conditions
    assert cluster.notes[notes:] == [("NoRoom", note)]

    # It wakes when there is room.
    cluster.add(*nodes(2))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 5


def test_a_pod_that_is_ready_gathers_when_its_group_has_lost_its_nodes() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    pods = members("g", 3)
    cluster.add(*nodes(1, cpu="2"), *(pod.node("n0") for pod in pods[:2]), pods[2])
    assert cluster.state(pods[2]) is QueueState.ACTIVE
    cluster.remove(*pods[:2])
    cluster.run()
    assert cluster.bound == []
    assert cluster.state(pods[2]) is QueueState.GROUPED
    (new,) = members("g", 1, first=7)
    cluster.add(new)
    cluster.run()
    assert names_of(cluster, "g") == {"g-2", "g-7"}


def test_a_group_begins_with_a_running_pod_that_gets_its_label() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=1))
    other, (mine,) = make_pod("other").req(cpu="2").node("n0"), members("g", 1)
    cluster.add(*nodes(1, cpu="2"), other, mine)
    cluster.run()
    assert cluster.state(mine) is QueueState.GROUPED
    cluster.add(other.label(POD_GROUP_LABEL, "g"))
    cluster.settle(2)
    assert len(cluster.queue.groups) == 0
    cluster.add(*nodes(2))
    cluster.settle(2)
    assert names_of(cluster, "g") == {"g-0"}
    assert cluster.is_at_rest()


def test_a_group_whose_bindings_fail_after_it_has_begun_goes_on_singly() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=1))
    other, pods = make_pod("other").req(cpu="1").node("n0"), members("g", 2)
    cluster.writer.slow = True
    cluster.add(*nodes(1, cpu="2"), other, pods[0])
    cluster.run()
    cluster.add(pods[1], other.label(POD_GROUP_LABEL, "g"))
    assert cluster.state(pods[1]) is QueueState.GROUPED
    for _ in range(2):
        cluster.writer.answer(ServerError("no", status=500))
        cluster.take_in()
    assert cluster.state(pods[1]) is QueueState.ACTIVE
    cluster.add(make_pod("filler").req(cpu="1").node("n0"))
    cluster.settle(2)
    assert len(cluster.queue.groups) == 0


def test_what_a_group_lacks_that_has_begun_comes_before_older_pods() -> None:
    """As the next leader sees a group of which two of four were bound when the first one died."""
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=4))
    pods = members("g", 4)
    older = make_pod("older").req(cpu="2")
    cluster.add(*nodes(1), older)
    cluster.add(pods[3], pods[0].node("n0"), pods[2], pods[1].node("n0"))
    cluster.run()
    assert [cluster.counted_on(pod) for pod in pods] == ["n0"] * 4
    assert cluster.counted_on(older) == ""


def test_what_a_group_has_above_its_minimum_keeps_its_turn() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=1))
    first, late = members("g", 2)
    cluster.add(*nodes(1), first.node("n0"), make_pod("older").req(cpu="3"), late)
    cluster.run()
    assert cluster.counted_on(late) == ""


def test_after_its_end_a_group_of_the_same_name_gathers_again() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    pods = members("g", 2)
    cluster.add(*nodes(1), *pods)
    cluster.run()
    cluster.add(*(pod.node("n0") for pod in pods))
    cluster.remove(*pods)
    (new,) = members("g", 1, first=7)
    cluster.add(new)
    cluster.run()
    assert cluster.state(new) is QueueState.GROUPED


def test_a_group_that_comes_after_its_pods_wakes_them() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1), *members("g", 2))
    cluster.wait(6)
    cluster.run()
    assert cluster.notes == [
        ("WaitingForPodGroup", "WaitingForPodGroup: there is no PodGroup default/g")
    ]
    cluster.add(pod_group("g", minMember=2))
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_missing_pods_are_told_after_a_while_and_each_pod_what_it_waits_for() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=3), *members("g", 2))
    assert cluster.notes == []
    cluster.wait(6)
    cluster.wait(6)
    assert cluster.notes == [("WaitingForMembers", "WaitingForMembers 2/3")]
    said = [(name, c.reason, c.message) for name, c in cluster.recorder.conditions]
    text = "waits with its group default/g"
    assert said == [(name, "WaitingForMembers", text) for name in ("g-0", "g-1")]
    cluster.add(*nodes(1), *members("g", 1, first=2))
    cluster.run()
    assert len(names_of(cluster, "g")) == 3


def test_pods_of_a_group_are_counted_where_the_group_waits() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1, cpu="1"), *members("g", 2), make_pod("alone").req(cpu="9"))
    cluster.run()

    def pending() -> dict[str, int]:
        return {queue: pods for queue, pods in cluster.queue.counts().items() if pods}

    def groups() -> dict[str, int]:
        counts = cluster.queue.entity_counts().items()
        return {queue: number for (queue, kind), number in counts if number and kind == "podgroup"}

    assert (pending(), groups()) == ({"incomplete": 2, "unschedulable": 1}, {"gated": 1})
    cluster.add(pod_group("g", minMember=3))
    assert (pending(), groups()) == ({"gated": 2, "unschedulable": 1}, {"gated": 1})
    cluster.add(*members("g", 1, first=2))
    assert (pending(), groups()) == ({"active": 3, "unschedulable": 1}, {"active": 1})
    cluster.run()
    assert (pending(), groups()) == ({"unschedulable": 4}, {"unschedulable": 1})


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}], ids=["absent", "zero"])
def test_a_group_that_names_no_minimum_needs_one_pod(spec: Json) -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", **spec), *nodes(1, cpu="1"), *members("g", 2))
    cluster.run()
    assert names_of(cluster, "g") == {"g-0"}
    assert ("Scheduled", "Bound: 1 Pods, of which 1 are needed") in cluster.notes


def test_a_group_whose_pods_never_come_holds_nothing_for_days_and_is_not_lost() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=3), *nodes(1, cpu="3"), *members("g", 2))
    for _ in range(300):
        cluster.wait(600)
        cluster.run()
    assert cluster.bound == []
    assert cluster.nodes.requested("cpu").sum() == 0
    assert {*cluster.notes} == {("WaitingForMembers", "WaitingForMembers 2/3")}
    assert len(cluster.notes) == 300
    beside = make_pod("beside").req(cpu="3")
    cluster.add(beside)
    cluster.run()
    assert cluster.counted_on(beside) == "n0"
    cluster.remove(beside)
    cluster.add(*members("g", 1, first=2))
    cluster.run()
    assert len(names_of(cluster, "g")) == 3


def test_a_deleted_member_is_missed_and_a_deleted_group_too() -> None:
    cluster = group_cluster()
    group = pod_group("g", minMember=5)
    cluster.add(group)
    pods = members("g", 5)
    cluster.add(*nodes(1), *pods)
    cluster.run()
    cluster.remove(pods[0])
    cluster.add(*nodes(2))
    cluster.settle(2)
    assert cluster.bound == []
    cluster.remove(group)
    cluster.remove(*pods[1:])
    assert len(cluster.queue.groups) == 0
    assert cluster.is_at_rest()


def test_a_stuck_group_does_not_stop_others() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("big", minMember=9), pod_group("small", minMember=3))
    cluster.add(*nodes(1), *members("big", 9), *members("small", 3))
    cluster.settle(20)
    assert names_of(cluster, "big") == set()
    assert len(names_of(cluster, "small")) == 3


def test_min_resources_are_a_real_check() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("spark", minMember=1, minResources={"cpu": "5"}))
    cluster.add(*nodes(1), *members("spark", 1))
    cluster.run()
    assert cluster.bound == []
    assert cluster.notes[-1][1] == "NoRoom: minResources are not free: cpu (4 of 5 free)"
    cluster.add(*nodes(2))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "spark")) == 1


def test_members_of_unlike_shapes_attract_each_other() -> None:
    """g-0 has to be beside the leader, which is tried after it."""
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    follower, leader = members("g", 2)
    follower.pod_affinity("host", {"matchLabels": {"role": "leader"}})
    leader.label("role", "leader")
    cluster.add(*nodes(1), follower, leader)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_a_refusal_in_permit_undoes_the_whole_plan() -> None:
    answers = iter([None, None, Status.unschedulable("no more")])
    cluster = group_cluster(scripted("Strict", permit=lambda: next(answers)))
    cluster.add(pod_group("g", minMember=3))
    pods = members("g", 3)
    cluster.add(*nodes(1), *pods)
    cluster.run()
    assert cluster.bound == []
    assert all(cluster.counted_on(pod) == "" for pod in pods)
    assert "no more" in cluster.notes[-1][1]


def test_a_member_whose_preparation_fails_keeps_all_others_from_being_bound() -> None:
    answers = iter([None, Status.error("disk"), None])
    cluster = group_cluster(scripted("Prepare", pre_bind=lambda: next(answers)))
    cluster.add(pod_group("g", minMember=3))
    pods = members("g", 3)
    cluster.add(*nodes(1), *pods)
    cluster.cycle()
    cluster.take_in()
    assert cluster.bound == []
    assert all(cluster.counted_on(pod) == "" for pod in pods)
    assert [cluster.state(pod) for pod in pods] == [QueueState.GROUPED] * 3
    assert "disk" in cluster.notes[-1][1]
    assert cluster.is_at_rest()


def test_a_binding_that_fails_is_tried_once_more_on_its_node() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2), *nodes(1), *members("g", 2))
    cluster.writer.slow = True
    cluster.cycle()
    cluster.writer.waiting.pop()(OSError("reset"))
    cluster.take_in()
    cluster.writer.answer()
    cluster.take_in()
    assert cluster.bound == [("g-0", "n0"), ("g-1", "n0"), ("g-1", "n0")]
    assert cluster.in_flight == 0
    assert cluster.notes[-1][0] == "Scheduled"


def test_a_group_that_does_not_get_ready_in_time_gives_up() -> None:
    cluster = group_cluster(scripted("Prepare", pre_bind=lambda: None))
    cluster.add(pod_group("g", minMember=2, scheduleTimeoutSeconds=30))
    pods = members("g", 2)
    cluster.add(*nodes(1), *pods)
    cluster.workers.held = True
    cluster.cycle()
    cluster.wait(31)
    cluster.workers.release()
    cluster.take_in()
    assert cluster.bound == []
    assert "not ready to be bound within 30s" in cluster.notes[-1][1]
    assert [cluster.state(pod) for pod in pods] == [QueueState.GROUPED] * 2


@pytest.mark.parametrize("minimum", [3, 2])
def test_a_member_that_is_deleted_meanwhile_keeps_all_others_from_being_bound(minimum: int) -> None:
    cluster = group_cluster(scripted("Prepare", pre_bind=lambda: None))
    cluster.add(pod_group("g", minMember=minimum))
    pods = members("g", 3)
    cluster.add(*nodes(1), *pods)
    cluster.workers.held = True
    cluster.cycle()
    cluster.remove(pods[1])
    cluster.workers.held = False
    cluster.workers.release()
    cluster.take_in()
    assert cluster.bound == []
    assert "default/g-1 was deleted before it was bound" in cluster.notes[-1][1]
    cluster.settle(2)
    assert names_of(cluster, "g") == ({"g-0", "g-2"} if minimum == 2 else set())
    assert cluster.is_at_rest()


@pytest.mark.parametrize("timeout", [0, None])
def test_a_timeout_of_zero_means_the_default(timeout: int | None) -> None:
    cluster = group_cluster(scripted("Prepare", pre_bind=lambda: None), permitWaitingTimeSeconds=7)
    cluster.add(pod_group("g", minMember=1, scheduleTimeoutSeconds=timeout))
    cluster.add(*nodes(1), *members("g", 1))
    cluster.workers.held = True
    cluster.cycle()
    cluster.wait(8)
    cluster.workers.release()
    cluster.take_in()
    assert "within 7s" in cluster.notes[-1][1]


def test_a_group_backs_off_as_long_as_the_configuration_says() -> None:
    cluster = group_cluster(podGroupBackoffSeconds=60)
    cluster.add(pod_group("g", minMember=5), *nodes(1), *members("g", 5))
    cluster.run()
    cluster.add(*nodes(2))
    cluster.wait(50)
    cluster.run()
    assert cluster.bound == []
    cluster.wait(12)
    cluster.run()
    assert len(names_of(cluster, "g")) == 5


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"minMember": -2}, "spec.minMember is -2; it must not be negative", id="minimum"
        ),
        pytest.param(
            {"minResources": {"cpu": "-1"}},
            "spec.minResources[cpu] is -1; it must not be negative",
            id="negative-amount",
        ),
        pytest.param(
            {"minResources": {"cpu": "many"}},
            "spec.minResources[cpu]: 'many' is not a quantity (examples: 500m, 2, 1.5Gi, 1e3)",
            id="no-amount",
        ),
        pytest.param(
            {"scheduleTimeoutSeconds": -1},
            "spec.scheduleTimeoutSeconds is -1; it must not be negative",
            id="timeout",
        ),
    ],
)
def test_a_group_that_cannot_be_is_told_so_and_placed_once_it_is_mended(
    spec: Json, text: str
) -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", **spec), *nodes(1), *members("g", 2))
    cluster.run()
    cluster.wait(6)
    assert cluster.bound == []
    assert cluster.notes == [("BadPodGroup", f"BadPodGroup: {text}")]
    cluster.add(pod_group("g", minMember=2))
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_a_group_of_unequal_priorities_waits_until_they_are_equal() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=2))
    low, high, other = members("g", 3)
    cluster.add(*nodes(1), low, high.priority(7))
    cluster.run()
    cluster.wait(6)
    assert cluster.bound == []
    text = "UnequalPriorities: its Pods have the priorities 0 and 7; they need the same"
    assert cluster.notes == [("UnequalPriorities", text)]
    cluster.remove(high)
    cluster.add(other)
    cluster.run()
    assert names_of(cluster, "g") == {"g-0", "g-2"}


def test_pods_of_a_group_that_ask_for_another_scheduler_are_named() -> None:
    profiles = [groups_profile(), {**groups_profile(), "schedulerName": "second"}]
    cluster = Cluster(profiles=profiles)
    cluster.add(pod_group("g", minMember=3))
    pods = members("g", 3)
    pods[2].spec(schedulerName="second")
    cluster.add(*nodes(1), *pods)
    cluster.run()
    cluster.wait(6)
    assert cluster.bound == []
    assert {note for _, note in cluster.notes} == {
        "WaitingForMembers 2/3; 1 Pods of it ask for the scheduler second",
        "WaitingForMembers 1/3; 2 Pods of it ask for the scheduler bayplan",
    }
    cluster.remove(pods[2])
    cluster.add(*members("g", 1, first=3))
    cluster.run()
    assert names_of(cluster, "g") == {"g-0", "g-1", "g-3"}


@length(60)
@given(st.data())
def test_no_group_is_ever_bound_in_part_and_none_that_fits_waits_for_ever(data: Any) -> None:
    """20 groups arrive interleaved on a cluster that has room for some of them."""
    cluster = group_cluster()
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=20))
    room = data.draw(st.integers(1, 6))
    pods = {f"g{i}": members(f"g{i}", size) for i, size in enumerate(sizes)}
    cluster.add(*nodes(room))
    arrivals: list[Any] = [pod for group in pods.values() for pod in group]
    arrivals += [pod_group(f"g{i}", minMember=size) for i, size in enumerate(sizes)]
    for arrival in data.draw(st.permutations(arrivals)):
        cluster.add(arrival)
        if data.draw(st.booleans()):
            cluster.cycle() if cluster.queue.counts()["active"] else None
        for name, group in pods.items():
            assert len(names_of(cluster, name)) in (0, len(group))
    cluster.settle(4)
    free = room * 4 - len(cluster.bound)
    waiting = [size for i, size in enumerate(sizes) if not names_of(cluster, f"g{i}")]
    assert all(size > free for size in waiting)
    assert cluster.is_at_rest()

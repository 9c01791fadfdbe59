"""What holds for groups of every source: one suite, whatever says that Pods belong together.

What a source is told, in which words, is in `tests.test_groups` and `tests.test_kubernetes_groups`.
"""

from __future__ import annotations

import pytest
from tests.core_harness import Cluster
from tests.groups import (
    SOURCES,
    Source,
    cluster_of_all,
    every_source,
    names_of,
    nodes,
    racks,
    racks_of,
)
from tests.queues import cluster_of_tenants, queue
from tests.queues import pod as queued_pod
from tests.queues import pods as queued_pods
from tests.scripted import scripted

from bayplan.client.errors import ServerError
from bayplan.framework import Status
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder, make_pod


def placed(cluster: Cluster, pods: list[PodBuilder]) -> int:
    """How many of the Pods count on a node."""
    return sum(bool(cluster.counted_on(pod)) for pod in pods)


@every_source
def test_a_group_that_fits_is_bound_as_a_whole(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(*nodes(2), source.group(3))
    pods = source.members(3)
    cluster.add(*pods[:2])
    cluster.run()
    assert cluster.bound == []
    assert [cluster.state(pod) for pod in pods[:2]] == [QueueState.GROUPED] * 2
    cluster.add(pods[2])
    cluster.run()
    assert len(names_of(cluster, "g")) == 3
    assert source.is_told(cluster, bound=3, needed=3)
    assert len(cluster.queue.groups) == 0
    assert cluster.is_at_rest()


@every_source
def test_where_groups_are_switched_off_its_pods_go_singly(source: Source) -> None:
    cluster = Cluster()
    cluster.add(source.group(3), *nodes(1), *source.members(1))
    cluster.run()
    assert len(names_of(cluster, "g")) == 1


@every_source
def test_all_pods_of_a_group_without_room_say_so_after_one_attempt(source: Source) -> None:
    """So an autoscaler sees the whole demand, and not a part of it first."""
    cluster = cluster_of_all()
    pods = source.members(3)
    cluster.add(source.group(3), *nodes(1, cpu="2"), *pods)
    queued = cluster.queue.pop()
    assert queued is not None
    cluster.scheduler.schedule_one(queued)
    told = {name: condition.reason for name, condition in cluster.recorder.conditions}
    assert told == {pod.obj().name: "Unschedulable" for pod in pods}


@every_source
def test_a_group_that_does_not_fit_holds_nothing_and_wakes_when_there_is_room(
    source: Source,
) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(3))
    pods = source.members(3)
    cluster.add(*nodes(1, cpu="2"), *pods)
    cluster.settle()
    assert cluster.bound == []
    assert placed(cluster, pods) == 0
    assert cluster.is_at_rest()
    cluster.add(*nodes(2, cpu="2"))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 3
    assert source.is_told(cluster, bound=3, needed=3)
    assert cluster.is_at_rest()


@every_source
def test_a_group_that_was_tried_while_there_was_no_node_is_tried_when_one_comes(
    source: Source,
) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(3), *source.members(3))
    cluster.settle()
    cluster.add(*nodes(1))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 3


@every_source
def test_more_than_the_minimum_come_along_if_they_fit(source: Source) -> None:
    cluster = cluster_of_all()
    pods = source.members(6)
    cluster.add(*pods, *nodes(1, cpu="4"))
    cluster.run()
    cluster.add(source.group(3))
    cluster.cycle()
    assert len(names_of(cluster, "g")) == 4
    assert source.is_told(cluster, bound=4, needed=3)
    cluster.settle()
    place = QueueState.UNSCHEDULABLE if source.later_ones_go_singly else QueueState.GROUPED
    assert [cluster.state(pod) for pod in pods if not cluster.counted_on(pod)] == [place] * 2
    cluster.add(*nodes(2))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 6


@every_source
def test_a_group_that_comes_after_its_pods_wakes_them(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(*nodes(1), *source.members(2))
    cluster.run()
    assert cluster.bound == []
    cluster.add(source.group(2))
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


@every_source
def test_a_lower_minimum_lets_a_waiting_group_in(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(3), *nodes(1), *source.members(2))
    cluster.run()
    assert cluster.bound == []
    cluster.add(source.group(2))
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


@every_source
def test_a_group_whose_object_has_gone_holds_its_pods(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(3), *source.members(2))
    cluster.remove(source.group(1))
    cluster.add(*nodes(1), *source.members(1, first=2))
    cluster.settle()
    assert cluster.bound == []
    cluster.add(source.group(3))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 3


@every_source
def test_gated_pods_do_not_count_until_they_are_let_go(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(2))
    first, gated = source.members(2)
    cluster.add(*nodes(1), first, gated.gate("later"))
    cluster.settle()
    assert cluster.bound == []
    assert cluster.state(gated) is QueueState.GATED
    cluster.add(gated.spec(schedulingGates=[]))
    cluster.settle()
    assert len(names_of(cluster, "g")) == 2


@every_source
def test_a_replacement_needs_no_more_than_itself(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(2))
    first, second = source.members(2)
    cluster.add(*nodes(1, cpu="2"), first.node("n0"), second.node("n0"))
    cluster.remove(second)
    (new,) = source.members(1, first=7)
    cluster.add(new)
    cluster.settle()
    assert cluster.counted_on(new) == "n0"


@pytest.mark.parametrize("error", [ServerError("no", status=500), OSError("down")], ids=repr)
@every_source
def test_when_no_binding_succeeds_the_group_waits_again_as_a_whole(
    source: Source, error: Exception
) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(2))
    pods = source.members(2)
    cluster.writer.outcome = error
    cluster.add(*nodes(1), *pods)
    cluster.cycle()
    cluster.take_in()
    assert placed(cluster, pods) == 0
    assert [cluster.state(pod) for pod in pods] == [QueueState.GROUPED] * 2
    assert cluster.is_at_rest()
    cluster.writer.outcome = None
    cluster.settle()
    assert placed(cluster, pods) == 2
    assert cluster.is_at_rest()


@every_source
def test_a_refusal_in_permit_keeps_the_whole_group_from_being_bound(source: Source) -> None:
    plugin = scripted("Refuses", permit=Status.unschedulable("no"))
    cluster = cluster_of_all(plugin)
    cluster.add(source.group(2))
    pods = source.members(2)
    cluster.add(*nodes(1), *pods)
    cluster.settle()
    assert cluster.bound == []
    assert placed(cluster, pods) == 0


# Topology


@every_source
def test_a_group_that_asks_for_one_rack_gets_one(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(3, rack="rack"), *racks(2, 3, 2), *source.members(3))
    cluster.settle()
    assert racks_of(cluster, "g") == {"r1"}


@every_source
def test_pods_that_come_late_are_kept_in_the_rack_of_their_group(source: Source) -> None:
    cluster = cluster_of_all()
    cluster.add(source.group(2, rack="rack"))
    cluster.add(*racks(3, 4), *(pod.node(f"r0n{i}") for i, pod in enumerate(source.members(2))))
    late = source.members(2, first=2)
    cluster.add(*late)
    cluster.settle()
    assert sorted(cluster.counted_on(pod) for pod in late) == ["", "r0n2"]


# Who goes together


@pytest.mark.parametrize("preemptor", SOURCES, ids=lambda source: f"for-{source}")
@every_source
def test_a_group_that_others_preempt_goes_as_a_whole(source: Source, preemptor: Source) -> None:
    """Two of its four Pods would be room enough."""
    cluster = cluster_of_all()
    cluster.add(source.group(4), *nodes(2, cpu="2"))
    cluster.add(*(pod.node(f"n{i // 2}") for i, pod in enumerate(source.members(4))))
    cluster.add(preemptor.group(2, priority=1, name="h"))
    cluster.add(*(pod.priority(1) for pod in preemptor.members(2, name="h")))
    cluster.run()
    assert len(cluster.writer.deleted) == 4


@pytest.mark.parametrize("preemptor", SOURCES, ids=lambda source: f"for-{source}")
@pytest.mark.parametrize("source", [s for s in SOURCES if s.later_ones_go_singly], ids=str)
def test_what_a_group_has_above_its_minimum_goes_one_by_one(
    source: Source, preemptor: Source
) -> None:
    """A PodGroup of Kubernetes goes whole here: its disruption mode is All."""
    cluster = cluster_of_all()
    cluster.add(source.group(2))
    cluster.add(*nodes(1, cpu="4"), *(pod.node("n0") for pod in source.members(4)))
    cluster.add(preemptor.group(2, priority=1, name="h"))
    cluster.add(*(pod.priority(1) for pod in preemptor.members(2, name="h")))
    cluster.run()
    assert len(cluster.writer.deleted) == 2


@pytest.mark.parametrize("source", [s for s in SOURCES if s.later_ones_go_singly], ids=str)
def test_a_late_pod_gathers_from_the_moment_in_which_its_group_is_evicted(source: Source) -> None:
    """Before anybody sees the victims leave; if they stay after all, it goes on singly."""
    cluster = cluster_of_all()
    cluster.writer.slow = True
    cluster.add(source.group(2))
    running = [pod.node("n0") for pod in source.members(2, cpu="2")]
    cluster.add(*nodes(1, cpu="5"), *running)
    (late,) = source.members(1, first=7)
    cluster.add(make_pod("high").req(cpu="4").priority(1), late)
    cluster.run()
    assert cluster.counted_on(late) == ""
    assert cluster.state(late) is QueueState.GROUPED
    cluster.writer.answer(ServerError("no", status=500))
    cluster.take_in()
    assert cluster.state(late) is not QueueState.GROUPED


@every_source
def test_a_queue_takes_a_group_back_as_a_whole(source: Source) -> None:
    cluster = cluster_of_tenants()
    cluster.add(queue("mine", "x", guaranteed={"cpu": 2}), queue("lent", "default"))
    cluster.add(source.group(2), *nodes(2, cpu="1"))
    cluster.add(*(pod.node(f"n{i}") for i, pod in enumerate(source.members(2))))
    cluster.add(*queued_pods("mine", 1, "x"))
    cluster.run()
    assert len(cluster.writer.deleted) == 2


# Tenants


@every_source
def test_the_limit_of_a_queue_is_asked_about_the_whole_minimum(source: Source) -> None:
    cluster = cluster_of_tenants()
    cluster.add(queue("mine", "default", limit={"cpu": 2}), source.group(3))
    pods = source.members(3)
    cluster.add(*nodes(1), *pods)
    cluster.settle()
    assert cluster.bound == []
    assert {c.reason for _, c in cluster.recorder.conditions} == {"QueueLimit"}
    assert len(cluster.recorder.conditions) == 3


@every_source
def test_a_queue_takes_room_back_in_the_one_rack_that_a_group_asks_for(source: Source) -> None:
    cluster = cluster_of_tenants()
    mine, lent = queue("mine", "default", guaranteed={"cpu": 2}), queue("lent", "x")
    cluster.add(mine, lent)
    there = racks(1, 1, 2)
    cluster.add(*there)
    for day, node in enumerate(reversed(there), start=1):  # the oldest Pods are in r2
        name = node.obj().name
        lender = queued_pod(f"on-{name}", "x").node(name)
        cluster.add(lender.start_time(f"2026-01-{day:02}T00:00:00Z"))
    cluster.add(source.group(2, rack="rack"), *source.members(2))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["on-r2n0", "on-r2n1"]

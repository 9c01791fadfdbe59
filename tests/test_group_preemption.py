"""Groups preempt: whom a group evicts, and that it gets the room."""

from __future__ import annotations

import pytest
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, names_of, nodes, pod_group, topology

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.client.errors import ServerError
from bayplan.testing import PodBuilder, make_node, make_object, make_pod


def low(name: str, node: str, cpu: str = "1", priority: int = 0) -> PodBuilder:
    """A Pod on a node."""
    return make_pod(name).req(cpu=cpu).priority(priority).node(node)


def placed(group: str, *node_names: str, priority: int = 0) -> list[PodBuilder]:
    """Members of a group, of one CPU each, on these nodes."""
    pods = members(group, len(node_names))
    return [p.priority(priority).node(n) for p, n in zip(pods, node_names, strict=True)]


def important(group: str, number: int, cpu: str = "1", priority: int = 10) -> list[PodBuilder]:
    """Members of a group of high priority."""
    return [pod.priority(priority) for pod in members(group, number, cpu)]


def cluster_where_victims_stay() -> Cluster:
    """A cluster that does not show that Pods were deleted."""
    cluster = group_cluster()
    cluster.writer.on_deleted = None
    return cluster


def test_a_group_evicts_as_few_as_it_needs_and_is_bound_in_their_place() -> None:
    cluster = cluster_where_victims_stay()
    others = [low(f"low-{i}", f"n{i % 2}") for i in range(8)]
    cluster.add(*nodes(2), *others, pod_group("g", minMember=3))
    pods = important("g", 3)
    cluster.add(*pods)
    cluster.run()
    assert len(cluster.writer.deleted) == 3
    assert "" not in cluster.nominated(*pods)
    assert cluster.notes[-1] == (
        "MakingRoom",
        "MakingRoom: 3 Pods of lower priority are evicted, so that 3 Pods fit",
    )
    assert cluster.recorder.conditions[-1][1].message == (
        "the group default/g does not fit at once, short by cpu; others are leaving to make room"
    )
    rooms = cluster.nominated(*pods)
    cluster.remove(*cluster.evicted(others))
    cluster.wait(11)
    cluster.run()
    assert [cluster.counted_on(pod) for pod in pods] == rooms
    assert len(cluster.writer.deleted) == 3
    assert cluster.is_at_rest()


def test_nobody_goes_whose_node_is_not_needed() -> None:
    """The youngest are on n0 and n1, but one Pod of 4 CPU needs a whole node."""
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(3))
    for row, cpus in enumerate([(1, 3), (1, 3), (2, 2)]):
        for i, cpu in enumerate(cpus):
            pod = low(f"n{row}-{i}", f"n{row}", str(cpu), priority=i)
            cluster.add(pod.start_time(f"2026-01-0{3 - row}T00:00:00Z"))
    cluster.add(pod_group("g", minMember=1), *important("g", 1, cpu="4"))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["n0-0", "n0-1"]


def test_nobody_goes_if_members_may_be_closer_together() -> None:
    """Where b is gone, too, a plan spreads the members; without a all fit on n0. b is younger."""
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(1), make_node("n1").capacity(cpu="8", memory="8Gi", pods=10))
    cluster.add(low("x", "n0", "1", priority=10), low("y", "n1", "6", priority=10))
    cluster.add(low("a", "n0", "3").start_time("2026-01-01T00:00:00Z"))
    cluster.add(low("b", "n1", "2").start_time("2026-01-02T00:00:00Z"))
    cluster.add(pod_group("g", minMember=3))
    pods = important("g", 3)
    cluster.add(*pods)
    cluster.run()
    assert cluster.writer.deleted == ["a"]
    assert cluster.nominated(*pods) == ["n0", "n0", "n0"]


def test_the_lowest_priority_goes_first_and_equal_priority_never() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(1), low("a", "n0", priority=3), low("b", "n0", priority=1))
    cluster.add(low("c", "n0", priority=10), low("d", "n0", priority=10))
    cluster.add(pod_group("g", minMember=1), *important("g", 1))
    cluster.run()
    assert cluster.writer.deleted == ["b"]


def test_a_group_that_does_not_fit_even_then_evicts_nobody() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1), low("a", "n0"), low("b", "n0", cpu="2", priority=10))
    cluster.add(pod_group("g", minMember=3))
    pods = important("g", 3)
    cluster.add(*pods)
    cluster.run()
    assert cluster.writer.deleted == []
    assert cluster.nominated(*pods) == ["", "", ""]
    assert cluster.notes[-1][1].endswith("Preemption: evicting others would not make room")


def test_a_group_that_may_not_preempt_evicts_nobody() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1), low("a", "n0", cpu="4"), pod_group("g", minMember=1))
    cluster.add(*(pod.spec(preemptionPolicy="Never") for pod in important("g", 1)))
    cluster.run()
    assert cluster.writer.deleted == []
    assert "not eligible due to preemptionPolicy=Never" in cluster.notes[-1][1]


def test_while_victims_leave_the_group_waits_and_evicts_nobody_else() -> None:
    cluster = cluster_where_victims_stay()
    others = [low(f"low-{i}", "n0") for i in range(4)]
    cluster.add(*nodes(1), *others, pod_group("g", minMember=2))
    pods = important("g", 2)
    cluster.add(*pods)
    cluster.run()
    victims = list(cluster.writer.deleted)
    cluster.terminating(others)
    for _ in range(3):
        cluster.wait(400)
        cluster.run()
    assert cluster.writer.deleted == victims
    assert cluster.nominated(*pods) == ["n0", "n0"]
    assert len({note for reason, note in cluster.notes if reason == "MakingRoom"}) == 1

    # One of two is not enough; nobody else is asked to leave for the other.
    first = next(pod for pod in others if pod.key == f"default/{victims[0]}")
    cluster.remove(first)
    cluster.wait(400)
    cluster.run()
    assert cluster.writer.deleted == victims
    cluster.remove(*cluster.evicted(others))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_lower_ones_do_not_take_the_room() -> None:
    cluster = cluster_where_victims_stay()
    others = [low(f"low-{i}", "n0") for i in range(4)]
    cluster.add(*nodes(1), *others, pod_group("g", minMember=2))
    pods = important("g", 2)
    cluster.add(*pods)
    cluster.run()
    cluster.remove(*cluster.evicted(others))
    late = make_pod("late").req(cpu="1").priority(5)
    cluster.add(late)
    cluster.queue.activate([late.obj()])
    cluster.run()
    cluster.wait(11)
    cluster.run()
    assert cluster.counted_on(late) == ""
    assert len(names_of(cluster, "g")) == 2


def test_members_above_the_minimum_go_before_others_of_their_priority() -> None:
    cluster = cluster_where_victims_stay()
    elastic = placed("e", "n0", "n0", "n0")
    cluster.add(*nodes(1), low("old", "n0"), *elastic)
    cluster.add(pod_group("e", minMember=2), pod_group("g", minMember=1))
    cluster.add(*important("g", 1))
    cluster.run()
    assert len(cluster.writer.deleted) == 1
    assert cluster.writer.deleted[0].startswith("e-")


def test_below_its_minimum_a_group_goes_as_a_whole() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(2), *placed("v", "n0", "n0", "n1", "n1"))
    cluster.add(low("a", "n0", "2", 10), low("b", "n1", "2", 10))
    cluster.add(pod_group("v", minMember=3), pod_group("g", minMember=2))
    cluster.add(*important("g", 2))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["v-0", "v-1", "v-2", "v-3"]


def test_a_group_with_a_member_that_may_stay_keeps_its_minimum() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(pod_group("v", minMember=3), pod_group("g", minMember=2))
    (guard,) = members("v", 1, first=9)
    cluster.add(*nodes(2), *placed("v", "n0", "n0", "n0"), low("full-0", "n0", "1", 10))
    cluster.add(guard.priority(10).node("n1"), low("full-1", "n1", "3", 10))
    cluster.add(*important("g", 2))
    cluster.run()
    # One is above the minimum, two are asked for.
    assert cluster.writer.deleted == []
    cluster.add(pod_group("g", minMember=1))
    cluster.wait(11)
    cluster.run()
    assert len(cluster.writer.deleted) == 1


def test_where_only_a_group_of_which_a_member_may_stay_is_in_the_way_it_stays() -> None:
    cluster = group_cluster()
    mixed = placed("mixed", "n0", "n0")
    mixed[1].priority(20).host_port(80)
    cluster.add(*nodes(1), *mixed)
    cluster.add(pod_group("mixed", minMember=2), pod_group("g", minMember=1))
    cluster.add(*(pod.host_port(80) for pod in important("g", 1)))
    cluster.run()
    assert cluster.writer.deleted == []
    (said,) = (note for reason, note in cluster.notes if reason == "NoRoom")
    assert said.endswith("Preemption: evicting others would not make room")


def test_a_single_pod_is_evicted_rather_than_a_group_of_the_same_priority() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(1), *placed("v", "n0", "n0", "n0"), low("alone", "n0"))
    cluster.add(pod_group("v", minMember=3), pod_group("g", minMember=1))
    cluster.add(*important("g", 1))
    cluster.run()
    assert cluster.writer.deleted == ["alone"]


def test_protected_pods_go_last() -> None:
    cluster = cluster_where_victims_stay()
    shielded = low("shielded", "n0", "2").label("app", "web")
    cluster.add(*nodes(1), shielded, low("bare", "n0", "2", priority=5))
    budget = make_object(POD_DISRUPTION_BUDGET, "web").spec(
        selector={"matchLabels": {"app": "web"}}
    )
    cluster.add(budget.status(disruptionsAllowed=0), pod_group("g", minMember=1))
    cluster.add(*important("g", 1, cpu="2"))
    cluster.run()
    assert cluster.writer.deleted == ["bare"]


def test_pods_that_are_leaving_anyway_are_waited_for() -> None:
    cluster = cluster_where_victims_stay()
    leaving = low("leaving", "n0", "2").terminating()
    cluster.add(*nodes(1), leaving, low("stays", "n0", "2"), pod_group("g", minMember=1))
    pods = important("g", 1, cpu="2")
    cluster.add(*pods)
    cluster.run()
    assert cluster.writer.deleted == []
    assert cluster.nominated(*pods) == ["n0"]
    cluster.remove(leaving)
    cluster.wait(11)
    cluster.run()
    assert cluster.counted_on(pods[0]) == "n0"


@pytest.mark.parametrize("others", [3, 40])
def test_who_is_in_the_way_for_another_reason_than_resources_is_found(others: int) -> None:
    """A host port is taken on each node; nothing else is short."""
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(2, cpu="64"))
    cluster.add(*(low(f"low-{i}", f"n{i % 2}", priority=1) for i in range(others)))
    cluster.add(*(low(f"port-{i}", f"n{i}", priority=2).host_port(80) for i in range(2)))
    cluster.add(pod_group("g", minMember=2))
    cluster.add(*(pod.host_port(80) for pod in important("g", 2)))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["port-0", "port-1"]


def test_only_nodes_that_the_group_can_use_are_cleared() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(2), *(low(f"low-{i}", "n0") for i in range(4)))
    cluster.add(*(low(f"worth-{i}", "n1", priority=5) for i in range(4)))
    cluster.add(pod_group("g", minMember=2))
    cluster.add(*(pod.node_selector({"host": "n1"}) for pod in important("g", 2)))
    cluster.run()
    assert sorted(name.partition("-")[0] for name in cluster.writer.deleted) == ["worth"] * 2


def test_an_eviction_that_fails_is_tried_again() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1), low("a", "n0", cpu="4"), pod_group("g", minMember=2))
    cluster.add(*important("g", 2))
    cluster.writer.outcome = ServerError("down")
    cluster.cycle()
    cluster.writer.outcome = None
    cluster.wait(11)
    cluster.run()
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_no_node_is_kept_for_a_group_that_has_lost_a_member() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(*nodes(1), low("a", "n0", cpu="4"), pod_group("g", minMember=2))
    pods = important("g", 2)
    cluster.add(*pods)
    cluster.run()
    assert cluster.nominated(*pods) == ["n0", "n0"]
    cluster.remove(pods[0])
    cluster.wait(2)
    assert cluster.nominated(*pods) == ["", ""]


def test_without_lower_pods_nothing_is_said_of_preemption() -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=5), *nodes(1), *important("g", 5))
    cluster.run()
    assert "Preemption" not in cluster.notes[-1][1]


def test_a_pod_evicts_another_rather_than_break_a_group() -> None:
    """On n0 a group cannot do without its Pod; on n1 the victim is of higher priority."""
    cluster = cluster_where_victims_stay()
    cluster.add(pod_group("v", minMember=2))
    cluster.add(*nodes(3, cpu="1"), *placed("v", "n0", "n2"), low("other", "n1", priority=5))
    cluster.add(make_pod("p").req(cpu="1").priority(10))
    cluster.run()
    assert cluster.writer.deleted == ["other"]


def test_a_pod_takes_what_a_group_has_above_its_minimum() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(pod_group("v", minMember=1))
    cluster.add(*nodes(3, cpu="1"), *placed("v", "n0", "n2"), low("other", "n1", priority=5))
    cluster.add(make_pod("p").req(cpu="1").priority(10))
    cluster.run()
    assert cluster.writer.deleted in (["v-0"], ["v-1"])


def test_on_one_node_a_pod_evicts_others_than_members_of_a_group() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(pod_group("v", minMember=2))
    cluster.add(*nodes(1, cpu="3"), *placed("v", "n0", "n0"), low("other", "n0", priority=5))
    cluster.add(make_pod("p").req(cpu="1").priority(10))
    cluster.run()
    assert cluster.writer.deleted == ["other"]


def test_where_there_is_no_other_choice_a_pod_breaks_a_group() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(pod_group("v", minMember=2), *nodes(2, cpu="1"), *placed("v", "n0", "n1"))
    cluster.add(make_pod("p").req(cpu="1").priority(10))
    cluster.run()
    assert len(cluster.writer.deleted) == 1


def test_what_a_group_can_do_without_is_counted_anew_when_a_member_leaves() -> None:
    cluster = cluster_where_victims_stay()
    cluster.add(pod_group("v", minMember=1))
    pods = placed("v", "n0", "n2")
    cluster.add(*nodes(3, cpu="1"), *pods, low("other", "n1", priority=5))
    cluster.add(make_pod("p").req(cpu="1").priority(10))
    cluster.run()
    left = next(pod for pod in pods if pod.key.partition("/")[2] not in cluster.writer.deleted)
    cluster.terminating(pods)
    cluster.add(make_pod("q").req(cpu="1").priority(10))
    cluster.run()
    assert cluster.writer.deleted[1:] == ["other"]
    assert cluster.counted_on(left) != ""


def test_room_is_made_in_one_domain_where_the_group_requires_one() -> None:
    """The Pods of lowest priority are spread over both zones."""
    cluster = cluster_where_victims_stay()
    zones = ["a", "b", "a", "b"]
    cluster.add(*(n.label("zone", z) for n, z in zip(nodes(4, cpu="1"), zones, strict=True)))
    cluster.add(*(low(f"low-{i}", f"n{i}", priority=p) for i, p in enumerate([0, 1, 3, 2])))
    cluster.add(pod_group("g", topology(required="zone"), minMember=2))
    pods = important("g", 2)
    cluster.add(*pods)
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["low-1", "low-3"]
    assert sorted(cluster.nominated(*pods)) == ["n1", "n3"]

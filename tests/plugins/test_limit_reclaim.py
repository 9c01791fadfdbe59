"""A Pod that a limit holds back takes the place of others that count for that limit."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import gang, gang_members, members, pod_group, workload_cluster
from tests.plugins.test_reclaim import cluster_with, victims
from tests.queues import pod, pods, queue, queues_profile, used

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.plugins.fair_share.reclaim import ReclaimRule
from bayplan.preemption.shortest_prefix import ShortestPrefix
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder, make_node, make_object

PREEMPTED = {"reason": "PreemptionByScheduler"}
IN_VAIN = "bayplan_preemptions_in_vain_total"
REPEATED = "bayplan_preemptions_repeated_total"


def limited(*others: object, cpu: int = 4, nodes: int = 2, **spec: Any) -> Cluster:
    """A queue whose limit is fully used, by Pods of priority 0 on n0; the nodes have room."""
    cluster = cluster_with(queue("a", "x", limit={"cpu": cpu}, **spec), *others, nodes=nodes)
    cluster.add(*low(cpu))
    return cluster


def low(number: int) -> list[PodBuilder]:
    """Running Pods, the last one is the youngest."""
    return [
        pod(f"low-{i}", "x")
        .uid(f"low-{i}")
        .node("n0")
        .status(startTime=f"1970-01-01T00:00:{i:02}Z")
        for i in range(number)
    ]


def high(name: str = "high", cpu: str = "1", priority: int = 5) -> PodBuilder:
    """One that may take their place."""
    return pod(name, "x", cpu, priority).uid(name)


@pytest.mark.parametrize("at", [pytest.param("a", id="its own"), pytest.param("all", id="above")])
@pytest.mark.parametrize("cpu", [1, 2, 4])
def test_it_takes_the_place_of_as_many_of_its_queue_as_it_needs(cpu: int, at: str) -> None:
    limits = {at: {"cpu": 4}}
    cluster = cluster_with(
        queue("all", limit=limits.get("all", {})),
        queue("a", "x", parent="all", limit=limits.get("a", {})),
    )
    cluster.add(*low(4), taker := high(cpu=str(cpu)))
    cluster.settle(6)
    assert victims(cluster) == {"low": cpu}
    assert cluster.node_of(taker)
    assert used(cluster, "a") == 4000
    assert cluster.metric(IN_VAIN) == cluster.metric(REPEATED) == 0


def test_what_it_is_told_names_the_limit_and_what_is_done_about_it() -> None:
    cluster = limited()
    cluster.writer.on_deleted = None
    cluster.add(taker := high())
    cluster.run()
    assert cluster.verdict == (
        "QueueLimit",
        "limit of cpu of queue a is 4: 4 used, 1 requested. "
        "MakingRoom: 1 Pods of lower priority are evicted, so that 1 Pods fit",
    )
    assert cluster.writer.deleted == ["low-3"]  # the youngest
    assert cluster.nominated(taker) != [""]


def test_a_queue_that_lends_nothing_is_limited_to_what_it_is_guaranteed() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 2}, reclaimable=False))
    cluster.add(*low(2), taker := high())
    cluster.settle(6)
    assert victims(cluster) == {"low": 1}
    assert cluster.node_of(taker)


def test_the_number_of_pods_is_a_limit_like_others() -> None:
    cluster = cluster_with(queue("a", "x", limit={"pods": 2}))
    cluster.add(*low(2), taker := high(cpu="3"))
    cluster.settle(6)
    assert victims(cluster) == {"low": 1}
    assert cluster.node_of(taker)


@pytest.mark.parametrize(
    "taker",
    [
        pytest.param(high(priority=0), id="no lower priority"),
        pytest.param(high(cpu="5"), id="more than the limit"),
        pytest.param(high().spec(preemptionPolicy="Never"), id="preemptionPolicy Never"),
        pytest.param(high().spec(nodeSelector={"no": "node"}), id="no node would do"),
    ],
)
def test_nobody_is_evicted_where_that_would_not_help(taker: PodBuilder) -> None:
    cluster = limited(cpu=4)
    cluster.add(taker)
    cluster.settle(6)
    assert victims(cluster) == {}
    assert cluster.verdict[0] == "QueueLimit"
    assert cluster.nominated(taker) == [""]


def test_pods_of_other_queues_are_not_asked_where_the_limit_is_that_of_its_own() -> None:
    cluster = limited(queue("b", "y"))
    cluster.add(*(pod(f"b-{i}", "y").node("n1") for i in range(4)))
    cluster.add(high(priority=0))
    cluster.settle(6)
    assert victims(cluster) == {}
    assert "reclaim" not in cluster.verdict[1]


def test_a_limit_that_queues_share_is_shared_by_what_each_is_entitled_to() -> None:
    cluster = cluster_with(
        queue("all", limit={"cpu": 4}),
        queue("a", "x", parent="all", guaranteed={"cpu": 2}),
        queue("b", "y", parent="all"),
        queue("c", "z"),
    )
    cluster.add(*(pod(f"b-{i}", "y").node("n0") for i in range(4)))
    cluster.add(*(pod(f"c-{i}", "z").node("n1") for i in range(3)))
    cluster.add(*(pod(f"a-{i}", "x", "1") for i in range(2)))
    cluster.settle(6)
    assert victims(cluster) == {"b": 2}
    assert (used(cluster, "a"), used(cluster, "b")) == (2000, 2000)


def test_room_on_a_node_is_made_as_well_and_the_same_victims_count_for_both() -> None:
    cluster = limited(nodes=1)
    cluster.add(taker := high(cpu="2"))
    cluster.settle(6)
    assert victims(cluster) == {"low": 2}
    assert cluster.node_of(taker) == "n0"


def test_nobody_goes_for_a_node_where_another_is_free_by_what_the_limit_demands() -> None:
    """The youngest would make room on the better node, but it is too small for the limit."""
    cluster = cluster_with(queue("a", "x", limit={"cpu": 5}))
    cluster.add(pod("small", "x", "2").node("n0").status(startTime="1970-01-01T00:00:09Z"))
    cluster.add(pod("large", "x", "3").node("n1").status(startTime="1970-01-01T00:00:01Z"))
    cluster.add(pod("other", "y").node("n1"), taker := high(cpu="3"))
    cluster.settle(6)
    assert cluster.writer.deleted == ["large"]
    assert cluster.node_of(taker) == "n1"


def test_who_counts_for_the_limit_on_another_node_goes_in_the_same_order() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 2}))
    cluster.add(make_node("n0").capacity(cpu="4", memory="64Gi", pods=110).label("zone", "z"))
    cluster.add(pod("here", "x", priority=1).node("n0"), pod("elsewhere", "x").node("n1"))
    cluster.add(taker := high().spec(nodeSelector={"zone": "z"}))
    cluster.settle(6)
    assert cluster.writer.deleted == ["elsewhere"]
    assert cluster.node_of(taker) == "n0"


def test_on_the_only_node_that_will_do_one_goes_that_counts_for_the_limit_too() -> None:
    cluster = limited(cpu=7)
    cluster.add(make_node("n0").capacity(cpu="4", memory="64Gi", pods=110).label("zone", "z"))
    cluster.add(*(pod(f"less-{i}", "x", priority=-1).node("n1") for i in range(3)))
    cluster.remove(*low(7)[4:])
    cluster.add(taker := high().spec(nodeSelector={"zone": "z"}))
    cluster.settle(6)
    assert victims(cluster) == {"low": 1}
    assert cluster.node_of(taker) == "n0"


def test_members_above_the_minimum_of_a_group_go_first_and_what_is_left_goes_together() -> None:
    cluster = cluster_with(queue("a", "default", limit={"cpu": 4}), plugin="Coscheduling")
    cluster.add(pod_group("g", minMember=3), *(one.node("n0") for one in members("g", 4)))
    cluster.add(pod("one", "default", priority=5))
    cluster.settle(6)
    assert len(cluster.writer.deleted) == 1
    cluster.add(pod("two", "default", priority=5))
    cluster.settle(6)
    assert len(cluster.writer.deleted) == 4


def test_who_is_protected_by_a_budget_goes_last() -> None:
    cluster = limited(cpu=2)
    cluster.add(*(one.label("app", "web") for one in low(2)[1:]))
    selector = {"matchLabels": {"app": "web"}}
    budget = make_object(POD_DISRUPTION_BUDGET, "web").namespace("x").spec(selector=selector)
    cluster.add(budget.status(disruptionsAllowed=0))
    cluster.add(high())
    cluster.settle(6)
    assert cluster.writer.deleted == ["low-0"]


def test_two_of_them_at_once_do_not_count_on_the_same_victims() -> None:
    cluster = limited()
    cluster.writer.on_deleted = None
    takers = [high("first"), high("second")]
    cluster.add(*takers)
    cluster.run()
    assert victims(cluster) == {"low": 2}
    leaving = cluster.terminating(low(4))
    cluster.add(third := high("third"))
    cluster.settle(6)
    assert victims(cluster) == {"low": 3}
    leaving += cluster.terminating([low(4)[1]])
    cluster.remove(*leaving)
    cluster.settle(6)
    assert all(cluster.node_of(one) for one in (*takers, third))
    assert victims(cluster) == {"low": 3}
    assert cluster.metric(IN_VAIN) == cluster.metric(REPEATED) == 0


@pytest.mark.parametrize("priority", [0, 4, 5])
def test_room_that_is_made_for_one_goes_to_no_other_of_that_priority_or_less(
    priority: int,
) -> None:
    cluster = limited(cpu=2)
    waiting = [
        high(f"wait-{i}", priority=priority).spec(preemptionPolicy="Never") for i in range(3)
    ]
    cluster.add(*waiting)
    cluster.run()
    cluster.writer.on_deleted = None
    cluster.add(taker := high())
    cluster.run()
    (leaving,) = cluster.terminating(low(2))
    cluster.add(late := high("late", priority=priority).spec(preemptionPolicy="Never"))
    cluster.wait(11)
    cluster.remove(leaving)
    cluster.take_in()
    cluster.add(later := high("later", priority=priority).spec(preemptionPolicy="Never"))
    cluster.settle(6)
    assert cluster.node_of(taker)
    assert not any(map(cluster.node_of, (*waiting, late, later)))
    assert cluster.metric(REPEATED) == 0


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_a_higher_priority_gets_the_room_and_the_other_takes_somebody_elses_place(
    number: int, policy: str
) -> None:
    cluster = limited()
    cluster.writer.on_deleted = None
    cluster.add(taker := high(cpu=str(number)))
    cluster.run()
    leaving = cluster.terminating(low(4))
    cluster.add(higher := high("higher", priority=9).spec(preemptionPolicy=policy))
    cluster.run()
    assert victims(cluster) == {"low": number}
    cluster.writer.on_deleted = cluster._show_deleted
    for one in leaving:
        cluster.remove(one)
        cluster.wait(11)
        cluster.run()
    cluster.settle(6)
    assert cluster.node_of(higher)
    assert cluster.node_of(taker)
    assert victims(cluster) == {"low": number + 1}


def test_while_victims_stay_nobody_else_is_evicted() -> None:
    """They have a finalizer, or are slow."""
    cluster = limited()
    cluster.writer.on_deleted = None
    cluster.add(taker := high(cpu="2"))
    cluster.run()
    leaving = cluster.terminating(low(4))
    cluster.wait(400)
    cluster.settle(6)
    assert victims(cluster) == {"low": 2}
    assert cluster.nominated(taker) != [""]
    cluster.remove(leaving[0])
    cluster.settle(6)
    assert not cluster.node_of(taker)
    cluster.remove(leaving[1])
    cluster.settle(6)
    assert cluster.node_of(taker)
    assert victims(cluster) == {"low": 2}


@pytest.mark.parametrize("shown", [pytest.param(True, id="shown"), pytest.param(False, id="new")])
def test_whoever_waits_gets_the_room_if_the_one_that_it_was_made_for_is_gone(shown: bool) -> None:
    cluster = limited(cpu=2)
    cluster.add(waiting := high("waiting", priority=0))
    cluster.run()
    cluster.writer.on_deleted = None
    cluster.add(taker := high())
    cluster.run()
    (leaving,) = cluster.terminating(low(2))
    cluster.remove(leaving)
    cluster.take_in()
    assert cluster.state(waiting) is QueueState.UNSCHEDULABLE
    if shown:
        cluster.add(taker.nominated("n0"))
    cluster.remove(taker)
    cluster.settle(6)
    assert cluster.node_of(waiting)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_victim_leaves_beside_the_room_for_the_preemptor_is_for_who_waits(
    restarted: bool,
) -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 2}))
    large, taker = pod("large", "x", "2").uid("large").node("n0"), high()
    cluster.writer.on_deleted = None
    if restarted:
        large.terminating().condition("DisruptionTarget", "True", **PREEMPTED)
        taker.nominated("n0")
    cluster.add(large, taker)
    cluster.run()
    cluster.terminating([large])
    cluster.add(waiting := high("waiting", priority=0))
    cluster.run()
    cluster.wait(11)
    cluster.remove(large)
    cluster.run()
    assert cluster.node_of(taker)
    assert cluster.node_of(waiting)


def test_a_limit_that_is_raised_meanwhile_lets_it_in_at_once() -> None:
    cluster = limited()
    cluster.writer.on_deleted = None
    cluster.add(taker := high())
    cluster.run()
    cluster.terminating(low(4))
    cluster.add(queue("a", "x", limit={"cpu": 5}))
    cluster.wait(11)
    cluster.run()
    assert cluster.node_of(taker)
    assert victims(cluster) == {"low": 1}
    assert cluster.metric(IN_VAIN) == 0


def test_room_on_a_node_that_is_made_for_one_is_kept_for_it_under_the_limit_as_well() -> None:
    """Another one fits on a free node, and would use up the limit before."""
    cluster = cluster_with(
        queue("a", "x", guaranteed={"cpu": 4}, limit={"cpu": 4}), queue("b", "y")
    )
    cluster.add(*(pod(f"b-{i}", "y").node(f"n{int(i > 3)}") for i in range(7)))
    cluster.writer.on_deleted = None
    cluster.add(taker := high(cpu="4"))
    cluster.run()
    assert cluster.nominated(taker) != [""]
    cluster.add(other := high("other"))
    cluster.run()
    assert not cluster.node_of(other)
    said = "limit of cpu of queue a is 4: 0 used, 4 promised to nominated Pods, 1 requested"
    assert said in cluster.message(other)


def test_a_nomination_to_a_node_that_is_not_there_keeps_nothing() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 1}))
    absent = high("absent").nominated("to-come").spec(nodeSelector={"no": "node"})
    cluster.add(other := high("other"), absent)
    cluster.run()
    assert cluster.node_of(other)


def test_bound_elsewhere_it_has_evicted_nobody_in_vain() -> None:
    cluster = limited()
    cluster.writer.on_deleted = None
    cluster.add(taker := high())
    cluster.run()
    (leaving,) = cluster.terminating(low(4))
    (node,) = cluster.nominated(taker)
    cluster.add(pod("large", "y", "4", 9).node(node))
    cluster.remove(leaving)
    cluster.settle(6)
    assert cluster.node_of(taker) not in ("", node)
    assert cluster.metric(IN_VAIN) == 0


@pytest.mark.parametrize("cpu", [pytest.param("4", id="by sums"), pytest.param("1", id="by plans")])
def test_of_many_that_wait_one_search_is_enough(monkeypatch: pytest.MonkeyPatch, cpu: str) -> None:
    """All that may go is not enough for four CPUs; the port is taken by others on each node."""
    searches = count()
    find = ShortestPrefix.find

    def counted(*args: Any) -> Any:
        next(searches)
        return find(*args)

    monkeypatch.setattr(ShortestPrefix, "find", counted)
    cluster = limited(cpu=4)
    cluster.add(pod("same", "x", "1", 5).node("n1"))
    cluster.add(*(pod(f"port-{i}", "y", "0").node(f"n{i}").host_port(80) for i in range(2)))
    cluster.add(*(high(f"p-{i}", cpu).host_port(80) for i in range(50)))
    cluster.run()
    assert victims(cluster) == {}
    assert next(searches) == 1


def test_where_nobody_has_a_lower_priority_no_pod_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = limited(queue("b", "y"))
    cluster.add(*(pod(f"b-{i}", "y").node("n1") for i in range(4)))
    for method in ("judge", "_givers"):
        monkeypatch.setattr(ReclaimRule, method, lambda *_: pytest.fail("a search"))
    cluster.add(*pods("p", 3, "x"))
    cluster.run()
    assert cluster.verdict == ("QueueLimit", "limit of cpu of queue a is 4: 4 used, 1 requested")


def test_an_explanation_names_who_would_have_to_leave_and_evicts_nobody() -> None:
    cluster = limited()
    told = cluster.explain(high().namespace("x"))
    assert told["postFilter"]["victims"] == ["x/low-3"]
    assert told["postFilter"]["nominatedNode"]
    assert told["preFilter"]["plugin"] == "FairShare"
    assert victims(cluster) == {}
    cluster.remove(*low(4)[3:])
    cluster.add(waiting := high("waiting", priority=0))
    cluster.run()
    assert cluster.node_of(waiting), "an explanation keeps no room"


def test_room_under_a_limit_is_kept_for_a_pod_group_of_kubernetes() -> None:
    cluster = workload_cluster(profiles=[queues_profile()])
    cluster.writer.on_deleted = None
    cluster.add(*(make_node(f"n{i}").capacity(cpu="4", memory="64Gi", pods=110) for i in range(2)))
    cluster.add(queue("a", "default", limit={"cpu": 4}))
    cluster.add(*(running := [pod(f"low-{i}", "default", "2").node("n0") for i in range(2)]))
    cluster.add(gang("g", 2, priority=5))
    cluster.add(*(takers := [one.priority(5) for one in gang_members("g", 2)]))
    cluster.run()
    assert victims(cluster) == {"low": 1}
    assert "" not in cluster.nominated(*takers)
    cluster.add(pod("between", "default", priority=1))
    cluster.remove(*cluster.evicted(running))
    cluster.settle(6)
    assert {name for name, _ in cluster.bound} == {"g-0", "g-1"}

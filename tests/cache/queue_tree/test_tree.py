"""The sums of queues follow Pods, namespaces and Queues, and equal a count from scratch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.core_harness import Cluster
from tests.properties import length
from tests.queues import demand, name_space, pod, pods, queue, queue_cluster, share, used

from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, PREEMPTED
from bayplan.api.queues import Queue
from bayplan.cache.amounts import UNLIMITED
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.queue_tree.report import reports
from bayplan.testing import Builder, NodeBuilder, PodBuilder, make_node, make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Condition(type=DISRUPTION_TARGET, status="True", reason=PREEMPTED)


def cluster_with(*queues: object) -> Cluster:
    """One node of 8 CPUs."""
    cluster = queue_cluster()
    cluster.add(make_node("n").capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def test_a_pod_is_demand_while_it_waits_and_used_once_it_is_assumed() -> None:
    cluster = cluster_with(queue("all"), queue("a", "x", parent="all"))
    cluster.add(pod("p", "x", "3"), pod("big", "x", "6"))
    assert (used(cluster, "a"), demand(cluster, "a")) == (0, 9000)
    cluster.run()
    assert (used(cluster, "a"), demand(cluster, "a")) == (3000, 9000)
    assert (used(cluster, "all"), demand(cluster, "all")) == (3000, 9000)


def test_a_pod_that_is_larger_than_each_node_is_no_demand_until_there_is_a_larger_one() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y", weight=1))
    cluster.add(pod("p", "x", "3"), pod("big", "x", "9"), *(pod(f"b{i}", "y") for i in range(8)))
    assert (demand(cluster, "a"), share(cluster, "a"), share(cluster, "b")) == (3000, 3000, 5000)
    cluster.add(make_node("m").capacity(cpu="9", memory="64Gi", pods=110))
    assert (share(cluster, "a"), demand(cluster, "a")) == (9000, 12000)
    assert cluster.world.queues.recount() == {}


def test_a_pod_above_a_limit_is_no_demand_until_the_limit_is_higher() -> None:
    cluster = cluster_with(queue("all", limit={"cpu": 4}), queue("a", "x", parent="all"))
    cluster.add(pod("p", "x", "3"), pod("big", "x", "5"))
    assert (demand(cluster, "a"), demand(cluster, "all")) == (3000, 3000)
    cluster.add(queue("all", limit={"cpu": 5}))
    assert (demand(cluster, "a"), demand(cluster, "all")) == (8000, 8000)
    cluster.run()
    assert (used(cluster, "a"), demand(cluster, "a")) == (3000, 8000)
    cluster.add(queue("all", limit={"cpu": 4}))
    assert (used(cluster, "a"), demand(cluster, "a")) == (3000, 3000)
    assert cluster.world.queues.recount() == {}


def test_gated_pods_and_those_of_kueue_ask_for_nothing() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(pod("gated", "x").spec(schedulingGates=[{"name": "g"}]))
    cluster.add(pod("kueue", "x").label("kueue.x-k8s.io/managed", "true"))
    assert demand(cluster, "a") == 0
    cluster.run()
    assert used(cluster, "a") == 0


def test_without_queues_nobody_listens() -> None:
    cluster = cluster_with()
    cluster.add(pod("p", "x"))
    assert not cluster.world.queues.active
    cluster.add(made := queue("a", "x"))
    assert demand(cluster, "a") == 1000
    cluster.remove(made)
    assert not cluster.world.queues.active
    cluster.add(pod("q", "x"))
    cluster.run()
    cluster.add(made)
    assert used(cluster, "a") == 2000


def test_a_namespace_moves_to_another_queue() -> None:
    in_team = {"matchLabels": {"team": "b"}}
    cluster = cluster_with(queue("a", "x", created=1), queue("b", namespaceSelector=in_team))
    cluster.add(pod("p", "x"))
    cluster.run()
    assert (used(cluster, "a"), used(cluster, "b")) == (1000, 0)
    name_space(cluster, "x", team="b")
    assert (used(cluster, "a"), used(cluster, "b")) == (0, 1000)


def test_a_pod_belongs_to_the_queue_of_its_classes() -> None:
    high: dict[str, Any] = {"priorityClassNames": ["high"]}
    cluster = cluster_with(
        queue("all", limit={"pods": 9}),
        queue("rest", "x", parent="all"),
        queue("high", "x y", parent="all", **high),
        queue("small", "x", parent="all", **high, qosClasses=["BestEffort"]),
    )
    by_class = {"priorityClassName": "high"}
    cluster.add(pod("a", "x"), pod("b", "x", "2").spec(**by_class))
    cluster.add(make_pod("c").namespace("x").spec(**by_class))
    cluster.add(pod("d", "y", "3"), pod("e", "y", "4").spec(**by_class))
    cluster.run()
    cpu = [used(cluster, name) for name in ("all", "rest", "high", "small")]
    assert cpu == [3000, 1000, 2000, 0]  # there is no room for e
    assert demand(cluster, "high") == 6000
    number = [used(cluster, name, "pods") for name in ("all", "rest", "high", "small")]
    assert number == [3, 1, 1, 1]


def test_a_queue_names_other_classes() -> None:
    before = queue("a", "x", priorityClassNames=["high"])
    cluster = cluster_with(before, queue("b", "x"))
    cluster.add(pod("p", "x").spec(priorityClassName="low"))
    cluster.run()
    assert (used(cluster, "a"), used(cluster, "b")) == (0, 1000)
    cluster.add(queue("a", "x", priorityClassNames=["high", "low"]))
    assert (used(cluster, "a"), used(cluster, "b")) == (1000, 0)


def test_a_resource_that_no_queue_names_gets_a_column_when_a_pod_asks_for_it() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(make_node("gpus").capacity({"example.com/gpu": "2"}, cpu="1", pods=110))
    cluster.add(pod("p", "x").req(cpu="1", **{"example.com/gpu": "2"}))
    assert demand(cluster, "a", "example.com/gpu") == 2


def test_shares_follow_demand_capacity_and_queues_and_else_stay() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    tree = cluster.world.queues
    cluster.add(*(pod(f"p{i}", "x", "4") for i in range(5)))

    def shares() -> list[int]:
        sums = tree.refresh_shares()
        column = sums.structure.resources.index("cpu")
        of_cpu: list[int] = sums.share[:, column].tolist()
        return of_cpu

    assert shares() == [8000, 0]
    assert tree.refresh_shares().share is tree.refresh_shares().share
    cluster.add(*(pod(f"q{i}", "y", "4") for i in range(5)))
    assert shares() == [4000, 4000]
    cluster.add(make_node("more").capacity(cpu="4", memory="64Gi", pods=110))
    assert shares() == [6000, 6000]
    cluster.add(queue("b", "y", weight=2))
    assert shares() == [4000, 8000]


def cordoned() -> NodeBuilder:
    """A second node, which is cordoned."""
    return second_node().unschedulable()


def not_ready() -> NodeBuilder:
    """A second node, whose kubelet says that it is not ready."""
    return second_node().taint("node.kubernetes.io/not-ready")


def unreachable() -> NodeBuilder:
    """A second node, of which nothing is heard."""
    return second_node().taint("node.kubernetes.io/unreachable", effect="NoExecute")


def second_node() -> NodeBuilder:
    """One of 4 CPUs."""
    return make_node("m").capacity(cpu="4", memory="64Gi", pods=110)


@pytest.mark.parametrize("closed", [cordoned, not_ready, unreachable])
def test_a_node_that_takes_no_new_pods_counts_as_far_as_pods_use_it(
    closed: Callable[[], NodeBuilder],
) -> None:
    cluster = cluster_with(queue("a", "x", limit={"pods": 99}), queue("b", "y"))
    cluster.add(second_node(), *pods("a", 12, "x"), *pods("b", 12, "y"))
    assert (share(cluster, "a"), share(cluster, "b")) == (6000, 6000)
    cluster.add(closed())
    assert (share(cluster, "a"), share(cluster, "b")) == (4000, 4000)
    cluster.add(there := pod("there", "x", "2").node("m"))
    assert (share(cluster, "a"), share(cluster, "b")) == (5000, 5000)
    tree = cluster.world.queues
    assert tree.capacity()[tree.structure.resources.index("pods")] == 111
    cluster.add(too_many := pod("too-many", "x", "3").node("m"))
    assert (share(cluster, "a"), share(cluster, "b")) == (6000, 6000)  # no more than it has
    cluster.remove(there, too_many)
    assert (share(cluster, "a"), share(cluster, "b")) == (4000, 4000)
    cluster.add(second_node())
    assert (share(cluster, "a"), share(cluster, "b")) == (6000, 6000)


def shortages(cluster: Cluster) -> list[tuple[str, str]]:
    """Who is guaranteed what there is too little of, and the figures."""
    tree = cluster.world.queues
    known = [(fault.regarding, fault.reason) for fault in tree.known_faults]
    assert sorted(known) == sorted((fault.regarding, fault.reason) for fault in tree.faults())
    return [(fault.regarding.name, fault.message.split(". ")[0]) for fault in tree.faults()]


def test_guarantees_of_all_are_compared_with_what_nodes_have() -> None:
    guaranteed = {"cpu": 4, "example.com/gpu": 2}
    cluster = cluster_with(
        queue("all"),
        queue("a", "x", parent="all", guaranteed=guaranteed),
        queue("b", "y", guaranteed={"cpu": 8}, limit={"cpu": 6}),
        queue("c", "z"),
    )
    cpu = "spec.guaranteed.cpu: guaranteed to all: 10, there is: {}"
    gpu = "spec.guaranteed.example.com/gpu: guaranteed to all: 2, there is: 0"
    limit = ("b", "spec.guaranteed.cpu: 8 is more than the limit: 6")
    assert shortages(cluster) == [
        *(pair for name in ("a", "all") for pair in ((name, cpu.format(8)), (name, gpu))),
        limit,
        ("b", cpu.format(8)),
    ]
    with_gpus = make_node("m").capacity({"example.com/gpu": "2"}, cpu="2", pods=110)
    cluster.add(with_gpus)
    assert shortages(cluster) == [limit]
    cluster.add(pod("here", "x", "500m").node("m"), with_gpus.unschedulable())
    assert shortages(cluster)[0] == ("a", cpu.format(8.5))


def test_what_is_wrong_stays_the_same_object_while_nothing_changes() -> None:
    cluster = cluster_with(queue("a", "x", guaranteed={"cpu": 99}))
    tree = cluster.world.queues
    before = tree.known_faults
    assert tree.known_faults is before
    cluster.add(pod("p", "x"))
    cluster.run()
    assert tree.known_faults is before


def test_nodes_with_other_taints_count_in_full() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(*pods("a", 20, "x"))
    cluster.add(second_node().taint("gpu").taint("node.kubernetes.io/memory-pressure"))
    assert share(cluster, "a") == 12000


def test_a_pod_that_only_a_cordoned_node_is_large_enough_for_is_no_demand() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(pod("p", "x", "3"), pod("big", "x", "9"))
    large = make_node("m").capacity(cpu="9", memory="64Gi", pods=110)
    cluster.add(large.unschedulable())
    assert demand(cluster, "a") == 3000
    cluster.add(large.spec(unschedulable=False))
    assert share(cluster, "a") == 12000
    cluster.add(large.unschedulable())
    assert share(cluster, "a") == 3000
    assert cluster.world.queues.recount() == {}


def test_a_pod_that_no_node_is_labelled_for_is_no_demand_until_one_is() -> None:
    cluster = cluster_with(queue("a", "x"), queue("b", "y"))
    asks = pod("elsewhere", "x", "7").node_selector({"zone": "z"})
    cluster.add(asks, pod("p", "x", "1"), *(pod(f"b{i}", "y") for i in range(8)))
    assert (demand(cluster, "a"), share(cluster, "a"), share(cluster, "b")) == (1000, 1000, 7000)
    node = make_node("n").capacity(cpu="8", memory="64Gi", pods=110)
    cluster.add(node.label("zone", "z"))
    assert (share(cluster, "a"), demand(cluster, "a")) == (4000, 8000)
    cluster.add(node.label("zone", "y"))
    assert share(cluster, "a") == 1000
    small = make_node("m").capacity(cpu="6", memory="64Gi", pods=110).label("zone", "z")
    cluster.add(small)
    assert share(cluster, "a") == 1000
    assert cluster.world.queues.recount() == {}


def test_a_pod_counts_while_its_node_is_gone() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(pod("p", "x"))
    cluster.run()
    cluster.cache.remove_node("n")
    assert used(cluster, "a") == 1000


def test_a_pod_that_changes_while_it_is_tried_counts_as_it_is_now() -> None:
    cluster = cluster_with(queue("a", "x"))
    big = pod("big", "x", "9")
    cluster.add(big)
    queued = cluster.queue.pop()
    assert queued is not None
    cluster.add(big.label("kueue.x-k8s.io/managed", "true"))
    cluster.queue.add_unschedulable_if_not_present(queued, {"NodeResourcesFit"})
    assert demand(cluster, "a") == 0
    assert cluster.world.queues.recount() == {}


def test_what_is_evicted_is_used_and_leaving_until_it_is_gone_or_stays() -> None:
    cluster = cluster_with(queue("all"), queue("a", "x", parent="all"))
    cluster.add(pod("p", "x"), pod("q", "x", "2"))
    cluster.run()
    evicted = next(p for p in cluster.cache.pods() if p.name == "q")
    tree = cluster.world.queues
    assert tree.sums.leaving.sum() == 0
    cluster.cache.evict(evicted.uid, TARGET, NOW)
    cpu = tree.structure.resources.index("cpu")
    assert tree.sums.leaving[:, cpu].tolist() == [2000, 2000]
    assert used(cluster, "a") == 3000
    cluster.cache.keep(evicted.uid)
    assert tree.sums.leaving.sum() == 0
    cluster.cache.evict(evicted.uid, TARGET, NOW)
    cluster.cache.remove(evicted.uid)
    assert tree.sums.leaving.sum() == 0
    assert used(cluster, "a") == 1000


def test_sums_of_absurd_requests_stop_at_the_largest_number() -> None:
    cluster = cluster_with(queue("a", "x"))
    cluster.add(make_node("large").capacity(cpu="8", memory="7Ei", pods=110))
    cluster.add(*(pod(name, "x").req(memory="7Ei") for name in "abc"))
    assert demand(cluster, "a", "memory") == UNLIMITED
    cluster.run()


def chain(number: int) -> list[Builder[Queue]]:
    """Each is a part of the one before."""
    return [queue("q0"), *(queue(f"q{i}", parent=f"q{i - 1}") for i in range(1, number))]


def cycle(number: int) -> list[Builder[Queue]]:
    """Each is a part of the one before, and the first of the last."""
    return [queue(f"q{i}", parent=f"q{(i - 1) % number}") for i in range(number)]


def lines_for_a_pod(queues: list[Builder[Queue]]) -> int:
    """Lines executed until a Pod of another queue is placed and all Queues are reported."""
    cluster = cluster_with()
    lines = 0

    def count(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        cluster.add(queue("a", "x", guaranteed={"cpu": 1}), *queues, pod("p", "x"))
        cluster.run()
        reports(cluster.world.queues, 0.0)
    finally:
        sys.settrace(before)
    assert used(cluster, "a") == 1000
    return lines


@pytest.mark.parametrize("tree", [chain, cycle])
def test_what_a_pod_costs_grows_no_faster_than_the_number_of_queues(
    tree: Callable[[int], list[Builder[Queue]]],
) -> None:
    lines_for_a_pod(tree(10))
    few, many = lines_for_a_pod(tree(100)), lines_for_a_pod(tree(200))
    assert many < 2.2 * few


def test_limits_hold_for_queues_that_are_too_deep() -> None:
    tree = [*chain(20), queue("a", "x", parent="q19")]
    tree[0] = queue("q0", limit={"cpu": 2})
    cluster = cluster_with(*tree)
    cluster.add(*pods("p", 3, "x"))
    cluster.run()
    assert used(cluster, "a") == used(cluster, "q0") == 2000


class Sums(RuleBasedStateMachine):
    """Pods come, are bound and go; Queues and namespaces change."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = cluster_with()
        self.pods: dict[str, PodBuilder] = {}
        self.made = 0

    @rule(
        namespace=st.sampled_from("xyz"),
        cpu=st.integers(0, 5),
        gpu=st.booleans(),
        name=st.sampled_from(["", "high"]),
        user=st.sampled_from(["", "ann", "bob"]),
        zone=st.sampled_from(["", "", "y", "z"]),
        group=st.sampled_from(["", "", "g", "h"]),
    )
    def add(
        self,
        namespace: str,
        cpu: int,
        gpu: bool,
        name: str,
        user: str,
        zone: str,
        group: str,
    ) -> None:
        self.made += 1
        builder = pod(f"p{self.made}", namespace, str(cpu)).spec(priorityClassName=name)
        builder.label("bayplan.dev/user", user)
        if zone:
            builder.node_selector({"zone": zone})
        if group:
            builder.label(POD_GROUP_LABEL, group)
        if gpu:
            builder.req(cpu=str(cpu), **{"example.com/gpu": "1"})
        self.pods[f"p{self.made}"] = builder
        self.cluster.add(builder)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.pods:
            name = data.draw(st.sampled_from(sorted(self.pods)))
            self.cluster.remove(self.pods.pop(name))

    @rule(data=st.data(), fails=st.booleans())
    def evict(self, data: st.DataObject, fails: bool) -> None:
        placed = sorted(self.cluster.cache.pods(), key=lambda pod: pod.name)
        if placed:
            uid = data.draw(st.sampled_from(placed)).uid
            self.cluster.cache.evict(uid, TARGET, NOW)
            if fails:
                self.cluster.cache.keep(uid)

    @rule(zone=st.sampled_from("xyz"))
    def relabel(self, zone: str) -> None:
        node = make_node("n").capacity(cpu="8", memory="64Gi", pods=110)
        self.cluster.add(node.label("zone", zone))

    @rule()
    def schedule(self) -> None:
        self.cluster.run()

    @rule(
        name=st.sampled_from("ab"),
        namespaces=st.sampled_from(["", "x", "x y"]),
        classes=st.sampled_from([[], ["high"]]),
        of_users=st.sampled_from([{}, {"cpu": 4}]),
        state=st.sampled_from(["Open", "Draining", "Draining", "Closed"]),
    )
    def change(
        self, name: str, namespaces: str, classes: list[str], of_users: dict[str, int], state: str
    ) -> None:
        parent = "a" if name == "b" else ""
        spec: dict[str, Any] = {
            "parent": parent,
            "priorityClassNames": classes,
            "limit": {"cpu": 6},
            "userLimit": of_users,
            "state": state,
        }
        self.cluster.add(queue(name, namespaces, **spec))

    @rule(name=st.sampled_from("ab"))
    def remove(self, name: str) -> None:
        self.cluster.remove(queue(name))

    @rule(namespace=st.sampled_from("xyz"), label=st.booleans())
    def label(self, namespace: str, label: bool) -> None:
        name_space(self.cluster, namespace, **({"team": "t"} if label else {}))

    @invariant()
    def sums_are_right(self) -> None:
        assert self.cluster.world.queues.recount() == {}


Sums.TestCase.settings = length(15, steps=20)
TestSums = Sums.TestCase

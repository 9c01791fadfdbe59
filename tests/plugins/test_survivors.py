"""Who survives: rules of groups and owners, Pods that nobody evicts, room for a lost domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.groups import gang, members, pod_group
from tests.properties import length
from tests.queues import pod as queued_pod
from tests.queues import queue, queues_profile

from bayplan.api.kinds import REPLICA_SET
from bayplan.api.workloads import DESIRED_REPLICAS
from bayplan.framework.effects import Effect
from bayplan.plugins.blast_radius import BlastRadius
from bayplan.plugins.blast_radius.conditions import SURVIVES, Say
from bayplan.plugins.blast_radius.rules import SURVIVE, Rule
from bayplan.plugins.blast_radius.survivors import Outlook
from bayplan.testing import Json, NodeBuilder, PodBuilder, make_node, make_object, make_pod

ZONE = "topology.kubernetes.io/zone"


def rule(**fields: object) -> Json:
    return {SURVIVE: msgspec.json.encode({"domain": ZONE, **fields}).decode()}


def web(name: str, **fields: object) -> PodBuilder:
    pod = make_pod(name).label("app", "web").req(cpu="1")
    return pod.annotation(SURVIVE, rule(**fields)[SURVIVE]) if fields else pod


def zones(names: str = "abc", cpu: str = "8") -> list[NodeBuilder]:
    return [make_node(f"n-{z}").label(ZONE, z).capacity(cpu=cpu, pods=110) for z in names]


def cluster_with(
    *names: str, nodes: list[NodeBuilder] | None = None, gates: str = "", **args: object
) -> Cluster:
    made = profile("BlastRadius", *names, args={"BlastRadius": args})
    if "Coscheduling" in names:
        made["plugins"]["multiPoint"]["disabled"] = [{"name": "PrioritySort"}]
    cluster = Cluster(profiles=[made], feature_gates=gates)
    cluster.writer.on_bound = cluster._show_bound
    cluster.add(*(zones() if nodes is None else nodes))
    return cluster


def plugin_of(cluster: Cluster) -> BlastRadius:
    return next(p for p in cluster.framework.plugins.all if isinstance(p, BlastRadius))


def by_zone(cluster: Cluster, pods: list[PodBuilder]) -> dict[str, int]:
    nodes = [cluster.node_of(pod) for pod in pods]
    return {node.removeprefix("n-"): nodes.count(node) for node in sorted(set(nodes))}


# Where the rule is said


def test_the_owner_says_how_many_and_the_rule() -> None:
    cluster = cluster_with()
    owner = make_object(REPLICA_SET, "web-1").meta(annotations=rule(keep="60%"))
    cluster.add(owner.spec(replicas=6))
    pods = [web(f"p{i}").owner("ReplicaSet", "web-1") for i in range(7)]
    cluster.add(*pods)
    cluster.run()
    assert by_zone(cluster, pods) == {"": 1, "a": 2, "b": 2, "c": 2}
    # Scaled: of 9 Pods 6 must survive, so a zone may have 3.
    cluster.add(owner.spec(replicas=9))
    cluster.wait(20)
    cluster.run()
    assert "" not in by_zone(cluster, pods)


def test_a_deployment_that_rolls_is_judged_by_its_own_number() -> None:
    cluster = cluster_with()
    cluster.add(
        make_object(REPLICA_SET, "web-1")
        .meta(annotations={DESIRED_REPLICAS: "6", **rule(keep=4)})
        .spec(replicas=1)
    )
    pods = [web(f"p{i}").owner("ReplicaSet", "web-1") for i in range(6)]
    cluster.add(*pods)
    cluster.run()
    assert by_zone(cluster, pods) == {"a": 2, "b": 2, "c": 2}


def test_the_zone_that_the_api_server_writes_on_bound_pods_makes_no_other_workload() -> None:
    cluster = cluster_with(nodes=zones("ab"))
    there = [web(f"p{i}", size=4, keep=2).label(ZONE, "a").spec(nodeName="n-a") for i in range(2)]
    pods = [web(f"q{i}", size=4, keep=2) for i in range(3)]
    cluster.add(*there, *pods)
    cluster.run()
    assert by_zone(cluster, pods) == {"": 1, "b": 2}


def test_a_pod_group_says_the_rule_for_all_its_pods() -> None:
    cluster = cluster_with("Coscheduling", nodes=zones("abcd"))
    cluster.add(pod_group("g", rule(keep=3), minMember=4))
    pods = [pod.label("role", pod.json["metadata"]["name"]) for pod in members("g", 4)]
    cluster.add(*pods)
    cluster.run()
    assert by_zone(cluster, pods) == dict.fromkeys("abcd", 1)


def test_a_pod_group_of_kubernetes_says_it_too() -> None:
    cluster = cluster_with(gates="GenericWorkload=true")
    group = gang("g", 3)
    cluster.add(group.meta(annotations=rule(keep=2)))
    pods = [make_pod(f"g-{i}").pod_group("g").label("app", "g").req(cpu="1") for i in range(3)]
    cluster.add(*pods)
    cluster.run()
    assert by_zone(cluster, pods) == dict.fromkeys("abc", 1)


def test_without_a_number_the_pod_is_refused() -> None:
    cluster = cluster_with()
    pod = web("p", keep=1)
    cluster.add(pod)
    cluster.run()
    assert "size must say how many Pods there are to be" in cluster.message(pod)


# Evictions


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_preemption_leaves_enough_survivors(spare: int) -> None:
    cluster = cluster_with(nodes=zones(cpu="2"))
    pods = [web(f"p{i}", size=6, keep=4 - spare) for i in range(6)]
    cluster.add(*pods)
    cluster.run()
    assert by_zone(cluster, pods) == {"a": 2, "b": 2, "c": 2}
    high = [make_pod(f"high-{i}").req(cpu="1").priority(9) for i in range(6)]
    cluster.add(*high)
    cluster.settle(8)
    stay = [p.node_name for p in cluster.cache.pods() if p.name.startswith("p")]
    assert len(stay) - max(map(stay.count, stay)) >= 4 - spare
    assert len(cluster.writer.deleted) >= spare


@given(
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    lose=st.integers(1, 2),
    need=st.integers(0, 5),
)
@length(60)
def test_any_of_those_that_may_go_can_go(counts: list[int], lose: int, need: int) -> None:
    names = "abcd"[: len(counts)]
    cluster = cluster_with(nodes=zones(names))
    size = max(sum(counts), need, 1)
    where = [zone for zone, count in zip(names, counts, strict=True) for _ in range(count)]
    pods = [
        web(f"p{i}", size=size, keep=need, lose=lose).spec(nodeName=f"n-{zone}")
        for i, zone in enumerate(where)
    ]
    cluster.add(*pods)

    def survivors(gone: set[int]) -> int:
        left = [sum(w == z and i not in gone for i, w in enumerate(where)) for z in names]
        return sum(sorted(left, reverse=True)[lose:])

    plugin = plugin_of(cluster)
    there = {pod.name: pod for pod in cluster.cache.pods()}
    may_go = {i for i in range(len(pods)) if there[f"p{i}"] not in plugin.survivors}
    every = range(len(pods) + 1)
    subsets = [set(some) for n in every for some in combinations(sorted(may_go), n)]
    if survivors(set()) >= need:
        assert all(survivors(gone) >= need for gone in subsets)
    else:
        assert not may_go
    # Nobody else could go, too.
    for one in set(range(len(pods))) - may_go:
        assert survivors(may_go | {one}) < need


@given(data=st.data())
@length(30)
def test_what_is_counted_equals_a_recount(data: st.DataObject) -> None:
    cluster = cluster_with(failover={"domain": ZONE, "priorityAtLeast": 5})
    owner = make_object(REPLICA_SET, "web-1").spec(replicas=6)
    pods = [
        web(f"p{i}").owner("ReplicaSet", "web-1").priority(data.draw(st.sampled_from([0, 5])))
        for i in range(4)
    ]
    pods += [web(f"q{i}", size=4, keep=2) for i in range(3)]
    recount = cluster.framework.services.recounts["BlastRadius"]
    there: set[int] = set()
    for _ in range(12):
        step = data.draw(st.integers(0, len(pods) + 1))
        if step == len(pods):
            annotations = data.draw(st.sampled_from([{}, rule(keep=3)]))
            cluster.add(owner.meta(annotations=annotations))
        elif step == len(pods) + 1:
            cluster.remove(owner)
        elif step in there:
            there.discard(step)
            cluster.remove(pods[step])
        else:
            there.add(step)
            cluster.add(pods[step].spec(nodeName=data.draw(st.sampled_from(["n-a", "n-b"]))))
        assert recount() == {}


def test_a_workload_at_risk_is_told_when_that_lasts() -> None:
    cluster = cluster_with()
    cluster.add(*(web(f"p{i}", size=3, keep=2).spec(nodeName="n-a") for i in range(3)))
    survivors = plugin_of(cluster).survivors
    survivors.look()
    assert not survivors.faults
    survivors.look()
    told = [fault.message for fault in survivors.faults]
    assert told == [
        f"the loss of {ZONE}=a would leave 0 of 3 Pods, 2 of 3 must survive",
    ]
    again = survivors.faults
    survivors.look()
    assert survivors.faults is again
    cluster.add(*(web(f"q{i}", size=3, keep=2).spec(nodeName="n-b") for i in range(2)))
    survivors.look()
    assert not survivors.faults


def test_what_the_loss_of_each_domain_leaves_is_a_metric() -> None:
    cluster = cluster_with()
    nodes = ["n-a", "n-a", "n-b"]
    cluster.add(*(web(f"p{i}", size=3, keep=2).spec(nodeName=n) for i, n in enumerate(nodes)))
    [ask] = cluster.framework.services.survivors
    plugin_of(cluster).survivors.look()
    workload = ("default", "app=web")
    assert ask() == [(*workload, f"{ZONE}=a", 1, 2), (*workload, f"{ZONE}=b", 2, 2)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 3))
def test_what_is_left_without_a_domain_is_without_the_fullest_others(
    sizes: list[int], lose: int
) -> None:
    counts = sorted(((f"d{i}", count) for i, count in enumerate(sizes)), key=lambda c: -c[1])
    outlook = Outlook(Rule("d", sum(sizes), 0, lose, hard=True), counts)
    for name, left in outlook.left.items():
        lost = [set(some) for some in combinations(dict(counts), min(lose, len(counts)))]
        worst = min(sum(c for d, c in counts if d not in some) for some in lost if name in some)
        assert left == worst


def test_a_pod_that_gets_or_loses_a_rule_counts_from_then_on() -> None:
    cluster = cluster_with()
    recount = cluster.framework.services.recounts["BlastRadius"]
    pod = web("p").spec(nodeName="n-a")
    cluster.add(pod)
    survivors = plugin_of(cluster).survivors
    for said_now, count in ((rule(size=1, keep=1), 1), ({}, 0)):
        cluster.add(pod.meta(annotations=said_now))
        assert len(list(survivors.outlooks())) == count
        assert recount() == {}


# What Pods say


def said(effects: Sequence[Effect]) -> list[tuple[str, str, str]]:
    """(Pod, status, message) of the conditions."""
    says = [effect for effect in effects if isinstance(effect, Say)]
    return sorted((e.pod.name, e.condition.status, e.condition.message) for e in says)


def saying(cluster: Cluster, pods: list[PodBuilder], status: str) -> None:
    """The Pods as they are when their conditions were written."""
    for pod in pods:
        cluster.add(pod.status(conditions=[{"type": SURVIVES, "status": status}]))


def test_pods_of_a_workload_at_risk_say_so_until_it_is_not() -> None:
    cluster = cluster_with()
    pods = [web(f"p{i}", size=3, keep=2).spec(nodeName="n-a") for i in range(3)]
    cluster.add(*pods)
    survivors = plugin_of(cluster).survivors
    assert survivors.look() == []
    text = f"the loss of 1 of {ZONE} would leave fewer than 2 of 3 Pods"
    expected = [(f"p{i}", "False", text) for i in range(3)]
    assert said(survivors.look()) == expected
    assert said(survivors.look()) == expected  # what was not written is written again
    saying(cluster, pods, "False")
    assert survivors.look() == []
    cluster.add(*(web(f"q{i}", size=3, keep=2).spec(nodeName="n-b") for i in range(2)))
    text = f"the loss of 1 of {ZONE} would leave at least 2 of 3 Pods"
    assert said(survivors.look()) == [(f"p{i}", "True", text) for i in range(3)]
    saying(cluster, pods, "True")
    assert survivors.look() == []


def test_a_pod_whose_rule_is_gone_says_so_whoever_has_written_the_condition() -> None:
    cluster = cluster_with()
    pod, leaving = web("p"), web("leaving").terminating()
    saying(cluster, [pod.spec(nodeName="n-a"), leaving.spec(nodeName="n-a")], "False")
    survivors = plugin_of(cluster).survivors
    expected = [("p", "True", "the Pod has no rule any more")]
    assert said(survivors.look()) == expected
    assert said(survivors.look()) == expected
    saying(cluster, [pod], "True")
    assert survivors.look() == []


def test_a_rule_that_an_owner_takes_back_is_taken_back_on_its_pods() -> None:
    cluster = cluster_with()
    owner = make_object(REPLICA_SET, "web").spec(replicas=2).meta(annotations=rule(keep=2))
    pods = [web(f"p{i}").owner("ReplicaSet", "web").spec(nodeName="n-a") for i in range(2)]
    cluster.add(owner, *pods)
    survivors = plugin_of(cluster).survivors
    survivors.look()
    assert [status for _, status, _ in said(survivors.look())] == ["False", "False"]
    saying(cluster, pods, "False")
    cluster.add(owner.meta(annotations={}))
    assert [status for _, status, _ in said(survivors.look())] == ["True", "True"]


def test_one_look_writes_no_more_than_a_hundred_conditions() -> None:
    cluster = cluster_with()
    pods = [web(f"p{i}", size=150, keep=1).spec(nodeName="n-a") for i in range(150)]
    cluster.add(*pods)
    survivors = plugin_of(cluster).survivors
    survivors.look()
    first = [pod for pod in pods if pod.obj().name in {n for n, *_ in said(survivors.look())}]
    assert len(first) == 100
    saying(cluster, first, "False")
    assert len(said(survivors.look())) == 50


def test_conditions_are_written_by_the_leader() -> None:
    cluster = cluster_with()
    cluster.add(*(web(f"p{i}", size=2, keep=1).spec(nodeName="n-a") for i in range(2)))
    for _ in range(3):
        cluster.wait(20)
        cluster.run()
    written = {(name, c.type, c.status, c.reason) for name, c in cluster.writer.said}
    assert written == {(f"p{i}", SURVIVES, "False", "TooFewSurvivors") for i in range(2)}


def test_the_share_of_missing_survivors_is_a_lens() -> None:
    cluster = cluster_with(nodes=[*zones("abc"), make_node("bare").capacity(cpu="8", pods=110)])
    places = ("n-a", "n-a", "n-a", "n-b")
    cluster.add(*(web(f"p{i}", size=4, keep=2).spec(nodeName=n) for i, n in enumerate(places)))
    cluster.add(web("q", size=1, keep=1).label("app", "db").spec(nodeName="n-b"))
    cluster.add(make_pod("free").spec(nodeName="n-c"))
    shares = cluster.core.profiles.node_shares()["missing survivors"]
    column = {name: shares[cluster.nodes.row(name)] for name in ("n-a", "n-b", "n-c", "bare")}
    assert column["n-a"] == 0.5  # 1 of 2 survives
    assert column["n-b"] == 1.0  # of web enough, of db nothing
    assert math.isnan(column["n-c"])
    assert math.isnan(column["bare"])


# Room for a lost domain


def test_room_is_kept_for_the_loss_of_the_largest_domain() -> None:
    nodes = [*zones("ab", cpu="4"), *zones("c", cpu="6")]
    cluster = cluster_with(nodes=nodes, failover={"domain": ZONE, "priorityAtLeast": 5})
    low = [make_pod(f"low-{i}").req(cpu="1") for i in range(4)]
    high = [make_pod(f"high-{i}").req(cpu="1").priority(5) for i in range(9)]
    cluster.add(*low, *high)
    cluster.run()
    placed = [pod for pod in high if cluster.node_of(pod)]
    assert len(placed) == 8  # 4 and 4 are left without c
    assert all(map(cluster.node_of, low))
    refused = next(pod for pod in high if not cluster.node_of(pod))
    assert f"without {ZONE}=c, 8 of cpu are left, 9 are needed" in cluster.message(refused)
    cluster.remove(placed[0])
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(refused)


def test_reclaim_leaves_enough_survivors() -> None:
    cluster = Cluster(profiles=[queues_profile("BlastRadius")])
    cluster.writer.on_bound = cluster._show_bound
    cluster.add(*zones(cpu="2"), queue("a", "x"), queue("b", "y", guaranteed={"cpu": 6}))
    text = rule(size=6, keep=3)[SURVIVE]
    lent = [
        queued_pod(f"p{i}", "x").label("app", "web").annotation(SURVIVE, text) for i in range(6)
    ]
    cluster.add(*lent)
    cluster.settle()
    assert by_zone(cluster, lent) == {"a": 2, "b": 2, "c": 2}
    cluster.add(*(queued_pod(f"own-{i}", "y") for i in range(6)))
    cluster.settle(8)
    stay = [p.node_name for p in cluster.cache.pods() if p.namespace == "x"]
    assert len(cluster.writer.deleted) == 1
    assert len(stay) - max(map(stay.count, stay)) == 3

"""What the running scheduler says of one Pod: a sentence, and what it rests on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.queues import pod as tenant_pod
from tests.queues import queue, queue_cluster
from tests.scripted import scripted

from bayplan.explain.why import Why
from bayplan.framework import WAIT
from bayplan.testing import make_node, make_pod


def ask(
    cluster: Cluster, name: str, namespace: str = "default", *, names: bool = True
) -> dict[str, Any]:
    core = cluster.core
    who = Why(core.world, core.profiles, core.placers, core.records, names=names)
    answer = who.of_pod(namespace, name)
    assert answer is not None
    return answer


def small_cluster(*plugins: Any) -> Cluster:
    cluster = Cluster(*plugins)
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    cluster.add(make_node("n2").capacity(cpu="2", memory="8Gi", pods=10))
    return cluster


def test_a_pod_that_no_node_has_room_for_is_told_what_is_lacking_where() -> None:
    cluster = small_cluster()
    cluster.add(make_pod("big").req(cpu="5"))
    cluster.run()
    answer = ask(cluster, "big")
    assert answer["last"]["message"].endswith("2 Preemption is not helpful for scheduling.")
    assert answer["last"]["reason"] == "Unschedulable"
    assert answer["queue"]["attempts"] == 1
    assert answer["queue"]["rejectedBy"] == ["NodeResourcesFit"]
    assert answer["now"]["rejected"] == [
        {
            "plugin": "NodeResourcesFit",
            "nodes": 2,
            "reasons": ["Insufficient cpu"],
            "some": ["n1", "n2"],
        }
    ]
    almost = answer["now"]["almost"]
    assert almost[0] == {"resource": "cpu", "requested": 5000, "free": 4000, "node": "n1"}
    assert [one["free"] for one in almost] == [4000, 2000]
    assert answer["sentence"].startswith("default/big waits: 0/2 nodes are available: 2 ")
    assert answer["sentence"].endswith("Nearest: n1 has 4 cpu free of the 5 that it needs.")


def test_whoever_may_not_see_nodes_gets_no_name_of_them_nor_of_foreign_pods() -> None:
    cluster = small_cluster()
    cluster.add(make_pod("secret").namespace("other").req(cpu="4").node("n1"))
    cluster.writer.on_deleted = None  # the victim takes its time
    cluster.add(make_pod("high").req(cpu="4").priority(9))
    cluster.run()
    seen = ask(cluster, "high")
    since = seen["nominated"].pop("leavingSince")
    assert datetime.fromisoformat(since) <= datetime.now(UTC)
    assert seen["nominated"] == {"node": "n1", "leaving": 1, "leavingPods": ["other/secret"]}
    assert seen["sentence"] == f"default/high waits for 1 Pods to leave on n1, since {since}."
    assert "other/secret" in str(seen)
    assert "on node n1, preempting 1 victims" in seen["last"]["message"]
    hidden = ask(cluster, "high", names=False)
    assert "on node NODE, preempting 1 victims" in hidden["last"]["message"]
    assert hidden["nominated"] == {"leaving": 1, "leavingPods": [], "leavingSince": since}
    assert not any(name in str(hidden) for name in ("n1", "n2", "secret", "other"))
    assert hidden["sentence"] == f"default/high waits for 1 Pods to leave, since {since}."


def test_asking_changes_nothing_and_a_pod_that_fits_now_is_told_so() -> None:
    cluster = small_cluster()
    cluster.add(make_pod("p").req(cpu="1"))
    answer = ask(cluster, "p")
    assert answer["sentence"] == "default/p waits for its turn: 2 nodes fit now."
    assert {one["node"] for one in answer["now"]["best"]} == {"n1", "n2"}
    assert not cluster.cache.is_assumed(make_pod("p").obj().uid)
    cluster.run()
    assert [pod for pod, _ in cluster.bound] == ["p"]


def test_who_waits_in_permit_is_told_for_whom_and_how_long() -> None:
    cluster = small_cluster(scripted("Hold", permit=(WAIT, 60.0)))
    cluster.add(make_pod("p"))
    cluster.cycle()
    answer = ask(cluster, "p")
    assert answer["state"] == "WaitsInPermit"
    assert answer["permit"] == {"plugins": ["Hold"], "secondsLeft": 60.0}
    assert "waits in Permit for Hold, at most 60 s more" in answer["sentence"]


def test_gates_and_groups_that_gather_are_named() -> None:
    cluster = Cluster()
    cluster.add(make_pod("gated").gate("example.com/later"))
    assert ask(cluster, "gated")["sentence"] == (
        "default/gated is held back by SchedulingGates: "
        "waiting for scheduling gates: [example.com/later]"
    )
    grouped = queue_cluster("Coscheduling")
    grouped.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    grouped.add(pod_group("g", minMember=3), *members("g", 2))
    grouped.run()
    answer = ask(grouped, "g-0")
    assert answer["group"]["minimum"] == 3
    assert answer["group"]["waiting"] == 2
    assert "waits with its group" in answer["sentence"]
    assert "WaitingForMembers" in answer["sentence"]


def test_a_pod_that_a_plugin_did_not_return_for_is_not_tried_for_an_answer() -> None:
    asked: list[str] = []
    cluster = small_cluster(scripted("Slow", filter=lambda: asked.append("filter")))
    cluster.add(make_pod("p"))
    pod = next(iter(cluster.core.world.handlers.pods.values()))
    cluster.core.world.queue.hold(pod, "plugin Slow did not return")
    sentence = "default/p is held back by PluginTimeout: plugin Slow did not return"
    assert ask(cluster, "p")["sentence"] == sentence
    assert asked == []


def test_a_limit_is_named_with_the_figures_of_its_queue() -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(queue("a", "x", limit={"cpu": 1}))
    cluster.add(tenant_pod("one", "x"), tenant_pod("two", "x"))
    cluster.run()
    waiting = "two" if cluster.bound[0][0] == "one" else "one"
    answer = ask(cluster, waiting, "x")
    assert answer["now"]["reason"] == "QueueLimit"
    assert answer["tenant"]["queue"] == "a"
    cpu = answer["tenant"]["resources"]["cpu"]
    assert (cpu["used"], cpu["limit"], cpu["requested"]) == (1000, 1000, 1000)


def test_bound_gone_and_foreign_pods() -> None:
    cluster = small_cluster()
    cluster.add(make_pod("p").req(cpu="1"), make_pod("theirs").spec(schedulerName="else"))
    cluster.run()
    assert ask(cluster, "p")["last"]["reason"] == "Scheduled"
    assert ask(cluster, "theirs")["state"] == "NotOurs"
    big = make_pod("big").req(cpu="50")
    cluster.add(big)
    cluster.run()
    cluster.remove(big)
    gone = ask(cluster, "big")
    assert gone["state"] == "Gone"
    assert "Insufficient cpu" in gone["sentence"]
    core = cluster.core
    who = Why(core.world, core.profiles, core.placers, core.records, names=True)
    assert who.of_pod("default", "never") is None


@pytest.mark.parametrize("nodes", [1, 4, 300, 3000])
@pytest.mark.parametrize("spread", [False, True], ids=["by load", "by node"])
def test_how_the_node_was_chosen_is_remembered_as_it_was_then(nodes: int, spread: bool) -> None:
    cluster = Cluster()
    cluster.add(*(make_node(f"n{i}").capacity(cpu=str(4 + i % 3), pods=10) for i in range(nodes)))
    cluster.add(*(make_pod(f"old-{i}").req(cpu="1").node(f"n{i}") for i in range(nodes // 2)))
    pod = make_pod("p").label("app", "p").req(cpu="5")
    if spread:
        pod.spread("kubernetes.io/hostname", {"matchLabels": {"app": "p"}}, when="ScheduleAnyway")
    cluster.add(pod)
    core = cluster.core
    who = Why(core.world, core.profiles, core.placers, core.records, names=True, whole=True)
    asked = who.of_pod("default", "p")
    cluster.run()
    cluster.add(*(make_node(f"later-{i}").capacity(cpu="64", pods=10) for i in range(nodes)))
    last = ask(cluster, "p")["last"]
    assert asked is not None
    verdict = asked["verdict"]
    if nodes == 1:  # it has 4 CPUs
        assert "chosen" not in last
        return
    fitting = [status["code"] for status in verdict["nodes"].values()].count("Success")
    assert (last["chosen"]["evaluated"], last["chosen"]["fitting"]) == (nodes, fitting)
    totals = list(verdict.get("totals", {}).values())
    if fitting > 1:
        assert last["chosen"]["total"] == max(totals) == verdict["totals"][last["node"]]
        assert last["chosen"]["equal"] == totals.count(max(totals))
    else:
        assert "total" not in last["chosen"]


def ask_of_group(cluster: Cluster, name: str, *, names: bool = True) -> dict[str, Any] | None:
    core = cluster.core
    who = Why(core.world, core.profiles, core.placers, core.records, names=names)
    return who.of_group("default", name)


def test_a_group_is_told_what_it_lacks_and_where_it_would_go() -> None:
    cluster = queue_cluster("Coscheduling")
    cluster.add(make_node("n1").capacity(cpu="2", memory="8Gi", pods=10))
    cluster.add(pod_group("g", minMember=3), *members("g", 3))
    cluster.run()
    answer = ask_of_group(cluster, "g")
    assert answer is not None
    assert (answer["kind"], answer["waiting"], answer["minimum"]) == ("GroupAnswer", 3, 3)
    assert answer["sentence"].startswith("group default/g waits: NoRoom: at most 2 of 3 fit")
    cluster.add(make_node("n2").capacity(cpu="2", memory="8Gi", pods=10))
    answer = ask_of_group(cluster, "g")
    assert answer is not None
    assert answer["sentence"] == "group default/g waits for its turn: 3 Pods fit now."
    assert sorted(answer["now"]["plan"]) == ["default/g-0", "default/g-1", "default/g-2"]
    assert ask(cluster, "g-0")["now"]["node"] in ("n1", "n2")
    hidden = ask_of_group(cluster, "g", names=False)
    assert hidden is not None
    assert not any(name in str(hidden) for name in ("n1", "n2"))
    assert "n1" not in str(ask(cluster, "g-0", names=False))
    assert ask_of_group(cluster, "none") is None
    cluster.wait(11)
    cluster.run()
    assert len(cluster.bound) == 3
    answer = ask_of_group(cluster, "g")
    assert answer is not None
    assert answer["sentence"].startswith("group default/g: ")

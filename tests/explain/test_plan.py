"""What would become of Pods that are not there: said, and nothing is left of it."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest
from tests.core_harness import Cluster, shown
from tests.groups import group_cluster, members, pod_group
from tests.queues import pods, queue, queue_cluster, used

from bayplan.api.kinds import POD, POD_GROUP
from bayplan.explain import plan as planning
from bayplan.explain.plan import PlanError, decoded
from bayplan.testing import PodBuilder, make_node, make_pod


def small_cluster(cluster: Cluster | None = None) -> Cluster:
    cluster = cluster or Cluster()
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    cluster.add(make_node("n2").capacity(cpu="2", memory="8Gi", pods=10))
    return cluster


def ask(
    cluster: Cluster, *pods: PodBuilder, others: Any = (), names: bool = True
) -> dict[str, Any]:
    core = cluster.core
    objects = [*others, *((POD, shown(pod)) for pod in pods)]
    before = state(cluster)
    answer = planning.plan(core.world, core.profiles, core.placers, objects, names=names)
    assert state(cluster) == before
    return answer


def state(cluster: Cluster) -> dict[str, Any]:
    world, nodes = cluster.core.world, cluster.core.world.cache.nodes
    return {
        "pods": sorted(world.handlers.pods),
        "cached": sorted(pod.key for pod in world.cache.pods()),
        "requested": nodes.requested("cpu").tolist(),
        "counts": nodes.pod_count.tolist(),
        "groups": [entry.key for entry in world.queue.groups],
        "objects": sorted(world.cache.objects.keys(POD_GROUP)),
        "nominated": [
            world.nominator.nominated_node(pod.uid) for pod in world.handlers.pods.values()
        ],
    }


def test_each_pod_sees_those_before_it() -> None:
    cluster = small_cluster()
    pods = [make_pod(f"p{i}").req(cpu="2").owner("Job", "train", "batch/v1") for i in range(4)]
    answer = ask(cluster, *pods)
    assert answer["sentence"] == "3 of 4 Pods can be placed now; nobody is evicted."
    assert sorted((one["node"], one["pods"]) for one in answer["on"]) == [("n1", 2), ("n2", 1)]
    (rejected,) = answer["rejected"]
    assert rejected["of"] == "train"
    assert rejected["some"] == ["default/p3"]
    assert "2 Insufficient cpu" in rejected["message"]
    cluster.add(*pods)
    cluster.run()
    assert sorted(node for _, node in cluster.bound) == ["n1", "n1", "n2"]


def test_who_would_be_evicted_goes_once_for_all() -> None:
    cluster = small_cluster()
    cluster.add(*(make_pod(f"low{i}").namespace("other").req(cpu="2") for i in range(3)))
    cluster.run()
    pods = [make_pod(f"high{i}").req(cpu="2").priority(9) for i in range(2)]
    answer = ask(cluster, *pods)
    assert answer["placed"] == answer["evicted"] == len(answer["evictedPods"]) == 2
    assert {one["for"] for one in answer["evictedPods"]} == {"default/high0", "default/high1"}
    hidden = ask(cluster, *pods, names=False)
    assert hidden["evicted"] == 2
    assert not any(name in str(hidden) for name in ("n1", "n2", "low", "other"))


def test_a_group_is_placed_as_a_whole_or_not_at_all() -> None:
    cluster = small_cluster(group_cluster())

    def asked(number: int, minimum: int) -> dict[str, Any]:
        group = pod_group("train", minMember=minimum).obj()
        return ask(cluster, *members("train", number, cpu="2"), others=[(POD_GROUP, group)])

    fits, large, too_few = asked(3, 3), asked(4, 4), asked(2, 3)
    assert [answer["placed"] for answer in (fits, large, too_few)] == [3, 0, 0]
    assert "3 of 4" in large["rejected"][0]["message"]
    assert too_few["rejected"][0]["message"].startswith("WaitingForMembers")
    assert fits["token"] != large["token"]


def test_a_tenant_takes_back_what_is_guaranteed_and_is_held_by_its_limit() -> None:
    cluster = small_cluster(queue_cluster())
    cluster.add(queue("red", "red", guaranteed={"cpu": 2}, limit={"cpu": 3}), queue("blue", "blue"))
    cluster.add(*pods("b", 7, "blue"))
    cluster.run()
    assert used(cluster, "blue") == 6000
    waiting = cluster.core.world.queue.counts()
    answer = ask(cluster, *pods("r", 4, "red"))
    assert (answer["placed"], answer["evicted"]) == (3, 3)
    assert {one["for"] for one in answer["evictedPods"]} == {"red/r-0", "red/r-1", "red/r-2"}
    assert "limit" in answer["rejected"][0]["message"]
    assert (used(cluster, "red"), used(cluster, "blue")) == (0, 6000)
    assert cluster.core.world.queue.counts() == waiting
    assert ask(cluster, *pods("r", 4, "red"))["token"] == answer["token"]


def test_the_token_is_the_same_while_the_answer_is() -> None:
    cluster = small_cluster()
    pod = make_pod("p").req(cpu="2")
    first = ask(cluster, pod)["token"]
    assert ask(cluster, pod)["token"] == first
    cluster.add(make_pod("a").req(cpu="3"), make_pod("b").req(cpu="1"))
    cluster.run()
    assert ask(cluster, pod)["token"] != first


def test_pods_that_cannot_be_planned_are_named() -> None:
    cluster = small_cluster()
    cluster.add(make_pod("p"))
    with pytest.raises(PlanError, match="Pod default/p is there already"):
        ask(cluster, make_pod("p"))
    with pytest.raises(PlanError, match="has a node already"):
        ask(cluster, make_pod("q").node("n1"))
    with pytest.raises(PlanError, match="other is none of this"):
        ask(cluster, make_pod("q").spec(schedulerName="other"))


def test_what_is_sent_is_checked() -> None:
    def sent(value: Any) -> Any:
        return decoded(gzip.compress(msgspec.json.encode(value)))

    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    ((kind, found),) = sent([pod, {"apiVersion": "v1", "kind": "Secret"}])
    assert kind is POD
    assert found.key == "a/p"
    for wrong, why in (
        ([], "1 to 500 Pods, not 0"),
        ([pod] * 501, "1 to 500 Pods, not 501"),
        ({"kind": "Pod"}, "no gzipped list"),
        ([{**pod, "spec": {"containers": 5}}], "Pod p: "),
    ):
        with pytest.raises(PlanError, match=why):
            sent(wrong)
    with pytest.raises(PlanError, match="no gzipped list"):
        decoded(b"x")
    with pytest.raises(PlanError, match="at most"):
        decoded(gzip.compress(b" " * (planning.MOST_BYTES + 1)))


def ask_waiting(cluster: Cluster, only: str = "") -> dict[str, Any]:
    core = cluster.core
    before = state(cluster)
    parts = core.world, core.profiles, core.placers
    answer = planning.plan_waiting(*parts, names=not only, only=only)
    assert state(cluster) == before
    return answer


def test_what_waits_is_planned_in_the_order_of_the_queue_and_as_it_comes_about() -> None:
    cluster = small_cluster(group_cluster())
    cluster.add(pod_group("train", minMember=2), *members("train", 2, cpu="2"))
    cluster.add(make_pod("first").req(cpu="2").priority(5), make_pod("last").req(cpu="3"))
    answer = ask_waiting(cluster)
    assert answer["sentence"] == "3 of 4 Pods can be placed now; nobody is evicted."
    assert {one["of"] for one in answer["on"]} == {
        "default/first",
        "default/train-0",
        "default/train-1",
    }
    (rejected,) = answer["rejected"]
    assert rejected["some"] == ["default/last"]
    cluster.run()
    assert {pod for pod, _ in cluster.bound} == {"first", "train-0", "train-1"}


def test_who_would_leave_for_those_that_wait_is_said_and_nobody_is_nominated() -> None:
    cluster = small_cluster()
    cluster.add(*(make_pod(f"low{i}").namespace("other").req(cpu="2") for i in range(3)))
    cluster.run()
    cluster.add(make_pod("high").req(cpu="2").priority(9), make_pod("late").namespace("other"))
    answer = ask_waiting(cluster)
    (leaving,) = answer["evictedPods"]
    assert leaving["for"] == "default/high"
    assert (answer["placed"], answer["evicted"]) == (2, 1)
    theirs = ask_waiting(cluster, only="other")
    assert theirs["evictedPods"] == [{"pod": leaving["pod"], "for": "POD"}]
    assert (theirs["pods"], theirs["on"]) == (1, [{"of": "other/late", "pods": 1}])
    assert not any(name in str(theirs) for name in ("n1", "n2", "high", "default"))


def test_where_nothing_waits_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small_cluster()
    assert ask_waiting(cluster)["sentence"] == "Nothing waits."
    monkeypatch.setattr(planning, "MOST_PODS", 2)
    cluster.add(*(make_pod(f"p{i}") for i in range(5)))
    answer = ask_waiting(cluster)
    assert answer["pods"] == 2
    assert answer["sentence"].endswith("3 Pods and groups that come after 2 were not tried.")

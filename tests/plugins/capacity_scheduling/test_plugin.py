"""CapacityScheduling as a part of the pipeline: who gets room, and who has to go for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.capacity_scheduling.world import (
    PROFILE,
    minimum_of,
    place,
    pod,
    quota,
    quota_cluster,
    quotas_of,
    used_of,
    victims,
)

from bayplan.api.kinds import POD_DISRUPTION_BUDGET, POD_GROUP
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.plugins.capacity_scheduling import CapacityScheduling
from bayplan.queue.states import QueueState
from bayplan.testing import Cluster, labels_are, make_node, make_pod
from bayplan.testing.builder import Json, make_object

ABOVE_MAXIMUM = "is rejected in PreFilter because ElasticQuota a is more than Max"
ABOVE_TOTAL = "is rejected in PreFilter because total ElasticQuota used is more than min"
REFUSED = "global quota max exceeded"
NO_VICTIMS = "No preemption victims found for incoming pod"


def test_pods_go_as_before_where_there_is_no_quota() -> None:
    cluster = quota_cluster(n1=2)
    place(cluster, "n1", pod("a/low"))
    cluster.add(pod("b/fits"), pod("c/high", cpu=2, priority=5))
    cluster.run()
    cluster.wait(20)
    cluster.run()
    assert cluster.writer.deleted == ["low"]
    assert cluster.node_of("c/high") == "n1"


@pytest.mark.parametrize(
    ("quotas", "message"),
    [
        pytest.param([quota("a", {"cpu": 9}, {"cpu": 3})], "", id="up-to-the-maximum"),
        pytest.param([quota("a", {"cpu": 9}, {"cpu": 2})], ABOVE_MAXIMUM, id="above-the-maximum"),
        pytest.param([quota("a", {"cpu": 2})], ABOVE_TOTAL, id="above-the-only-minimum"),
        pytest.param([quota("a", {"cpu": 2}), quota("b", {"cpu": 1})], "", id="borrowed"),
        pytest.param(
            [quota("a", {"cpu": 2}), quota("c", {"cpu": 1})],
            ABOVE_TOTAL,
            id="a-minimum-that-another-uses",
        ),
        pytest.param(
            [quota("a", {"cpu": 2}, {"cpu": 2}), quota("b", {})],
            ABOVE_MAXIMUM,
            id="the-maximum-is-said-first",
        ),
        pytest.param([quota("b", {})], "", id="no-quota-in-its-namespace"),
        pytest.param(
            [quota("a", {"cpu": 9, "memory": "1Gi"}), quota("d", {"cpu": 9})],
            ABOVE_TOTAL,
            id="a-resource-that-no-minimum-names-but-another-uses",
        ),
    ],
)
def test_a_pod_is_admitted_or_rejected(quotas: list[Any], message: str) -> None:
    cluster = quota_cluster(n1=64)
    place(cluster, "n1", pod("a/one"), pod("a/two"), pod("c/one", cpu=1))
    place(cluster, "n1", pod("d/gpu").req(**{"example.com/gpu": "1"}))
    cluster.add(*quotas, pod("a/three"))
    cluster.run()
    if message:
        assert cluster.message("a/three").startswith(
            f"0/1 nodes are available: Pod a/three {message}."
        )
    else:
        assert cluster.node_of("a/three") == "n1"


def test_what_is_assumed_counts() -> None:
    cluster = quota_cluster(n1=64)
    cluster.add(quota("a", {"cpu": 2}), pod("a/one"), pod("a/two"), pod("a/three"))
    cluster.writer.on_bound = None
    cluster.run()
    assert "used is more than min" in cluster.message("a/three")


@pytest.mark.parametrize(
    ("preemptor", "expected"),
    [
        pytest.param(pod("a/p", cpu=4, priority=5), ["a/low"], id="above-minimum-own-lower"),
        pytest.param(pod("a/p", cpu=4, priority=1), [], id="above-minimum-no-lower"),
        pytest.param(pod("b/p", cpu=2), ["c/young"], id="within-minimum-any-priority-of-borrowers"),
        pytest.param(pod("none/p", cpu=2, priority=99), ["free/low"], id="no-quota-none-either"),
        pytest.param(pod("none/p", cpu=3, priority=99), [], id="no-quota-never-one-with-quota"),
        pytest.param(
            pod("b/p", cpu=2).spec(preemptionPolicy="Never"), [], id="preemption-policy-never"
        ),
    ],
)
def test_who_may_be_evicted_for_whom(preemptor: Any, expected: list[str]) -> None:
    cluster = quota_cluster(n1=16)
    place(
        cluster,
        "n1",
        pod("a/low", cpu=4, priority=1),
        pod("a/high", cpu=2, priority=9),
        pod("c/old", cpu=4, priority=9),
        pod("c/young", cpu=4, priority=9),
        pod("free/low", cpu=2),
    )
    cluster.add(quota("a", {"cpu": 6}), quota("b", {"cpu": 4}), quota("c", {"cpu": 4}))
    assert victims(cluster, preemptor) == expected


def test_a_lender_takes_no_more_back_than_the_borrower_has_above_its_minimum() -> None:
    cluster = quota_cluster(n1=6)
    place(cluster, "n1", *(pod(f"b/{i}") for i in range(6)))
    cluster.add(quota("a", {"cpu": 4}), quota("b", {"cpu": 4}))
    assert victims(cluster, pod("a/two", cpu=2)) == ["b/4", "b/5"]
    assert victims(cluster, pod("a/three", cpu=3)) == []


def test_evicted_is_who_makes_room_for_the_quota_even_where_the_node_has_room() -> None:
    cluster = quota_cluster(n1=64)
    place(cluster, "n1", pod("b/old", cpu=3), pod("b/young", cpu=1))
    cluster.add(quota("a", {"cpu": 2}), quota("b", {"cpu": 2}))
    assert victims(cluster, pod("a/p")) == ["b/young"]


def test_a_protected_pod_stays_if_another_makes_room() -> None:
    cluster = quota_cluster(n1=64)
    place(cluster, "n1", pod("b/free", cpu=1, priority=9), pod("b/guarded").label("app", "web"))
    budget = make_object(POD_DISRUPTION_BUDGET, "web").namespace("b")
    cluster.add(budget.spec(selector=labels_are({"app": "web"})).status(disruptionsAllowed=0))
    cluster.add(quota("a", {"cpu": 1}), quota("b", {}))
    place(cluster, "n1", pod("c/spare"))
    cluster.add(quota("c", {"cpu": 2}))
    assert victims(cluster, pod("a/p")) == ["b/free"]


def test_no_eviction_helps_a_pod_that_is_above_its_maximum_alone() -> None:
    cluster = quota_cluster(n1=64)
    place(cluster, "n1", pod("a/low"))
    cluster.add(quota("a", {}, {"cpu": 2}), quota("b", {"cpu": 9}))
    cluster.add(pod("a/huge", cpu=3, priority=5))
    cluster.run()
    assert f"1 {REFUSED}" in cluster.message("a/huge")


def test_who_has_no_victims_is_told_so() -> None:
    cluster = quota_cluster(n1=64)
    cluster.add(quota("a", {"cpu": 1}), pod("a/p", cpu=2))
    cluster.run()
    assert cluster.message("a/p").endswith(f"1 {NO_VICTIMS}.")


def test_the_room_of_the_victims_is_kept_for_the_preemptor() -> None:
    cluster = quota_cluster(n1=4)
    running = [pod(f"b/{i}") for i in range(4)]
    place(cluster, "n1", *running)
    cluster.add(quota("a", {"cpu": 2}), quota("b", {"cpu": 2}), pod("a/p", priority=-5))
    cluster.writer.on_deleted = None
    cluster.run()
    assert cluster.writer.deleted == ["3"]
    cluster.add(pod("b/again"))
    cluster.remove(running[3])
    cluster.wait(20)
    cluster.run()
    assert (cluster.node_of("a/p"), cluster.node_of("b/again")) == ("n1", "")


@pytest.mark.parametrize(
    ("nominated", "admitted"),
    [
        pytest.param(pod("a/n", priority=1), False, id="own-namespace-as-important"),
        pytest.param(pod("a/n", priority=0), True, id="own-namespace-less-important"),
        pytest.param(pod("b/n", priority=-9), False, id="other-namespace-within-its-minimum"),
        pytest.param(pod("c/n", priority=99), True, id="other-namespace-above-its-minimum"),
        pytest.param(pod("free/n", priority=99), True, id="no-quota"),
    ],
)
def test_nominated_pods_count(nominated: Any, admitted: bool) -> None:
    cluster = quota_cluster(n1=64)
    place(cluster, "n1", pod("c/one", cpu=2))
    cluster.add(quota("a", {"cpu": 2}), quota("b", {"cpu": 1}), quota("c", {}))
    cluster.world.nominator.nominate(nominated.obj(), "n1")
    cluster.world.nominator.nominate(pod("a/elsewhere", priority=99).obj(), "gone")
    assert ("preFilter" not in cluster.explain(pod("a/p", priority=1))) is admitted


def test_nobody_is_evicted_for_a_pod_whose_victims_are_leaving() -> None:
    cluster = quota_cluster(n1=4)
    place(cluster, "n1", *(pod(f"b/{i}") for i in range(4)))
    cluster.add(quota("a", {"cpu": 2}), quota("b", {"cpu": 2}))
    preemptor = pod("a/p").status(nominatedNodeName="n1")
    assert victims(cluster, preemptor) == ["b/3"]
    cluster.add(pod("b/3").terminating().node("n1"))
    verdict = cluster.explain(preemptor)
    assert "not eligible due to a terminating pod on the nominated node." in verdict["message"]


@pytest.mark.parametrize(
    "event",
    ["a-pod-goes", "a-pod-without-quota-goes", "more-is-guaranteed", "the-quota-goes"],
)
def test_what_wakes_a_rejected_pod(event: str) -> None:
    cluster = quota_cluster(n1=64)
    running, free = pod("b/one"), pod("free/one")
    place(cluster, "n1", running, free)
    small = quota("a", {"cpu": 1}).new_version()
    cluster.add(small, quota("b", {"cpu": 1}), pod("a/p", cpu=2))
    cluster.run()
    assert cluster.state("a/p") is QueueState.UNSCHEDULABLE
    match event:
        case "a-pod-goes":
            cluster.remove(running)
        case "a-pod-without-quota-goes":
            cluster.remove(free)
        case "more-is-guaranteed":
            cluster.add(quota("a", {"cpu": 2}))
        case "the-quota-goes":
            cluster.remove(small)
    stays = event == "a-pod-without-quota-goes"
    cluster.wait(20)
    cluster.run()
    assert bool(cluster.node_of("a/p")) is not stays


def test_a_deleted_quota_limits_nobody() -> None:
    cluster = quota_cluster(n1=4)
    limit = quota("a", {"cpu": 1})
    cluster.add(limit, pod("a/one"), pod("a/two"))
    cluster.run()
    cluster.remove(limit)
    assert minimum_of(quotas_of(cluster), "a") is None
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of("a/one")
    assert cluster.node_of("a/two")


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param(PROFILE["plugins"], id="multi-point"),
        pytest.param(
            {
                "preFilter": {"enabled": [{"name": "CapacityScheduling"}]},
                "postFilter": {
                    "enabled": [{"name": "CapacityScheduling"}],
                    "disabled": [{"name": "DefaultPreemption"}],
                },
                "reserve": {"enabled": [{"name": "CapacityScheduling"}]},
            },
            id="point-by-point",
        ),
    ],
)
def test_configurations_of_scheduler_plugins_are_understood(plugins: Json) -> None:
    cluster = Cluster(config={"profiles": [{"schedulerName": "bayplan", "plugins": plugins}]})
    cluster.add(make_node("n1").capacity(cpu="4", pods=110))
    place(cluster, "n1", *(pod(f"b/{i}") for i in range(4)))
    cluster.add(quota("a", {"cpu": 2}), quota("b", {"cpu": 2}), pod("a/p"))
    cluster.writer.on_deleted = None
    cluster.run()
    cluster.wait(400)
    cluster.run()
    assert len(cluster.writer.deleted) == 1
    names = {plugin.name for plugin in cluster.framework.plugins.post_filter}
    assert names & {"CapacityScheduling", "DefaultPreemption"} == {CapacityScheduling.name}


def group_cluster(cpu: int) -> Cluster:
    profile = {
        "schedulerName": "bayplan",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}],
                "disabled": [{"name": "PrioritySort"}, {"name": "DefaultPreemption"}],
            },
        },
    }
    cluster = Cluster(config={"profiles": [profile]})
    cluster.add(make_node("n1").capacity(cpu=str(cpu), pods=110))
    return cluster


def add_gang(cluster: Cluster, size: int, priority: int = 0) -> None:
    gang = make_object(POD_GROUP, "gang").namespace("a").spec(minMember=size)
    members = (pod(f"a/{i}", priority=priority) for i in range(size))
    cluster.add(gang, *(member.label(POD_GROUP_LABEL, "gang") for member in members))


def test_a_group_above_the_maximum_is_rejected_whole_and_told_why() -> None:
    cluster = group_cluster(64)
    cluster.add(quota("a", {"cpu": 9}, {"cpu": 3}))
    add_gang(cluster, 4)
    cluster.run()
    assert used_of(quotas_of(cluster), "a") == {}
    (note,) = [event.note for event in cluster.events if event.reason == "NoRoom"]
    assert f"0/1 nodes are available: Pod a/3 {ABOVE_MAXIMUM}." in note
    cluster.add(quota("a", {"cpu": 9}, {"cpu": 4}))
    cluster.wait(20)
    cluster.run()
    assert all(cluster.node_of(f"a/{i}") for i in range(4))


@pytest.mark.parametrize(
    ("size", "cpu", "priority", "evicted"),
    [
        pytest.param(3, 6, 0, ["b/3", "b/4", "b/5"], id="takes-back-what-is-lent"),
        pytest.param(3, 64, 0, ["b/3", "b/4", "b/5"], id="where-only-the-quota-is-short"),
        pytest.param(4, 6, 99, [], id="never-more-than-it-is-guaranteed"),
    ],
)
def test_whom_a_group_evicts(size: int, cpu: int, priority: int, evicted: list[str]) -> None:
    cluster = group_cluster(cpu)
    place(cluster, "n1", *(pod(f"b/{i}", priority=5) for i in range(6)))
    cluster.add(quota("a", {"cpu": 3}), quota("b", {"cpu": 3}))
    add_gang(cluster, size, priority)
    cluster.run()
    cluster.wait(20)
    cluster.run()
    assert sorted(f"b/{name}" for name in cluster.writer.deleted) == evicted
    assert all(bool(cluster.node_of(f"a/{i}")) is bool(evicted) for i in range(size))


def test_a_pod_without_a_quota_is_not_asked() -> None:
    cluster = quota_cluster(n1=4)
    cluster.add(quota("a", {"cpu": 1}), make_pod("p").req(cpu="1"))
    cluster.run()
    assert cluster.node_of("p") == "n1"

"""What is wrong with Queues and ElasticQuotas is said on them, once."""

from __future__ import annotations

import pytest
from tests.plugins.capacity_scheduling.world import quota, quota_cluster
from tests.queues import name_space, pod, queue, queue_cluster

from bayplan.api.kinds import QUEUE
from bayplan.api.queues import Queue
from bayplan.api.scheduling import ElasticQuota
from bayplan.inbox.messages import Changed
from bayplan.scheduler import CHORE_SECONDS
from bayplan.testing import Cluster, make_node
from bayplan.testing.builder import Builder


def told(cluster: Cluster) -> list[tuple[str, str]]:
    """Object and reason of the events about objects since the last time."""
    cluster.wait(CHORE_SECONDS)
    cluster.run()
    found = [(e.pod, e.reason) for e in cluster.events if e.action == "Reading"]
    cluster.events.clear()
    return found


@pytest.mark.parametrize(
    ("queues", "faults"),
    [
        pytest.param([queue("a", parent="b")], [("a", "UnknownParent")], id="unknown parent"),
        pytest.param(
            [queue("a", parent="b"), queue("b", parent="a")],
            [("a", "Cycle"), ("b", "Cycle")],
            id="cycle",
        ),
        pytest.param(
            [queue("a", guaranteed={"cpu": 1}), queue("b", parent="a", guaranteed={"cpu": 2})],
            [("a", "GuaranteedToChildren")],
            id="more than the parent has",
        ),
    ],
)
def test_a_queue_that_is_wrong_is_told(
    queues: list[Builder[Queue]], faults: list[tuple[str, str]]
) -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n").capacity(cpu="4"))
    cluster.tell(*(Changed(QUEUE, builder.obj()) for builder in queues))  # at once
    assert sorted(told(cluster)) == faults
    assert told(cluster) == []


def test_the_younger_of_two_queues_for_one_namespace_is_told_when_it_has_pods() -> None:
    cluster = queue_cluster()
    cluster.add(queue("a", "x"), queue("b", "x y", created=1))
    name_space(cluster, "x")
    assert told(cluster) == []
    cluster.add(pod("p", "x"))
    assert told(cluster) == [("b", "NamespaceTaken")]
    assert told(cluster) == []


def test_a_fault_that_was_mended_is_told_again() -> None:
    cluster = queue_cluster()
    cluster.add(queue("a", parent="b"))
    assert told(cluster) == [("a", "UnknownParent")]
    parent = queue("b")
    cluster.add(parent)
    assert told(cluster) == []
    cluster.remove(parent)
    assert told(cluster) == [("a", "UnknownParent")]


def test_queues_are_told_when_their_guarantees_exceed_the_room() -> None:
    cluster = queue_cluster()
    gone = make_node("gone").capacity(cpu="6")
    cluster.add(make_node("n").capacity(cpu="4"), gone)
    cluster.add(queue("a", guaranteed={"cpu": 8}), queue("b", guaranteed={"cpu": 2}), queue("c"))
    assert told(cluster) == []
    above = [(name, "GuaranteedAboveRoom") for name in "ab"]
    for _ in range(2):
        cluster.remove(gone)
        assert told(cluster) == above
        cluster.add(make_node("little").capacity(cpu="1"))
        assert told(cluster) == []  # the same, with other figures
        cluster.add(more := queue("more", guaranteed={"cpu": 1}))
        assert told(cluster) == [*above, ("more", "GuaranteedAboveRoom")]
        cluster.remove(more)
        assert told(cluster) == above
        cluster.add(gone)
        assert told(cluster) == []


def test_nobody_is_told_by_a_standby() -> None:
    cluster = queue_cluster()
    cluster.core.scheduler.active = False
    cluster.add(queue("a", parent="b"))
    assert told(cluster) == []


@pytest.mark.parametrize(
    ("quotas", "faults"),
    [
        pytest.param(
            [quota("x", {"cpu": 1}, name=name) for name in ("a", "b")], [("b", "Ignored")], id="two"
        ),
        pytest.param(
            [quota("x", {"cpu": 1, "memory": "1Gi"}, {"cpu": 2})],
            [("quota", "MinAboveMax")],
            id="a maximum without memory",
        ),
        pytest.param([quota("x", {"cpu": "1x"})], [("quota", "InvalidAmount")], id="no amount"),
        pytest.param([quota("x", {"cpu": 1})], [], id="nothing wrong"),
    ],
)
def test_an_elastic_quota_that_is_wrong_is_told(
    quotas: list[Builder[ElasticQuota]], faults: list[tuple[str, str]]
) -> None:
    cluster = quota_cluster()
    cluster.add(*quotas)
    assert told(cluster) == faults
    assert told(cluster) == []

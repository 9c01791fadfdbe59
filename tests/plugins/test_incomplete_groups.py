"""A group that stays below its minimum gives up its nodes, if the configuration says so."""

from __future__ import annotations

import pytest
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, nodes, pod_group, sub_groups
from tests.preemption.test_budgets import budget

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.client.errors import ServerError
from bayplan.inbox.messages import Changed
from bayplan.plugins.coscheduling import Coscheduling
from bayplan.testing import PodBuilder

PATIENCE = 60


def cluster_with(room: int, placed: int, *, minimum: int = 3, controlled: bool = True) -> Cluster:
    """A group of three Pods, of which so many run already, and ``room`` for all of them."""
    cluster = group_cluster(evictIncompleteAfter=f"{PATIENCE}s")
    cluster.add(*nodes(1, str(room)), pod_group("g", minMember=minimum))
    cluster.add(*group(placed, controlled=controlled))
    cluster.scheduler.active = True
    cluster.run()
    return cluster


def group(placed: int, *, controlled: bool = True) -> list[PodBuilder]:
    """Three Pods, the first ones on the node."""
    pods = members("g", 3)
    for pod in pods if controlled else pods[1:]:
        pod.owner("Job", "train", "batch/v1")
    for pod in pods[:placed]:
        pod.node("n0")
    return pods


def wait(cluster: Cluster, seconds: int) -> None:
    """Look at the cluster all the time."""
    for _ in range(seconds // 5):
        cluster.wait(5)
        cluster.run()


def told(cluster: Cluster) -> list[str]:
    """What the group is told about that."""
    return [note for reason, note in cluster.notes if reason == "Incomplete"]


def test_what_has_nodes_of_an_incomplete_group_is_evicted_after_a_while() -> None:
    cluster = cluster_with(room=2, placed=2)
    wait(cluster, PATIENCE - 5)
    assert cluster.writer.deleted == []
    wait(cluster, 10)
    assert sorted(cluster.writer.deleted) == ["g-0", "g-1"]
    assert told(cluster) == [
        "2 of 3 Pods have had nodes for 60s; they are evicted, to wait with the others"
    ]
    assert (
        cluster.metric(
            "bayplan_plugin_events_total",
            plugin="Coscheduling",
            name="evicted_of_incomplete_groups",
        )
        == 2
    )
    wait(cluster, 600)
    assert len(cluster.writer.deleted) == 2


def test_pods_are_held_back_no_longer_once_the_evictions_have_failed() -> None:
    cluster = cluster_with(room=2, placed=2)
    cluster.writer.slow = True
    wait(cluster, PATIENCE + 5)
    incomplete = cluster.plugin(Coscheduling)._incomplete
    assert incomplete is not None
    waiting = next(iter(cluster.queue.waiting_pods()))
    assert incomplete.hold(waiting) is not None
    cluster.writer.answer(ServerError("reset"))
    cluster.take_in()
    assert incomplete.hold(waiting) is None
    assert [pod for pod in cluster.cache.pods() if pod.deleted is not None] == []


def test_those_that_are_made_anew_wait_together() -> None:
    cluster = cluster_with(room=2, placed=2)
    wait(cluster, PATIENCE + 5)
    cluster.add(*(pod.owner("Job", "train", "batch/v1") for pod in members("g", 2, first=10)))
    wait(cluster, 600)
    assert cluster.bound == []
    cluster.add(*nodes(1, "1", prefix="m"))
    wait(cluster, 60)
    assert len(cluster.bound) == 3


@pytest.mark.parametrize(
    ("room", "placed", "minimum"),
    [
        pytest.param(3, 2, 3, id="there is room"),
        pytest.param(2, 2, 2, id="enough for the minimum"),
        pytest.param(2, 0, 3, id="nothing has a node"),
        pytest.param(2, 2, 4, id="Pods are missing"),
    ],
)
def test_other_groups_stay(room: int, placed: int, minimum: int) -> None:
    cluster = cluster_with(room, placed, minimum=minimum)
    wait(cluster, 10 * PATIENCE)
    assert cluster.writer.deleted == []
    assert told(cluster) == []


def test_a_pod_without_a_controller_keeps_its_group_where_it_is() -> None:
    cluster = cluster_with(room=2, placed=2, controlled=False)
    wait(cluster, 10 * PATIENCE)
    assert cluster.writer.deleted == []
    assert told(cluster) == [
        "2 of 3 Pods have had nodes for 60s; default/g-0 has no controller, so all stay"
    ]


def test_a_budget_is_kept() -> None:
    cluster = cluster_with(room=2, placed=2)
    selector = {"matchLabels": {"scheduling.x-k8s.io/pod-group": "g"}}
    cluster.tell(Changed(POD_DISRUPTION_BUDGET, budget(selector, allowed=1)))
    wait(cluster, 10 * PATIENCE)
    assert cluster.writer.deleted == []
    assert "a PodDisruptionBudget protects them" in told(cluster)[0]


def test_the_time_counts_anew_when_one_more_has_a_node() -> None:
    cluster = cluster_with(room=1, placed=1)
    wait(cluster, PATIENCE - 10)
    cluster.add(*nodes(1, "1", prefix="m"))
    cluster.run()
    assert len(cluster.bound) == 1
    wait(cluster, PATIENCE - 10)
    assert cluster.writer.deleted == []
    wait(cluster, 20)
    assert len(cluster.writer.deleted) == 2


def test_a_group_waits_for_room_that_is_being_made() -> None:
    cluster = cluster_with(room=2, placed=2)
    waiting = cluster.world.queue.get(next(p.uid for p in cluster.queue.waiting_pods()))
    assert waiting is not None
    cluster.world.nominator.nominate(waiting.pod, "n0")
    wait(cluster, PATIENCE)
    assert cluster.writer.deleted == []


def test_a_sub_group_below_its_minimum_is_incomplete() -> None:
    cluster = group_cluster(evictIncompleteAfter="60s")
    cluster.add(*nodes(1, "3"))
    parts = sub_groups({"name": "a", "minMember": 2}, {"name": "b", "minMember": 1})
    cluster.add(pod_group("g", parts, minMember=3))
    first, second = members("g", 2, sub_group="a")
    others = members("g", 2, sub_group="b")
    for pod in (first, second, *others):
        pod.owner("Job", "train", "batch/v1")
    cluster.add(*(pod.node("n0") for pod in (first, *others)), second)
    cluster.scheduler.active = True
    wait(cluster, PATIENCE + 10)
    assert len(cluster.writer.deleted) == 3


def test_without_the_argument_everything_stays() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1, "2"), pod_group("g", minMember=3), *group(2))
    cluster.scheduler.active = True
    wait(cluster, 10 * PATIENCE)
    assert cluster.writer.deleted == []

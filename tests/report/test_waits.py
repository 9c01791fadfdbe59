"""Pods that wait without being tried, in Permit or PreEnqueue, say for what they wait."""

from __future__ import annotations

from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.explain.autoscaler import autoscaler
from bayplan.framework import WAIT, Status
from bayplan.report.label_groups import RENEWED_SECONDS
from bayplan.report.waits import HELD, IN_PERMIT, MOST_WRITES
from bayplan.scheduler import CHORE_SECONDS
from bayplan.testing import make_node, make_pod

TO_N = "waits in Permit for Hold, to go to n"
LATER = "held back by Later: not before noon"


def looks(cluster: Cluster, number: int) -> None:
    """So many looks at who waits."""
    for _ in range(number):
        cluster.wait(CHORE_SECONDS)
        cluster.run()


def said(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Pod, reason and text of the events since the last time."""
    found = [(e.pod, e.reason, e.note) for e in cluster.events]
    cluster.events.clear()
    return found


def conditions(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Pod, reason and message of all conditions."""
    return [(name, c.reason, c.message) for name, c in cluster.recorder.conditions]


def permit_cluster() -> Cluster:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 3600.0)))
    cluster.add(make_node("n").capacity(cpu="4", pods=10))
    return cluster


def test_a_pod_in_permit_says_so_at_the_second_look_and_again_while_it_waits() -> None:
    cluster = permit_cluster()
    cluster.add(make_pod("p"))
    cluster.run()
    looks(cluster, 1)
    assert said(cluster) == []
    looks(cluster, 3)
    assert said(cluster) == [("p", IN_PERMIT, TO_N)]
    looks(cluster, int(RENEWED_SECONDS / CHORE_SECONDS) + 1)
    assert said(cluster) == [("p", IN_PERMIT, TO_N)]
    assert conditions(cluster) == [("p", IN_PERMIT, TO_N)]


def test_nothing_is_said_of_a_pod_that_is_allowed_soon() -> None:
    cluster = permit_cluster()
    cluster.add(make_pod("p"))
    cluster.run()
    looks(cluster, 1)
    for waiting in cluster.world.waiting:
        waiting.allow("Hold")
    cluster.run()
    assert cluster.bound == [("p", "n")]
    looks(cluster, 3)
    assert conditions(cluster) == []
    assert {reason for _, reason, _ in said(cluster)} == {"Scheduled"}


def test_a_pod_that_a_plugin_holds_says_which_and_is_no_reason_for_a_node() -> None:
    plugin = scripted("Later", pre_enqueue=Status.unresolvable("not before noon"))
    cluster = Cluster(plugin)
    cluster.add(pod := make_pod("p"), make_pod("gated").gate("example.com/later"))
    looks(cluster, 4)
    assert said(cluster) == [("p", HELD, LATER)]
    assert conditions(cluster) == [("p", HELD, LATER)]
    parts = cluster.world, cluster.core.scheduler.profiles["bayplan"], pod.obj()
    cause = autoscaler(*parts, cluster.recorder.conditions[0][1].reason, names=True)
    assert cause["cause"] == 1


def test_another_reason_is_said_at_the_next_look() -> None:
    texts = ["not before noon"]
    cluster = Cluster(scripted("Later", pre_enqueue=lambda: Status.unresolvable(texts[-1])))
    cluster.add(pod := make_pod("p"))
    looks(cluster, 2)
    texts.append("not today")
    cluster.add(pod.label("a", "b"))
    looks(cluster, 1)
    assert [message for _, _, message in conditions(cluster)] == [
        LATER,
        "held back by Later: not today",
    ]


def test_one_look_speaks_of_no_more_than_a_hundred_pods() -> None:
    plugin = scripted("Later", pre_enqueue=Status.unresolvable("not before noon"))
    cluster = Cluster(plugin)
    looks(cluster, 1)
    cluster.add(*(make_pod(f"p{number}") for number in range(MOST_WRITES + 7)))
    looks(cluster, 2)
    assert len(conditions(cluster)) == MOST_WRITES
    looks(cluster, 2)
    assert len({name for name, _, _ in conditions(cluster)}) == MOST_WRITES + 7


def test_a_standby_says_nothing() -> None:
    cluster = Cluster(scripted("Later", pre_enqueue=Status.unresolvable("not before noon")))
    cluster.core.scheduler.active = False
    cluster.add(make_pod("p"))
    looks(cluster, 3)
    assert said(cluster) == []

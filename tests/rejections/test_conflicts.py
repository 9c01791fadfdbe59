"""Pods that a node rejected: what is counted and said about them, and where the next ones go."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bayplan.api.kinds import POD
from bayplan.inbox.messages import Lead, Replaced
from bayplan.rejections.conflicts import MAX_LOOKUPS, Conflicts
from bayplan.rejections.node_backoff import FIRST_SECONDS, LONGEST_SECONDS
from bayplan.testing import PROFILE, Cluster, NodeBuilder, PodBuilder, make_node, make_pod

OTHER = "default-scheduler"
METRIC = "bayplan_pods_rejected_by_node_total"
MESSAGE = "Pod was rejected: Node didn't have enough resource: cpu"


class Api:
    """Pods as they ended, by path; it answers when it is told to."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes | None] = {}
        self.asked: list[tuple[str, Callable[[bytes | None], None]]] = []

    def read_later(self, path: str, on_answer: Callable[[bytes | None], None]) -> None:
        self.asked.append((path, on_answer))


class Rejecting(Cluster):
    """A cluster whose nodes reject Pods."""

    def __init__(self, *nodes: NodeBuilder, leads: bool = True) -> None:
        super().__init__()
        self.api = Api()
        world = self.world
        self.world.conflicts = Conflicts(
            *(world.cache, self.api, self.inbox, self.recorder, world.node_backoff, self.metrics)
        )
        self.add(*nodes)
        if leads:
            self.tell(Lead())

    def schedule(self, *pods: PodBuilder) -> list[str]:
        """Place the Pods, one after the other; returns their nodes."""
        for pod in pods:
            self.add(pod)
            self.run()
        return [self.node_of(pod) for pod in pods]

    def end(self, pod: PodBuilder, **status: str) -> None:
        """The Pod ends with that status: the watch shows it as deleted, as it was before."""
        self.remove(pod)
        self.api.objects[pod.path] = msgspec.json.encode(pod.json | {"status": status})

    def answer(self) -> None:
        """The API server answers all that it was asked."""
        asked, self.api.asked = self.api.asked, []
        for path, on_answer in asked:
            on_answer(self.api.objects.get(path, b""))
        self.take_in()

    def reject(self, pod: PodBuilder, reason: str = "OutOfcpu") -> None:
        """The kubelet rejects the Pod, and the API server says so."""
        self.end(pod, phase="Failed", reason=reason, message=MESSAGE)
        self.answer()

    def rejected(self, reason: str = "OutOfcpu", scheduler: str = PROFILE, by: str = "") -> float:
        return self.metric(METRIC, reason=reason, scheduler=scheduler, taken_by=by)

    @property
    def notes(self) -> list[str]:
        return [event.note for event in self.events if event.reason == "RejectedByNode"]


def node(name: str = "n1", cpu: str = "2") -> NodeBuilder:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


def of_web(name: str, cpu: str = "1500m") -> PodBuilder:
    return make_pod(name).req(cpu=cpu).owner("ReplicaSet", "web")


def foreign(name: str = "foreign", cpu: str = "1500m") -> PodBuilder:
    return make_pod(name).req(cpu=cpu).spec(schedulerName=OTHER).node("n1")


def test_of_two_pods_that_took_the_last_room_the_rejected_one_is_counted_and_explained() -> None:
    cluster = Rejecting(node())
    cluster.schedule(pod := of_web("p"))
    cluster.add(foreign())
    cluster.reject(pod)
    assert cluster.rejected(by=OTHER) == 1
    assert cluster.notes == [
        "Node n1 rejected the Pod (OutOfcpu). "
        'A Pod of scheduler "default-scheduler" took the room at the same time. '
        "Other Pods of ReplicaSet web keep off this node for 10 s."
    ]


def test_a_pod_of_another_scheduler_that_lost_against_ours_is_counted_too() -> None:
    cluster = Rejecting(node())
    cluster.schedule(of_web("p"))
    cluster.add(lost := foreign())
    cluster.reject(lost)
    assert cluster.rejected(scheduler=OTHER, by=PROFILE) == 1
    assert cluster.notes == []


def test_nobody_took_the_room_where_all_pods_of_the_node_fit() -> None:
    cluster = Rejecting(node(cpu="8"))
    cluster.schedule(pod := make_pod("p").req(cpu="1"))
    cluster.add(foreign())
    cluster.reject(pod, "TopologyAffinityError")
    assert cluster.rejected("TopologyAffinityError") == 1
    assert cluster.notes == ["Node n1 rejected the Pod (TopologyAffinityError)."]


def test_a_pod_that_we_knew_of_when_we_decided_did_not_take_the_room() -> None:
    cluster = Rejecting(node())
    cluster.add(foreign(cpu="1"))
    cluster.schedule(pod := of_web("p", cpu="1"))
    cluster.add(node(cpu="1"))  # it shrinks
    cluster.reject(pod)
    assert cluster.rejected(by="") == 1


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded"},
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource"},
        {"phase": "Failed"},
    ],
    ids=["it succeeded", "evicted", "its container failed"],
)
def test_a_pod_that_ended_otherwise_is_not_counted(status: dict[str, str]) -> None:
    cluster = Rejecting(node())
    cluster.schedule(pod := of_web("p"))
    cluster.end(pod, **status)
    cluster.answer()
    assert cluster.notes == []
    assert METRIC + "{" not in cluster.metrics.render().decode()


def test_a_pod_that_ran_or_is_being_deleted_is_not_looked_up() -> None:
    cluster = Rejecting(node(cpu="8"))
    cluster.schedule(ran := of_web("ran"), ends := of_web("ends"))
    cluster.add(ran.phase("Running"), ends.meta(deletionTimestamp="2026-01-01T00:00:00Z"))
    cluster.remove(ran, ends)
    assert cluster.api.asked == []


def test_other_schedulers_pods_are_looked_up_only_where_ours_may_have_taken_the_room() -> None:
    cluster = Rejecting(node(cpu="8"))
    cluster.schedule(of_web("p"))
    cluster.add(other := foreign())
    cluster.remove(other)
    assert cluster.api.asked == []


def test_who_does_not_lead_looks_nothing_up() -> None:
    cluster = Rejecting(node(), leads=False)
    cluster.schedule(pod := of_web("p"))
    cluster.remove(pod)
    assert cluster.api.asked == []


@pytest.mark.parametrize("raced", [True, False], ids=["overcommitted", "room for both"])
def test_a_pod_that_is_gone_when_it_is_looked_up_counts_where_a_race_was_seen(raced: bool) -> None:
    cluster = Rejecting(node(cpu="2" if raced else "8"))
    cluster.schedule(pod := of_web("p"))
    cluster.add(foreign())
    cluster.remove(pod)
    cluster.answer()
    assert cluster.rejected("Unknown", by=OTHER) == raced
    assert len(cluster.notes) == raced


def test_a_successor_of_the_same_name_is_not_taken_for_the_rejected_pod() -> None:
    cluster = Rejecting(node())
    cluster.schedule(pod := of_web("p"))
    cluster.end(of_web("p"), phase="Failed", reason="OutOfcpu", message=MESSAGE)
    cluster.remove(pod)
    cluster.answer()
    assert cluster.notes == []


@pytest.mark.parametrize("answer", [None, b"<html>"], ids=["none", "no Pod"])
def test_what_cannot_be_read_is_not_counted_and_the_next_is_looked_up(
    answer: bytes | None,
) -> None:
    cluster = Rejecting(node(cpu="1k"))
    for number in range(MAX_LOOKUPS + 1):
        cluster.schedule(pod := make_pod(f"p{number}").req(cpu="1m"))
        cluster.api.objects[pod.path] = answer
        cluster.remove(pod)
        cluster.answer()
    cluster.schedule(pod := of_web("p"))
    cluster.reject(pod)
    assert cluster.rejected() == 1


def test_a_flood_is_not_looked_up_as_a_whole() -> None:
    cluster = Rejecting(make_node("n1").capacity(cpu="1k", memory="8Gi", pods=1000))
    pods = [make_pod(f"p{number}").req(cpu="1m") for number in range(MAX_LOOKUPS + 5)]
    cluster.schedule(*pods)
    cluster.tell(Replaced(POD, []))  # after a cut of the watch
    assert len(cluster.api.asked) == MAX_LOOKUPS


# The next Pods of the same owner


def test_the_replacement_goes_to_another_node() -> None:
    cluster = Rejecting(node("n1", "8"), node("n2", "4"))
    cluster.schedule(pod := of_web("p", "1"))
    assert cluster.node_of(pod) == "n1"
    cluster.reject(pod, "TopologyAffinityError")
    assert cluster.schedule(of_web("q", "1")) == ["n2"]


def test_a_replacement_that_comes_before_the_answer_goes_to_another_node() -> None:
    cluster = Rejecting(node("n1", "8"), node("n2", "4"))
    cluster.schedule(pod := of_web("p", "1"))
    cluster.end(pod, phase="Failed", reason="TopologyAffinityError", message=MESSAGE)
    assert cluster.schedule(of_web("q", "1"), make_pod("alone").req(cpu="1")) == ["n2", "n1"]


def test_a_replacement_that_comes_before_the_answer_goes_there_if_nowhere_else() -> None:
    cluster = Rejecting(node())
    cluster.schedule(pod := of_web("p"))
    cluster.end(pod, phase="Failed", reason="TopologyAffinityError", message=MESSAGE)
    assert cluster.schedule(of_web("q")) == ["n1"]


def test_a_node_that_rejected_nothing_is_not_avoided_after_the_answer() -> None:
    cluster = Rejecting(node("n1", "8"), node("n2", "4"))
    cluster.schedule(pod := of_web("p", "1"))
    cluster.end(pod, phase="Succeeded")
    cluster.answer()
    assert cluster.schedule(of_web("q", "1")) == ["n1"]
    assert not cluster.world.node_backoff


def test_pods_of_others_still_go_there() -> None:
    cluster = Rejecting(node("n1", "8"), node("n2", "4"))
    cluster.schedule(pod := of_web("p", "1"))
    cluster.reject(pod, "TopologyAffinityError")
    other = make_pod("other").req(cpu="1").owner("ReplicaSet", "db")
    assert cluster.schedule(other, make_pod("alone").req(cpu="1")) == ["n1", "n1"]


def test_where_no_other_node_fits_it_waits_until_the_time_is_over() -> None:
    cluster = Rejecting(node())
    cluster.schedule(pod := of_web("p"))
    cluster.reject(pod, "TopologyAffinityError")
    assert cluster.schedule(successor := of_web("q")) == [""]
    assert "rejected a Pod of the same owner" in cluster.message(successor)
    cluster.wait(FIRST_SECONDS)
    cluster.run()
    assert cluster.node_of(successor) == "n1"


def test_the_time_doubles_with_each_rejection_and_is_forgotten_later() -> None:
    cluster = Rejecting(node())
    backoff, pod = cluster.world.node_backoff, of_web("p").obj()
    assert [backoff.add(pod, "n1") for _ in range(3)] == [10, 20, 40]
    assert backoff.add(pod, "n2") == FIRST_SECONDS
    for _ in range(5):
        longest = backoff.add(pod, "n1")
    assert longest == LONGEST_SECONDS
    assert backoff.rows(pod, cluster.nodes).tolist() == [0]
    cluster.clock.time += LONGEST_SECONDS
    assert backoff.rows(pod, cluster.nodes).tolist() == []
    cluster.clock.time += LONGEST_SECONDS
    assert backoff.rows(pod, cluster.nodes).tolist() == []
    assert not backoff

"""The cycle as a whole: what becomes of a Pod, and what the Pod is told."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from tests.core_harness import Cluster, profile, uid_of
from tests.scripted import scripted

from bayplan import scheduler
from bayplan.framework import Status
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder, make_node, make_pod


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


def test_a_pod_that_fits_is_bound_and_told_so() -> None:
    cluster = Cluster()
    pod = make_pod("p").req(cpu="1")
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.bound == [("p", "n1")]
    assert cluster.notes == [("Scheduled", "Successfully assigned default/p to n1")]
    assert cluster.recorder.events[0].type == "Normal"
    assert cluster.recorder.events[0].action == "Binding"
    assert cluster.counted_on(pod) == "n1"
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert cluster.cache.is_assumed(uid_of(pod))
    assert cluster.metric(
        "scheduler_schedule_attempts_total", result="scheduled", profile="bayplan"
    )
    assert cluster.is_at_rest()

    cluster.add(pod.node("n1"))
    assert not cluster.cache.is_assumed(uid_of(pod))
    assert cluster.is_at_rest()


def test_a_pod_that_fits_nowhere_waits_and_is_told_why() -> None:
    cluster = Cluster()
    pod = make_pod("p").req(cpu="9").meta(generation=3)
    cluster.add(node(), node("n2"), pod)
    cluster.run()
    text = (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert cluster.notes == [("FailedScheduling", text)]
    assert cluster.verdict == ("Unschedulable", text)
    condition = cluster.recorder.conditions[0][1]
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert condition.observed_generation == 3
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    assert cluster.rejectors(pod) == {"NodeResourcesFit"}
    assert cluster.is_at_rest()

    cluster.add(node("n3", cpu="16"))
    cluster.wait(1)
    cluster.run()
    assert cluster.bound == [("p", "n3")]


def test_without_any_node_a_pod_is_tried_again_after_a_backoff() -> None:
    cluster = Cluster()
    pod = make_pod("p")
    cluster.add(pod)
    cluster.run()
    assert cluster.verdict == ("Unschedulable", "no nodes available to schedule pods")
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.recorder.nominated == [("p", "")]


def test_a_profile_without_post_filter_adds_nothing_to_the_message() -> None:
    cluster = Cluster(profiles=[profile("NodeUnschedulable", bare=True)])
    cluster.add(node().unschedulable(), make_pod("p"))
    cluster.run()
    assert cluster.verdict[1] == "0/1 nodes are available: 1 node(s) were unschedulable."


def test_a_pod_that_is_being_deleted_is_not_tried() -> None:
    cluster = Cluster()
    pod = make_pod("p").terminating()
    cluster.add(node(), pod)
    cluster.run()
    assert cluster.notes == [("FailedScheduling", "skip schedule deleting pod: default/p")]
    assert not cluster.bound
    assert cluster.state(pod) is QueueState.OUTSIDE
    assert cluster.is_at_rest()


def test_pods_of_other_schedulers_are_left_alone_but_count_once_they_have_a_node() -> None:
    cluster = Cluster()
    foreign = make_pod("foreign").spec(schedulerName="other").req(cpu="3")
    ours = make_pod("ours").req(cpu="2")
    cluster.add(node(), foreign)
    cluster.run()
    assert not cluster.bound
    assert cluster.state(foreign) is QueueState.OUTSIDE

    cluster.add(foreign.node("n1"), ours)
    cluster.run()
    assert cluster.verdict[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.remove(foreign)
    cluster.wait(1)
    cluster.run()
    assert cluster.bound == [("ours", "n1")]


def test_each_profile_has_its_own_plugins() -> None:
    no = scripted("No", filter=Status.unschedulable("no"))
    cluster = Cluster(
        no,
        profiles=[
            profile("No", bare=True, scheduler_name="strict"),
            profile(bare=True, scheduler_name="lax"),
        ],
    )
    strict = make_pod("a").spec(schedulerName="strict")
    lax = make_pod("b").spec(schedulerName="lax")
    cluster.add(node(), strict, lax)
    cluster.run()
    assert cluster.bound == [("b", "n1")]
    assert cluster.verdict[1] == "0/1 nodes are available: 1 no."
    assert cluster.metric(
        "scheduler_schedule_attempts_total", result="unschedulable", profile="strict"
    )
    assert cluster.metric("scheduler_schedule_attempts_total", result="scheduled", profile="lax")


def test_many_pods_over_few_nodes_never_overcommit_one() -> None:
    cluster = Cluster()
    cluster.add(*(node(f"n{i}", cpu="2") for i in range(5)))
    pods: list[PodBuilder] = [make_pod(f"p{i}").req(cpu="500m", memory="1Gi") for i in range(30)]
    cluster.add(*pods)
    cluster.run()
    assert len(cluster.bound) == 20
    assert all(info.free("cpu") == 0 for info in cluster.cache.nodes)
    assert cluster.metrics.render().count(b"scheduler_schedule_attempts_total{") == 2
    assert cluster.is_at_rest()


def test_a_binding_that_fails_is_logged_with_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "log", structlog.get_logger())
    cluster = Cluster(bare=True)
    cluster.writer.outcome = RuntimeError("refused")
    cluster.add(make_node("n1").capacity(cpu="1", pods=9), make_pod("p"))
    with structlog.testing.capture_logs() as lines:
        cluster.cycle()
        cluster.take_in()
    failures = [line for line in lines if line["log_level"] == "error"]
    assert [(line["pod"], line["node"]) for line in failures] == [("default/p", "n1")]
    assert "refused" in failures[0]["err"]

"""PodGroups of Kubernetes: placed in kube-scheduler's way, with its messages.

What holds for groups of every source is in `tests.test_groups_of_every_source`.
"""

from __future__ import annotations

import random

import pytest
from tests.core_harness import Cluster, profile
from tests.groups import (
    GATE,
    basic,
    conditions,
    gang,
    gang_members,
    names_of,
    nodes,
    workload_cluster,
)
from tests.scripted import scripted

from bayplan.client.errors import ServerError
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.framework import CycleState, Status
from bayplan.queue.states import QueueState
from bayplan.testing import Json, PodBuilder, labels_are, make_node, make_pod

NOBODY = "pod group preemption: No preemption victims found for incoming preemptor"


def group_conditions(cluster: Cluster) -> list[tuple[str, str, str, str]]:
    """PodGroup, status, reason and message of what was written on PodGroups."""
    return [(name, c.status, c.reason, c.message) for name, c in cluster.recorder.group_conditions]


def run_once(cluster: Cluster) -> None:
    """One attempt, if anybody may be tried now."""
    queued = cluster.queue.pop()
    if queued is not None:
        cluster.scheduler.schedule_one(queued)
        cluster.take_in()


def test_a_gang_that_does_not_fit_holds_nothing_and_each_pod_is_told_why() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 3), *nodes(1, cpu="2"), *gang_members("g", 4))
    cluster.run()
    assert cluster.bound == []
    # Two fit; the third and fourth do not, and with the latter the minimum is out of reach.
    reason = f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NOBODY}"
    own = "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.messages == {
        "g-0": f"pod group is unschedulable, {reason}",
        "g-1": f"pod group is unschedulable, {reason}",
        "g-2": own,
        "g-3": own,
    }
    assert conditions(cluster) == [("g", "False", "Unschedulable", reason)]
    assert cluster.is_at_rest()


def test_pods_after_the_minimum_is_out_of_reach_are_not_tried() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 3), *nodes(1, cpu="1"), *gang_members("g", 3, cpu="2"))
    cluster.run()
    reason = "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
    assert cluster.messages["g-0"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.messages["g-1"] == cluster.messages["g-2"] == reason


def test_a_basic_group_binds_what_fits() -> None:
    cluster = workload_cluster()
    cluster.add(basic("g"), *nodes(1, cpu="2"), *gang_members("g", 3))
    cluster.run()
    assert names_of(cluster, "g") == {"g-0", "g-1"}
    assert cluster.messages["g-2"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_members_are_tried_in_the_order_in_which_they_came() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    first = gang_members("g", 1, first=9)
    cluster.add(*first)
    cluster.clock.time += 1
    cluster.add(*gang_members("g", 2))
    cluster.add(*nodes(1, cpu="2"))
    cluster.run()
    assert names_of(cluster, "g") == {"g-9", "g-0"}


def test_a_replacement_waits_with_its_group_and_counts_those_with_nodes() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    pods = gang_members("g", 2)
    cluster.add(*nodes(1, cpu="2"), *pods)
    cluster.run()
    cluster.add(*(pod.node("n0") for pod in pods))
    (new,) = gang_members("g", 1, first=7)
    cluster.add(new)
    cluster.run()
    assert conditions(cluster) == [("g", "True", "Scheduled", ""), *conditions(cluster)[1:]]
    assert cluster.state(new) is QueueState.GROUPED
    cluster.remove(pods[0])
    cluster.wait(11)
    cluster.run()
    assert cluster.counted_on(new) == "n0"


def test_a_gang_that_gathers_says_so_on_the_group_and_its_pods() -> None:
    """And again when it has lost a Pod after an attempt."""
    cluster = workload_cluster()
    cluster.add(gang("g", 3), *nodes(1, cpu="1"), *gang_members("g", 2))
    cluster.wait(6)
    text = "WaitingForMembers: waiting for minCount pods from a gang to appear in scheduling queue"
    waits = "WaitingForMembers", text
    assert cluster.notes == [waits]
    (condition,) = group_conditions(cluster)
    assert condition == ("g", "False", *waits)
    said = [(name, c.reason, c.message) for name, c in cluster.recorder.conditions]
    assert said == [(f"g-{n}", waits[0], "waits with its group default/g") for n in range(2)]
    (third,) = gang_members("g", 1, first=2)
    cluster.add(third)
    cluster.run()
    assert group_conditions(cluster)[-1][2] == "Unschedulable"
    cluster.remove(third)
    cluster.wait(6)
    assert group_conditions(cluster)[-1] == condition
    assert {name: c.reason for name, c in cluster.recorder.conditions} == {
        "g-0": "WaitingForMembers",
        "g-1": "WaitingForMembers",
        "g-2": "Unschedulable",
    }


def test_a_gate_of_one_pod_holds_the_whole_group() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    pods = gang_members("g", 2)
    (gated,) = gang_members("g", 1, first=2)
    gated.spec(schedulingGates=[{"name": "later"}])
    cluster.add(*nodes(1), *pods, gated)
    cluster.run()
    assert cluster.bound == []
    assert cluster.state(gated) is QueueState.GATED
    gated.spec(schedulingGates=[])
    cluster.add(gated)
    cluster.run()
    assert len(names_of(cluster, "g")) == 3


def test_a_gated_pod_that_goes_lets_the_group_go_on() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2))
    (gated,) = gang_members("g", 1, first=2)
    gated.spec(schedulingGates=[{"name": "later"}])
    cluster.add(*nodes(1), gated, *gang_members("g", 2))
    cluster.run()
    assert cluster.bound == []
    cluster.remove(gated)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(
            make_pod("g-1").pod_group("g").priority(5),
            "all pods in a single pod group should have the same priority as the pod group's "
            "priority, got 5 and 0",
            id="priority",
        ),
        pytest.param(
            make_pod("g-1").pod_group("g").spec(preemptionPolicy="Never"),
            "all pods in a single pod group should have the same preemption policy, "
            "got Never and PreemptLowerPriority",
            id="preemption policy",
        ),
        pytest.param(
            make_pod("g-1").pod_group("g").spec(schedulerName="other"),
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            'got: "other" and "bayplan"',
            id="scheduler",
        ),
    ],
)
def test_pods_that_cannot_be_one_group_are_told_so(pod: PodBuilder, text: str) -> None:
    cluster = workload_cluster(profiles=[profile(), profile(scheduler_name="other")])
    cluster.add(gang("g", 2))
    # A Pod of a node sets the rule for those that come after it.
    bound = make_pod("g-0").pod_group("g").node("n0")
    cluster.add(*nodes(1), bound, make_pod("g-2").pod_group("g"))
    cluster.run()
    cluster.add(pod.node("n0"), *gang_members("g", 1, first=3))
    cluster.run()
    assert cluster.messages["g-3"] == text


def test_a_pod_whose_attempt_breaks_ends_the_attempt_of_its_group() -> None:
    cluster = workload_cluster(scripted("Broken", filter=Status.error("no disk")))
    cluster.add(gang("g", 2), *nodes(1), *gang_members("g", 2))
    cluster.run()
    own = cluster.messages["g-0"]
    text = f"failed to schedule other pod from a pod group: {own}"
    assert "no disk" in own
    assert cluster.messages["g-1"] == text
    assert conditions(cluster) == [("g", "False", "SchedulerError", text)]


def test_a_pod_whose_binding_failed_backs_off_while_others_of_its_group_wait() -> None:
    cluster = workload_cluster()
    cluster.add(basic("g"), *nodes(1))
    cluster.writer.outcome = RuntimeError("refused")
    pods = gang_members("g", 2, cpu="3")
    cluster.add(*pods)
    for _ in range(20):
        run_once(cluster)
    # Each was tried once: there is room for one, and while the first backs off the other gets it.
    assert cluster.bound == [("g-0", "n0"), ("g-1", "n0")]
    cluster.writer.outcome = None
    cluster.wait(11)
    cluster.run()
    assert len(cluster.bound) == 3
    assert cluster.is_at_rest()


def test_attempts_are_counted() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 2), *nodes(1), *gang_members("g", 2))
    cluster.run()
    labels = {"result": "scheduled", "profile": "bayplan"}
    assert cluster.metric("scheduler_podgroup_schedule_attempts_total", **labels) == 1


def test_pods_of_both_apis_are_placed_side_by_side() -> None:
    cluster = Cluster(feature_gates=GATE)
    cluster.add(gang("g", 2))
    cluster.add(*nodes(1), *gang_members("g", 2), make_pod("alone").req(cpu="1"))
    cluster.run()
    assert len(cluster.bound) == 3


def preempting_cluster(running: int) -> tuple[Cluster, list[PodBuilder]]:
    """Nodes full of Pods of low priority, and a gang of two that needs two CPUs each."""
    cluster = workload_cluster()
    cluster.writer.on_deleted = None
    victims = [
        make_pod(f"low-{i}").req(cpu="1").node(f"n{i % 2}").start_time(f"2026-01-01T00:00:0{i}Z")
        for i in range(running)
    ]
    cluster.add(*nodes(2, cpu="4"), *victims, gang("g", 2, priority=9))
    cluster.add(*(pod.priority(9) for pod in gang_members("g", 2, cpu="2")))
    return cluster, victims


def test_a_gang_evicts_the_least_important_pods_and_is_nominated_to_their_nodes() -> None:
    cluster, _ = preempting_cluster(8)
    cluster.run()
    assert len(cluster.writer.deleted) == 4
    text = "pod group preemption: found a placement for podgroup, preempting 4 victims"
    assert conditions(cluster)[-1][3].endswith(text)
    nominated = {name: node for name, node in cluster.recorder.nominated if name.startswith("g-")}
    assert set(nominated.values()) <= {"n0", "n1"}
    assert len(nominated) == 2
    labels = {"result": "waiting_on_preemption", "profile": "bayplan"}
    assert cluster.metric("scheduler_podgroup_schedule_attempts_total", **labels) == 1


def test_what_a_gang_evicts_is_counted_apart_from_what_pods_evict() -> None:
    cluster, _ = preempting_cluster(8)
    cluster.run()
    metric = cluster.metric
    assert metric("scheduler_workload_preemption_attempts_total", result="Success") == 1
    assert metric("scheduler_workload_preemption_victims_sum") == 4
    assert metric("scheduler_preemption_attempts_total") == 0
    assert metric("scheduler_preemption_victims_count") == 0
    labels = {"preemptor": "podgroup"}
    search = "scheduler_preemption_evaluation_duration_seconds_count"
    assert metric(search, **labels, result="Success") == 1
    evictions = "scheduler_preemption_execution_duration_seconds_count"
    assert metric(evictions, **labels, result="success") == 1
    assert metric("scheduler_preemption_goroutines_execution_total", result="success") == 1


def test_a_gang_is_bound_when_its_victims_are_gone() -> None:
    cluster, victims = preempting_cluster(8)
    cluster.run()
    cluster.remove(*cluster.evicted(victims))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2
    assert cluster.is_at_rest()


def attempts(cluster: Cluster) -> float:
    """How often PodGroups were tried and had to wait for victims, so far."""
    labels = {"result": "waiting_on_preemption", "profile": "bayplan"}
    return cluster.metric("scheduler_podgroup_schedule_attempts_total", **labels)


def test_a_gang_is_not_tried_again_while_any_of_its_victims_stays() -> None:
    cluster, pods = preempting_cluster(8)
    stranger = make_pod("stranger").req(cpu="1").priority(99).node("n2")
    cluster.add(make_node("n2").capacity(cpu="1", memory="1Gi", pods=110), stranger)
    cluster.run()
    victims = cluster.evicted(pods)
    written = len(cluster.recorder.conditions)
    for gone in (victims[0], stranger, victims[1], victims[2]):
        cluster.remove(gone)
        cluster.wait(60)
        cluster.run()
    # Neither its own victims nor Pods of others are a reason while one is not seen to leave.
    assert attempts(cluster) == 1
    assert len(cluster.recorder.conditions) == written
    cluster.remove(victims[3])
    cluster.run()
    assert len(names_of(cluster, "g")) == 2
    assert cluster.is_at_rest()


def test_while_victims_end_a_gang_is_tried_again_only_for_the_last_or_for_others() -> None:
    cluster, pods = preempting_cluster(8)
    cluster.run()
    victims = cluster.terminating(pods)
    for gone in victims[:2]:
        cluster.remove(gone)
        cluster.wait(60)
        cluster.run()
    assert attempts(cluster) == 1
    cluster.remove(next(pod for pod in pods if pod not in victims))
    cluster.wait(60)
    cluster.run()
    assert attempts(cluster) == 2
    assert conditions(cluster)[-1][3].endswith("ongoing preemption on nominated nodes")
    cluster.remove(victims[2])
    cluster.wait(60)
    cluster.run()
    assert attempts(cluster) == 2
    cluster.remove(victims[3])
    cluster.wait(60)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_room_elsewhere_is_taken_while_victims_end() -> None:
    cluster, pods = preempting_cluster(8)
    cluster.run()
    for pod in cluster.evicted(pods):
        cluster.add(pod.terminating())
    cluster.add(*nodes(1, prefix="new"))
    cluster.wait(11)
    cluster.run()
    assert {node for pod, node in cluster.bound} == {"new0"}


def test_a_gang_whose_eviction_failed_is_tried_again_at_once() -> None:
    cluster, _ = preempting_cluster(8)
    cluster.writer.outcome = ServerError("down")
    cluster.cycle()
    assert cluster.writer.deleted == []
    cluster.writer.outcome = None
    cluster.cycle()
    assert len(cluster.writer.deleted) == 4


def test_a_gang_that_waits_for_its_victims_keeps_its_nominations() -> None:
    cluster, pods = preempting_cluster(8)
    cluster.run()
    cluster.remove(cluster.evicted(pods)[0])
    cluster.wait(2)
    assert len(cluster.world.nominator) == 2


def test_a_gang_that_would_not_fit_without_them_either_evicts_nobody() -> None:
    cluster = workload_cluster()
    low = make_pod("low").req(cpu="1").node("n0")
    cluster.add(*nodes(1, cpu="2"), low, gang("g", 2, priority=9))
    cluster.add(*(pod.priority(9) for pod in gang_members("g", 2, cpu="2")))
    cluster.run()
    assert cluster.writer.deleted == []
    # Without the Pod of low priority one of them fits.
    text = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    devices = "deallocation and deletion of ResourceClaims completed"
    assert conditions(cluster)[-1][3].endswith(f"{devices}, pod group preemption: {text}")
    assert cluster.cache.nodes.recount() == {}
    assert cluster.counted_on(low) == "n0"


def test_an_error_without_the_victims_ends_the_attempt() -> None:
    cluster = workload_cluster(scripted("Broken", pre_score=Status.error("no disk")))
    lows = [make_pod(f"low-{i}").req(cpu="2").node(f"n{i}") for i in range(2)]
    cluster.add(*nodes(2, cpu="2"), *lows, gang("g", 1, priority=9))
    cluster.add(*(pod.priority(9) for pod in gang_members("g", 1, cpu="2")))
    cluster.run()
    assert cluster.writer.deleted == []
    why = 'failed to schedule other pod from a pod group: running PreScore plugin "Broken": no disk'
    text = f'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: {why}'
    assert conditions(cluster) == [("g", "False", "SchedulerError", text)]
    assert cluster.cache.nodes.recount() == {}


def test_a_group_that_never_preempts_says_so() -> None:
    cluster = workload_cluster()
    cluster.add(*nodes(1, cpu="2"), make_pod("low").req(cpu="2").node("n0"))
    cluster.add(gang("g", 1, priority=9))
    (pod,) = gang_members("g", 1)
    cluster.add(pod.priority(9).spec(preemptionPolicy="Never"))
    cluster.run()
    text = "pod group preemption: not eligible due to preemptionPolicy=Never."
    assert conditions(cluster)[-1][3].endswith(text)


def test_a_nominated_pod_of_a_gang_counts_once_while_victims_are_put_back() -> None:
    """Counted twice, g-0 would leave no room for `stays`."""
    cluster = workload_cluster()
    stays = make_pod("stays").req(cpu="6").node("n0").start_time("2026-01-01T00:00:00Z")
    goes = make_pod("goes").req(cpu="1").node("n0").start_time("2026-01-02T00:00:00Z")
    first, second = (pod.priority(9) for pod in gang_members("g", 2, cpu="13"))
    cluster.add(*nodes(1, cpu="32"), stays, goes, gang("g", 2, priority=9))
    cluster.add(first.nominated("n0"), second)
    cluster.run()
    assert cluster.writer.deleted == ["goes"]


def test_a_group_that_is_one_unit_is_evicted_as_a_whole_or_not_at_all() -> None:
    cluster = workload_cluster()
    cluster.add(*nodes(2, cpu="2"), gang("low", 2, disruptionMode={"all": {}}))
    cluster.add(*(pod.node(f"n{i}") for i, pod in enumerate(gang_members("low", 2, cpu="2"))))
    cluster.add(gang("g", 1, priority=9))
    (pod,) = gang_members("g", 1, cpu="2")
    cluster.add(pod.priority(9))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["low-0", "low-1"]
    disruptions = "scheduler_preemption_workload_disruptions_sum"
    assert cluster.metric(disruptions, preemptor="podgroup") == 1


def evictions_of(seed: int) -> tuple[list[str], dict[str, str | None]]:
    """Who is evicted for a gang on a random full cluster, and where its Pods are nominated."""
    dice = random.Random(seed)
    cluster = workload_cluster()
    cluster.writer.on_deleted = None
    cluster.add(*nodes(4, cpu="4"))
    for i in range(3):
        mode: Json = {"all": {}} if dice.random() < 0.5 else {"single": {}}
        cluster.add(gang(f"low-{i}", 1, priority=dice.choice([0, 3]), disruptionMode=mode))
    for i in range(16):
        group = f"low-{dice.randrange(3)}"
        pod = make_pod(f"pod-{i}").req(cpu="1").node(f"n{i % 4}")
        pod = pod.start_time(f"2026-01-01T00:00:{dice.randrange(10, 60)}Z")
        if dice.random() < 0.5:
            pod = pod.spec(schedulingGroup={"podGroupName": group})
        cluster.add(pod.priority(dice.choice([0, 3, 9])))
    cluster.add(gang("g", 3, priority=5))
    sizes = ["1", "2"] if dice.random() < 0.5 else ["1"]
    wanted = [pod.req(cpu=dice.choice(sizes)).priority(5) for pod in gang_members("g", 3)]
    if dice.random() < 0.3:
        wanted = [pod.host_port(80) for pod in wanted]
    cluster.add(*wanted)
    cluster.run()
    return cluster.writer.deleted, dict(cluster.recorder.nominated)


def test_who_is_evicted_does_not_depend_on_whether_all_members_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some_were_evicted = 0
    for seed in range(40):
        with monkeypatch.context() as patch:
            patch.setattr(ProfilePlugins, "is_row_local", lambda *_: False)
            expected = evictions_of(seed)
        assert evictions_of(seed) == expected
        some_were_evicted += bool(expected[0])
    assert some_were_evicted > 10


def test_members_with_affinity_are_all_asked_again() -> None:
    cluster, _ = preempting_cluster(8)
    framework = cluster.core.profiles["bayplan"]

    def row_local(pod: PodBuilder) -> bool:
        state = CycleState(timed=False)
        framework.search.diagnose(state, pod.obj())
        return framework.plugins.is_row_local(state)

    assert row_local(make_pod("plain").req(cpu="2"))
    apart = make_pod("apart").pod_anti_affinity("zone", labels_are({"app": "x"}))
    assert not row_local(apart)
    # So does anti-affinity of a Pod that is there, which may be against them.
    cluster.add(make_node("labelled").label("zone", "a"), apart.node("labelled"))
    assert not row_local(make_pod("x").label("app", "x").req(cpu="2"))

"""PodGroups of Kubernetes that ask for one topology domain, in kube-scheduler's way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.groups import (
    basic,
    conditions,
    gang,
    gang_members,
    names_of,
    nodes,
    racks,
    racks_of,
    workload_cluster,
)
from tests.queues import pod as queued_pod
from tests.queues import queue, queues_profile
from tests.scripted import scripted

from bayplan.api.pod import Pod
from bayplan.framework import CycleState, PlacementProgress, Plugin, PodGroupInfo, Status
from bayplan.framework.placements import GroupPlacement
from bayplan.plugins.backfill import Backfill
from bayplan.queue.states import QueueState
from bayplan.simulation.simulate import simulate
from bayplan.testing import NodeBuilder, make_node, make_pod

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
RACK = {"topology": [{"key": "rack"}]}
NOBODY = "pod group preemption: No preemption victims found for incoming preemptor"


def cluster_of(*there: NodeBuilder, plugins: tuple[type[Plugin], ...] = ()) -> Cluster:
    """A cluster with these nodes whose scheduler heeds topology constraints."""
    cluster = workload_cluster(*plugins, gates=GATES)
    cluster.add(*there)
    return cluster


def test_a_group_is_kept_in_one_rack() -> None:
    cluster = cluster_of(*racks(2, 3, 2))
    cluster.add(gang("g", 3, schedulingConstraints=RACK), *gang_members("g", 3))
    cluster.run()
    assert racks_of(cluster, "g") == {"r1"}
    assert conditions(cluster) == [("g", "True", "Scheduled", "")]
    assert cluster.is_at_rest()


def test_without_the_gate_the_constraint_means_nothing() -> None:
    cluster = workload_cluster()
    cluster.add(gang("g", 3, schedulingConstraints=RACK))
    cluster.add(*racks(1, 1, 1), *gang_members("g", 3))
    cluster.run()
    assert racks_of(cluster, "g") == {"r0", "r1", "r2"}


def test_the_rack_for_most_pods_is_taken_then_the_fullest() -> None:
    cluster = cluster_of(*racks(2, 4, 3, cpu="2"))
    # Places: 4 in r0, 3 of which are taken; 8 in r1; 6 in r2, where one is taken.
    cluster.add(*(make_pod(f"old-{i}").req(cpu="1").node(f"r0n{i % 2}") for i in range(3)))
    cluster.add(make_pod("old").req(cpu="1").node("r2n0"))
    cluster.add(gang("two", 1, schedulingConstraints=RACK), *gang_members("two", 2))
    cluster.run()
    assert racks_of(cluster, "two") == {"r2"}
    cluster.add(gang("one", 1, schedulingConstraints=RACK), *gang_members("one", 1))
    cluster.run()
    assert racks_of(cluster, "one") == {"r0"}


def test_a_group_that_no_rack_holds_is_told_how_the_first_one_fell_short() -> None:
    cluster = cluster_of(*racks(2, 1))
    cluster.add(gang("g", 3, schedulingConstraints=RACK), *gang_members("g", 4))
    cluster.run()
    assert cluster.bound == []
    text = (
        "0/2 placements are available, first placement status: "
        "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    )
    told = f"pod group is unschedulable, {text}"
    assert conditions(cluster) == [("g", "False", "Unschedulable", f"{told}, {NOBODY}")]
    # The nodes of other racks are not counted.
    own = "0/2 nodes are available: 2 Insufficient cpu."
    placed = f"pod group is unschedulable, {told}, {NOBODY}"
    assert cluster.messages == {"g-0": placed, "g-1": placed, "g-2": own, "g-3": own}
    assert cluster.is_at_rest()


def test_pods_that_were_not_tried_are_told_what_the_group_lacks() -> None:
    cluster = cluster_of(*racks(1, 1))
    cluster.add(gang("g", 2, schedulingConstraints=RACK), *gang_members("g", 2, cpu="2"))
    cluster.run()
    assert cluster.messages["g-1"] == (
        "pod group is unschedulable, 0/2 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
    )


def test_a_group_without_a_constraint_has_one_placement() -> None:
    cluster = cluster_of(*racks(1, 1, 1))
    cluster.add(gang("g", 3), gang("big", 2), *gang_members("g", 3))
    cluster.run()
    assert racks_of(cluster, "g") == {"r0", "r1", "r2"}
    cluster.add(*gang_members("big", 2))
    cluster.run()
    assert conditions(cluster)[-1][3] == (
        "pod group is unschedulable, 0/1 placements are available, first placement status: "
        f"minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, {NOBODY}"
    )


def test_where_no_node_has_the_label_there_is_no_placement_until_one_gets_it() -> None:
    cluster = cluster_of(*nodes(2))
    cluster.add(basic("g", schedulingConstraints=RACK))
    pods = gang_members("g", 2)
    cluster.add(*pods)
    cluster.run()
    text = "no feasible placements found"
    assert cluster.messages == {"g-0": text, "g-1": text}
    assert conditions(cluster) == [("g", "False", "Unschedulable", f"{text}, {NOBODY}")]
    cluster.add(*nodes(1, prefix="other"))
    cluster.wait(11)
    cluster.run()
    assert cluster.bound == []
    cluster.add(*(node.label("rack", "r0") for node in nodes(1)))
    cluster.wait(11)
    cluster.run()
    assert [node for _, node in cluster.bound] == ["n0", "n0"]


def test_a_node_that_moves_into_a_rack_that_was_too_small_wakes_the_group() -> None:
    cluster = cluster_of(*racks(1, 1))
    cluster.add(gang("g", 2, schedulingConstraints=RACK), *gang_members("g", 2))
    cluster.run()
    assert cluster.bound == []
    (node,) = nodes(1, "1", prefix="r1n")
    cluster.add(node.label("rack", "r0"))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_a_replacement_goes_to_the_rack_of_the_others_and_waits_while_it_is_full() -> None:
    cluster = cluster_of(*racks(2, 2))
    cluster.add(gang("g", 2, schedulingConstraints=RACK))
    pods = gang_members("g", 2)
    cluster.add(*(pod.node(f"r1n{i}") for i, pod in enumerate(pods)))
    (new,) = gang_members("g", 1, first=7)
    cluster.add(new)
    cluster.run()
    assert cluster.messages["g-7"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert cluster.state(new) is QueueState.GROUPED
    cluster.remove(pods[0])
    cluster.wait(11)
    cluster.run()
    assert cluster.counted_on(new) == "r1n0"


def test_when_all_others_have_left_the_group_may_go_to_another_rack() -> None:
    cluster = cluster_of(*racks(1, 2))
    cluster.add(gang("g", 1, schedulingConstraints=RACK))
    (old,) = gang_members("g", 1)
    cluster.add(old.node("r0n0"))
    cluster.add(*gang_members("g", 1, cpu="1", first=1))
    cluster.run()
    assert cluster.bound == []
    cluster.add(make_pod("else").req(cpu="1").node("r0n0"))
    cluster.remove(old)
    cluster.wait(11)
    cluster.run()
    assert racks_of(cluster, "g") == {"r1"}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        pytest.param(
            ("r0n0", "r1n0"), "more than 1 domain found for pod group: r0, r1", id="two-racks"
        ),
        pytest.param(("n0", "r0n0"), "no topology domain found for pod default/g-0", id="no-rack"),
        pytest.param(
            ("gone",),
            'getting node for pod default/g-0: nodeinfo not found for node name "gone"',
            id="no-node",
        ),
    ],
)
def test_a_group_whose_pods_are_not_in_one_rack_cannot_go_on(where: Any, why: str) -> None:
    cluster = cluster_of(*racks(2, 2), *nodes(1))
    cluster.add(gang("g", 1, schedulingConstraints=RACK))
    pods = gang_members("g", 3)
    cluster.add(*(pod.node(name) for pod, name in zip(pods, where, strict=False)))
    cluster.add(pods[2])
    cluster.run()
    text = f"cannot determine domain for already scheduled pods: {why}"
    assert cluster.messages == {"g-2": text}
    assert conditions(cluster)[-1] == ("g", "False", "SchedulerError", text)


def test_a_group_evicts_in_one_rack() -> None:
    cluster = cluster_of(*racks(1, 2))
    cluster.writer.on_deleted = None
    names = ["r0n0", "r1n0", "r1n1"]
    cluster.add(*(make_pod(f"low-{name}").req(cpu="1").node(name) for name in names))
    cluster.add(gang("g", 2, priority=9, schedulingConstraints=RACK))
    cluster.add(*(pod.priority(9) for pod in gang_members("g", 2)))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["low-r1n0", "low-r1n1"]
    # DynamicResources says nothing of a group with constraints.
    assert conditions(cluster)[-1][3] == (
        "pod group is unschedulable, 0/2 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, "
        "pod group preemption: found a placement for podgroup, preempting 2 victims"
    )
    nominated = {node for name, node in cluster.recorder.nominated if name.startswith("g-")}
    assert nominated == {"r1n0", "r1n1"}


def test_placements_are_counted() -> None:
    cluster = cluster_of(*racks(1, 2, 2))
    cluster.add(gang("g", 2, schedulingConstraints=RACK), *gang_members("g", 2))
    cluster.run()
    name = "scheduler_placement_evaluations_total"
    assert cluster.metric("scheduler_generated_placements_total", profile="bayplan") == 3
    assert cluster.metric(name, result="feasible", profile="bayplan") == 2
    assert cluster.metric(name, result="infeasible", profile="bayplan") == 1


class OddNodes(Plugin):
    """Groups go to the nodes with odd numbers, or to the others."""

    def generate_placements(self, state: Any, group: Any, nodes: Any) -> Any:
        """Two placements."""
        odd = np.array([bool(name) and name[-1] in "13579" for name in nodes.names])
        return [GroupPlacement("even", nodes.exists & ~odd), GroupPlacement("odd", odd)]


class FewPods(Plugin):
    """Prefers the placement with less other Pods."""

    def score_placement(self, state: Any, group: Any, placement: Any, pods: Any, nodes: Any) -> int:
        """The more Pods there are, the lower."""
        assert {pod.node_name for pod in pods} <= set(nodes.names)
        return -int(nodes.pod_count[placement.rows].sum())

    def normalize_placement_scores(self, state: Any, group: Any, scores: Any) -> Any:
        """100 for the best."""
        return np.where(scores == scores.max(), 100, 0)


def own_cluster(*plugins: type[Plugin]) -> Cluster:
    """Four nodes and a group of two; ``plugins`` take the place of those for placements."""
    own = profile(*(plugin.name for plugin in plugins))
    disabled = [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]
    own["plugins"]["multiPoint"]["disabled"] = disabled
    own["plugins"]["placementScore"] = {"disabled": [{"name": "NodeResourcesFit"}]}
    cluster = workload_cluster(*plugins, gates=GATES, profiles=[own])
    cluster.add(*nodes(4), make_pod("old").node("n0"), gang("g", 2), *gang_members("g", 2))
    cluster.run()
    return cluster


def test_plugins_of_users_make_and_score_placements() -> None:
    cluster = own_cluster(OddNodes, FewPods)
    assert {node for pod, node in cluster.bound if pod.startswith("g-")} <= {"n1", "n3"}
    assert len(names_of(cluster, "g")) == 2


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        pytest.param([scripted("Own", generate_placements=ValueError("no"))], "no", id="raises"),
        pytest.param(
            [scripted("Own", generate_placements=Status.error("broken"))], "broken", id="error"
        ),
        pytest.param([scripted("Own", generate_placements=3)], "not a sequence", id="no-sequence"),
        pytest.param(
            [scripted("Own", generate_placements=[GroupPlacement("a", np.zeros(1, np.int64))])],
            "rows must be bool",
            id="no-rows",
        ),
        pytest.param(
            [OddNodes, scripted("Own", score_placement=101)], "an invalid score 101", id="score"
        ),
        pytest.param([OddNodes, scripted("Own", score_placement="a")], "not a int", id="no-score"),
    ],
)
def test_plugins_that_break_fail_the_group(plugins: list[type[Plugin]], text: str) -> None:
    cluster = own_cluster(*plugins)
    assert cluster.bound == []
    assert text in cluster.messages["g-0"]
    assert conditions(cluster)[-1][2] == "SchedulerError"
    assert cluster.is_at_rest()


def test_a_group_that_a_plugin_rejects_for_good_evicts_nobody() -> None:
    never = scripted("Own", generate_placements=Status.unresolvable("never"))
    cluster = own_cluster(never)
    assert conditions(cluster)[-1] == ("g", "False", "Unschedulable", "never")


def test_a_plugin_may_reject_a_group_or_leave_it_no_nodes() -> None:
    no = own_cluster(scripted("Own", generate_placements=Status.unschedulable("not now")))
    assert no.messages["g-0"] == "not now"
    nowhere = own_cluster(scripted("Own", generate_placements=[]))
    assert nowhere.messages["g-0"] == "no feasible placements found"


def test_simulate_takes_the_first_of_equally_good_racks_by_name() -> None:
    cluster = cluster_of(*reversed(racks(2, 2, 2)))
    cluster.add(gang("g", 2, schedulingConstraints=RACK))
    pods = gang_members("g", 2)
    cluster.add(*pods)
    results = simulate(cluster.core, [pod.obj() for pod in pods])
    assert {result["node"] for result in results} == {"r0n0", "r0n1"}


def test_simulate_says_who_is_evicted_not_who_leaves_anyway() -> None:
    cluster = cluster_of(*racks(1, 2))
    low = [make_pod(f"low-{i}").req(cpu="1").node(f"r1n{i}") for i in range(2)]
    cluster.add(low[0], low[1].terminating())
    cluster.add(gang("g", 2, priority=9, schedulingConstraints=RACK))
    pods = [pod.priority(9) for pod in gang_members("g", 2)]
    cluster.add(*pods)
    (first, _) = simulate(cluster.core, [pod.obj() for pod in pods])
    assert first["podGroup"]["victims"] == ["default/low-0"]
    assert "preempting 2 victims" in first["podGroup"]["condition"]


@given(st.data())
def test_a_group_is_placed_as_a_whole_in_one_rack_if_one_holds_it(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    number = data.draw(st.integers(1, 5))
    minimum = data.draw(st.integers(1, number))
    cluster = cluster_of(*racks(*sizes), make_node("alone").capacity(cpu=9, pods=9))
    cluster.add(gang("g", minimum, schedulingConstraints=RACK), *gang_members("g", number))
    cluster.run()
    assert len(names_of(cluster, "g")) == (min(number, max(sizes)) if max(sizes) >= minimum else 0)
    assert len(racks_of(cluster, "g")) <= 1
    assert cluster.is_at_rest()


def test_a_queue_takes_back_room_in_one_rack() -> None:
    """The Pods of the lowest priority are in different racks; those of r2 are the lowest pair."""
    cluster = workload_cluster(gates=GATES, profiles=[queues_profile()])
    cluster.writer.on_deleted = None
    cluster.add(*racks(2, 2, 2))
    cluster.add(queue("mine", "default", guaranteed={"cpu": 2}), queue("lent", "x"))
    for name, priority in {"r0n1": 5, "r1n1": 6, "r2n1": 1}.items():
        other = name.replace("n1", "n0")
        cluster.add(queued_pod(f"low-{other}", "x").node(other))
        cluster.add(queued_pod(f"low-{name}", "x", priority=priority).node(name))
    cluster.add(gang("g", 2, schedulingConstraints=RACK), *gang_members("g", 2))
    cluster.run()
    assert sorted(cluster.writer.deleted) == ["low-r2n0", "low-r2n1"]
    assert {node for _, node in cluster.recorder.nominated} == {"r2n0", "r2n1"}


def test_nodes_are_reserved_in_one_rack() -> None:
    """The nodes that are free first are in different racks."""
    plugins = {
        "multiPoint": {"enabled": [{"name": "Backfill"}]},
        "podGroupPostFilter": {"enabled": [{"name": "Backfill"}]},
    }
    config = {"schedulerName": "bayplan", "plugins": plugins}
    cluster = workload_cluster(gates=GATES, profiles=[config])
    cluster.clock.time = 1_000_000_000.0
    cluster.add(*racks(2, 2))
    for name, seconds in {"r0n0": 500, "r0n1": 700, "r1n0": 600, "r1n1": 800}.items():
        running = make_pod(f"on-{name}").req(cpu="1").node(name).start_time("2001-09-09T00:00:00Z")
        cluster.add(running.spec(activeDeadlineSeconds=10_000 + seconds))
    cluster.add(gang("g", 2, schedulingConstraints=RACK))
    cluster.add(*(pod.created("2001-09-08T00:00:00Z") for pod in gang_members("g", 2)))
    cluster.run()
    (reservation,) = cluster.plugin(Backfill)._reservations.values()
    assert reservation.nodes == {"r0n0", "r0n1"}


def test_a_plugin_of_a_user_may_say_when_a_group_cannot_be_placed_any_more() -> None:
    asked: list[tuple[int, int]] = []

    class Pairs(Plugin):
        """Groups have an even number of Pods with nodes."""

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> None:
            """Let it pass."""

        def placement_feasible(
            self, state: CycleState, group: PodGroupInfo, progress: PlacementProgress
        ) -> Status | None:
            asked.append((progress.scheduled, progress.remaining))
            if progress.remaining == 0 and progress.scheduled % 2:
                return Status.unschedulable("an odd number of Pods fit")
            return None

    cluster = workload_cluster(Pairs)
    cluster.add(*nodes(1, cpu="3"), gang("g", 2), *gang_members("g", 4))
    cluster.run()
    assert cluster.bound == []
    assert asked[:5] == [(0, 4), (1, 3), (2, 2), (3, 1), (3, 0)]
    assert conditions(cluster)[-1][3].startswith("an odd number of Pods fit")
    cluster.add(*nodes(2, cpu="3")[1:])
    cluster.wait(11)
    cluster.run()
    assert len(cluster.bound) == 4

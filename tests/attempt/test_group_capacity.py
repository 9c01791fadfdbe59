"""Capacity columns: never below what the ordinary pipeline places, and quick to say no."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attempt.test_group import group, planner, search
from tests.groups import group_cluster, members, nodes, pod_group
from tests.properties import length
from tests.scripted import scripted

from bayplan.api.pod import Pod
from bayplan.cache.node_table import NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Integers, Plugin
from bayplan.framework.status import Status
from bayplan.groups.capacity import MOST_KINDS, GroupCapacity
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

SAME = {"matchLabels": {"app": "a"}}


@st.composite
def some_nodes(draw: Any) -> list[NodeBuilder]:
    """A few nodes, unlike in size, zone and taints."""
    built = []
    for i in range(draw(st.integers(1, 5))):
        node = make_node(f"n{i}").label("host", f"n{i}").label("zone", draw(st.sampled_from("xy")))
        cpu, memory = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        node.capacity(cpu=cpu, memory=f"{memory}Gi", pods=draw(st.integers(1, 6)))
        if draw(st.integers(0, 3)) == 0:
            node.taint("special", "yes", "NoSchedule")
        built.append(node)
    return built


@st.composite
def some_pods(draw: Any, name: str, number: int) -> list[PodBuilder]:
    """Pods of one template."""
    template = draw(
        st.fixed_dictionaries(
            {
                "cpu": st.sampled_from(["0", "500m", "1", "2"]),
                "port": st.booleans(),
                "apart": st.sampled_from(["", "host", "zone"]),
                "beside": st.booleans(),
                "zone": st.sampled_from(["", "x"]),
                "tolerates": st.booleans(),
                "spread": st.booleans(),
                "own_label": st.booleans(),
            }
        )
    )
    return [_pod(f"{name}-{i}", i, template) for i in range(number)]


def _pod(name: str, number: int, template: dict[str, Any]) -> PodBuilder:
    pod = make_pod(name).label("app", "a").req(cpu=template["cpu"], memory="1Gi")
    if template["port"]:
        pod.host_port(80)
    if template["apart"]:
        pod.pod_anti_affinity(template["apart"], SAME)
    if template["beside"]:
        pod.pod_affinity("zone", SAME)
    if template["zone"]:
        pod.node_selector({"zone": template["zone"]})
    if template["tolerates"]:
        pod.toleration(operator="Exists")
    if template["spread"]:
        pod.spread("zone", SAME)
    if template["own_label"]:
        pod.label("index", str(number))
    return pod.spec(schedulerName="bayplan")


@length(120)
@given(st.data())
def test_the_bound_is_never_below_what_is_placed(data: Any) -> None:
    cluster = group_cluster()
    cluster.add(*data.draw(some_nodes()))
    cluster.add(*data.draw(some_pods("there", data.draw(st.integers(0, 3)))))
    cluster.run()
    kinds = data.draw(st.integers(1, 2))
    pods = [
        pod.obj()
        for kind in range(kinds)
        for pod in data.draw(some_pods(f"g{kind}", data.draw(st.integers(1, 8))))
    ]
    cluster.add(pod_group("g", minMember=1))
    capacity = GroupCapacity(cluster.framework, pods)
    bound = capacity.at_most()
    column = cluster.nodes.label("zone")
    holds, _ = capacity.by_domain(column.codes, len(column.values))
    domains = {
        column.values[code]: (column.codes == code, holds[code]) for code in range(len(holds))
    }
    for rows, most in [(None, bound), *domains.values()]:
        found = search(cluster)
        found.run(pods, rows)
        assert len(found.members) <= most
        found.undo()


def test_a_group_that_cannot_fit_is_rejected_before_any_of_it_is_placed() -> None:
    asked: list[str] = []
    cluster = group_cluster(scripted("Counting", filter=lambda: asked.append("")))
    cluster.add(*nodes(3), pod_group("g", minMember=100))
    pods = [pod.spec(schedulerName="bayplan").obj() for pod in members("g", 100)]
    outcome = planner(cluster).plan(cluster.framework, group(cluster, "g"), pods).rejection
    assert outcome is not None
    assert outcome.sentence == "NoRoom: at most 12 of 100 fit, short by cpu"
    assert outcome.plugins == {"NodeResourcesFit"}
    assert asked == []


def test_what_is_scarcest_is_named_first() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(2))
    pods = [pod.host_port(80).obj() for pod in members("g", 10)]
    capacity = GroupCapacity(cluster.framework, pods)
    assert capacity.at_most() == 2
    assert capacity.short_of() == ["host ports", "cpu"]


@pytest.mark.parametrize("most", [1, 9])
def test_of_two_bounds_of_one_resource_the_lower_one_counts(most: int) -> None:
    class Careful(Plugin):
        def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
            return np.zeros(len(nodes), np.int8)

        def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
            return Status.unschedulable("too many")

        def copies(self, state: CycleState, pod: Pod, nodes: NodeTable) -> dict[str, Integers]:
            return {"cpu": np.full(len(nodes), most)}

    cluster = group_cluster(Careful)
    cluster.add(*nodes(1))
    pods = [pod.obj() for pod in members("g", 9)]
    assert GroupCapacity(cluster.framework, pods).at_most() == min(4, most)


def test_a_capacity_follows_the_pods_on_the_nodes() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1))
    pods = [pod.obj() for pod in members("g", 9)]
    assert GroupCapacity(cluster.framework, pods).at_most() == 4
    cluster.add(make_pod("other").req(cpu="3").node("n0"))
    assert GroupCapacity(cluster.framework, pods).at_most() == 1
    cluster.add(*nodes(2)[1:])
    assert GroupCapacity(cluster.framework, pods).at_most() == 5


def test_groups_of_very_many_kinds_are_not_bounded() -> None:
    cluster = group_cluster()
    cluster.add(*nodes(1))
    pods = [pod.obj() for i in range(MOST_KINDS + 1) for pod in members(f"g{i}", 1, f"{i + 1}")]
    assert GroupCapacity(cluster.framework, pods).at_most() == MOST_KINDS + 1

from __future__ import annotations

from typing import Any

import pytest
from tests.groups import gang
from tests.handles import make_handle
from tests.plugins.harness import hint, make, table_of

from bayplan.api.kinds import KUBERNETES_POD_GROUP, NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.placements import PodGroupInfo
from bayplan.plugins.topology_placement_generator import TopologyPlacementGenerator
from bayplan.testing import make_node, make_pod

RACK = {"topology": [{"key": "rack"}]}
POD = make_pod("g-0").pod_group("g").obj()


def plugin_for(**spec: Any) -> TopologyPlacementGenerator:
    """The plugin in a cluster that has the PodGroup g."""
    handle = make_handle()
    handle.objects.set(KUBERNETES_POD_GROUP, gang("g", 1, **spec).obj())
    return make(TopologyPlacementGenerator, handle)


def test_there_is_a_placement_for_each_value_by_name() -> None:
    nodes = table_of(
        make_node("a").label("rack", "r2"),
        make_node("b"),
        make_node("c").label("rack", "r1"),
        make_node("d").label("rack", "r2"),
    )
    group = PodGroupInfo(gang("g", 1, schedulingConstraints=RACK).obj(), (POD,), ())
    placements = plugin_for().generate_placements(CycleState(), group, nodes)
    assert isinstance(placements, list)
    names = {
        placement.name: {info.name for info in nodes if placement.rows[info.row]}
        for placement in placements
    }
    assert list(names.items()) == [("r1", {"c"}), ("r2", {"a", "d"})]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node("n").label("rack", "a"), Hint.QUEUE, id="new"),
        pytest.param(None, make_node("n"), Hint.SKIP, id="new-without"),
        pytest.param(
            make_node("n").label("rack", "a"),
            make_node("n").label("rack", "b"),
            Hint.QUEUE,
            id="moved",
        ),
        pytest.param(
            make_node("n").label("rack", "a"),
            make_node("n").label("rack", "a").label("b", "c"),
            Hint.SKIP,
            id="another-label",
        ),
        pytest.param(make_node("n").label("rack", "a"), make_node("n"), Hint.SKIP, id="left"),
    ],
)
def test_a_node_that_comes_into_a_domain_wakes_the_group(old: Any, new: Any, expected: Any) -> None:
    plugin = plugin_for(schedulingConstraints=RACK)
    action = Action.UPDATE_NODE_LABEL if old else Action.ADD
    assert hint(plugin, NODE, action, POD, old and old.obj(), new.obj()) is expected


def test_a_group_without_a_constraint_waits_for_no_node() -> None:
    new = make_node("n").label("rack", "a").obj()
    assert hint(plugin_for(), NODE, Action.ADD, POD, None, new) is Hint.SKIP


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(make_pod("g-1").pod_group("g"), Hint.QUEUE, id="sibling"),
        pytest.param(make_pod("h-1").pod_group("h"), Hint.SKIP, id="another-group"),
        pytest.param(make_pod("alone"), Hint.SKIP, id="no-group"),
    ],
)
def test_a_sibling_that_leaves_its_node_wakes_the_group(other: Any, expected: Hint) -> None:
    plugin = plugin_for(schedulingConstraints=RACK)
    left = other.node("n").obj()
    assert hint(plugin, Resource.ASSIGNED_POD, Action.DELETE, POD, left, None) is expected

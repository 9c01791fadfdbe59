"""Levels: groups that have to be, or would rather be, in one topology domain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, names_of, pod_group, racks, racks_of, topology
from tests.properties import length

from bayplan.api.kinds import TOPOLOGY
from bayplan.config import ConfigError
from bayplan.inbox.messages import Changed
from bayplan.testing import NodeBuilder, make_node, make_pod

LEVELS = ["zone", "rack", "host"]


def cluster_of(*nodes: NodeBuilder, levels: list[str] | None = None) -> Cluster:
    """A cluster with these nodes whose levels are zone, rack and host."""
    cluster = group_cluster(topologyLevels=LEVELS if levels is None else levels)
    cluster.add(*nodes)
    return cluster


def last_note(cluster: Cluster) -> str:
    """What was said of a group last."""
    return str(cluster.notes[-1][1])


def test_a_group_that_requires_a_rack_gets_the_tightest_that_holds_it() -> None:
    cluster = cluster_of(*racks(6, 2, 4, 5))
    cluster.add(pod_group("g", topology(required="rack"), minMember=4), *members("g", 4))
    cluster.run()
    assert racks_of(cluster, "g") == {"r2"}
    assert last_note(cluster) == "Bound: 4 Pods, of which 4 are needed, in rack r2"


def test_a_rack_whose_one_node_holds_several_such_groups_stays_free_for_larger_ones() -> None:
    cluster = cluster_of(*racks(1, 1, cpu="10"))
    cluster.add(make_pod("other").req(cpu="8").node("r1n0"))
    cluster.add(pod_group("g", topology(required="rack"), minMember=2), *members("g", 2))
    cluster.run()
    assert racks_of(cluster, "g") == {"r1"}


def test_a_rack_that_holds_all_comes_before_a_tighter_one_for_the_minimum() -> None:
    cluster = cluster_of(*racks(3, 6, 8))
    cluster.add(pod_group("g", topology(required="rack"), minMember=3), *members("g", 5))
    cluster.run()
    assert racks_of(cluster, "g") == {"r1"}
    assert len(names_of(cluster, "g")) == 5


def test_a_group_that_no_rack_holds_is_told_the_best_ones_and_holds_nothing() -> None:
    cluster = cluster_of(*racks(3, 2, 1))
    cluster.add(pod_group("g", topology(required="rack"), minMember=4))
    pods = members("g", 4)
    cluster.add(*pods)
    cluster.run()
    assert cluster.bound == []
    assert last_note(cluster) == (
        "NoDomain: no rack holds the group: best is r0 with 3 of 4, short by cpu; next r1 with 2"
    )
    text = "the group default/g does not fit into one rack"
    assert {c.message for _, c in cluster.recorder.conditions} == {text}
    cluster.add(*racks(4))
    cluster.wait(11)
    cluster.run()
    assert racks_of(cluster, "g") == {"r0"}


def test_a_preferred_rack_gives_way_to_its_zone_and_that_to_any_node() -> None:
    cluster = cluster_of(*racks(3, 2, 4, 4))
    for name, size in (("a", 4), ("b", 4), ("c", 5)):
        cluster.add(pod_group(name, topology(preferred="rack"), minMember=size))
        cluster.add(*members(name, size))
        cluster.run()
    assert racks_of(cluster, "a") == {"r2"}
    assert racks_of(cluster, "b") == {"r3"}
    assert racks_of(cluster, "c") == {"r0", "r1"}
    cluster.add(pod_group("d", topology(preferred="rack"), minMember=2))
    cluster.add(*racks(0, 0, 0, 0, 1), *members("d", 2))
    cluster.run()
    assert names_of(cluster, "d") == set()
    cluster.add(make_node("elsewhere").capacity(cpu="1", memory="1Gi", pods=10))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "d")) == 2


def test_a_preferred_rack_within_a_required_zone() -> None:
    cluster = cluster_of(*racks(2, 2, 1, 1))
    cluster.add(pod_group("g", topology("zone", "rack"), minMember=3), *members("g", 3))
    cluster.run()
    assert racks_of(cluster, "g") == {"r0", "r1"}


def test_a_domain_that_turns_out_too_small_gives_way_to_the_next() -> None:
    """Three may not share a node with a Pod that is on each of r0's nodes; the bound knows not."""
    cluster = cluster_of(*racks(3, 4, cpu="2"))
    cluster.add(
        *(
            make_pod(f"guard{i}")
            .label("guard")
            .pod_anti_affinity("host", {"matchLabels": {"app": "g"}})
            .node(f"r0n{i}")
            for i in range(3)
        )
    )
    cluster.add(pod_group("g", topology(required="rack"), minMember=3))
    cluster.add(*(pod.label("app", "g") for pod in members("g", 3)))
    cluster.run()
    assert racks_of(cluster, "g") == {"r1"}


def test_late_members_are_kept_in_the_required_domain() -> None:
    cluster = cluster_of(*racks(3, 4))
    cluster.add(pod_group("g", topology(required="rack"), minMember=2))
    first = members("g", 2)
    cluster.add(*first)
    cluster.run()
    assert racks_of(cluster, "g") == {"r0"}
    late = members("g", 2, first=2)
    cluster.add(*late)
    cluster.run()
    assert racks_of(cluster, "g") == {"r0"}
    assert len(names_of(cluster, "g")) == 3
    text = (
        "0/7 nodes are available: 3 Insufficient cpu, 4 node(s) were outside of the group's "
        "topology domain."
    )
    assert cluster.verdict[1].startswith(text)


def test_late_members_are_drawn_to_the_preferred_domain_and_go_elsewhere_if_it_is_full() -> None:
    cluster = cluster_of(*racks(3, 9, 9, 9))
    cluster.add(pod_group("g", topology(preferred="rack"), minMember=2), *members("g", 2))
    cluster.run()
    cluster.add(*members("g", 1, first=2))
    cluster.run()
    assert racks_of(cluster, "g") == {"r0"}
    cluster.add(*members("g", 1, first=3))
    cluster.run()
    assert racks_of(cluster, "g") == {"r0", "r1"}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(
            topology(required="rak"),
            "BadTopology: no node has the label rak, which bayplan.dev/required-topology names",
            id="no-such-level",
        ),
        pytest.param(
            topology("rack", "zone"),
            "BadTopology: bayplan.dev/preferred-topology zone is not a level below "
            "bayplan.dev/required-topology rack",
            id="wrong-order",
        ),
        pytest.param(
            topology("rack", "shelf"),
            "BadTopology: bayplan.dev/preferred-topology shelf is not a level below "
            "bayplan.dev/required-topology rack",
            id="not-in-the-hierarchy",
        ),
        pytest.param(
            topology(required="host"),
            "BadTopology: host h is in rack r0 and r1",
            id="not-nested",
        ),
    ],
)
def test_a_topology_that_there_is_not_is_said_on_the_group(asked: Any, text: str) -> None:
    first, second = (node.label("host", "h") for node in racks(1, 1, cpu="4"))
    cluster = cluster_of(first, second)
    cluster.add(pod_group("g", asked, minMember=2), *members("g", 2))
    cluster.run()
    assert cluster.bound == []
    assert last_note(cluster) == text
    cluster.add(pod_group("g", minMember=2))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_a_level_that_nodes_get_later_wakes_the_group() -> None:
    cluster = cluster_of(*racks(2))
    cluster.add(pod_group("g", topology(required="room"), minMember=2), *members("g", 2))
    cluster.run()
    cluster.add(*(node.label("room", "a") for node in racks(2)))
    cluster.wait(11)
    cluster.run()
    assert len(names_of(cluster, "g")) == 2


def test_an_empty_value_of_the_label_is_a_domain_like_any_other() -> None:
    cluster = cluster_of(*racks(2), *(node.label("rack", "") for node in racks(0, 3)))
    cluster.add(pod_group("g", topology(required="rack"), minMember=3), *members("g", 3))
    cluster.run()
    assert racks_of(cluster, "g") == {"r1"}
    assert last_note(cluster) == 'Bound: 3 Pods, of which 3 are needed, in rack ""'
    cluster.add(pod_group("h", topology(required="rack"), minMember=3), *members("h", 3))
    cluster.run()
    assert last_note(cluster) == (
        'NoDomain: no rack holds the group: best is r0 with 2 of 3, short by cpu; next "" with 0'
    )


def test_levels_may_come_from_a_topology_of_kueue() -> None:
    cluster = cluster_of(*racks(2, 2, 3, 3), levels=[])
    body = (
        b'{"metadata": {"name": "t", "uid": "t"}, "spec": {"levels": '
        b'[{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}}'
    )
    cluster.add(pod_group("g", topology(preferred="rack"), minMember=4))
    cluster.tell(Changed(TOPOLOGY, TOPOLOGY.decode(body)))
    cluster.add(*members("g", 4))
    cluster.run()
    assert racks_of(cluster, "g") == {"r0", "r1"}


def test_a_label_in_no_hierarchy_is_a_level_of_its_own() -> None:
    cluster = cluster_of(*racks(1, 1, 1, 1), levels=[])
    cluster.add(pod_group("g", topology(required="zone"), minMember=2), *members("g", 2))
    cluster.run()
    assert racks_of(cluster, "g") in ({"r0", "r1"}, {"r2", "r3"})


@length(40)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    minimum=st.integers(1, 6),
    extra=st.integers(0, 2),
    required=st.booleans(),
)
def test_a_group_of_equal_pods_is_placed_exactly_where_it_fits(
    sizes: list[int], minimum: int, extra: int, required: bool
) -> None:
    cluster = cluster_of(*racks(*sizes))
    asked = topology("rack") if required else topology(preferred="rack")
    cluster.add(pod_group("g", asked, minMember=minimum))
    cluster.add(*members("g", minimum + extra))
    cluster.run()
    placed, used = names_of(cluster, "g"), racks_of(cluster, "g")
    if max(sizes) >= minimum:
        assert len(placed) >= minimum
        assert len(used) == 1 or not required
    elif required or sum(sizes) < minimum:
        assert not placed
    else:
        assert len(placed) >= minimum
    assert cluster.is_at_rest()


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        pytest.param(["rack", "rack"], 'topologyLevels[1]: "rack" is there already', id="twice"),
        pytest.param(["a b"], 'topologyLevels[0]: "a b" must be', id="no-label"),
    ],
)
def test_levels_that_cannot_be_are_refused(levels: list[str], text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        group_cluster(topologyLevels=levels)
    assert text in "\n".join(refusal.value.lines())

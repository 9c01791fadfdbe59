"""Objects are late: what is believed meanwhile, and what is reserved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.harness import PluginWorld
from tests.plugins.node_resource_topology_match.test_fingerprint import encoded
from tests.plugins.node_resource_topology_match.topologies import OVER_RESERVING, topology, zone
from tests.properties import length

from bayplan.api.kinds import NODE_RESOURCE_TOPOLOGY
from bayplan.framework.cluster_events import Action
from bayplan.framework.interface import Depends
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.testing import PodBuilder, make_node, make_pod

STALE, FULL, FITS = "invalid node topology data", "cannot align container", ""
NONE = {"foreignPodsDetect": "None"}
EXCLUSIVE = {"foreignPodsDetect": "OnlyExclusiveResources"}


def pod(name: str, cpu: int = 4, profile: str = "test") -> PodBuilder:
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    made = make_pod(name).container(resources={"requests": amounts, "limits": amounts})
    return made.spec(schedulerName=profile).phase("Running")


def foreign(name: str, cpu: int = 4) -> PodBuilder:
    return pod(name, cpu, "somebody")


def two_zones(*shows: PodBuilder, first: int = 4, second: int = 4, **more: Any) -> Any:
    zones = (zone(0, cpu=first, memory="8Gi"), zone(1, cpu=second, memory="8Gi"))
    return topology("n", *zones, shows=shows, **more)


def world_of(obj: Any, **args: Any) -> tuple[PluginWorld, Any]:
    world = PluginWorld("n").add(obj)
    return world, world.make(NodeResourceTopologyMatch, **(OVER_RESERVING | args))


def answer(world: PluginWorld, plugin: Any, asked: PodBuilder) -> str:
    return world.messages(plugin, asked.obj())["n"]


def test_without_the_cache_the_object_is_believed_as_it_is() -> None:
    world, plugin = world_of(two_zones(), cacheResyncPeriodSeconds=0)
    world.place(pod("a"), "n")
    world.place(foreign("f"), "n")
    assert answer(world, plugin, pod("b")) == FITS
    assert plugin.filter_depends == plugin.score_depends == Depends.NODE


def test_a_pod_is_reserved_for_in_every_zone_until_the_object_shows_it() -> None:
    world, plugin = world_of(two_zones())
    assert answer(world, plugin, pod("b")) == FITS
    first = pod("a")
    world.place(first, "n")
    assert answer(world, plugin, pod("b")) == FULL
    world.add(two_zones(first, first=0))
    assert answer(world, plugin, pod("b")) == FITS


def test_an_object_that_does_not_show_the_pod_is_not_believed() -> None:
    world, plugin = world_of(two_zones())
    world.place(pod("a"), "n")
    world.add(two_zones(first=5, second=5))
    assert answer(world, plugin, pod("b")) == FULL


def test_a_pod_that_is_gone_gives_back_what_was_reserved() -> None:
    world, plugin = world_of(two_zones())
    placed = world.place(pod("a"), "n")
    assert answer(world, plugin, pod("b")) == FULL
    world.nodes.remove_pod(world.row("n"), placed)
    assert answer(world, plugin, pod("b")) == FITS


def test_a_pod_that_the_kubelet_has_admitted_may_be_shown_before_it_runs() -> None:
    world, plugin = world_of(two_zones())
    starting = pod("a").phase("Pending").start_time("2026-01-01T00:00:00Z")
    world.place(starting, "n")
    world.add(two_zones(starting, first=0))
    assert answer(world, plugin, pod("b")) == FITS


def test_a_pod_beside_those_that_the_object_shows_stays_reserved() -> None:
    shown, waiting = pod("a"), pod("b").phase("Pending")
    world, plugin = world_of(two_zones())
    world.place(shown, "n")
    world.place(waiting, "n")
    world.add(two_zones(shown, first=0))
    assert answer(world, plugin, pod("c")) == FULL
    assert answer(world, plugin, pod("c", cpu=1)) == FULL


@pytest.mark.parametrize(
    ("cache", "found", "message"),
    [
        pytest.param({}, foreign("f", 1), STALE, id="all: any"),
        pytest.param(EXCLUSIVE, foreign("f", 1), STALE, id="exclusive: one with CPUs"),
        pytest.param(
            EXCLUSIVE,
            make_pod("f").req(cpu="1").spec(schedulerName="x"),
            FITS,
            id="exclusive: one without",
        ),
        pytest.param(NONE, foreign("f", 1), FITS, id="none: none"),
    ],
)
def test_a_pod_of_another_scheduler_makes_the_object_stale(
    cache: dict[str, str], found: PodBuilder, message: str
) -> None:
    world, plugin = world_of(two_zones(), cache=cache)
    assert answer(world, plugin, pod("b")) == FITS
    world.place(found.phase("Running"), "n")
    assert answer(world, plugin, pod("b")) == message
    world.add(two_zones(found, second=3))
    assert answer(world, plugin, pod("b")) == FITS


def test_pods_of_another_profile_with_the_plugin_are_ours() -> None:
    world, plugin = world_of(two_zones())
    world.place(foreign("f"), "n")
    assert answer(world, plugin, pod("b")) == STALE
    object.__setattr__(world.handle, "profile", "somebody")
    other = world.make(NodeResourceTopologyMatch, **OVER_RESERVING)
    assert answer(world, plugin, pod("b")) == FULL
    other.close()
    assert answer(world, plugin, pod("b")) == STALE


def test_fingerprints_of_pods_with_resources_of_their_own_only() -> None:
    world, plugin = world_of(
        two_zones(nodeTopologyPodsFingerprintMethod="with-exclusive-resources")
    )
    own, shared = pod("a"), make_pod("s").req(cpu="1").phase("Running").spec(schedulerName="test")
    world.place(own, "n")
    world.place(shared, "n")
    assert answer(world, plugin, pod("b")) == FULL
    method = "with-exclusive-resources"
    world.add(two_zones(own, first=0, nodeTopologyPodsFingerprintMethod=method))
    assert answer(world, plugin, pod("b")) == FITS


def test_the_deprecated_annotation_has_the_fingerprint_too() -> None:
    world, plugin = world_of(two_zones())
    first = pod("a")
    world.place(first, "n")
    obj = two_zones(first, first=0)
    *attributes, mark = obj.json["attributes"]
    legacy = obj.top(attributes=attributes)
    world.add(legacy.annotation("topology.node.k8s.io/fingerprint", mark["value"]))
    assert answer(world, plugin, pod("b")) == FITS


def test_without_a_fingerprint_our_pods_stay_reserved_and_others_are_shown() -> None:
    def bare(**available: int) -> Any:
        obj = two_zones(**available)
        return obj.top(attributes=obj.json["attributes"][:2])

    world, plugin = world_of(bare())
    assert answer(world, plugin, pod("b")) == FITS
    world.place(foreign("f"), "n")
    assert answer(world, plugin, pod("b")) == STALE
    world.add(bare(first=0))
    assert answer(world, plugin, pod("b")) == FITS
    ours = world.place(pod("a"), "n")
    world.add(bare(first=0, second=3))
    assert answer(world, plugin, pod("b", cpu=1)) == FULL
    world.nodes.remove_pod(world.row("n"), ours)
    assert answer(world, plugin, pod("b", cpu=3)) == FITS


def test_the_policy_counts_at_once_unless_the_resync_scope_says_otherwise() -> None:
    for scope, message in (("All", FITS), ("OnlyResources", FULL)):
        world, plugin = world_of(two_zones(), cache={"resyncScope": scope})
        world.place(pod("a"), "n")
        assert answer(world, plugin, pod("b")) == FULL
        world.add(two_zones(pod("other"), policy="none"))
        assert answer(world, plugin, pod("b")) == message


def test_nodes_with_reserved_pods_may_be_left_out_instead() -> None:
    world, plugin = world_of(two_zones(), discardReservedNodes=True)
    asked = pod("a").obj()
    before = plugin.epoch(asked)
    plugin.reserve(None, asked, "n")
    assert answer(world, plugin, pod("b")) == STALE
    assert plugin.epoch(asked) != before
    plugin.post_bind(None, asked, "n")
    assert answer(world, plugin, pod("b")) == FITS
    plugin.reserve(None, asked, "n")
    plugin.unreserve(None, asked, "n")
    assert answer(world, plugin, pod("b")) == FITS


# What if


def test_what_if_questions_see_what_is_reserved() -> None:
    world, plugin = world_of(two_zones())
    placed = world.place(pod("a"), "n")
    table = world.nodes.take(_rows(world))
    assert plugin.filter_nodes(None, pod("b").obj(), table)[0]
    table.remove_pods([0], [placed])
    assert not plugin.filter_nodes(None, pod("b").obj(), table)[0]
    table.add_pods([0], [pod("c").obj().on_node("n")])
    assert plugin.filter_nodes(None, pod("b").obj(), table)[0]
    assert answer(world, plugin, pod("b")) == FULL


def _rows(world: PluginWorld) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.array([world.row("n")])


@pytest.mark.parametrize("mode", ["Enabled", "Disabled"])
def test_victims_give_back_their_zone_where_the_object_says_which(mode: str) -> None:
    one, other = pod("a", 3), pod("b", 3)
    zones = {("default", "a", "c1"): 1, ("default", "b", "c1"): 0}
    obj = _placed(zones, one, other)
    world, plugin = world_of(obj, preemptionMode=mode)
    pods = {name: world.place(p, "n") for name, p in (("a", one), ("b", other))}
    world.add(obj.new_version())
    asked = pod("big", 4).obj()
    assert answer(world, plugin, pod("big", 4)) == FULL
    table = world.nodes.take(_rows(world))
    table.remove_pods([0], [pods["a"]])
    assert bool(plugin.filter_nodes(None, asked, table)[0]) == (mode == "Disabled")
    assert answer(world, plugin, pod("big", 4)) == FULL


def test_a_placement_that_cannot_be_true_gives_back_nothing() -> None:
    one, other = pod("a", 4), pod("b", 4)
    zones = {("default", "a", "c1"): 1, ("default", "b", "c1"): 1}
    obj = _placed(zones, one, other)
    world, plugin = world_of(obj, preemptionMode="Enabled")
    pods = [world.place(p, "n") for p in (one, other)]
    table = world.nodes.take(_rows(world))
    table.remove_pods([0, 0], pods)
    assert plugin.filter_nodes(None, pod("big", 4).obj(), table)[0]
    (faults,) = world.handle.services.object_faults
    assert [f.message for f in faults()] == ["placement: node-1 would have more cpu than it has"]


def _placed(zones: dict[tuple[str, str, str], int], *shows: PodBuilder) -> Any:
    """Zones of four CPUs of which one is available, and where containers run."""
    metadata, vectors = encoded(zones, 2)
    vector = "topology.node.k8s.io/numaplacement-vector"
    made = []
    for id_ in (0, 1):
        resources = [
            {"name": "cpu", "allocatable": 4, "available": 1},
            {"name": "memory", "allocatable": "8Gi", "available": "5Gi"},
        ]
        attributes = [{"name": vector, "value": v} for z, v in vectors.items() if z == id_]
        made.append(
            {
                "name": f"node-{id_}",
                "type": "Node",
                "resources": resources,
                "attributes": attributes,
            }
        )
    more = {"topology.node.k8s.io/numaplacement-metadata": metadata}
    return topology("n", *made, shows=shows, **more)


# Waking


def hint_of(plugin: Any, kind: object) -> Any:
    (hint,) = (r.hint for r in plugin.events_to_register() if r.event.resource is kind)
    return hint


def test_an_object_wakes_the_pods_that_have_a_zone_there_then() -> None:
    world, plugin = world_of(two_zones(first=1, second=1))
    (event,) = (
        r.event for r in plugin.events_to_register() if r.event.resource is NODE_RESOURCE_TOPOLOGY
    )
    assert Action.ADD in event.action
    assert Action.UPDATE_OTHER in event.action
    hint = hint_of(plugin, NODE_RESOURCE_TOPOLOGY)
    newer = two_zones(first=4, second=1).obj()
    world.objects.set(NODE_RESOURCE_TOPOLOGY, newer)
    assert hint(pod("small").obj(), None, newer).value == "Queue"
    assert hint(pod("large", 5).obj(), None, newer).value == "QueueSkip"


def test_a_match_that_comes_with_the_phase_of_a_pod_is_seen_by_the_chore() -> None:
    world, plugin = world_of(two_zones())
    pending = pod("a").phase("Pending")
    placed = world.place(pending, "n")
    world.add(two_zones(pending, first=0))
    assert answer(world, plugin, pod("b")) == FULL
    running = pending.phase("Running").new_version().obj().on_node("n")
    assert running.uid == placed.uid
    world.nodes.replace_pod(world.row("n"), running)
    assert answer(world, plugin, pod("b")) == FULL
    position = world.nodes.node_journal.position
    (look,) = world.handle.services.chores
    assert look() == ()
    assert world.nodes.node_journal.position > position
    assert answer(world, plugin, pod("b")) == FITS


# No two in one zone


@length(60)
@given(st.data())
def test_no_two_pods_get_a_zone_that_holds_one_while_the_object_is_old(data: st.DataObject) -> None:
    """The kubelet gives zones, the exporter writes late, and nobody is ever refused a zone."""
    size = data.draw(st.sampled_from([4, 6, 8]))
    world, plugin = world_of(two_zones(first=size, second=size))
    free, where = [size, size], dict[str, tuple[int, int, PodBuilder, Any]]()
    for step in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["place", "place", "place", "export", "end"])):
            case "place":
                asked = pod(f"p{step}", data.draw(st.integers(1, size)))
                cpu = int(asked.json["spec"]["containers"][0]["resources"]["requests"]["cpu"])
                if answer(world, plugin, asked) == FITS:
                    zones = [z for z in (0, 1) if free[z] >= cpu]
                    assert zones, (free, cpu)
                    at = data.draw(st.sampled_from(zones))
                    free[at] -= cpu
                    where[f"p{step}"] = (at, cpu, asked, world.place(asked, "n"))
            case "export":
                shown = [p for _, _, p, _ in where.values()]
                world.add(two_zones(*shown, first=free[0], second=free[1]))
            case "end" if where:
                at, cpu, _, placed = where.pop(data.draw(st.sampled_from(sorted(where))))
                free[at] += cpu
                world.nodes.remove_pod(world.row("n"), placed)
    world.add(two_zones(*(p for _, _, p, _ in where.values()), first=free[0], second=free[1]))
    largest = max(free)
    if largest:
        assert answer(world, plugin, pod("largest", largest)) == FITS


def test_a_bound_for_groups_is_what_the_best_zone_has() -> None:
    world, plugin = world_of(two_zones(first=8, second=5))
    world.add(make_node("without"))
    bounds = plugin.copies(None, pod("g", 2).obj(), world.nodes)["NUMA zones"]
    assert bounds[world.row("n")] == 4
    assert bounds[world.row("without")] > 1000
    world.place(pod("a", 4), "n")
    assert plugin.copies(None, pod("g", 2).obj(), world.nodes)["NUMA zones"][world.row("n")] == 2

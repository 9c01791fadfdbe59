"""NetworkOverhead: beside a judge Pod by Pod, and what is missing or wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.plugins import network_judge
from tests.plugins.harness import PluginWorld, hint
from tests.plugins.networks import REGION, app_group, member, node, topology
from tests.plugins.normalizing import feasible_scores
from tests.properties import length

from bayplan.api.kinds import APP_GROUP, NETWORK_TOPOLOGY
from bayplan.api.network import AppGroup, NetworkTopology
from bayplan.config import ConfigError
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.network_overhead import NetworkOverhead
from bayplan.testing import Builder, make_pod

PLACES = [
    ("n0", "r1", "a"),
    ("n1", "r1", "a"),
    ("n2", "r1", "b"),
    ("n3", "r2", "c"),
    ("n4", "r2", ""),
    ("n5", "", "c"),
    ("n6", "", ""),
]
REGIONS, ZONES = ("r1", "r2"), ("a", "b", "c")
WORKLOADS = ("web", "db", "log")
_pairs = st.integers(0, 120)


def prices(names: tuple[str, ...]) -> st.SearchStrategy[dict[tuple[str, str], int]]:
    return st.dictionaries(
        st.tuples(st.sampled_from(names), st.sampled_from(names)), _pairs, max_size=6
    )


needs = st.lists(st.tuples(st.sampled_from(WORKLOADS), st.integers(0, 100)), max_size=4)


@given(data=st.data())
@length(100)
def test_verdicts_and_scores_are_those_of_the_judge(data: st.DataObject) -> None:
    regions, zones, wanted = data.draw(prices(REGIONS)), data.draw(prices(ZONES)), data.draw(needs)
    world = PluginWorld(*(node(*place) for place in PLACES))
    parts = [app_group({"web": wanted, "db": [], "log": []}), topology(regions, zones)]
    late = data.draw(st.booleans())
    if not late:
        world.add(*parts)
    plugin = world.make(NetworkOverhead)
    others, kept = [], []
    where = st.tuples(st.sampled_from(WORKLOADS), st.sampled_from(PLACES))
    for i, (workload, place) in enumerate(data.draw(st.lists(where, max_size=6))):
        pod = member(f"p{i}", workload).namespace(data.draw(st.sampled_from(["default", "other"])))
        kept.append((world.place(pod, place[0]), place))
        others.append((workload, place))
    world.place(member("foreign", "db", group="else"), "n0")
    if late:
        world.add(*parts)
    new = member("new", "web").obj()
    expected = [network_judge.look(place, others, wanted, regions, zones) for place in PLACES]
    verdicts = world.filtered(plugin, new)
    for (name, *_), (satisfied, violated, _) in zip(PLACES, expected, strict=True):
        assert verdicts[name].ok is (violated <= satisfied)
    sums = [cost for _, _, cost in expected]
    if plugin.score_nodes(CycleState(), new, world.nodes) is None:
        assert set(sums) == {0}
    else:
        scores = feasible_scores(plugin, new, world.nodes)
        names = [place[0] for place in PLACES]
        assert [scores[name] for name in names] == network_judge.normalize(sums)
    if kept and plugin.pre_filter(CycleState(), new, world.nodes) is None:
        first, place = kept[0]
        gone = world.what_if(plugin, new, removed={place[0]: [first]})[place[0]]
        satisfied, violated, _ = network_judge.look(place, others[1:], wanted, regions, zones)
        assert gone.ok is (violated <= satisfied)


@given(data=st.data())
@length(50)
def test_pods_that_would_be_elsewhere_count_as_the_judge_says(data: st.DataObject) -> None:
    regions, zones, wanted = data.draw(prices(REGIONS)), data.draw(prices(ZONES)), data.draw(needs)
    world = PluginWorld(*(node(*place) for place in PLACES))
    world.add(app_group({"web": wanted, "db": [], "log": []}), topology(regions, zones))
    plugin = world.make(NetworkOverhead)
    others = [(workload, PLACES[i]) for i, workload in enumerate(WORKLOADS)]
    for workload, place in others:
        world.place(member(workload, workload), place[0])
    new = member("new", "web").obj()
    if plugin.pre_filter(CycleState(), new, world.nodes) is not None:
        return
    workload, place, pods = data.draw(
        st.tuples(st.sampled_from(WORKLOADS), st.sampled_from(PLACES), st.integers(1, 3))
    )
    rows = np.flatnonzero(world.nodes.exists)
    table, state = world.nodes.take(rows), world.state(plugin, new).what_if(rows)
    more = member("more", workload).obj().on_node(place[0])
    for at in range(len(rows)):
        plugin.move_elsewhere(pods, state, new, more, table, at)
    codes = plugin.filter_nodes(state, new, table)
    for at, name in enumerate(table.names):
        where = next(each for each in PLACES if each[0] == name)
        there = [*others, *[(workload, place)] * pods]
        satisfied, violated, _ = network_judge.look(where, there, wanted, regions, zones)
        assert bool(codes[at]) is (violated > satisfied)


def world_of(*others: Any) -> PluginWorld:
    world = PluginWorld(node("a1", "r1", "a"), node("b1", "r1", "b"), node("c1", "r2", "c"))
    return world.add(*others)


def shop() -> Builder[AppGroup]:
    return app_group({"web": [("db", 20)], "db": []})


def costs() -> Builder[NetworkTopology]:
    return topology({("r1", "r2"): 50, ("r2", "r1"): 50}, {("a", "b"): 10, ("b", "a"): 10})


def test_a_pod_goes_near_what_it_depends_on() -> None:
    cluster = Cluster(profiles=[profile("NetworkOverhead")])
    cluster.add(
        node("a1", "r1", "a"), node("b1", "r1", "b"), node("c1", "r2", "c"), shop(), costs()
    )
    cluster.add(member("db", "db").spec(nodeName="c1"))
    pod = member("web", "web").req(cpu="1")
    cluster.add(pod)
    cluster.run()
    assert cluster.counted_on(pod) == "c1"


def test_a_node_that_is_too_far_is_rejected_with_its_figures() -> None:
    cluster = Cluster(profiles=[profile("NetworkOverhead")])
    cluster.add(node("a1", "r1", "a"), node("c1", "r2", "c").unschedulable(), shop(), costs())
    cluster.add(member("db", "db").spec(nodeName="c1"))
    pod = member("web", "web").req(cpu="1")
    cluster.add(pod)
    cluster.run()
    assert not cluster.counted_on(pod)
    text = "1 Node does not meet several network requirements from Workload dependencies"
    assert text in cluster.message(pod)
    cluster.add(topology({("r1", "r2"): 20}))
    cluster.wait(60)
    cluster.run()
    assert cluster.counted_on(pod) == "a1"


@pytest.mark.parametrize("there", [(), (shop(),), (costs(),)], ids=["none", "group", "costs"])
def test_a_pod_without_the_objects_goes_anywhere(there: tuple[Any, ...]) -> None:
    world = world_of(*there)
    plugin = world.make(NetworkOverhead)
    world.place(member("db", "db"), "c1")
    assert all(status.ok for status in world.filtered(plugin, member("web", "web").obj()).values())


def test_of_two_namespaces_the_first_counts() -> None:
    world = world_of(costs(), app_group({"web": [], "db": []}).namespace("b"))
    world.add(app_group({"web": [("db", 20)], "db": []}).namespace("a"), costs().namespace("b"))
    plugin = world.make(NetworkOverhead, namespaces=["a", "b"])
    world.place(member("db", "db"), "c1")
    web = member("web", "web").obj()
    assert not world.filtered(plugin, web)["a1"].ok
    world.remove(app_group({}).namespace("a"))
    assert world.filtered(plugin, web)["a1"].ok


def test_pods_of_a_node_that_is_gone_do_not_count() -> None:
    world = world_of(shop(), costs())
    plugin = world.make(NetworkOverhead)
    world.place(member("db", "db"), "c1")
    world.nodes.remove_node("c1")
    assert all(status.ok for status in world.filtered(plugin, member("web", "web").obj()).values())


FAULTS = [
    pytest.param(
        topology().top(spec={"weights": [{"name": "NetperfCosts"}]}),
        'spec.weights: none has the name "UserDefined"',
        id="no-weights",
    ),
    pytest.param(
        topology({("r1", "r2"): -1}),
        "spec.weights[0].topologyList[0].originList[0].costList[0].networkCost: must not be "
        "negative; the cost is not known",
        id="negative",
    ),
    pytest.param(
        topology({("r1", ""): 1}),
        "spec.weights[0].topologyList[0].originList[0].costList[0]: origin and destination must be "
        "named",
        id="no-destination",
    ),
    pytest.param(
        topology().top(
            spec={"weights": [{"name": "UserDefined", "topologyList": [{"topologyKey": "rack"}]}]}
        ),
        "spec.weights[0].topologyList[0].topologyKey: must be topology.kubernetes.io/region or "
        "topology.kubernetes.io/zone",
        id="key",
    ),
    pytest.param(
        app_group({"web": [("cache", 1)]}),
        "spec.workloads[0].dependencies[0].workload.selector: no workload of the AppGroup has "
        '"cache"',
        id="selector",
    ),
    pytest.param(
        app_group({"web": [("web", -1)]}),
        "spec.workloads[0].dependencies[0].maxNetworkCost: must not be negative",
        id="limit",
    ),
]


@pytest.mark.parametrize(("wrong", "text"), FAULTS)
def test_what_is_wrong_is_named_until_it_is_mended(wrong: Any, text: str) -> None:
    world = world_of(wrong)
    plugin = world.make(NetworkOverhead)
    (faults,) = plugin.handle.services.object_faults
    (fault,) = faults()
    assert (fault.message, fault.regarding.name) == (text, wrong.obj().name)
    assert fault.reason == f"Invalid{wrong.kind.name}"
    world.remove(wrong)
    assert list(faults()) == []


def test_a_cost_that_is_said_twice_counts_as_the_first_says() -> None:
    said = [{"destination": "r2", "networkCost": cost} for cost in (5, 90)]
    listed = [{"topologyKey": REGION, "originList": [{"origin": "r1", "costList": said}]}]
    world = world_of(
        shop(), costs().top(spec={"weights": [{"name": "UserDefined", "topologyList": listed}]})
    )
    plugin = world.make(NetworkOverhead)
    (fault,) = plugin.handle.services.object_faults[0]()
    assert fault.message.endswith("costList[1]: the cost from r1 to r2 is there already")
    world.place(member("db", "db"), "c1")
    assert world.filtered(plugin, member("web", "web").obj())["a1"].ok


def test_what_changes_wakes_the_pods_of_the_group_alone() -> None:
    plugin = world_of().make(NetworkOverhead)
    web, stranger = member("web", "web").obj(), make_pod("x").obj()
    db, group = member("db", "db").obj(), shop().obj()
    added = Resource.ASSIGNED_POD, Action.ADD
    assert hint(plugin, *added, web, None, db) is Hint.QUEUE
    assert hint(plugin, *added, web, None, stranger) is Hint.SKIP
    assert hint(plugin, APP_GROUP, Action.ADD, web, None, group) is Hint.QUEUE
    other = app_group({}, name="else").obj()
    assert hint(plugin, APP_GROUP, Action.ADD, web, None, other) is Hint.SKIP
    assert hint(plugin, NETWORK_TOPOLOGY, Action.UPDATE, web, None, None) is Hint.QUEUE


def test_an_empty_name_is_refused() -> None:
    args = {"NetworkOverhead": {"weightsName": "", "networkTopologyName": ""}}
    with pytest.raises(ConfigError, match=r"weightsName: required(.|\n)*networkTopologyName: requ"):
        Cluster(profiles=[profile("NetworkOverhead", args=args)])

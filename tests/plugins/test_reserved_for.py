from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster as CoreCluster
from tests.groups import groups_profile, members, pod_group, slices, sub_groups
from tests.plugins.harness import PluginWorld, scored
from tests.properties import length

from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.reserved_for import ReservedFor
from bayplan.testing import Cluster, PodBuilder, make_node, make_pod

GPU = "nvidia.com/gpu"
FOUR = {"resources": {GPU: {"cpu": "4", "memory": "8Gi"}}}


def pod(name: str = "p", **requests: str) -> PodBuilder:
    gpus = requests.pop("gpus", "")
    return make_pod(name).req(**requests, **({GPU: gpus} if gpus else {}))


@pytest.mark.parametrize(
    ("running", "placed", "rejected", "score"),
    [
        pytest.param([], pod(cpu="8"), "", 100, id="enough-is-left"),
        pytest.param([], pod(cpu="9"), "cpu", 87, id="a-core-too-much"),
        pytest.param([], pod(cpu="9", gpus="1"), "", 100, id="who-takes-a-gpu-may"),
        pytest.param([pod(cpu="2", gpus="1")], pod(cpu="10"), "", 100, id="one-gpu-is-taken"),
        pytest.param([pod(cpu="9", gpus="2")], pod(cpu="7"), "", 100, id="no-gpu-is-free"),
        pytest.param([], pod(cpu="1", memory="49Gi"), "memory", 93, id="memory-counts-too"),
        pytest.param([], pod(cpu="12", memory="60Gi"), "cpu", 25, id="the-scarcer-one-scores"),
        pytest.param([pod(cpu="16")], make_pod(), "", 100, id="who-takes-nothing-may"),
    ],
)
def test_a_node_keeps_some_for_its_free_gpus(
    running: list[PodBuilder], placed: PodBuilder, rejected: str, score: int
) -> None:
    world = PluginWorld(make_node("n").capacity(cpu="16", memory="64Gi", pods="110", **{GPU: "2"}))
    for i, builder in enumerate(running):
        world.place(builder.meta(name=f"r{i}", uid=f"r{i}"), "n")
    plugin = world.make(ReservedFor, **FOUR)
    wanted = f"node(s) kept {rejected} for free {GPU}" if rejected else ""
    assert world.messages(plugin, placed.obj()) == {"n": wanted}
    assert scored(plugin, placed.obj(), world.nodes) == {"n": score}


def test_nodes_without_gpus_keep_nothing() -> None:
    world = PluginWorld(make_node("n").capacity(cpu="16", memory="64Gi", pods="110"))
    plugin = world.make(ReservedFor)
    assert world.messages(plugin, pod(cpu="16").obj()) == {"n": ""}


def profile(**points: Any) -> dict[str, Any]:
    plugins = {point: {"enabled": [{"name": "ReservedFor"}]} for point in points.pop("at")}
    args = [{"name": "ReservedFor", "args": FOUR}]
    return {"profiles": [{"schedulerName": "b", "plugins": plugins, "pluginConfig": args}]}


def test_a_rejected_pod_is_tried_when_a_gpu_is_taken() -> None:
    cluster = Cluster(config=profile(at=["filter"]))
    cluster.add(make_node("n").capacity(cpu="16", memory="64Gi", pods="110", **{GPU: "2"}))
    waits = pod("waits", cpu="9")
    cluster.add(waits)
    cluster.run()
    assert f"1 node(s) kept cpu for free {GPU}" in cluster.message(waits)
    cluster.add(pod("gpu", cpu="2", gpus="1"))
    cluster.run()
    cluster.wait(10)
    cluster.run()
    assert cluster.node_of(waits) == "n"


def grouped() -> CoreCluster:
    """A cluster that places groups, with ReservedFor."""
    settings = groups_profile()
    settings["plugins"]["filter"] = {"enabled": [{"name": "ReservedFor"}]}
    settings["pluginConfig"].append({"name": "ReservedFor", "args": FOUR})
    return CoreCluster(profiles=[settings])


def test_a_group_that_does_not_fit_beside_what_is_kept_is_refused_before_it_is_tried() -> None:
    """Each node keeps 8 of 16 CPUs for its two GPUs."""
    cluster = grouped()
    for name in "mn":
        node = make_node(name).capacity(cpu="16", memory="64Gi", pods="110", **{GPU: "2"})
        cluster.add(node.label("rack", f"rack-of-{name}"))
    cluster.add(pod_group("g", minMember=5), *members("g", 5, cpu="4"))
    cluster.settle()
    assert cluster.notes[-1][1] == (
        f"NoRoom: at most 4 of 5 fit, short by cpu beside what is kept for {GPU}"
    )
    cluster.add(pod_group("h", slices(("rack", 2)), minMember=4), *members("h", 4, cpu="4"))
    cluster.settle()
    assert sorted(node for _, node in cluster.bound) == ["m", "m", "n", "n"]


@pytest.mark.parametrize("parts", [False, True], ids=["alone", "parts"])
def test_pods_of_a_group_that_take_the_gpus_leave_what_was_kept_to_the_others(parts: bool) -> None:
    cluster = grouped()
    cluster.add(make_node("n").capacity(cpu="16", memory="64Gi", pods="110", **{GPU: "2"}))
    first, rest = ("a", "b") if parts else ("", "")
    asked = sub_groups({"name": "a"}, {"name": "b", "minMember": 4}) if parts else {}
    (taking,) = members("g", 1, sub_group=first)
    cluster.add(pod_group("g", asked, minMember=5), taking.req(cpu="1", **{GPU: "2"}))
    cluster.add(*members("g", 4, cpu="3", first=1, sub_group=rest))
    cluster.settle(2)
    assert len(cluster.bound) == 5


@length(40)
@given(
    free=st.integers(1, 3),
    cpus=st.integers(1, 30),
    taken=st.integers(0, 8),
    each=st.integers(1, 5),
)
def test_the_bound_is_what_fits_one_after_the_other(
    free: int, cpus: int, taken: int, each: int
) -> None:
    node = make_node("n").capacity(cpu=str(cpus), memory="64Gi", pods="110", **{GPU: str(free)})
    world = PluginWorld(node)
    world.place(pod(cpu=str(taken)).meta(name="there", uid="there"), "n")
    plugin = world.make(ReservedFor, **FOUR)
    asking = pod(cpu=str(each))
    (bound,) = plugin.copies(CycleState(), asking.obj(), world.nodes).values()
    fits = 0
    while world.messages(plugin, asking.obj()) == {"n": ""}:
        world.place(pod(cpu=str(each)).meta(name=f"p{fits}", uid=f"p{fits}"), "n")
        fits += 1
    assert fits == max(int(bound[world.nodes.row("n")]), 0)


def test_as_a_score_it_rejects_nobody() -> None:
    cluster = Cluster(config=profile(at=["score"]))
    cluster.add(make_node("n").capacity(cpu="16", memory="64Gi", pods="110", **{GPU: "2"}))
    cluster.add(pod("p", cpu="9"))
    cluster.run()
    assert cluster.node_of("p") == "n"

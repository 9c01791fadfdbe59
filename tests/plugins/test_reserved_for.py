from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.harness import PluginWorld, scored

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


def test_as_a_score_it_rejects_nobody() -> None:
    cluster = Cluster(config=profile(at=["score"]))
    cluster.add(make_node("n").capacity(cpu="16", memory="64Gi", pods="110", **{GPU: "2"}))
    cluster.add(pod("p", cpu="9"))
    cluster.run()
    assert cluster.node_of("p") == "n"

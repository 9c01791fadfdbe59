"""Random Pods on random nodes: verdict, message and four scores are those of the judge."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.plugins.harness import PluginWorld
from tests.plugins.node_resource_topology_match.topologies import topology
from tests.plugins.zone_judge import score, verdict
from tests.properties import FACTOR

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.testing import make_node, make_pod

Data = dict[str, Any]
PAIRS = 500 * FACTOR
"""5,000 with ``BAYPLAN_PROPERTIES=10``."""
POD_S_OWN = ("cpu", "memory", "hugepages-1Gi", "example.com/gpu", "example.com/nic")
RESOURCES = (*POD_S_OWN, "ephemeral-storage")
UNITS = {"cpu": 500, "memory": 1 << 28, "hugepages-1Gi": 1 << 30, "ephemeral-storage": 1 << 28}


def random_node(rng: random.Random) -> Data:
    ids = sorted(rng.sample(range(10), rng.choice((1, 2, 2, 2, 4, 4, 8))))
    listed = [r for r in POD_S_OWN if rng.random() < (0.97 if "/" not in r else 0.6)]
    zones = []
    for id_ in ids:
        has = [r for r in listed if "/" not in r or rng.random() < 0.8]
        available = {r: rng.randrange(17) * UNITS.get(r, 1) for r in has}
        costs = {to: 10 if to == id_ else rng.choice((11, 20, 21)) for to in ids}
        if rng.random() < 0.15:
            costs.pop(rng.choice(ids))
        zones.append({"id": id_, "available": available, "costs": costs})
    return {
        "allocatable": {r for r in RESOURCES if "/" not in r or rng.random() < 0.9},
        "policy": rng.choice(("single-numa-node",) * 5 + ("none", "best-effort", "restricted")),
        "scope": rng.choice(("container", "pod")),
        "most": rng.choice((8, 8, 10, 16)),
        "zones": zones if rng.random() < 0.95 else None,
    }


def random_requests(rng: random.Random, guaranteed: bool) -> dict[str, int]:
    names = [r for r in RESOURCES if rng.random() < (0.25 if "/" in r or "-" in r else 0.7)]
    if guaranteed:
        names = ["cpu", "memory", *(r for r in names if r not in ("cpu", "memory"))]
    low = 1 if guaranteed else 0
    most = rng.choice((5, 9, 25))
    return {r: rng.randrange(low, most) * UNITS.get(r, 1) for r in names}


def random_pod(rng: random.Random) -> Data:
    guaranteed = rng.random() < 0.7

    def containers(counts: tuple[int, ...]) -> list[Data]:
        return [
            {"requests": random_requests(rng, guaranteed), "sidecar": rng.random() < 0.5}
            for _ in range(rng.choice(counts))
        ]

    pod = {"containers": containers((1, 1, 2, 3)), "init": containers((0, 0, 1, 2))}
    pod["overhead"] = [{"cpu": 250}, {}][rng.random() < 0.8]  # type: ignore[assignment]
    asked = [c["requests"] for c in (*pod["containers"], *pod["init"])]
    nothing = not any(r.get("cpu") or r.get("memory") for r in asked)
    pod["qos"] = "Guaranteed" if guaranteed else "BestEffort" if nothing else "Burstable"  # type: ignore[assignment]
    return pod


def made(data: Data) -> Pod:
    builder = make_pod("p")
    for key, add in (("containers", builder.container), ("init", builder.init_container)):
        for container in data[key]:
            requests = written(container["requests"])
            resources: Data = {"requests": requests}
            if data["qos"] == "Guaranteed":
                resources["limits"] = requests
            more = {"restartPolicy": "Always"} if key == "init" and container["sidecar"] else {}
            add(resources=resources, **more)
    return builder.overhead(written(data["overhead"])).obj()


def written(amounts: dict[str, int]) -> dict[str, str]:
    return {n: f"{a}m" if n == "cpu" else str(a) for n, a in amounts.items()}


def world_of(nodes: list[Data]) -> PluginWorld:
    world = PluginWorld()
    for i, data in enumerate(nodes):
        amounts: Data = dict.fromkeys(data["allocatable"], 10**12) | {"pods": 110}
        world.add(make_node(f"n{i}").status(allocatable=amounts))
        if data["zones"] is None:
            continue
        zones = [
            {
                "name": f"node-{z['id']}",
                "type": "Node",
                "costs": [{"name": f"node-{to}", "value": c} for to, c in z["costs"].items()],
                "resources": [
                    {"name": n, "available": a} for n, a in written(z["available"]).items()
                ],
            }
            for z in data["zones"]
        ]
        config = {"scope": data["scope"], "policy": data["policy"]}
        most = str(data["most"])
        world.add(topology(f"n{i}", *zones, **config, topologyManagerMaxNUMANodes=most))
    return world


@pytest.mark.parametrize("seed", range(10))
def test_verdict_message_and_scores_are_those_of_the_judge(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [random_node(rng) for _ in range(10)]
    world = world_of(nodes)
    weights = {"cpu": 3, "memory": 1, "example.com/gpu": 5}
    resources = [{"name": n, "weight": w} for n, w in weights.items()]
    strategies = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
    plugins = {
        strategy: world.make(
            NodeResourceTopologyMatch,
            scoringStrategy={"type": strategy, "resources": resources},
        )
        for strategy in strategies
    }
    fitting = rejected = 0
    for _ in range(PAIRS // 100):
        data = random_pod(rng)
        pod = made(data)
        messages = world.messages(plugins["LeastAllocated"], pod)
        expected = {f"n{i}": verdict(data, node) for i, node in enumerate(nodes)}
        assert messages == expected
        fitting += sum(not m for m in messages.values())
        rejected += sum(bool(m) for m in messages.values())
        for strategy, plugin in plugins.items():
            answers = plugin.score_nodes(CycleState(), pod, world.nodes)
            scores = [int(answers[world.row(f"n{i}")]) for i in range(len(nodes))]
            assert scores == [score(strategy, weights, data, node) for node in nodes], strategy
    assert fitting
    assert rejected

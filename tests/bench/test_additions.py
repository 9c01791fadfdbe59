"""The benchmark of plugins of placement, on a small cluster."""

from __future__ import annotations

import pytest
from bench.additions import WORKLOAD, additions, world_with
from bench.objects import Objects
from bench.workloads import load_catalog

NODES, PODS = 6, 12
CASES = additions([f"node-{index}" for index in range(NODES)])


@pytest.mark.parametrize("name", CASES)
def test_every_pod_is_placed_with_each_of_the_plugins(name: str) -> None:
    workload = load_catalog().select(WORKLOAD)[0].sized(NODES, placed=0, pods=PODS)
    world = world_with(workload, CASES[name])
    world.feed(Objects(load_catalog(), workload).measured())
    assert world.place(PODS, seconds=60).pods == PODS
    [profile] = world.core.profiles
    assert set(CASES[name]) <= {
        plugin.name for plugin in world.core.profiles[profile].plugins.score
    }

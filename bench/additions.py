"""What plugins of placement cost a Pod, beside the default ones: `python -m bench.additions`.

SchedulingBasic without a placed Pod, through cache, queue and framework, with no API server. Its
nodes have what the plugins read: a zone, a price, a number, load that was measured, and two NUMA
zones, the same for every plugin. Each plugin is measured beside the default profile alone, in
turns, by CPU time (the median of the turns) and by executed bytecodes (`bench.turns`).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
import typer

from bayplan.api.kinds import NODE_RESOURCE_TOPOLOGY
from bayplan.cache.node_load import RESOURCES, NodeLoads, Readings
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.inbox.messages import Changed
from bench.core import WARM_PODS, quiet_collector
from bench.objects import ZONE, Item, Objects
from bench.turns import COUNTED, SECONDS, TURN, World, bytecodes_of, in_turns
from bench.workloads import Workload, load_catalog

WORKLOAD = "SchedulingBasic"
DEFAULT = "default"
NUMBER = "example.com/number"
_POWER = {"k0": 200.0, "k1": 1.0, "k2": 0.03}
_BY_NUMBER = {
    "metadataKey": NUMBER,
    "metadataSource": "Label",
    "metadataType": "Number",
    "scoringStrategy": "Highest",
}
_NUMA = "NodeResourceTopologyMatch"


def additions(nodes: list[str]) -> Mapping[str, Mapping[str, Any]]:
    """By the name in the table: plugin and arguments."""
    powers = {name: _POWER | {"k1": 1.0 + index % 7} for index, name in enumerate(nodes)}
    return {
        DEFAULT: {},
        "TargetLoadPacking": {"TargetLoadPacking": {}},
        "LoadVariationRiskBalancing": {"LoadVariationRiskBalancing": {}},
        "LowRiskOverCommitment": {"LowRiskOverCommitment": {}},
        "Peaks": {"Peaks": {"nodePowerModel": powers}},
        "NodeMetadata": {"NodeMetadata": _BY_NUMBER},
        "PodState": {"PodState": {}},
        "NodeResourcesAllocatable": {"NodeResourcesAllocatable": {}},
        _NUMA: {_NUMA: {}},
        f"{_NUMA} with its cache": {_NUMA: {"cacheResyncPeriodSeconds": 5}},
        "LeastFragmentation": {"LeastFragmentation": {}},
        "ReservedFor": {"ReservedFor": {}},
        "BlastRadius with `failover`": {"BlastRadius": {"failover": {"domain": ZONE}}},
        "NetworkOverhead": {"NetworkOverhead": {}},
        "DomainCost": {"DomainCost": {}},
        "DomainCost with `transfer`": {"DomainCost": {"transfer": {}}},
    }


def main(
    nodes: Annotated[int, typer.Option(min=3)] = 5_000,
    pods: Annotated[int, typer.Option(min=TURN)] = 1_000,
    only: Annotated[str, typer.Option(help="Comma-separated, of the table's first column.")] = "",
) -> None:
    """Print microseconds of CPU a Pod, and the ratios to `default` of time and of bytecodes."""
    count = pods + COUNTED + 1
    workload = load_catalog().select(WORKLOAD)[0].sized(nodes, placed=0, pods=count)
    cases = additions([f"node-{index}" for index in range(nodes)])
    for name in [name for name in only.split(",") if name] or [n for n in cases if n != DEFAULT]:
        with quiet_collector():
            worlds = {each: _begun(workload, cases[each]) for each in (DEFAULT, name)}
            costs = in_turns(worlds, pods)
        executed = {each: bytecodes_of(world).total() for each, world in worlds.items()}
        pairs = zip(costs[name], costs[DEFAULT], strict=True)
        ratio = statistics.median(cost / base for cost, base in pairs)
        print(
            f"{name}: {statistics.median(costs[name]):.0f} us a Pod, ratio {ratio:.2f}; "
            f"{executed[name] / COUNTED:.0f} bytecodes, "
            f"ratio {executed[name] / executed[DEFAULT]:.3f}"
        )


def _begun(workload: Workload, plugins: Mapping[str, Any]) -> World:
    """A scheduler with these plugins that has placed some Pods, and has all others in its queue."""
    catalog = load_catalog()
    world = world_with(workload, plugins)
    world.feed(Objects(catalog, workload.sized(pods=WARM_PODS)).measured(prefix="warm-"))
    world.place(WARM_PODS, SECONDS)
    world.feed(Objects(catalog, workload).measured())
    return world


def world_with(workload: Workload, plugins: Mapping[str, Any]) -> World:
    """A scheduler with ``plugins`` and all that they read."""
    registry = Registry()
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}},
        "pluginConfig": [{"name": name, "args": args} for name, args in plugins.items() if args],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    objects = _Furnished(load_catalog(), workload)
    world = World(parse_config(json.dumps(config), registry.known), registry, workload, objects)
    table = world.core.world.cache.nodes
    names = [name for name in table.names if name]
    for name in names if _NUMA in plugins else ():
        zones = NODE_RESOURCE_TOPOLOGY.decode(_zones(name))
        world.apply(Changed(NODE_RESOURCE_TOPOLOGY, zones))
    now = time.time()
    for source in world.core.profiles.load_sources():
        table.ensure_column(NodeLoads).write(source, _readings(names, now), table, now)
    return world


class _Furnished(Objects):
    """Nodes in three zones, with prices and numbers."""

    def surroundings(self) -> Iterator[Item]:
        """See `Objects.surroundings`."""
        for index, item in enumerate(super().surroundings()):
            if item.kind != "Node":
                yield item
                continue
            node = json.loads(item.body)
            node["metadata"]["labels"] |= {ZONE: "abc"[index % 3], NUMBER: str(index % 10)}
            price = {"bayplan.dev/hourly-price": f"{0.1 + index % 5 / 100:.2f}"}
            node["metadata"]["annotations"] = price
            yield Item(item.kind, item.path, item.name, json.dumps(node).encode())


def _readings(names: list[str], now: float) -> Readings:
    random = np.random.default_rng(1)
    mean = {name: random.uniform(0, 0.6, len(names)) for name in RESOURCES}
    deviation = {name: random.uniform(0, 0.1, len(names)) for name in RESOURCES}
    return Readings(names, mean, deviation, np.full(len(names), now - 30))


def _zones(name: str) -> bytes:
    amounts = {"cpu": "2", "memory": "16Gi"}
    has = [
        {"name": resource, "capacity": amount, "allocatable": amount, "available": amount}
        for resource, amount in amounts.items()
    ]
    zones = [{"name": f"node-{index}", "type": "Node", "resources": has} for index in range(2)]
    attributes = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    obj = {"metadata": {"name": name}, "zones": zones, "attributes": attributes}
    return json.dumps(obj).encode()


if __name__ == "__main__":
    typer.run(main)

"""`python -m bench.tenants`: what tenants add to the cost of placing a Pod, with no API server.

    python -m bench.tenants --nodes 5000 --tenants 100

SchedulingBasic with its Pods in so many namespaces, three times: without tenants, with a Queue for
each namespace (FairShare), and with an ElasticQuota for each (CapacityScheduling). No limit is ever
reached. The three place their Pods in turns, a few at a time, so other programs on the machine are
in the way of all of them alike. Figures are CPU time; a ratio is the median over the turns.

Why bytecodes are counted, too: `bench.turns`. With ``--steps`` the functions are listed that
execute more of them than without tenants.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from bayplan.api.kinds import ELASTIC_QUOTA, QUEUE
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bench.core import WARM_PODS, quiet_collector
from bench.objects import Item, Objects
from bench.turns import COUNTED, SECONDS, TURN, World, bytecodes_of, in_turns
from bench.workloads import Workload, load_catalog

FEWEST = 5
"""Bytecodes a Pod, of a function that is listed."""

Json = dict[str, Any]
console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    tenants: Annotated[int, typer.Option(min=1)] = 100,
    pods: Annotated[int, typer.Option(min=TURN)] = 2_000,
    *,
    steps: Annotated[bool, typer.Option(help="Print where the bytecodes are executed.")] = False,
) -> None:
    """Compare placing Pods without tenants, with Queues and with ElasticQuotas."""
    with quiet_collector():
        worlds = all_worlds(nodes, tenants, pods)
        costs = in_turns(worlds, pods)
    bytecodes = {name: bytecodes_of(world) for name, world in worlds.items()}
    alone, least = costs["without tenants"], bytecodes["without tenants"]
    for name, each in costs.items():
        ratio = statistics.median(cost / base for cost, base in zip(each, alone, strict=True))
        console.print(
            f"{name}: {statistics.median(each):.0f} us a Pod, ratio {ratio:.2f}; "
            f"{bytecodes[name].total() / COUNTED:.0f} bytecodes, "
            f"ratio {bytecodes[name].total() / least.total():.3f}"
        )
    console.print(f"load {os.getloadavg()[0]:.0f}")
    for name in list(worlds)[1:] if steps else ():
        console.print(f"{name}, bytecodes a Pod more:")
        for function, executed in (bytecodes[name] - least).most_common():
            if executed >= FEWEST * COUNTED:
                console.print(f"{executed / COUNTED:7.1f} {function}", highlight=False)


def all_worlds(nodes: int, tenants: int, pods: int) -> dict[str, World]:
    """The three, by name; each has ``pods`` to place besides those whose bytecodes are counted."""
    workload = load_catalog().select("SchedulingBasic")[0].sized(nodes)
    # One Pod of each tenant still waits in the end.
    count = pods + COUNTED + tenants
    batch = msgspec.structs.replace(workload.measured, count=count, namespaces=tenants)
    workload = msgspec.structs.replace(workload, measured=batch)
    names = [batch.namespace_of(index) for index in range(tenants)]
    room = {"cpu": str(4 * nodes), "memory": f"{32 * nodes}Gi"}
    return {
        "without tenants": _world(workload, {}, iter(())),
        f"{tenants} Queues": _world(workload, _fair_share(), _queues(names, room)),
        f"{tenants} ElasticQuotas": _world(workload, _capacity(), _quotas(names, room)),
    }


def _world(workload: Workload, plugins: Json, tenants: Iterator[Item]) -> World:
    """A scheduler whose queue has all Pods of the workload, and that has placed a few others."""
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    registry = Registry()
    config = parse_config(json.dumps(document), registry.known)
    catalog = load_catalog()
    objects = Objects(catalog, workload)
    world = World(config, registry, workload, objects)
    world.feed(tenants)
    world.feed(Objects(catalog, workload.sized(pods=WARM_PODS)).measured(prefix="warm-"))
    world.place(WARM_PODS, SECONDS)
    world.feed(objects.measured())
    return world


def _fair_share() -> Json:
    enabled = {"enabled": [{"name": "FairShare"}]}
    return dict.fromkeys(("multiPoint", "postFilter", "podGroupPostFilter"), enabled)


def _capacity() -> Json:
    enabled, disabled = [{"name": "CapacityScheduling"}], [{"name": "DefaultPreemption"}]
    return {"multiPoint": {"enabled": enabled, "disabled": disabled}}


def _queues(namespaces: list[str], room: Json) -> Iterator[Item]:
    for name in namespaces:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
        yield _item(QUEUE.name, "", name, {"namespaceSelector": selector, "limit": room})


def _quotas(namespaces: list[str], room: Json) -> Iterator[Item]:
    for name in namespaces:
        yield _item(ELASTIC_QUOTA.name, name, name, {"min": room, "max": room})


def _item(kind: str, namespace: str, name: str, spec: Json) -> Item:
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}"}
    return Item(kind, "", name, json.dumps({"metadata": metadata, "spec": spec}).encode())


if __name__ == "__main__":
    typer.run(main)

"""A judge of `bayplan improve survive`, `cost` and `packing`: all moves in small clusters.

It shares no code with the planner or the plugins: what survives, what Pods cost and which GPUs are
of no use is counted by hand. `python -m tests.improve.brute_gains` compares random clusters.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import typer

from bayplan.api.kinds import REPLICA_SET
from bayplan.improve.gains import saving, surviving, unstranding
from bayplan.improve.goals import Goal
from bayplan.improve.plan import improve
from bayplan.testing import Builder, Cluster, make_node, make_object, make_pod

GPU = "nvidia.com/gpu"
GPUS, CPUS = 4, 8
MOST = 2
PLUGINS = ("BlastRadius", "DomainCost", "LeastFragmentation")
KEEP = 1
"""So many of the three Pods of a workload are to survive the loss of a zone."""
Where = tuple[int, ...]


@dataclass(frozen=True)
class Small:
    """A cluster: zone and price of each node; of each Pod CPUs, GPUs and the workload."""

    nodes: Sequence[tuple[str, int]]
    pods: Sequence[tuple[int, int, str]]
    where: Where


def small(rng: random.Random) -> Small:
    """A random one."""
    nodes = [(rng.choice("abc"), rng.randint(1, 9)) for _ in range(rng.randint(3, 4))]
    pods = [(rng.randint(1, 3), rng.randint(0, 3), workload) for workload in "xxxyyy"]
    cluster, where = Small(nodes, pods, ()), list[int]()
    for index in range(len(pods)):
        targets = [n for n in range(len(nodes)) if fits(cluster, where, index, n)]
        where.append(rng.choice(targets) if targets else -1)
    kept = [index for index, node in enumerate(where) if node >= 0]
    return Small(nodes, [pods[i] for i in kept], tuple(where[i] for i in kept))


def fits(cluster: Small, where: Sequence[int], index: int, node: int) -> bool:
    """Whether the Pod fits on a node, by what is free there."""
    here = [cluster.pods[i] for i, at in enumerate(where) if at == node and i != index]
    cpu, gpu, _ = cluster.pods[index]
    return sum(p[0] for p in here) + cpu <= CPUS and sum(p[1] for p in here) + gpu <= GPUS


def survives(cluster: Small, where: Where) -> float:
    """How many survivors are missing, of three Pods a workload."""
    missing = 0
    for workload in {pod[2] for pod in cluster.pods}:
        pods = [at for at, pod in zip(where, cluster.pods, strict=True) if pod[2] == workload]
        zones = Counter(cluster.nodes[at][0] for at in pods)
        missing += max(0, KEEP - (sum(zones.values()) - max(zones.values())))
    return float(missing)


def costs(cluster: Small, where: Where) -> float:
    """What all Pods cost an hour."""
    shares = [max(cpu / CPUS, gpu / GPUS) for cpu, gpu, _ in cluster.pods]
    return sum(s * cluster.nodes[at][1] for s, at in zip(shares, where, strict=True))


def strands(cluster: Small, where: Where) -> float:
    """How many GPUs are of no use for a Pod drawn from those there are."""
    lost = 0.0
    for node in range(len(cluster.nodes)):
        here = [pod for at, pod in zip(where, cluster.pods, strict=True) if at == node]
        cpu, gpu = CPUS - sum(p[0] for p in here), GPUS - sum(p[1] for p in here)
        useless = [p for p in cluster.pods if not p[1] or p[1] > gpu or p[0] > cpu]
        lost += gpu * len(useless) / len(cluster.pods)
    return lost


def allowed(cluster: Small, where: Where, index: int, node: int) -> bool:
    """Whether the rule lets the Pod go there: enough survive the loss of its new zone."""
    zone, workload = cluster.nodes[node][0], cluster.pods[index][2]
    others = [
        at
        for i, (at, pod) in enumerate(zip(where, cluster.pods, strict=True))
        if i != index and pod[2] == workload
    ]
    return sum(cluster.nodes[at][0] == zone for at in others) + 1 <= 3 - KEEP


Measure = Callable[[Small, Where], float]


def fewest(cluster: Small, measure: Measure, needed: float) -> int | None:
    """The fewest moves after which the measure has fallen by so much; None for more than `MOST`."""
    before, states = measure(cluster, cluster.where), {cluster.where}
    ruled = measure is survives
    for moves in range(MOST + 1):
        if any(before - measure(cluster, where) >= needed - 1e-6 for where in states):
            return moves
        states = {after for where in states for after in _after(cluster, where, ruled)}
    return None


def _after(cluster: Small, where: Where, ruled: bool) -> Iterator[Where]:
    for index, node in product(range(len(where)), range(len(cluster.nodes))):
        may = where[index] == cluster.where[index] != node and fits(cluster, where, index, node)
        if may and (not ruled or allowed(cluster, where, index, node)):
            yield (*where[:index], node, *where[index + 1 :])


def built(cluster: Small, plugin: str) -> Cluster:
    """The cluster, with a profile that has the plugin."""
    enabled = {"multiPoint": {"enabled": [{"name": plugin}]}}
    args: Any = {
        "BlastRadius": {},
        "DomainCost": {},
        "LeastFragmentation": {"resources": [GPU], "typicalShare": 1.0},
    }
    profile = {
        "schedulerName": "bayplan",
        "plugins": enabled,
        "pluginConfig": [{"name": plugin, "args": args[plugin]}],
    }
    made = Cluster(config={"profiles": [profile]})
    made.add(*_objects(cluster, ruled=plugin == "BlastRadius"))
    return made


def _objects(cluster: Small, *, ruled: bool) -> Iterator[Builder[Any]]:
    for number, (zone, price) in enumerate(cluster.nodes):
        node = make_node(f"n{number}").capacity(cpu=CPUS, pods=99, **{GPU: GPUS})
        node.label("topology.kubernetes.io/zone", zone)
        yield node.annotation("bayplan.dev/hourly-price", str(price))
    rule = {"domain": "topology.kubernetes.io/zone", "keep": KEEP, "size": 3}
    for name in "xy":
        owner = make_object(REPLICA_SET, name).spec(replicas=3)
        yield owner.annotation("bayplan.dev/survive", json.dumps(rule)) if ruled else owner
    for number, (at, pod) in enumerate(zip(cluster.where, cluster.pods, strict=True)):
        cpu, gpu, workload = pod
        made = make_pod(f"p{number}").req(cpu=cpu, **{GPU: gpu}).node(f"n{at}")
        made.owner("ReplicaSet", workload).label("app", workload)
        yield made.label("bayplan.dev/movable", "true")


GOALS: dict[str, tuple[Measure, Callable[[Cluster, float], Goal], tuple[float, ...]]] = {
    "BlastRadius": (survives, lambda made, _: surviving(made.core), (0.0,)),
    "DomainCost": (costs, lambda made, needed: saving(made.core, needed), (0.5, 1.0, 2.0, 3.0)),
    "LeastFragmentation": (
        strands,
        lambda made, needed: unstranding(made.core, needed),
        (0.3, 0.6, 1.0, 2.0),
    ),
}


def compared(cluster: Small, plugin: str, needed: float) -> tuple[int | None, int | None, bool]:
    """The fewest moves by hand, those of the plan, and whether the plan does what it says."""
    measure, goal, _ = GOALS[plugin]
    if plugin == "BlastRadius":
        needed = measure(cluster, cluster.where)
    best, made = fewest(cluster, measure, needed), built(cluster, plugin)
    answer = improve(made.core, goal(made, needed), 0.0, most=MOST, seconds=60)
    if not answer["reached"]:
        return best, None, True
    where = list(cluster.where)
    for move in answer["moves"]:
        index, node = int(move["pod"].removeprefix("default/p")), int(move["to"][1:])
        if not fits(cluster, where, index, node):
            return best, len(answer["moves"]), False
        where[index] = node
    fell = measure(cluster, cluster.where) - measure(cluster, tuple(where))
    holds = fell >= needed - 1e-6 and abs(fell - answer["fall"]) < 1e-6
    return best, len(answer["moves"]), holds


def main(clusters: int = 60, seed: int = 0) -> None:
    """Compare so many random clusters with each goal."""
    for plugin, (_, _, amounts) in GOALS.items():
        rng, possible, found, as_few, wrong, asked = random.Random(seed), 0, 0, 0, 0, 0
        for _ in range(clusters):
            cluster = small(rng)
            best, moves, holds = compared(cluster, plugin, rng.choice(amounts))
            asked += 1
            wrong += not holds
            possible += best is not None
            found += best is not None and moves is not None
            as_few += best is not None and moves == best
        typer.echo(
            f"{plugin}: {asked} clusters, {possible} with a plan of up to {MOST} moves: "
            f"{found} found, {as_few} with as few moves; {wrong} plans that do not hold"
        )


if __name__ == "__main__":
    typer.run(main)

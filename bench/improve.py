"""`python -m bench.improve`: how long `bayplan improve` looks for a plan, with no API server.

    python -m bench.improve --nodes 5000 --running 30000

Nodes of 8 GPUs with Pods of 1 and 2 GPUs (for the measures up to 6), movable on three of four
nodes, and 2 to 4 GPUs free. A question is what has to move for one Pod of 5 to 8 GPUs, each one on
the same cluster; then for groups of 4 Pods of 6 GPUs, and to empty nodes. Then the measures: a
workload of four Pods that does not survive the loss of its zone, with 1,000 that do; so much an
hour to be saved; so many devices fewer to be stranded. It looks for as long as the running
scheduler does. Wall time of everything but reading the cluster, in percentiles, and CPU time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from bayplan.api.kinds import NODE, POD, POD_GROUP, REPLICA_SET
from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.improve.asked import LIVE_SECONDS
from bayplan.improve.gains import saving, surviving, unstranding
from bayplan.improve.goals import Goal, GoalError, empty, fitting
from bayplan.improve.movable import MOVABLE
from bayplan.improve.plan import improve
from bayplan.inbox.messages import Changed, Replaced
from bayplan.testing import Cluster, PodBuilder, make_node, make_object, make_pod
from bench.core import quiet_collector

GPU = "nvidia.com/gpu"
GPUS = 8
MEMBERS = 4
CONFIG = {
    "profiles": [
        {
            "schedulerName": "bayplan",
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "Coscheduling"}],
                    "disabled": [{"name": "PrioritySort"}],
                }
            },
        }
    ]
}

PLUGINS = ("BlastRadius", "DomainCost", "LeastFragmentation")
MEASURING = {
    "profiles": [
        {
            "schedulerName": "bayplan",
            "plugins": {"multiPoint": {"enabled": [{"name": name} for name in PLUGINS]}},
        }
    ]
}
ZONE = "topology.kubernetes.io/zone"
WORKLOADS, REPLICAS = 1_000, 4
SURVIVE = "bayplan.dev/survive", json.dumps({"domain": ZONE, "keep": 2})

console = Console(soft_wrap=True)


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    running: Annotated[int, typer.Option(min=1)] = 30_000,
    questions: Annotated[int, typer.Option(min=1)] = 40,
    seed: int = 0,
) -> None:
    """Measure plans for Pods, for groups and to empty nodes."""
    with quiet_collector():
        _for_room(nodes, running, questions, random.Random(seed))
        _for_measures(nodes, running, questions, random.Random(seed))


def _for_room(nodes: int, running: int, questions: int, rng: random.Random) -> None:
    cluster = _cluster(nodes, running, rng, CONFIG)
    pods = [_waiting(f"one-{i}", str(rng.randint(5, GPUS))) for i in range(questions)]
    for number in range(questions):
        group = make_object(POD_GROUP, f"g{number}").namespace("default").spec(minMember=MEMBERS)
        cluster.tell(Changed(POD_GROUP, group.new_version().obj()))
        members = [_waiting(f"g{number}-{i}", "6") for i in range(MEMBERS)]
        pods += [member.label(POD_GROUP_LABEL, f"g{number}") for member in members]
    cluster.tell(*(Changed(POD, pod.new_version().obj()) for pod in pods))
    core = cluster.core
    goals: dict[str, Callable[[int], Goal]] = {
        "for a Pod": lambda i: fitting(core, f"one-{i}", "default"),
        f"for a group of {MEMBERS}": lambda i: fitting(core, f"podgroup/g{i}", "default"),
        "empty a node": lambda _: empty(core, f"n{rng.randrange(nodes)}"),
    }
    for name, goal in goals.items():
        _ask(cluster, name, goal, questions)


def _for_measures(nodes: int, running: int, questions: int, rng: random.Random) -> None:
    sizes = (1, 1, 1, 2, 4, 6)
    cluster = _cluster(nodes, running - WORKLOADS * REPLICAS, rng, MEASURING, sizes)
    for number in range(WORKLOADS):
        _workload(cluster, number, nodes)
    core = cluster.core

    def breaks(number: int) -> None:
        """One workload that does not survive any more, in place of the one before."""
        if number:
            at = [3 * i + i % 3 for i in range(REPLICAS)]
            _workload(cluster, WORKLOADS + number - 1, nodes, at)
        _workload(cluster, WORKLOADS + number, nodes, [3 * i for i in range(REPLICAS)])

    _ask(cluster, "survive", lambda _: surviving(core), questions, before=breaks)
    goals: dict[str, Callable[[int], Goal]] = {
        "cost": lambda _: saving(core, rng.uniform(0.5, 4)),
        "packing": lambda _: unstranding(core, rng.uniform(0.5, 4)),
    }
    for name, goal in goals.items():
        _ask(cluster, name, goal, questions)


def _workload(
    cluster: Cluster, number: int, nodes: int, at: Sequence[int] = range(REPLICAS)
) -> None:
    """Pods that may move, of a workload with a rule; by default it survives."""
    name = f"w{number}"
    owner = (
        make_object(REPLICA_SET, name)
        .namespace("default")
        .uid(f"ReplicaSet-{name}")
        .spec(replicas=REPLICAS)
    )
    cluster.tell(Changed(REPLICA_SET, owner.annotation(*SURVIVE).new_version().obj()))
    for index, offset in enumerate(at):
        node = f"n{(number * 3 + offset) % nodes}"
        pod = make_pod(f"{name}-{index}").uid(f"{name}-{index}").req(cpu="1").node(node)
        pod.label("app", name).owner("ReplicaSet", name).spec(schedulerName="bayplan").label(
            MOVABLE, "true"
        )
        cluster.tell(Changed(POD, pod.new_version().obj()))


def _ask(
    cluster: Cluster,
    name: str,
    goal: Callable[[int], Goal],
    questions: int,
    before: Callable[[int], object] = lambda _: None,
) -> None:
    times, reached, moves, refused = [], 0, 0, 0
    for number in range(questions):
        before(number)
        started = perf_counter(), thread_time()
        try:
            answer = improve(cluster.core, goal(number), cluster.clock(), seconds=LIVE_SECONDS)
        except GoalError:
            refused += 1
            continue
        times.append((perf_counter() - started[0], thread_time() - started[1]))
        reached += answer["reached"]
        moves += len(answer.get("moves", ()))
    if not times:
        console.print(f"{name}: none of {questions} can be")
        return
    (median, p95), (_, cpu) = (1000 * np.percentile(times, (50, 95), axis=0)).T
    console.print(
        f"{name}: median {median:.0f} ms, p95 {p95:.0f} ms, p95 of CPU {cpu:.0f} ms; "
        f"{reached} of {len(times)} reached, {moves / max(reached, 1):.1f} moves each; "
        f"{refused} have Pods that stay"
    )


def _cluster(
    nodes: int,
    running: int,
    rng: random.Random,
    config: Any,
    sizes: Sequence[int] = (1, 1, 1, 2),
) -> Cluster:
    """Every node has 2 to 4 GPUs free; Pods without GPUs make up the number."""
    cluster = Cluster(config=config)
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
    made = [
        make_node(f"n{i}")
        .capacity(**amounts)
        .labels({ZONE: "abc"[i % 3]})
        .annotation("bayplan.dev/hourly-price", str(5 + i % 5))
        .new_version()
        .obj()
        for i in range(nodes)
    ]
    pods: list[Pod] = []
    for node in range(nodes):
        left = GPUS - rng.randint(2, 4)
        while left:
            gpus = min(left, rng.choice(sizes))
            left -= gpus
            pods.append(_running(f"p{len(pods)}", node, gpus))
    pods += [_running(f"p{i}", rng.randrange(nodes), 0) for i in range(len(pods), running)]
    cluster.tell(Replaced(NODE, made), Replaced(POD, pods))
    console.print(f"{len(pods):,} Pods on {nodes:,} nodes")
    return cluster


def _running(name: str, node: int, gpus: int) -> Pod:
    """Movable on three of four nodes."""
    requests = {GPU: str(gpus)} if gpus else {}
    pod = make_pod(name).req(cpu="1", **requests).node(f"n{node}").owner("ReplicaSet", "rs")
    pod.spec(schedulerName="bayplan").label(MOVABLE, str(node % 4 > 0).lower())
    return pod.new_version().obj()


def _waiting(name: str, gpus: str) -> PodBuilder:
    return make_pod(name).req(cpu="4", **{GPU: gpus}).spec(schedulerName="bayplan")


if __name__ == "__main__":
    typer.run(main)

"""`python -m bench.improve`: how long `bayplan improve` looks for a plan, with no API server.

    python -m bench.improve --nodes 5000 --running 30000

Nodes of 8 GPUs with Pods of 1 and 2 GPUs, movable on three of four nodes, and 2 to 4 GPUs free. A
question is what has to move for one Pod of 5 to 8 GPUs, each one on the same cluster; then for
groups of 4 Pods of 6 GPUs, and to empty nodes. Wall time of everything but reading the cluster, in
percentiles.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from bayplan.api.kinds import NODE, POD, POD_GROUP
from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
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

console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    running: Annotated[int, typer.Option(min=1)] = 30_000,
    questions: Annotated[int, typer.Option(min=1)] = 40,
    seed: int = 0,
) -> None:
    """Measure plans for Pods, for groups and to empty nodes."""
    rng = random.Random(seed)
    cluster = _cluster(nodes, running, rng)
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
    with quiet_collector():
        for name, goal in goals.items():
            _ask(cluster, name, goal, questions)


def _ask(cluster: Cluster, name: str, goal: Callable[[int], Goal], questions: int) -> None:
    milliseconds, reached, moves, refused = [], 0, 0, 0
    for number in range(questions):
        started = perf_counter()
        try:
            answer = improve(cluster.core, goal(number), cluster.clock())
        except GoalError:
            refused += 1
            continue
        milliseconds.append((perf_counter() - started) * 1000)
        reached += answer["reached"]
        moves += len(answer.get("moves", ()))
    if not milliseconds:
        console.print(f"{name}: none of {questions} can be")
        return
    median, p95 = np.percentile(milliseconds, (50, 95))
    console.print(
        f"{name}: median {median:.0f} ms, p95 {p95:.0f} ms; {reached} of {len(milliseconds)} "
        f"reached, {moves / max(reached, 1):.1f} moves each; {refused} have Pods that stay"
    )


def _cluster(nodes: int, running: int, rng: random.Random) -> Cluster:
    """Every node has 2 to 4 GPUs free; Pods without GPUs make up the number."""
    cluster = Cluster(config=CONFIG)
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
    made = [make_node(f"n{i}").capacity(**amounts).new_version().obj() for i in range(nodes)]
    pods: list[Pod] = []
    for node in range(nodes):
        left = GPUS - rng.randint(2, 4)
        while left:
            gpus = min(left, rng.choice((1, 1, 1, 2)))
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

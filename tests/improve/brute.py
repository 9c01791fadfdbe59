"""A judge of `bayplan improve`: all sequences of moves in small clusters, by arithmetic alone.

It shares no code with the planner. A Pod goes to a node if CPU and GPUs are left there, the zone is
one that it asks for, and no other Pod of the app is there that wants nodes of its own. Each Pod
moves once at most. `python -m tests.improve.brute` compares 200 random clusters.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import typer

from bayplan.improve.goals import fitting
from bayplan.improve.plan import improve
from bayplan.inbox.messages import Replaced
from bayplan.testing import Builder, Cluster, PodBuilder, make_node, make_pod

GPU = "example.com/gpu"
ALONE = "alone"
"""The app whose Pods want nodes of their own."""
MOST = 3
Moves = list[tuple[str, str, str]]


@dataclass(frozen=True)
class Small:
    """A Pod; `zone` and `app` are "" for none."""

    name: str
    cpu: int
    gpu: int
    zone: str
    app: str
    movable: bool


@dataclass(frozen=True)
class Fragmented:
    """A cluster: CPUs, GPUs and zone of each node, where Pods are, and the Pod that waits."""

    nodes: Sequence[tuple[int, int, str]]
    pods: Sequence[Small]
    where: tuple[int, ...]
    waits: Small


def fragmented(rng: random.Random) -> Fragmented:
    """A random one in which the Pod fits on no node, but would on an empty one."""
    while True:
        nodes = [(8, 4, rng.choice("ab")) for _ in range(rng.randint(3, 5))]
        pods = [_small(rng, f"p{i}", rng.random() < 0.7) for i in range(rng.randint(4, 9))]
        waits = _small(rng, "waits", movable=False, least=2)
        cluster, where = Fragmented(nodes, pods, (), waits), list[int]()
        for pod in pods:
            targets = [t for t in range(len(nodes)) if fits(cluster, where, pod, t)]
            if targets:
                where.append(rng.choice(targets))
        cluster = Fragmented(nodes, pods[: len(where)], tuple(where), waits)
        if len(where) == len(pods) and not _reached(cluster, where):
            return cluster


def _small(rng: random.Random, name: str, movable: bool, least: int = 0) -> Small:
    zone, app = rng.choice(["", "", "", "a", "b"]), rng.choice(["", "", "", ALONE])
    return Small(name, rng.randint(1, 4), rng.randint(least, 3), zone, app, movable)


def fits(cluster: Fragmented, where: Sequence[int], pod: Small, target: int) -> bool:
    """Whether ``pod`` fits on a node beside the Pods there; one without a place is -1."""
    cpu, gpu, zone = cluster.nodes[target]
    here = [other for other, at in zip(cluster.pods, where, strict=False) if at == target]
    return (
        sum(other.cpu for other in here) + pod.cpu <= cpu
        and sum(other.gpu for other in here) + pod.gpu <= gpu
        and pod.zone in ("", zone)
        and not (pod.app == ALONE and any(other.app == ALONE for other in here))
    )


def _reached(cluster: Fragmented, where: Sequence[int]) -> bool:
    return any(fits(cluster, where, cluster.waits, t) for t in range(len(cluster.nodes)))


def fewest(cluster: Fragmented, most: int = MOST) -> int | None:
    """The fewest moves after which the Pod fits; None if more than ``most`` are needed."""
    states = {cluster.where}
    for moves in range(most + 1):
        if any(_reached(cluster, where) for where in states):
            return moves
        states = {after for where in states for after in _after(cluster, where)}
    return None


def _after(cluster: Fragmented, where: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for index, target in product(range(len(where)), range(len(cluster.nodes))):
        pod = cluster.pods[index]
        if pod.movable and where[index] == cluster.where[index] != target:
            without = [*where[:index], -1, *where[index + 1 :]]
            if fits(cluster, without, pod, target):
                yield (*where[:index], target, *where[index + 1 :])


def planned(
    cluster: Fragmented, most: int = MOST, objects: Sequence[Builder[Any]] = ()
) -> Moves | None:
    """The moves of `bayplan improve`: Pod, from, to; None for no plan."""
    bayplan, objects = Cluster(), objects or built(cluster)
    for kind in dict.fromkeys(one.kind for one in objects):
        made = [one.new_version().obj() for one in objects if one.kind is kind]
        bayplan.tell(Replaced(kind, made))
    return moves_in(bayplan, most)


def moves_in(bayplan: Cluster, most: int) -> Moves | None:
    """The moves by which the Pod that waits fits: Pod, from, to; None for no plan."""
    goal = fitting(bayplan.core, "waits", "default")
    answer = improve(bayplan.core, goal, 0.0, most=most, seconds=60)
    moves = answer.get("moves")
    if moves is None:
        return None
    return [(move["pod"].removeprefix("default/"), move["from"], move["to"]) for move in moves]


def built(cluster: Fragmented) -> list[Builder[Any]]:
    """Its nodes and Pods."""
    nodes = [
        make_node(f"n{i}")
        .capacity(cpu=cpu, pods=99, **{GPU: gpu})
        .label("zone", zone)
        .label("kubernetes.io/hostname", f"n{i}")
        for i, (cpu, gpu, zone) in enumerate(cluster.nodes)
    ]
    pods = [_built(pod).node(f"n{at}") for pod, at in zip(cluster.pods, cluster.where, strict=True)]
    return [*nodes, *pods, _built(cluster.waits)]


def _built(pod: Small) -> PodBuilder:
    built = make_pod(pod.name).req(cpu=pod.cpu, **{GPU: pod.gpu}).spec(schedulerName="bayplan")
    built.owner("ReplicaSet", "rs").label("bayplan.dev/movable", str(pod.movable).lower())
    if pod.zone:
        built.node_selector({"zone": pod.zone})
    if pod.app == ALONE:
        labels = {"matchLabels": {"app": ALONE}}
        built.label("app", ALONE).pod_anti_affinity("kubernetes.io/hostname", labels)
    return built


def holds(cluster: Fragmented, moves: Sequence[tuple[str, str, str]]) -> bool:
    """Whether the moves can be made one after the other, and the Pod fits then."""
    where, names = list(cluster.where), [pod.name for pod in cluster.pods]
    for name, source, target in moves:
        index, node = names.index(name), int(target[1:])
        if not cluster.pods[index].movable or f"n{where[index]}" != source:
            return False
        where[index] = -1
        if not fits(cluster, where, cluster.pods[index], node):
            return False
        where[index] = node
    return _reached(cluster, where)


def judged(cluster: Fragmented, moves: Moves | None) -> tuple[int | None, Moves | None, bool]:
    """The fewest moves of all plans, these moves, and whether they hold."""
    return fewest(cluster), moves, moves is None or holds(cluster, moves)


def compared(plans: Iterable[tuple[int | None, Moves | None, bool]], what: str = "moves") -> None:
    """Say how the plans compare with what trying everything finds; see `judged`."""
    number, possible, found, as_few, wrong = 0, 0, 0, 0, 0
    for best, moves, hold in plans:
        number += 1
        wrong += not hold
        if best is not None:
            possible += 1
            found += moves is not None
            as_few += moves is not None and len(moves) == best
    typer.echo(f"{number} clusters, {possible} with a plan of up to {MOST} {what}:")
    typer.echo(f"{found} found, {as_few} with as few moves; {wrong} plans that do not hold")


def main(clusters: int = 200, seed: int = 0) -> None:
    """Compare so many random clusters."""
    rng = random.Random(seed)
    several = [fragmented(rng) for _ in range(clusters)]
    compared(judged(one, planned(one)) for one in several)


if __name__ == "__main__":
    typer.run(main)

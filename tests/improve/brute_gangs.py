"""Moves of whole gangs, found by trying all of them; the judge of plans with groups.

A cluster is small: nodes with CPUs, gangs of one or two Pods of which some may move, and a Pod that
waits. `python -m tests.improve.brute_gangs` compares 200 random ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import typer
from tests.groups import GATES, gang
from tests.improve.brute import MOST, Moves, compared, moves_in

from bayplan.testing import Builder, Cluster, make_node, make_pod

Where = tuple[tuple[int, ...], ...]
"""By gang, the node of each of its Pods."""


@dataclass(frozen=True)
class Gangs:
    """CPUs of each node; by gang, CPUs of its Pods, whether they may move, where they are."""

    nodes: Sequence[int]
    pods: Sequence[Sequence[int]]
    movable: Sequence[bool]
    where: Where
    waits: int


def gangs(rng: random.Random) -> Gangs:
    """A random cluster in which the Pod fits on no node."""
    while True:
        nodes = [rng.randint(4, 8) for _ in range(rng.randint(3, 4))]
        pods, where = list[list[int]](), list[tuple[int, ...]]()
        for _ in range(rng.randint(3, 5)):
            some = [rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
            at = [rng.randrange(len(nodes)) for _ in some]
            pods.append(some)
            where.append(tuple(at))
        movable = [rng.random() < 0.8 for _ in pods]
        made = Gangs(nodes, pods, movable, tuple(where), rng.randint(3, 8))
        if min(_free(made, made.where)) >= 0 and not _reached(made, made.where):
            return made


def _free(cluster: Gangs, where: Where, without: int = -1) -> list[int]:
    """CPUs that are free on each node, as if one gang were gone."""
    free = list(cluster.nodes)
    for index, (pods, at) in enumerate(zip(cluster.pods, where, strict=True)):
        for cpu, node in zip(pods, at, strict=True):
            free[node] -= cpu if index != without else 0
    return free


def _reached(cluster: Gangs, where: Where) -> bool:
    return max(_free(cluster, where)) >= cluster.waits


def _after(cluster: Gangs, where: Where, index: int) -> Iterator[Where]:
    """All places that a gang may go to."""
    free = _free(cluster, where, without=index)
    for targets in product(range(len(free)), repeat=len(cluster.pods[index])):
        left = list(free)
        for cpu, node in zip(cluster.pods[index], targets, strict=True):
            left[node] -= cpu
        if min(left) >= 0:
            yield (*where[:index], targets, *where[index + 1 :])


def fewest(cluster: Gangs, most: int = MOST) -> int | None:
    """The fewest Pods that have to move; None if more than ``most`` have to."""
    best, states = None, {(cluster.where, frozenset[int](), 0)}
    while states:
        reached = [moved for where, _, moved in states if _reached(cluster, where)]
        best = min([*reached, *([] if best is None else [best])], default=None)
        states = {
            (after, done | {index}, moved + len(cluster.pods[index]))
            for where, done, moved in states
            for index in range(len(cluster.pods))
            if cluster.movable[index] and index not in done
            if moved + len(cluster.pods[index]) <= most
            for after in _after(cluster, where, index)
        }
    return best


def built(cluster: Gangs) -> list[Builder[object]]:
    """Its objects."""
    objects: list[Builder[object]] = [
        make_node(f"n{i}").capacity(cpu=cpu, pods=99) for i, cpu in enumerate(cluster.nodes)
    ]
    for index, (pods, at) in enumerate(zip(cluster.pods, cluster.where, strict=True)):
        objects.append(gang(f"g{index}", len(pods)))
        movable = str(cluster.movable[index]).lower()
        objects += [
            make_pod(f"g{index}-{i}")
            .req(cpu=cpu)
            .node(f"n{node}")
            .pod_group(f"g{index}")
            .owner("Job", f"g{index}")
            .label("bayplan.dev/movable", movable)
            for i, (cpu, node) in enumerate(zip(pods, at, strict=True))
        ]
    return [*objects, make_pod("waits").req(cpu=cluster.waits)]


def planned(cluster: Gangs, most: int = MOST) -> Moves | None:
    """The moves of `bayplan improve`: Pod, from, to; None for no plan."""
    bayplan = Cluster(feature_gates=GATES)
    bayplan.add(*built(cluster))
    return moves_in(bayplan, most)


def holds(cluster: Gangs, moves: Moves) -> bool:
    """Whether whole gangs can be moved so, one after the other, and the Pod fits then."""
    where, left = cluster.where, list(moves)
    while left:
        index = int(left[0][0][1:].partition("-")[0])
        size = len(cluster.pods[index])
        mine, left = left[:size], left[size:]
        targets = {name: int(to[1:]) for name, _, to in mine}
        wanted = tuple(targets.get(f"g{index}-{i}", -1) for i in range(size))
        if not cluster.movable[index]:
            return False
        after = next((one for one in _after(cluster, where, index) if one[index] == wanted), None)
        if after is None:
            return False
        where = after
    return _reached(cluster, where)


def main(clusters: int = 200, seed: int = 0) -> None:
    """Compare so many random clusters."""
    rng = random.Random(seed)
    several = [gangs(rng) for _ in range(clusters)]
    plans = ((one, planned(one)) for one in several)
    rows = ((fewest(one), moves, moves is None or holds(one, moves)) for one, moves in plans)
    compared(rows, "Pods that move")


if __name__ == "__main__":
    typer.run(main)

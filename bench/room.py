"""`python -m bench.room`: what it costs to find out whom to evict for a group, with no API server.

    python -m bench.room --nodes 5000 --running 30000

Every node has as many GPUs as it needs for the running Pods of one GPU, of three priorities and any
age; a group of higher priority comes. "search" is the CPU time from the plan that fails to the
victims and the plan that proves them, the least of `ROUNDS`; nobody is evicted. Then the group is
nominated to that room: "another Pod" is the CPU time of an attempt of a Pod of lower priority that
asks for no GPU: without these nominations, beside them, and beside them after one has changed.
"""

from __future__ import annotations

import cProfile
import pstats
from time import process_time
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bayplan.api.kinds import NODE, POD, POD_GROUP
from bayplan.api.pod import Pod
from bayplan.attempt.attempt import attempt
from bayplan.attempt.outcome import Placement
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.decide.group import deciding_group
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.room import Room
from bayplan.inbox.messages import Changed, Replaced
from bayplan.testing import Cluster, PodBuilder, make_node, make_object, make_pod
from bench.core import PROFILE_LINES

GPU = "nvidia.com/gpu"
ROUNDS = 5
MULTI_POINT = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}

console = Console()


class Case(NamedTuple):
    """A group of ``size`` Pods of ``gpus`` GPUs each."""

    size: int
    gpus: int


class Figures(NamedTuple):
    """What came of it; milliseconds of CPU for the search, microseconds for another Pod."""

    search: float
    victims: int
    alone: float
    beside: float
    changed: float


def main(
    nodes: Annotated[int, typer.Option(envvar="NODES", min=1)] = 5_000,
    running: Annotated[int, typer.Option(envvar="PLACED", min=1)] = 30_000,
    *,
    profile: Annotated[bool, typer.Option(help="Print where the time goes.")] = False,
) -> None:
    """Measure the search for victims, for a group of one, of 512, and of 512 whole nodes."""
    a_node = -(-running // nodes)
    table = Table(
        "size", "GPUs each", "search [ms]", "victims", "another Pod [us]", "beside", "changed"
    )
    size = min(512, nodes)
    for case in (Case(1, 1), Case(1, a_node), Case(size, 1), Case(size, a_node)):
        figures = measure(nodes, running, case, profile=profile)
        others = (f"{us:,.0f}" for us in (figures.alone, figures.beside, figures.changed))
        table.add_row(*map(str, case), f"{figures.search:,.0f}", f"{figures.victims:,}", *others)
    console.print(table)


def measure(nodes: int, running: int, case: Case, *, profile: bool = False) -> Figures:
    """One case on a cluster of its own."""
    cluster = full_cluster(nodes, -(-running // nodes), running)
    pods = group(cluster, case)
    world, framework = cluster.world, cluster.framework
    placers = cluster.core.placers
    (entry,) = world.queue.groups
    asked = entry.group
    assert asked is not None

    def search() -> Room:
        with deciding_group(placers, framework, asked, pods) as decision:
            assert decision.room is not None, decision.rejection
            return decision.room

    room = search()  # imports, first answers
    if profile:
        with cProfile.Profile() as profiler:
            search()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(PROFILE_LINES)
    times = []
    for _ in range(ROUNDS):
        started = process_time()
        search()
        times.append(process_time() - started)
    nodes_of = room.nodes
    alone = another_pod(cluster, [])
    for pod in pods:
        world.nominator.nominate(pod, nodes_of.get(pod.uid, ""))
    beside, changed = another_pod(cluster, []), another_pod(cluster, pods[:1])
    return Figures(min(times) * 1000, len(room.victims), alone, beside, changed)


def another_pod(cluster: Cluster, again: list[Pod]) -> float:
    """Microseconds of CPU of an attempt of a Pod of lower priority.

    Args:
        cluster: where.
        again: these are nominated anew before each, to where they are.
    """
    times = []
    nominator = cluster.world.nominator
    for number in range(ROUNDS * 10):
        nominator.nominate_all(nominator.nominations(again))
        pod = make_pod(f"another-{number}").req({"cpu": "1"}).obj()
        started = process_time()
        outcome = attempt(cluster.framework, cluster.core.placers.selector, CycleState(), pod)
        times.append(process_time() - started)
        assert isinstance(outcome, Placement)
    return min(times) * 1e6


def full_cluster(nodes: int, gpus: int, running: int) -> Cluster:
    """All GPUs are in use."""
    cluster = Cluster(config={"profiles": [{"plugins": {"multiPoint": MULTI_POINT}}]})
    offer = {GPU: str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
    built = [make_node(f"n{i}").capacity(offer).obj() for i in range(nodes)]
    cluster.tell(Replaced(NODE, built))
    pods = [_running(i).node(f"n{i % nodes}").obj() for i in range(running)]
    cluster.tell(Replaced(POD, pods))
    return cluster


def _running(number: int) -> PodBuilder:
    started = f"2026-01-{number * 7 % 28 + 1:02}T{number * 5 % 24:02}:00:00Z"
    return _pod(f"running-{number}", 1).priority(number * 11 % 3).start_time(started)


def _pod(name: str, gpus: int) -> PodBuilder:
    return make_pod(name).req({GPU: str(gpus), "cpu": str(gpus), "memory": f"{gpus}Gi"})


def group(cluster: Cluster, case: Case) -> list[Pod]:
    """It waits; its Pods."""
    pod_group = make_object(POD_GROUP, "g").spec(minMember=case.size)
    cluster.tell(Changed(POD_GROUP, pod_group.new_version().obj()))
    members = [_pod(f"g-{i}", case.gpus).priority(10) for i in range(case.size)]
    cluster.add(*(pod.label(POD_GROUP_LABEL, "g") for pod in members))
    return [pod.obj() for pod in members]


if __name__ == "__main__":
    typer.run(main)

"""`python -m bench.shadow`: what a shadow costs for each Pod, beside the scheduler that it follows.

    python -m bench.shadow --nodes 5000 --placed 20000

No API server. Both have the same cluster, in one process. In turns of 300 Pods, a second's worth,
the scheduler places them, and the shadow follows: the Pods, then the bindings. Figures are CPU time
of the scheduling thread for each Pod, and, for the shadow, bytes for each verdict. It is measured
by the same configuration, where all agree, and by one that packs, where nearly all differ and other
orders are tried; with Pods of eight sizes, and with Pods that have a size each.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.inbox.messages import Changed
from bayplan.shadow.follows import Follows
from bayplan.shadow.shadow import Settings, Shadow
from bayplan.shadow.tally import Tally
from bayplan.shadow.verdict import Verdict
from bayplan.testing import Cluster, PodBuilder, make_node, make_pod

TURN = 300
NAME = "default-scheduler"
PACKING = {
    "name": "NodeResourcesFit",
    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
}

console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    placed: Annotated[int, typer.Option(min=0)] = 20_000,
    turns: Annotated[int, typer.Option(min=1)] = 10,
) -> None:
    """Time both in turns."""
    table = Table("Pods", "judged by", "run, us a Pod", "shadow, us a Pod", "alike", "not compared")
    for sizes in (8, 100_000):
        for title, args in (("the same", ()), ("packing", (PACKING,))):
            pair = Pair(nodes, placed, list(args))
            figures = [pair.turn(turn, sizes) for turn in range(turns + 1)][1:]
            run, shadow = (statistics.median(column) * 1e6 for column in zip(*figures, strict=True))
            tally = pair.tally
            table.add_row(
                "8 sizes" if sizes == 8 else "a size each",
                title,
                f"{run:.0f}",
                f"{shadow:.0f}",
                f"{tally.agreed} of {tally.compared}",
                str(tally.not_compared.total()),
            )
    console.print(table)
    console.print(f"{_bytes_of_a_verdict(pair.tally):.0f} bytes for each verdict that differs")


class Pair:
    """A scheduler and its shadow, with the same cluster."""

    def __init__(self, nodes: int, placed: int, plugin_config: list[Any]) -> None:
        self._there = Cluster(config={"profiles": [{"schedulerName": NAME}]})
        profile = {"schedulerName": NAME, "pluginConfig": plugin_config}
        here = Cluster(config={"profiles": [profile]})
        here.scheduler.active = False
        for cluster in (self._there, here):
            cluster.add(*(_node(number) for number in range(nodes)))
            cluster.add(
                *(_pod(f"placed-{n}", n % 8).node(f"n{n * 7 % nodes}") for n in range(placed))
            )
        core = here.core
        self.tally = Tally(10_000, time.time)
        parts = core.world, core.profiles, core.placers
        self._clock = here.clock
        self._shadow = Shadow(*parts, Follows(NAME), self.tally, Settings(), clock=here.clock)
        self._shadow.begin()

    def turn(self, turn: int, sizes: int) -> tuple[float, float]:
        """CPU seconds a Pod of the scheduler, and of the shadow."""
        pods = list(_pods(turn, sizes))
        created = [Changed(one.kind, one.new_version().obj()) for one in pods]
        began = time.process_time()
        self._there.tell(*created)
        self._there.run()
        run = time.process_time() - began
        nodes = [self._there.node_of(one.json["metadata"]["name"]) for one in pods]
        bound = [
            Changed(one.kind, one.node(node).new_version().obj())
            for one, node in zip(pods, nodes, strict=True)
            if node
        ]
        self._clock.time += 60
        began = time.process_time()
        for message in created:
            self._shadow.take(message)
        for message in bound:
            self._clock.time += 1 / TURN
            self._shadow.take(message)
        self._clock.time += 1
        while self._shadow.next_in() == 0.0:
            self._shadow.step()
        return run / TURN, (time.process_time() - began) / TURN


def _node(number: int) -> Any:
    zone = f"z{number % 3}"
    node = make_node(f"n{number}").capacity(cpu="32", memory="128Gi", pods=110)
    return node.label("topology.kubernetes.io/zone", zone)


def _pods(turn: int, sizes: int) -> Iterator[PodBuilder]:
    for number in range(TURN):
        yield _pod(f"p{turn}-{number}", (turn * TURN + number) % sizes)


def _pod(name: str, size: int) -> PodBuilder:
    pod = make_pod(name).req(cpu=f"{100 + size}m", memory=f"{128 + size}Mi")
    return pod.spec(schedulerName=NAME).owner("ReplicaSet", f"web-{size % 50}")


def _bytes_of_a_verdict(tally: Tally) -> float:
    """Of those that differ, with nothing shared."""
    encoded = msgspec.msgpack.encode(list(tally.differences()))
    tracemalloc.start()
    verdicts = msgspec.msgpack.decode(encoded, type=list[Verdict])
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(verdicts)


if __name__ == "__main__":
    typer.run(main)

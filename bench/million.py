"""`make bench-million`: a million Pods on a million nodes, in one process, on one core.

    python -m bench.million --nodes 1000000 --pods 1000000
    python -m bench.million --nodes 100000 --only basic,labels

Nodes and Pods are generated as JSON, go through the informers' decoder into cache and queue, and
are decided and bound by the real scheduler. A client agrees to each binding at once, and what the
API server would say of it comes back through the handlers as an object. CPU is counted for each
part: decoding, and all else that the scheduler does. Making the JSON does not count.

Nodes are not sampled. At random moments the kept answers for a Pod are compared with answers that
are computed anew for all nodes: what fits, all totals, and the rows among which the Pod is placed.
That does not count, either.

The first scenario places all Pods; the others as many as take `SECONDS`.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from time import process_time
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.api.pod import Pod
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.engine.ties import highest
from bayplan.inbox.messages import Changed, Replaced
from bayplan.informers.decode import ObjectDecoder
from bench.core import quiet_collector
from bench.objects import Item, Objects
from bench.plot import plot_costs
from bench.recording import CoreWorld
from bench.results import machine
from bench.schedulers import CONFIG
from bench.workloads import Catalog, load_catalog

SECONDS = 20.0
"""CPU of each scenario but the first."""
CHUNK = 2_000
"""Objects of a page, and Pods that are in the queue together."""
FIRST = 7
LABELS_PER_SECOND = 100
CHECKS = 5
SEED = 1
PROFILE = "default-scheduler"

Change = Callable[[int, bytes], bytes]
"""The body of the Pod of that number, changed."""

console = Console()


class Scenario(NamedTuple):
    """What is placed: the Pods of a workload of bench/workloads.yaml.

    Where all nodes are ``full``, only the first Pods are: those that others are evicted for.
    """

    text: str
    workload: str
    change: Change = lambda _, body: body
    labels: bool = False
    full: bool = False


class Figures(NamedTuple):
    """CPU in seconds, numbers of Pods, memory in GiB."""

    nodes: float
    """Decoding all nodes and filling the columns."""
    first: float
    """The median of the first Pods of their signature."""
    pods: int
    decoding: float
    deciding: float
    checks: int
    memory: float

    @property
    def cost(self) -> float:
        """Of a Pod, in microseconds."""
        return (self.decoding + self.deciding) / self.pods * 1e6


def _of_eight(number: int, body: bytes) -> bytes:
    """Eight sizes."""
    return body.replace(b'"100m"', b'"%dm"' % (100 + 10 * (number % 8)))


SCENARIOS = {
    "basic": Scenario("equal Pods", "SchedulingBasic"),
    "mixed": Scenario("eight signatures", "SchedulingBasic", _of_eight),
    "labels": Scenario("100 node labels change a second", "SchedulingBasic", labels=True),
    "spread": Scenario("spread over three zones", "TopologySpreading"),
    "affinity": Scenario("affinity to Pods", "SchedulingPodAffinity"),
    "sizes": Scenario("each Pod of a size of its own", "OwnSizes"),
    "preemption": Scenario("preemption, all nodes full", "PreemptionBasic", full=True),
}


class Million:
    """One scenario in a world of its own."""

    def __init__(
        self, catalog: Catalog, scenario: Scenario, nodes: int, progress: Progress
    ) -> None:
        self._scenario, self._progress = scenario, progress
        placed = nodes if scenario.full else 0
        workload = catalog.select(scenario.workload)[0].sized(nodes, placed=placed)
        self._objects = Objects(catalog, workload)
        bare = msgspec.structs.replace(workload, nodes=(), placed=())
        registry = Registry()
        config = parse_config(CONFIG, registry.known)
        self._world = CoreWorld(config, registry, bare, Objects(catalog, bare))
        self._search = self._world.core.profiles[PROFILE].search
        self._decoding = 0.0
        self._dice = random.Random(SEED)
        self._labels = 0
        self._bodies: list[bytes] = []
        self._count = nodes

    def measure(self, pods: int, seconds: float) -> Figures:
        """Nodes, the first Pods of their signatures, then all others until time is up."""
        of_nodes = self._fill()
        first = [self._first(number) for number in range(FIRST)]
        self._decoding = deciding = 0.0
        placed = checks = 0
        task = self._progress.add_task(self._scenario.text, total=pods)
        bodies = self._measured()
        while not self._scenario.full and placed < pods and self._decoding + deciding < seconds:
            decoded = self._decoded(POD, islice(bodies, min(CHUNK, pods - placed)))
            changed = self._relabelled(deciding)
            began = process_time()
            for pod in decoded:
                self._world.apply(Changed(POD, pod))
            for node in changed:
                self._world.apply(Changed(NODE, node))
            done = self._world.place(len(decoded), seconds).pods
            deciding += process_time() - began
            if self._dice.random() < CHECKS * CHUNK / pods or not checks:
                self._check(decoded[-1])
                checks += 1
            placed += done
            self._progress.update(task, completed=placed)
            if done < len(decoded):
                break
        self._progress.update(task, total=placed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return Figures(
            of_nodes, float(np.median(first)), placed, self._decoding, deciding, checks, peak
        )

    def labels(self) -> list[Mapping[str, str]]:
        """Of all nodes, as they are now."""
        return [info.node.labels for info in self._world.core.world.cache.nodes]

    def _fill(self) -> float:
        """CPU until all nodes are in the columns."""
        items = self._objects.surroundings()
        task = self._progress.add_task("nodes", total=self._count)
        nodes: list[Any] = []
        while chunk := list(islice(items, CHUNK)):
            for item in chunk:
                if item.kind != NODE.name:
                    self._world.feed(iter([item]))
            bodies = [item.body for item in chunk if item.kind == NODE.name]
            if self._scenario.labels:
                self._bodies += bodies
            nodes += self._decoded(NODE, bodies)
            self._progress.update(task, completed=len(nodes))
        began = process_time()
        self._world.apply(Replaced(NODE, nodes))
        used = self._decoding + process_time() - began
        for item in self._objects.placed():
            self._world.apply(Changed(POD, POD.decode(item.body.replace(b'"900m"', b'"3600m"'))))
        return used

    def _first(self, number: int) -> float:
        self._world.feed(self._objects.fresh(number))
        return self._world.place(1, SECONDS).cpu

    def _measured(self) -> Iterator[bytes]:
        change = self._scenario.change
        for number in count():
            items: Iterator[Item] = self._objects.measured(prefix=f"many-{number}-")
            for index, item in enumerate(items):
                yield change(index, item.body)

    def _decoded(self, kind: Kind[Any], bodies: Any) -> list[Any]:
        """As a page of a list."""
        text = b",".join(bodies)
        began = process_time()
        page = b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % text
        objects = ObjectDecoder(kind).page(page).objects
        self._decoding += process_time() - began
        return objects

    def _relabelled(self, deciding: float) -> list[Any]:
        """As many nodes with another label as the CPU time of the Pods so far asks for."""
        if not self._scenario.labels:
            return []
        before, self._labels = self._labels, int(deciding * LABELS_PER_SECOND)
        nodes = []
        for number in range(before, self._labels):
            manifest = json.loads(self._dice.choice(self._bodies))
            labels = manifest["metadata"].setdefault("labels", {})
            labels["bench.example/changed"] = str(number)
            nodes.append(NODE.decode(json.dumps(manifest).encode()))
        return nodes

    def _check(self, pod: Pod) -> None:
        """Kept answers are what a fresh evaluation of all nodes says.

        Raises:
            SystemExit: they are not.
        """
        kept, fresh = self._search.kept_and_fresh(pod)
        best = highest(fresh.totals()).rows
        if not (
            np.array_equal(kept.fits, fresh.fits)
            and np.array_equal(kept.totals(), fresh.totals())
            and np.array_equal(kept.best().rows, best)
            and kept.count == np.count_nonzero(fresh.fits)
        ):
            sys.exit(f"{self._scenario.text}: kept answers differ from fresh ones")


def main(
    nodes: Annotated[str, typer.Option(envvar="NODES", help="One number, or some.")] = "1000000",
    pods: Annotated[int, typer.Option(envvar="PODS", min=1)] = 1_000_000,
    only: Annotated[
        str, typer.Option(envvar="ONLY", help=f"Some of {', '.join(SCENARIOS)}.")
    ] = ",".join(SCENARIOS),
    seconds: Annotated[float, typer.Option(help="CPU of all scenarios but basic.")] = SECONDS,
    plot: Annotated[
        Path | None, typer.Option(help="A picture of the cost of a Pod against the nodes.")
    ] = None,
) -> None:
    """Measure how many Pods a second one core places, and print a table in Markdown."""
    catalog, sizes = load_catalog(), [int(size) for size in nodes.split(",")]
    costs: dict[str, list[float]] = {}
    rows = []
    for name in only.split(","):
        for size in sizes:
            longest = float("inf") if name == "basic" else seconds
            figures = _measured(catalog, SCENARIOS[name], size, pods, longest)
            rows.append(_row(SCENARIOS[name], size, figures))
            if figures.pods:
                costs.setdefault(SCENARIOS[name].text, []).append(figures.cost)
    console.print("| scenario | nodes | start | first | Pods | decoding | rest | Pods/s | memory |")
    console.print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        console.print(row, soft_wrap=True, highlight=False)
    console.print(f"{machine()}; all kept answers that were compared are as fresh ones")
    if plot is not None:
        plot_costs(plot, sizes, costs)


def _measured(
    catalog: Catalog, scenario: Scenario, nodes: int, pods: int, seconds: float
) -> Figures:
    columns = TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress, quiet_collector():
        return Million(catalog, scenario, nodes, progress).measure(pods, seconds)


def _row(scenario: Scenario, nodes: int, figures: Figures) -> str:
    begun = f"{figures.nodes:.1f} s | {figures.first * 1e3:.1f} ms"
    of_pods = "| | | |"
    if figures.pods:
        decoding, deciding = (
            used / figures.pods * 1e6 for used in (figures.decoding, figures.deciding)
        )
        rate = 1e6 / figures.cost
        of_pods = f"| {figures.pods:,} | {decoding:.0f} us | {deciding:,.0f} us | {rate:,.0f}"
    return f"| {scenario.text} | {nodes:,} | {begun} {of_pods} | {figures.memory:.1f} GiB |"


if __name__ == "__main__":
    typer.run(main)

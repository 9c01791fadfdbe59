"""`make soak`: create, bind and delete for a long time, and look for leaks and lost Pods.

    python -m bench.soak --minutes 20

100 Pods a second of many kinds over 1,000 nodes; every Pod is deleted some seconds later, and all
the time nodes go away and come back. At the end all Pods must have been bound, the scheduler's
memory must not have grown, and what it has counted must equal a fresh count and the API server's.
"""

from __future__ import annotations

import json
import signal
import statistics
import time
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any

import msgspec
import psutil
import typer
from e2e.provider import Part, provide, wait_until
from rich.console import Console
from rich.progress import Progress, TaskID

from bayplan.client.connection import Connection
from bench import schedulers
from bench.api import BoundWatch, BulkClient
from bench.objects import Item, Objects
from bench.results import FOLDER, machine, now
from bench.workloads import load_catalog

WORKLOAD = "Heterogeneous"
PREFIX = "soak-"
LIFETIME = 20.0
"""Seconds from the creation of a Pod to its deletion."""
NODE_PERIOD = 2.0
"""Seconds between two removals of a node; it comes back five removals later."""
NODES_AWAY = 5
SAMPLE_PERIOD = 5.0
LAST_CHANCE = 60.0
"""Seconds after the last creation in which every Pod must have got its node."""
GROWTH_MIB = 10.0
"""What the median of the last fifth of the memory samples may be above that of the second fifth."""

console = Console()


class Sample(msgspec.Struct):
    """One moment of a soak; memory in MiB."""

    seconds: float
    created: int
    bound: int
    rss: float


class SoakResult(msgspec.Struct):
    """What came of it.

    Attributes:
        growth_mib: of the memory, from the second to the last fifth of the time.
        forgotten: Pods that had no node at the end.
        recount: columns and counters that differ from a fresh count.
        comparison: what only the scheduler or only the API server knows.
    """

    minutes: float
    machine: str
    finished: str
    samples: list[Sample]
    growth_mib: float
    forgotten: list[str]
    recount: dict[str, dict[str, int]]
    comparison: dict[str, list[str]]

    def complaints(self) -> list[str]:
        """What is wrong."""
        found = []
        if self.growth_mib > GROWTH_MIB:
            found.append(f"memory has grown by {self.growth_mib:.1f} MiB")
        if self.forgotten:
            found.append(f"{len(self.forgotten)} Pods were forgotten: {self.forgotten[:5]}")
        found += [f"recount of {kind}: {wrong}" for kind, wrong in self.recount.items() if wrong]
        found += [f"{what}: {names[:5]}" for what, names in self.comparison.items() if names]
        return found


def main(
    minutes: Annotated[float, typer.Option(envvar="MINUTES", min=0.2)] = 20.0,
    rate: Annotated[float, typer.Option(envvar="ARRIVAL", min=1)] = 100.0,
    nodes: Annotated[int, typer.Option(envvar="NODES", min=20)] = 1000,
) -> None:
    """Run bayplan for a while under steady change; exit 1 when something is wrong."""
    with provide(*schedulers.API_SERVER_FLAGS) as cluster, Progress(console=console) as progress:
        connection = Connection.load(str(cluster.kubeconfig))
        client = BulkClient(connection)
        soak = Soak(client, nodes)
        part = schedulers.start(schedulers.BAYPLAN, cluster)
        soak.watch(connection)
        soak.run(part, minutes * 60, rate, progress)
        result = soak.judge(part, minutes)
        client.close()
    path = FOLDER / "soak" / "soak.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
    last = result.samples[-1]
    console.print(
        f"{last.created:,} Pods created, {len(result.forgotten)} never bound, "
        f"memory {last.rss:.0f} MiB, grew by {result.growth_mib:.1f} MiB; written: {path}",
        highlight=False,
    )
    for complaint in result.complaints():
        console.print(f"[red]{complaint}[/]")
    raise typer.Exit(bool(result.complaints()))


class Soak:
    """Creates and deletes Pods and nodes at a steady pace."""

    def __init__(self, client: BulkClient, nodes: int) -> None:
        catalog = load_catalog()
        workload = catalog.select(WORKLOAD)[0].sized(nodes, placed=0)
        self._client = client
        self._objects = objects = Objects(catalog, workload)
        self._nodes = deque(objects.surroundings())
        self._away: deque[Item] = deque()
        self._alive: deque[tuple[float, Item]] = deque()
        self._created: dict[str, Item] = {}
        self._samples: list[Sample] = []
        client.create_all(self._nodes, lambda _: None)

    def watch(self, connection: Connection) -> None:
        """See the Pods get their nodes, from now on."""
        self._watch = BoundWatch(connection, self._client.version(), PREFIX)

    def run(self, part: Part, seconds: float, rate: float, progress: Progress) -> None:
        """Go on for so many seconds."""
        process = psutil.Process(part.pid)
        bar = progress.add_task("soaking", total=seconds)
        began = now_ = time.monotonic()
        node_due, sample_due = began + NODE_PERIOD, began
        for number, item in enumerate(self._pods()):
            time.sleep(max(0.0, began + number / rate - now_))
            now_ = time.monotonic()
            if now_ > began + seconds:
                break
            self._create(item, now_)
            self._delete_due(now_)
            if now_ >= node_due:
                node_due += NODE_PERIOD
                self._change_nodes()
            if now_ >= sample_due:
                sample_due += SAMPLE_PERIOD
                self._sample(now_ - began, process, progress, bar)

    def judge(self, part: Part, minutes: float) -> SoakResult:
        """Wait for the last Pods, then look at what there is."""
        self._client.wait()
        missing = self._missing()
        deadline = time.monotonic() + LAST_CHANCE
        while missing and time.monotonic() < deadline:
            time.sleep(0.5)
            missing = self._missing()
        time.sleep(2.0)  # for the last updates to reach the scheduler
        recount, comparison = _ask_debugger(part)
        self._watch.stop()
        return SoakResult(
            minutes=minutes,
            machine=machine(),
            finished=now(),
            samples=self._samples,
            growth_mib=_growth([sample.rss for sample in self._samples]),
            forgotten=missing,
            recount=recount,
            comparison=comparison,
        )

    def _pods(self) -> Iterator[Item]:
        for number in count():
            yield from self._objects.measured(f"{PREFIX}{number}-")

    def _create(self, item: Item, moment: float) -> None:
        self._client.create(item)
        self._created[item.name] = item
        self._alive.append((moment + LIFETIME, item))

    def _delete_due(self, moment: float) -> None:
        """Delete what has lived long enough; a Pod with no node yet has to wait for one."""
        while self._alive and self._alive[0][0] <= moment:
            _, item = self._alive.popleft()
            if item.name in self._watch.times:
                self._client.delete(f"{item.path}/{item.name}")
            else:
                self._alive.append((moment + LIFETIME, item))

    def _change_nodes(self) -> None:
        gone = self._nodes.popleft()
        self._client.delete(f"{gone.path}/{gone.name}")
        self._away.append(gone)
        if len(self._away) > NODES_AWAY:
            back = self._away.popleft()
            self._client.create(back)
            self._nodes.append(back)

    def _sample(
        self, seconds: float, process: psutil.Process, progress: Progress, bar: TaskID
    ) -> None:
        rss = process.memory_info().rss / 2**20
        bound = len(self._watch.times)
        self._samples.append(Sample(round(seconds, 1), len(self._created), bound, rss))
        text = f"soaking: {len(self._created):,} created, {bound:,} bound, {rss:.0f} MiB"
        progress.update(bar, completed=seconds, description=text)

    def _missing(self) -> list[str]:
        return [name for name in self._created if name not in self._watch.times]


def _ask_debugger(part: Part) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """What bayplan logs on SIGUSR2 about itself."""
    part.signal(signal.SIGUSR2)
    line: dict[str, Any] = wait_until(
        lambda: _logged(part, "Comparison with the API server"), 60, "bayplan's comparison"
    )
    comparison = {key: value for key, value in line.items() if isinstance(value, list)}
    found = _logged(part, "Recount")
    return {key: value for key, value in found.items() if isinstance(value, dict)}, comparison


def _logged(part: Part, event: str) -> dict[str, Any]:
    """The last log line of that event; empty when there is none."""
    lines = [text for text in part.log.read_text().splitlines() if f'"{event}"' in text]
    return dict(json.loads(lines[-1])) if lines else {}


def _growth(memory: list[float]) -> float:
    fifth = max(1, len(memory) // 5)
    return statistics.median(memory[-fifth:]) - statistics.median(memory[fifth : 2 * fifth])


if __name__ == "__main__":
    typer.run(main)

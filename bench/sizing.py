"""`python -m bench.sizing`: what the process needs by size of the cluster, on a real API server.

    python -m bench.sizing --size 100:3000 --size 1000:30000 --rate 50

For each size a fresh control plane with that many nodes and running Pods, of 200 kinds; kwok is the
kubelet of all nodes. bayplan starts, then has nothing to place (`idle`), then Pods that come at a
steady rate and are deleted `LIFETIME` later. All the time each node reports its status every
`HEARTBEAT`, as kubelets do. CPU is that of bayplan's process, in shares of a core.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Any

import msgspec
import psutil
import typer
from e2e.provider import ControlPlane, Part, provide, wait_until
from rich.console import Console

from bayplan.client.connection import Connection
from bench import schedulers
from bench.api import BoundWatch, BulkClient
from bench.objects import COLLECTIONS, Item, Objects
from bench.results import machine
from bench.usage import peak_rss
from bench.workloads import load_catalog

WORKLOAD = "Heterogeneous"
PREFIX = "sizing-"
SIZES = ("100:3000", "1000:30000", "5000:100000")
LIFETIME = 10.0
"""Seconds from the creation of a Pod to its deletion."""
HEARTBEAT = 300.0
"""Seconds between two reports of a node's status, as `nodeStatusReportFrequency` has it."""
LEASE_SECONDS = 3600
"""Of kwok's nodes. Nobody here looks at their Leases, so they are hardly renewed."""
READY_SECONDS = 300.0
RUNNING_SECONDS = 1800.0
TICK = 0.01
HEADINGS = (
    *("nodes", "Pods", "ready after", "CPU until then", "memory, idle", "CPU, idle"),
    *("Pods/s", "memory then", "CPU then", "CPU for each Pod", "peak memory"),
)
_PENDING = f"{COLLECTIONS['Pod']}?fieldSelector=status.phase%3DPending&limit=1"

console = Console()


class Window(msgspec.Struct):
    """What bayplan used for some time: CPU in shares of a core, memory in MiB at its end."""

    seconds: float
    cpu: float
    memory: float
    bound: int = 0


class Figures(msgspec.Struct):
    """One size."""

    nodes: int
    pods: int
    ready_s: float
    start_cpu_s: float
    idle: Window
    steady: Window
    peak_mib: float

    def row(self) -> tuple[str, ...]:
        """As `HEADINGS` says."""
        idle, steady = self.idle, self.steady
        return (
            f"{self.nodes:,}",
            f"{self.pods:,}",
            f"{self.ready_s:.1f} s",
            f"{self.start_cpu_s:.1f} s",
            f"{idle.memory:.0f} MiB",
            f"{idle.cpu:.1%}",
            f"{steady.bound / steady.seconds:.0f}",
            f"{steady.memory:.0f} MiB",
            f"{steady.cpu:.1%}",
            f"{steady.cpu * steady.seconds / max(1, steady.bound) * 1e3:.1f} ms",
            f"{self.peak_mib:.0f} MiB",
        )


def main(
    size: Annotated[
        list[str] | None, typer.Option(help="nodes:Pods; may be repeated.", metavar="N:M")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, help="Pods created a second.")] = 50.0,
    seconds: Annotated[float, typer.Option(min=1, help="Of each measurement.")] = 60.0,
) -> None:
    """Measure memory and CPU by size of the cluster, and print a table in Markdown."""
    rows = []
    for each in size or SIZES:
        nodes, pods = map(int, each.split(":"))
        with provide(*schedulers.API_SERVER_FLAGS) as cluster:
            rows.append(measure(cluster, nodes, pods, rate, seconds).row())
        console.print(" | ".join(rows[-1]), soft_wrap=True)
    for row in (HEADINGS, ("--:",) * len(HEADINGS), *rows):
        console.print(f"| {' | '.join(row)} |", soft_wrap=True, highlight=False)
    console.print(f"{machine()}; load {psutil.getloadavg()[0]:.0f}", soft_wrap=True)


def measure(cluster: ControlPlane, nodes: int, pods: int, rate: float, seconds: float) -> Figures:
    """Make a cluster of that size, and measure bayplan in it."""
    connection = Connection.load(str(cluster.kubeconfig))
    with ExitStack() as stack:
        client = BulkClient(connection)
        stack.callback(client.close)
        load = Load(client, nodes, pods)
        cluster.start_kwok(LEASE_SECONDS)
        load.create()
        watch = BoundWatch(connection, client.version(), PREFIX)
        stack.callback(watch.stop)

        began = time.monotonic()
        part = schedulers.start(schedulers.BAYPLAN, cluster)
        wait_until(lambda: part.endpoint.answers("/readyz"), READY_SECONDS, "bayplan ready")
        ready_s, start_cpu_s = time.monotonic() - began, _cpu(part)
        load.run(LIFETIME, 0.0)
        idle = _window(part, watch, lambda: load.run(seconds, 0.0))
        load.run(LIFETIME, rate)
        steady = _window(part, watch, lambda: load.run(seconds, rate))
        peak = peak_rss(part.pid)
    return Figures(nodes, pods, ready_s, start_cpu_s, idle, steady, peak)


class Load:
    """Nodes that report, Pods that run, and Pods that come and go."""

    def __init__(self, client: BulkClient, nodes: int, pods: int) -> None:
        catalog = load_catalog()
        workload = msgspec.structs.replace(catalog.select(WORKLOAD)[0], placed=())
        self._client = client
        self._objects = Objects(catalog, workload.sized(nodes, placed=pods))
        self._nodes = deque(self._objects.node_names())
        self._new = self._endless()
        self._alive: deque[tuple[float, Item]] = deque()

    def create(self) -> None:
        """Create nodes and Pods, and wait until all Pods run."""
        self._client.create_all(map(of_kwok, self._objects.surroundings()), lambda _: None)
        self._client.create_all(self._objects.placed(), lambda _: None)
        wait_until(self._all_run, RUNNING_SECONDS, "all Pods running", interval=2.0)

    def run(self, seconds: float, rate: float) -> None:
        """Go on for so many seconds, with so many new Pods a second."""
        began = now = time.monotonic()
        beaten = created = 0
        while now < began + seconds:
            while beaten < (now - began) * len(self._nodes) / HEARTBEAT:
                self._beat()
                beaten += 1
            while created < (now - began) * rate:
                item = next(self._new)
                self._client.create(item)
                self._alive.append((now + LIFETIME, item))
                created += 1
            while self._alive and self._alive[0][0] <= now:
                _, item = self._alive.popleft()
                self._client.delete(f"{item.path}/{item.name}")
            time.sleep(TICK)
            now = time.monotonic()

    def _beat(self) -> None:
        """The next node reports that it is ready."""
        name = self._nodes[0]
        self._nodes.rotate(-1)
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": moment}
        path = f"{COLLECTIONS['Node']}/{name}/status"
        self._client.merge(path, {"status": {"conditions": [ready]}})

    def _all_run(self) -> bool:
        items: list[Any] = msgspec.json.decode(self._client.http.get(_PENDING))["items"]
        return not items

    def _endless(self) -> Iterator[Item]:
        for number in count():
            yield from self._objects.measured(f"{PREFIX}{number}-")


def of_kwok(item: Item) -> Item:
    """The object; a node with the mark by which kwok knows its own."""
    if item.kind != "Node":
        return item
    body = msgspec.json.decode(item.body)
    body["metadata"].setdefault("annotations", {})["kwok.x-k8s.io/node"] = "fake"
    return Item(item.kind, item.path, item.name, msgspec.json.encode(body))


def _cpu(part: Part) -> float:
    times = psutil.Process(part.pid).cpu_times()
    return float(times.user + times.system)


def _window(part: Part, watch: BoundWatch, work: Callable[[], None]) -> Window:
    before, bound, began = _cpu(part), len(watch.times), time.monotonic()
    work()
    seconds = time.monotonic() - began
    used = _cpu(part) - before
    memory = psutil.Process(part.pid).memory_info().rss / 2**20
    return Window(seconds, used / seconds, memory, len(watch.times) - bound)


if __name__ == "__main__":
    typer.run(main)

"""`make bench-packing`: how many GPUs a policy gives out before Pods no longer fit.

    python -m bench.packing --trace ../openb --seeds 10
    python -m bench.packing --policies LeastFragmentation,Random --seeds 3

The protocol of "Beware of Fragmentation" (USENIX ATC'23), through the scheduler itself: an empty
cluster, the trace's Pods shuffled and topped up to 130 % of the GPUs, one after the other; nobody
leaves, and a Pod that does not fit is out. Names of nodes are shuffled, too, and ties are random,
so nobody profits from an order of names. Printed are means over the seeds:

    at 100 %, at 130 %   GPUs given out, in percent of all, when Pods that ask for so many have come
    stranded             free GPUs that the trace's typical Pods cannot use, in percent of all
    left out             Pods that found no node, by size
    us a Pod             CPU time of a decision, all plugins, reserve to bind
    of the plugin        that of LeastFragmentation, also for Pods that come into the queue

GPUs are devices of ResourceSlices of which claims take thousandths (``shares``), or the extended
resource nvidia.com/gpu, of which every Pod takes whole ones (``whole``).

`--ahead N` has so many Pods wait in the queue at once, in place of one: what is typical is learnt
from these, too. With `--largest` those that ask for the most GPUs are decided about first.

`--waiting LOAD` has Pods end: they arrive at a steady rate at which they ask for that part of all
GPUs, and run as long as in the trace, but at most a day. Printed is how long they wait for a node.
`--compact` takes nodes away, in random order, and prints how many may go until 1 % of the trace's
own Pods find no node.
"""

from __future__ import annotations

import heapq
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time, thread_time
from typing import Annotated, Any, ClassVar

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from bayplan.api import quantity
from bayplan.api.kinds import POD, RESOURCE_CLAIM
from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Integers, Plugin
from bayplan.inbox.messages import Changed, Removed
from bayplan.plugins.least_fragmentation import LeastFragmentation
from bayplan.plugins.least_fragmentation.demand import TypicalPods
from bayplan.plugins.least_fragmentation.measure import Room, Types
from bayplan.testing.ports import Clock
from bench.core import quiet_collector
from bench.objects import Item, Objects, collection
from bench.packing_trace import (
    WHOLE,
    Trace,
    TraceError,
    TraceNode,
    TracePod,
    arrivals,
    read,
    synthetic,
    whole,
)
from bench.recording import CoreWorld
from bench.workloads import PodBatch, Workload

GPU = "nvidia.com/gpu"
SCHEDULER = "default-scheduler"
CLASS = "gpu"
BY_CLASS = f"deviceclass.resource.kubernetes.io/{CLASS}"
DRIVER = "gpu.example.com"
MODEL = "example.com/gpu-model"
TYPICAL = 0.95
LONGEST = 86_400.0
MOST_LEFT_OUT = 0.01
LARGEST_CPU, LARGEST_GPUS, SCALE = 128_000, 8, 10_000
"""Of a node of openb, which BestFit measures by; and its steps."""

console = Console(width=130)


class BestFit(Plugin):
    """The paper's: as little as possible is left of CPU and GPUs together.

    Attributes:
        ledger: what is free, as this measurement keeps it.
    """

    ledger: ClassVar[Ledger]

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """The lower, the more would be left, each of CPU and GPUs weighing one half."""
        cpu = nodes.allocatable("cpu") - nodes.requested("cpu") - pod_requests(pod).nonzero_cpu
        left = 0.5 * cpu / LARGEST_CPU + 0.5 * self.ledger.left.sum(axis=1) / LARGEST_GPUS
        scores: IntArray = np.clip(SCALE * (1 - left), 0, SCALE).astype(np.int64)
        return scores

    def normalize_score(self, _state: CycleState, _pod: Pod, scores: Integers) -> Integers:
        """Stretched to 0..100."""
        low, high = int(scores.min()), int(scores.max())
        stretched: IntArray = (scores.astype(np.int64) - low) * 100 // max(high - low, 1)
        return stretched


class Ledger:
    """What is free, by the names of nodes and devices, from what is written to the API server.

    Attributes:
        left: of each GPU, ``(n, most)``, a row a node.
        cpu: milli-CPU, ``(n,)``.
    """

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        self.row = {node.name: row for row, node in enumerate(nodes)}
        self.gpus = np.array([node.gpus for node in nodes])
        self.left = (np.arange(self.gpus.max())[None, :] < self.gpus[:, None]).astype(float)
        self.cpu = np.array([node.cpu for node in nodes])
        self.models = [node.model for node in nodes]
        self._held: dict[str, list[tuple[int, int, float]]] = {}

    def claim(self, claim: ResourceClaim) -> None:
        """The devices of a claim are taken, once."""
        allocation = claim.status.allocation
        if allocation is None or claim.key in self._held:
            return
        held = self._held[claim.key] = []
        for result in allocation.devices.results:
            part = int(quantity.parse(result.consumed_capacity["milli"])) / WHOLE
            held.append((self.row[result.pool], int(result.device.removeprefix("gpu-")), part))
        self._move(held, -1)

    def whole(self, pod: str, node: str, gpus: int) -> None:
        """A Pod takes whole GPUs, the first idle ones."""
        row = self.row[node]
        idle = np.flatnonzero(self.left[row] == 1.0)[:gpus].tolist()
        self._held[pod] = [(row, gpu, 1.0) for gpu in idle]
        self._move(self._held[pod], -1)

    def end(self, key: str) -> None:
        """What a claim or Pod held is free."""
        self._move(self._held.pop(key, []), 1)

    def _move(self, held: Iterable[tuple[int, int, float]], sign: int) -> None:
        for row, gpu, part in held:
            self.left[row, gpu] += sign * part

    def stranded(self, pods: Sequence[TracePod]) -> float:
        """Free GPUs that typical Pods cannot use, in percent of all."""
        counts = Counter((p.cpu or 100, p.gpus, p.part, p.models) for p in pods)
        typical, covered = [], 0
        for shape, count in counts.most_common():
            typical.append((shape, count))
            covered += count
            if covered >= TYPICAL * len(pods):
                break
        asking = [(shape, count) for shape, count in typical if shape[1]]
        levels = sorted({shape[2] for shape, _ in asking})
        types = Types(
            weight=np.array([count / covered for _, count in asking]),
            cpu=np.array([shape[0] for shape, _ in asking]),
            count=np.array([shape[1] for shape, _ in asking]),
            level=np.array([levels.index(shape[2]) for shape, _ in asking]),
            shares=np.array([levels]) / WHOLE,
        )
        runs = np.array(
            [[not s[3] or model in s[3] for s, _ in asking] for model in self.models], np.bool_
        )
        zeros = np.zeros(len(self.cpu))
        room = Room(self.cpu, zeros, self.left, zeros.astype(np.int64), runs)
        return float(types.stranded(room).sum() / self.gpus.sum() * 100)


@dataclass
class Run:
    """What became of one run.

    Attributes:
        given: percent of the GPUs, when 100 and 130 % had been asked for.
        stranded: percent of the GPUs.
        left_out: Pods by size.
        micros: CPU time of a decision.
        own_micros: CPU time of LeastFragmentation a Pod.
    """

    given: list[float] = field(default_factory=list)
    stranded: float = 0.0
    left_out: Counter[str] = field(default_factory=Counter)
    micros: float = 0.0
    own_micros: float = 0.0


class PackingWorld(CoreWorld):
    """The scheduler on the nodes of a trace, with a clock that is turned on.

    Args:
        shares: whether GPUs are devices that Pods take parts of.
        scores: the Score plugins, with weights.
    """

    def __init__(
        self, nodes: Sequence[TraceNode], pods: Iterable[TracePod], policy: str, *, shares: bool
    ) -> None:
        registry = Registry()
        registry.add(BestFit, "bench")
        self.clock = Clock()
        self.ledger = BestFit.ledger = Ledger(nodes)
        self._shares = shares
        self._pods: dict[str, TracePod] = {}
        self._bound: dict[str, Pod] = {}
        workload = Workload(nodes=(), measured=PodBatch(0))
        config = parse_config(_config(policy, shares=shares), registry.known)
        super().__init__(
            config,
            registry,
            workload,
            TraceObjects(nodes, pods, shares),
            clock=self.clock,
            now=self.clock,
        )

    def arrive(self, pods: Iterable[TracePod]) -> None:
        """These Pods are created."""
        for pod in pods:
            self._pods[pod.name] = pod
            self.feed(iter([pod_item(pod, shares=self._shares)]))

    def decide(self) -> tuple[TracePod, bool] | None:
        """One decision: the Pod, and whether it has a node now. None where no Pod is ready."""
        queued = self.core.world.queue.pop()
        if queued is None:
            return None
        pod = self._pods[queued.pod.name]
        before = self.bound
        self._scheduler.schedule_one(queued)
        for message in self.echo:
            if isinstance(message, Changed) and message.kind is RESOURCE_CLAIM:
                self.ledger.claim(message.object)
            elif isinstance(message, Changed) and message.kind is POD:
                self._seen(pod, message.object)
        self._take_in()
        return pod, self.bound > before

    def _seen(self, pod: TracePod, bound: Pod) -> None:
        if pod.name in self._bound:
            return
        self._bound[pod.name] = bound
        self.ledger.cpu[self.ledger.row[bound.node_name]] -= pod.cpu
        if pod.gpus and not self._shares:
            self.ledger.whole(bound.key, bound.node_name, pod.gpus)

    def end(self, pod: TracePod) -> None:
        """The Pod has run, and goes."""
        bound = self._bound.pop(pod.name)
        self.ledger.cpu[self.ledger.row[bound.node_name]] += pod.cpu
        self.apply(Removed(POD, bound))
        if pod.gpus and self._shares:
            claim = self.core.world.cache.objects.get(RESOURCE_CLAIM, f"{bound.key}-gpus")
            assert claim is not None, "it was made with the Pod"
            self.apply(Removed(RESOURCE_CLAIM, claim))
            self.ledger.end(claim.key)
        self.ledger.end(bound.key)
        self._take_in()


class TraceObjects(Objects):
    """The nodes of a trace, and what is beside them."""

    def __init__(self, nodes: Sequence[TraceNode], pods: Iterable[TracePod], shares: bool) -> None:
        self._trace_nodes, self._shares = nodes, shares
        self._claims = sorted({(pod.gpus, pod.part) for pod in pods if pod.gpus})

    def surroundings(self) -> Iterator[Item]:
        """Nodes, and what gives Pods their devices."""
        for node in self._trace_nodes:
            amounts = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "1000"}
            if not self._shares:
                amounts[GPU] = str(node.gpus)
            yield _item(
                "Node",
                node.name,
                {"metadata": {"labels": {MODEL: node.model}}, "status": {"allocatable": amounts}},
            )
        if not self._shares:
            return
        expression = f'device.driver == "{DRIVER}"'
        yield _item(
            "DeviceClass", CLASS, {"spec": {"selectors": [{"cel": {"expression": expression}}]}}
        )
        for node in self._trace_nodes:
            yield _item("ResourceSlice", node.name, {"spec": _slice(node)})
        for gpus, part in self._claims:
            request = {
                "deviceClassName": CLASS,
                "count": gpus,
                "capacity": {"requests": {"milli": str(part)}},
            }
            spec = {"devices": {"requests": [{"name": "gpus", "exactly": request}]}}
            yield _item("ResourceClaimTemplate", f"gpus-{gpus}-{part}", {"spec": {"spec": spec}})

    def placed(self) -> Iterator[Item]:
        """None."""
        return iter(())

    def gated(self) -> Iterator[Item]:
        """None."""
        return iter(())


def _slice(node: TraceNode) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{index}",
            "allowMultipleAllocations": True,
            "capacity": {"milli": {"value": str(WHOLE)}},
        }
        for index in range(node.gpus)
    ]
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    return {"driver": DRIVER, "nodeName": node.name, "pool": pool, "devices": devices}


def pod_item(pod: TracePod, *, shares: bool) -> Item:
    """The Pod as an object; with ``shares`` its GPUs are claimed, else they are a resource."""
    requests = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": containers}
    if pod.gpus and shares:
        template = f"gpus-{pod.gpus}-{pod.part}"
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": template}]
    elif pod.gpus:
        requests[GPU] = str(pod.gpus)
    if pod.models:
        models = {"key": MODEL, "operator": "In", "values": list(pod.models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [models]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    return _item("Pod", pod.name, {"spec": spec}, "default")


def _item(kind: str, name: str, fields: dict[str, Any], namespace: str = "") -> Item:
    metadata = {"name": name, "uid": f"{kind}-{name}", **fields.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    body = json.dumps({"metadata": metadata, **fields}).encode()
    return Item(kind, collection(kind, namespace), name, body)


POLICIES = ("LeastFragmentation", "BestFit", "MostAllocated", "default", "Random")


def _config(policy: str, *, shares: bool) -> str:
    """The policy's Score plugins and no other; preemption is off."""
    off = [{"name": "*"}]
    plugins: dict[str, Any] = {"postFilter": {"disabled": off}}
    args: dict[str, Any] = {}
    if policy != "default":
        plugins["preScore"] = {"disabled": off}
        plugins["score"] = {"disabled": off}
    if policy == "MostAllocated":
        plugins["score"]["enabled"] = [{"name": "NodeResourcesFit", "weight": 1}]
        resources = [{"name": name, "weight": 1} for name in ("cpu", GPU)]
        args["NodeResourcesFit"] = {"scoringStrategy": {"type": policy, "resources": resources}}
    elif policy in ("LeastFragmentation", "BestFit"):
        plugins["score"]["enabled"] = [{"name": policy, "weight": 1}]
        args["LeastFragmentation"] = {"resources": [BY_CLASS if shares else GPU]}
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [
                {
                    "schedulerName": SCHEDULER,
                    "plugins": plugins,
                    "pluginConfig": [{"name": n, "args": a} for n, a in args.items()],
                }
            ],
        }
    )


def shuffled(nodes: Sequence[TraceNode], seed: int) -> list[TraceNode]:
    """The same nodes in another order, named by it."""
    order = list(nodes)
    random.Random(seed).shuffle(order)
    return [replace(node, name=f"node-{i:05}") for i, node in enumerate(order)]


def pack(
    trace: Trace, pods: Sequence[TracePod], policy: str, seed: int, *, shares: bool, window: Window
) -> Run:
    """One run."""
    random.seed(seed)
    world = PackingWorld(shuffled(trace.nodes, seed), pods, policy, shares=shares)
    coming = window.ordered(list(arrivals(pods, trace.capacity, seed)))
    run = Run()
    asked = given = 0
    cpu = 0.0
    with quiet_collector(), _metered() as own:
        for number in range(len(coming)):
            if number % window.pods == 0:
                world.arrive(coming[number : number + window.pods])
            started = process_time()
            decided = world.decide()
            cpu += process_time() - started
            assert decided is not None, "a Pod has just come"
            pod, bound = decided
            run.left_out[pod.size] += not bound
            given += pod.demand * bound
            if asked < trace.capacity <= asked + pod.demand:
                run.given.append(given / trace.capacity * 100)
            asked += pod.demand
    run.given.append(given / trace.capacity * 100)
    run.stranded = world.ledger.stranded(pods)
    run.micros = cpu / len(coming) * 1e6
    run.own_micros = sum(own) / len(coming) * 1e6
    return run


@contextmanager
def _metered() -> Iterator[list[float]]:
    """Each call of LeastFragmentation, and of what counts typical Pods, in CPU seconds."""
    seconds: list[float] = []

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            started = thread_time()
            try:
                return method(*args)
            finally:
                seconds.append(thread_time() - started)

        return call

    of = {LeastFragmentation: ("score_nodes",), TypicalPods: ("pod_waits", "pod_left")}
    methods = [(cls, name, getattr(cls, name)) for cls, names in of.items() for name in names]
    for cls, name, method in methods:
        setattr(cls, name, timed(method))
    try:
        yield seconds
    finally:
        for cls, name, method in methods:
            setattr(cls, name, method)


@dataclass(frozen=True)
class Window:
    """How many Pods are in the queue at once, and whether those with the most GPUs come first.

    When all of them have been tried, as many more come.
    """

    pods: int = 1
    largest_first: bool = False

    def ordered(self, pods: list[TracePod]) -> list[TracePod]:
        """The order of decisions."""
        if not self.largest_first:
            return pods
        windows = (pods[first : first + self.pods] for first in range(0, len(pods), self.pods))
        return [pod for some in windows for pod in sorted(some, key=lambda p: (-p.demand, -p.cpu))]


def compact(
    trace: Trace, pods: Sequence[TracePod], policy: str, seed: int, *, shares: bool
) -> float:
    """How many nodes may go until more than 1 % of the Pods find none, in percent."""
    order = shuffled(trace.nodes, seed)
    coming = list(pods)
    random.Random(seed).shuffle(coming)

    def fits(nodes: int) -> bool:
        random.seed(seed)
        world = PackingWorld(order[:nodes], pods, policy, shares=shares)
        world.arrive(coming)
        left_out = 0
        while (decided := world.decide()) is not None:
            left_out += not decided[1]
            if left_out > MOST_LEFT_OUT * len(coming):
                return False
        return True

    few, enough = 0, len(order)
    if not fits(enough):
        return 0.0
    while enough - few > max(1, len(order) // 200):
        middle = (few + enough) // 2
        few, enough = (few, middle) if fits(middle) else (middle, enough)
    return (1 - enough / len(order)) * 100


@dataclass
class Waits:
    """Seconds that Pods waited for a node, by size, without those of the first fifth."""

    by_size: dict[str, list[float]] = field(default_factory=dict)

    def of(self, *sizes: str) -> list[float]:
        """All of these sizes."""
        return [wait for size in sizes for wait in self.by_size.get(size, [0.0])]


def wait(
    trace: Trace, pods: Sequence[TracePod], policy: str, seed: int, *, shares: bool, load: float
) -> Waits:
    """Pods come at a steady rate and end, on a tenth of the nodes.

    They are so many that each GPU is given out several times.
    """
    random.seed(seed)
    order = shuffled(trace.nodes, seed)
    first = next(number for number, node in enumerate(order, 1) if node.gpus)
    nodes = order[: max(first, len(order) // 10)]
    coming = [replace(pod, seconds=min(pod.seconds, LONGEST)) for pod in pods]
    random.Random(seed).shuffle(coming)
    work = sum(pod.demand * pod.seconds for pod in coming)
    step = work / (load * WHOLE * sum(node.gpus for node in nodes)) / len(coming)
    world = PackingWorld(nodes, pods, policy, shares=shares)
    start = world.clock.time
    arrived = {pod.name: start + i * step for i, pod in enumerate(coming)}
    counted = {pod.name for pod in coming[len(coming) // 5 :]}
    waiting = dict.fromkeys(arrived)
    waits = Waits()
    events = [(when, i, coming[i], True) for i, when in enumerate(arrived.values())]
    heapq.heapify(events)
    last = start + len(coming) * step
    while events and events[0][0] <= last:
        world.clock.time, number, pod, comes = heapq.heappop(events)
        if comes:
            world.arrive([pod])
        else:
            world.end(pod)
        while (decided := world.decide()) is not None:
            placed, bound = decided
            if bound:
                del waiting[placed.name]
                end = world.clock.time + placed.seconds
                heapq.heappush(events, (end, len(coming) + number, placed, False))
                if placed.name in counted:
                    waited = world.clock.time - arrived[placed.name]
                    waits.by_size.setdefault(placed.size, []).append(waited)
    for pod in coming:
        if pod.name in waiting and pod.name in counted:
            waits.by_size.setdefault(pod.size, []).append(last - arrived[pod.name])
    return waits


def main(
    trace: Annotated[
        Path | None, typer.Option(envvar="TRACE", help="A folder; else one like openb.")
    ] = None,
    seeds: Annotated[int, typer.Option(envvar="SEEDS", min=1)] = 3,
    policies: Annotated[str, typer.Option(envvar="POLICIES")] = ",".join(POLICIES),
    lists: Annotated[str, typer.Option(envvar="LISTS", help="Lists of Pods; all if empty.")] = "",
    kinds: Annotated[str, typer.Option(envvar="KINDS")] = "shares,whole",
    load: Annotated[
        float, typer.Option("--waiting", envvar="WAITING", help="Pods end, at this load.")
    ] = 0.0,
    ahead: Annotated[
        int, typer.Option(envvar="AHEAD", min=1, help="So many Pods are in the queue at once.")
    ] = 1,
    *,
    largest: Annotated[
        bool, typer.Option(envvar="LARGEST", help="Of the Pods that wait the largest first.")
    ] = False,
    fewer: Annotated[
        bool, typer.Option("--compact", envvar="COMPACT", help="How many nodes may go?")
    ] = False,
) -> None:
    """Print the tables."""
    try:
        data = read(trace) if trace else synthetic(FIRST_SEED)
    except TraceError as error:
        raise typer.BadParameter(str(error)) from None
    if unknown := [name for name in filter(None, lists.split(",")) if name not in data.pods]:
        raise typer.BadParameter(f"no list {unknown[0]}; there are {', '.join(data.pods)}")
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    for name in lists.split(",") if lists else data.pods:
        for kind in kinds.split(","):
            shares = kind == "shares"
            pods = data.pods[name] if shares else whole(data.pods[name])
            rows: list[list[str]] = []
            sizes = sizes_of(pods)
            for policy in policies.split(","):
                if fewer:
                    gone = [compact(data, pods, policy, n, shares=shares) for n in numbers]
                    rows.append([policy, *(f"{each:.1f}" for each in gone)])
                elif load:
                    some = [wait(data, pods, policy, n, shares=shares, load=load) for n in numbers]
                    rows.append([policy, *_waited(some, sizes)])
                else:
                    window = Window(ahead, largest)
                    runs = [
                        pack(data, pods, policy, n, shares=shares, window=window) for n in numbers
                    ]
                    rows.append([policy, *_packed(runs, sizes)])
            gone_by_seed = [f"% gone, {n}" for n in numbers]
            packed = ["at 100 %", "at 130 %", "stranded", *sizes, "us a Pod", "of the plugin"]
            waited = ["mean s", "95th s", f"mean s of {sizes[-1]}", "waited > 60 s, %"]
            head = gone_by_seed if fewer else waited if load else packed
            _print(f"{name}, {kind}", head, rows)


FIRST_SEED = 42


def sizes_of(pods: Iterable[TracePod]) -> list[str]:
    """The classes that failed Pods are counted by, the smallest first."""
    largest: dict[str, int] = {}
    for pod in pods:
        part = pod.part if pod.gpus and pod.part < WHOLE else WHOLE * pod.gpus
        largest[pod.size] = max(largest.get(pod.size, 0), part)
    return sorted(largest, key=lambda size: largest[size])


def _packed(runs: Sequence[Run], sizes: Iterable[str]) -> list[str]:
    def mean(values: Iterable[float]) -> float:
        return statistics.fmean(values)

    return [
        *(f"{mean(run.given[i] for run in runs):.2f}" for i in (0, 1)),
        f"{mean(run.stranded for run in runs):.2f}",
        *(f"{mean(run.left_out[size] for run in runs):.0f}" for size in sizes),
        f"{mean(run.micros for run in runs):.0f}",
        f"{mean(run.own_micros for run in runs):.0f}",
    ]


def _waited(runs: Sequence[Waits], sizes: Sequence[str]) -> list[str]:
    every = sorted(wait for run in runs for wait in run.of(*sizes))
    large = [wait for run in runs for wait in run.of(sizes[-1])]
    return [
        f"{statistics.fmean(every):.0f}",
        f"{every[len(every) * 95 // 100]:.0f}",
        f"{statistics.fmean(large):.0f}",
        f"{sum(wait > 60 for wait in every) / len(every) * 100:.1f}",
    ]


def _print(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("policy")
    for name in head:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)

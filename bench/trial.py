"""One trial: one scheduler, one workload, a fresh control plane, measured from the outside.

Every trial has a new API server and an empty etcd, so that neither scheduler finds what the other
has left behind. Without a rate of arrival the measured Pods are there before the scheduler starts;
with one they are created at that rate once the scheduler places Pods. At the end the cluster is
looked over for what must not be.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from e2e.provider import Part, provide, wait_until
from rich.progress import Progress, TaskID

from bayplan.client.connection import Connection
from bench import schedulers
from bench.api import BoundWatch, BulkClient
from bench.churn import ChurnThread
from bench.objects import COLLECTIONS, MEASURED, Item, Objects
from bench.placement import survey
from bench.results import FOLDER, Run
from bench.usage import CpuMeter, CpuTimes, own_figures, peak_rss
from bench.workloads import Catalog, Workload

STALL_SECONDS = 60.0
"""Without a binding for so long, a trial ends with what there is."""
ARRIVALS_IN_FLIGHT = 16
"""Creations under way at a time while Pods arrive: the next one is sent when one is answered."""
POINTS = 200
"""Points of a timeline that are kept."""
WARM = "warm-"
EVENTS = "/apis/events.k8s.io/v1/events"
CLAIMS = COLLECTIONS["ResourceClaim"]
CONTROLLER_SECONDS = 600.0
"""Time that the controllers may take for the claims of all Pods."""


@dataclass(frozen=True)
class Plan:
    """What is the same for all trials of a workload.

    Attributes:
        arrival: Pods created per second; 0 is what the workload says.
        config: a KubeSchedulerConfiguration for both schedulers in place of the benchmark's.
    """

    catalog: Catalog
    workload: Workload
    arrival: float = 0.0
    config: Path | None = None


class Trial:
    """Runs one scheduler; `run` once."""

    def __init__(self, plan: Plan, scheduler: str, progress: Progress) -> None:
        self._plan = plan
        self._scheduler = scheduler
        self._progress = progress
        self._objects = Objects(plan.catalog, plan.workload)
        self._total = plan.workload.measured.count
        self._arrival = plan.arrival or plan.workload.arrival
        self._waiting = plan.workload.waiting if self._arrival else self._total
        self._from_start = plan.workload.since == "start"
        self._meter: CpuMeter | None = None
        self._at_first: CpuTimes | None = None

    def run(self) -> Run:
        """Set up, measure, tear down.

        Raises:
            StartError: the control plane or the scheduler did not start.
            ApiError: an object was refused.
        """
        gates = self._plan.workload.gates
        flags = [self._plan.workload.gate_flag, schedulers.POD_GROUPS_SERVED] if gates else []
        with provide(*schedulers.API_SERVER_FLAGS, *flags) as self._cluster:
            connection = self._connection = Connection.load(str(self._cluster.kubeconfig))
            self._client = BulkClient(connection)
            self._populate()
            self._watch = BoundWatch(
                connection, self._client.version(), MEASURED, self._first_is_bound
            )
            churn = ChurnThread(self._plan.workload, self._objects, self._client)
            try:
                return self._measure(churn)
            finally:
                churn.stop()
                self._watch.stop()
                self._client.close()

    # Setting up

    def _populate(self) -> None:
        workload = self._plan.workload
        self._create("nodes", self._objects.surroundings(), workload.node_count)
        claims = [i for i in self._objects.surroundings() if i.kind == "ResourceClaim"]
        self._client.put_statuses(claims)
        if workload.controllers:
            self._cluster.start_controller_manager(",".join(workload.controllers))
        self._create("placed Pods", self._objects.placed(), workload.placed_count)
        self._create("gated Pods", self._objects.gated(), sum(g.count for g in workload.gated))
        for item in self._objects.gated():
            if b'"deletionTimestamp"' in item.body:
                self._client.delete(f"{item.path}/{item.name}")
        self._client.wait()
        if self._waiting:
            self._create("Pods to place", self._measured(0, self._waiting), self._waiting)
            if workload.controllers:
                self._await_claims(len(claims) + self._waiting)

    def _measured(self, first: int, end: int) -> Iterator[Item]:
        """The measured Pods from ``first`` to ``end``, with what is beside them."""
        pods = 0
        for item in self._objects.measured():
            if first <= pods < end:
                yield item
            pods += item.kind == "Pod"

    def _await_claims(self, count: int) -> None:
        """Wait for the claim of every Pod: how fast these are made is not what is measured."""
        what = f"{count} ResourceClaims"
        wait_until(lambda: self._client.count(CLAIMS) >= count, CONTROLLER_SECONDS, what)

    def _create(self, what: str, items: Iterable[Item], count: int) -> None:
        with self._bar(what, count) as bar:
            self._client.create_all(items, lambda n: self._progress.advance(bar, n))

    @contextmanager
    def _bar(self, what: str, count: int) -> Iterator[TaskID]:
        bar = self._progress.add_task(f"{self._scheduler}: {what}", total=count or 1)
        yield bar
        self._progress.remove_task(bar)

    # Measuring

    def _measure(self, churn: ChurnThread) -> Run:
        started = time.monotonic()
        gates = [self._plan.workload.gate_flag] if self._plan.workload.gates else []
        part = schedulers.start(self._scheduler, self._cluster, self._plan.config, gates)
        parts = self._cluster.parts
        meter = self._meter = CpuMeter(part.pid, (parts["kube-apiserver"].pid, parts["etcd"].pid))
        created: dict[str, float] = {}
        if not self._waiting:
            self._warm_up()
        before = meter.read()
        churn.start()
        if self._arrival:
            created = self._arrive()
        with self._bar("placing", self._total) as bar:
            self._await_bindings(bar, part)
        churn.stop()
        after = meter.settle(lambda: self._client.count(EVENTS))
        at_first = self._at_first or before
        first = before if not self._waiting or self._from_start else at_first
        return self._judge(part, started, first, after, created)

    def _first_is_bound(self) -> None:
        if self._meter is not None:
            self._at_first = self._meter.read()

    def _warm_up(self) -> None:
        """Wait until the scheduler has its caches: it places a Pod that does not count."""
        template = self._plan.workload.measured
        path = ""
        for item in Objects(self._plan.catalog, self._plan.workload.sized(pods=1)).measured(
            prefix=WARM
        ):
            self._client.create(item)
            path = f"{item.path}/{item.name}"
        self._client.wait()
        wait_until(
            lambda: b'"nodeName"' in self._client.http.get(path), 120, f"a {template.template} Pod"
        )

    def _arrive(self) -> dict[str, float]:
        """Create the other measured Pods at their rate; when each was sent."""
        created: dict[str, float] = {}
        client = BulkClient(self._connection, ARRIVALS_IN_FLIGHT)
        if self._waiting:
            wait_until(lambda: bool(self._watch.times), 120, "the first binding")
        with self._bar("arriving", self._total - self._waiting) as bar:
            due = time.monotonic()
            for item in self._measured(self._waiting, self._total):
                time.sleep(max(0.0, due - time.monotonic()))
                client.create(item)
                if item.kind == "Pod":
                    created[item.name] = time.monotonic()
                    due += 1 / self._arrival
                    self._progress.advance(bar)
        client.wait()
        client.close()
        return created

    def _await_bindings(self, bar: TaskID, part: Part) -> None:
        times, seen, since = self._watch.times, 0, time.monotonic()
        while len(times) < self._total:
            time.sleep(0.2)
            if len(times) > seen:
                seen, since = len(times), time.monotonic()
                self._progress.update(bar, completed=seen)
            if self._watch.broken:
                raise RuntimeError(f"the benchmark's watch broke: {self._watch.broken}")
            if not part.running or time.monotonic() - since > STALL_SECONDS:
                self._keep_log(part)
                break

    def _keep_log(self, part: Part) -> None:
        """Something went wrong; the folder of the control plane goes away, the log is to stay."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{self._plan.workload.name}-{self._scheduler}.log"
        shutil.copy(part.log, path)
        self._progress.console.print(f"not all Pods were bound; see {path}", highlight=False)

    # What came of it

    def _judge(
        self,
        part: Part,
        started: float,
        first: CpuTimes,
        after: CpuTimes,
        created: dict[str, float],
    ) -> Run:
        times = list(self._watch.times.values())
        names = self._objects.node_names()
        placement = survey(self._client.http, names, self._plan.workload)
        version = msgspec.json.decode(self._client.http.get("/version"))["gitVersion"]
        run = Run(version, len(times), self._total, faults=placement.faults)
        if run.bound < run.total:
            run.faults.append(f"{run.bound} of {run.total} Pods were bound")
        run.cpu_spread_m, run.nodes_used = placement.cpu_spread_m, placement.nodes_used
        if len(times) < 2 or not part.running:
            return run
        begin = started if self._from_start else times[0]
        run.pods_per_s = (len(times) - 1) / (times[-1] - begin)
        run.first_bind_s, run.last_bind_s = times[0] - started, times[-1] - started
        run.written_s = after.clock - started
        run.written_per_s = len(times) / (after.clock - times[0])
        run.cpu_ms = (after.scheduler - first.scheduler) / len(times) * 1e3
        run.server_cpu_ms = (after.server - first.server) / len(times) * 1e3
        run.bench_cpu_ms = (after.bench - first.bench) / len(times) * 1e3
        run.others_share = after.others_share(first)
        run.start_cpu_s = first.scheduler
        run.rss_mib = peak_rss(part.pid)
        bound = self._watch.times
        waits = [bound[name] - sent for name, sent in created.items() if name in bound]
        if len(waits) > 1:
            run.arrived_per_s = (len(created) - 1) / (max(created.values()) - min(created.values()))
            cuts = statistics.quantiles(waits, n=100, method="inclusive")
            run.p50_ms, run.p99_ms = cuts[49] * 1e3, cuts[98] * 1e3
        own = own_figures(part)
        run.attempts, run.evaluated, run.points_us = own.attempts, own.evaluated, own.points_us
        run.events = self._client.count(EVENTS)
        run.timeline = _timeline([t - started for t in times])
        return run


def _timeline(times: list[float]) -> list[tuple[float, int]]:
    step = max(1, len(times) // POINTS)
    numbers = sorted({*range(0, len(times), step), len(times) - 1})
    return [(round(times[i], 3), i + 1) for i in numbers]
